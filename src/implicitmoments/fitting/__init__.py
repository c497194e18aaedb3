"""From moments to a fitted model: hypotheses, polishes and samplers, as functions on arrays."""
