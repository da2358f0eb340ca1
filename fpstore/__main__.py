"""`python -m fpstore` is the command `fpstore`."""

import sys

from fpstore.cli import command

sys.exit(command())
