"""Learn latent-variable models from implicit high-order moment tensors."""
