"""The commands as they are typed: options, help and examples; the work is imported when asked."""
