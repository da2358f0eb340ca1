"""`python -m fpstore` is the command `fpstore`."""

import sys

from fpstore.cli import main

sys.exit(main())
