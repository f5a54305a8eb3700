"""`python -m autograder.cli` is `attn`."""

import sys

from autograder.cli import main

if __name__ == "__main__":
    sys.exit(main())
