"""Lets `python -m epimem` do what the command `epimem` does."""

import sys

from epimem.cli import main

if __name__ == "__main__":
    sys.exit(main())
