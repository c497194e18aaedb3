"""Run the command line: ``python -m implicitmoments``."""

from implicitmoments.cli import main

main()
