"""`python -I -m broker.cli`: what the `doorward` script runs."""

import sys

from broker.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
