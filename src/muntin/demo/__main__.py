"""`python -m muntin.demo`."""

import sys

from muntin.demo.run import main

if __name__ == "__main__":
    sys.exit(main())
