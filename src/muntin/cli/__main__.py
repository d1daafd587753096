"""`python -m muntin.cli`, the same as `muntin`."""

import sys

from muntin.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
