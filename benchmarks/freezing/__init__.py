"""What ``frozen.py`` computes, and how old and new results are compared."""
