"""`python -m lakebed` is `lakebed`."""

import sys

from lakebed.cli import main

if __name__ == "__main__":
    sys.exit(main())
