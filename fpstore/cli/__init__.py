"""The command `fpstore`: turns arguments into calls of the public surface, and errors into one line and a status.

Each subcommand is a module of the same name, imported when it is asked for; numpy and the store are
imported by what uses them, so that help and completion stay quick.
"""

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import click

from fpstore import __version__
from fpstore.cli.failures import INTERRUPTED, PIPE_CLOSED, Failure, failure_of, one_line
from fpstore.cli.streams import mend_standard_streams
from fpstore.errors import StoreWarning

SUBCOMMANDS = (
    "build",
    "create",
    "add",
    "remove",
    "probe",
    "nearest",
    "lookup",
    "pairs",
    "document-pairs",
    "dedup",
    "cluster",
    "fingerprint",
    "compare",
    "recipe",
    "learn-idf",
    "compact",
    "copy",
    "recover",
    "export",
    "serve",
    "plan",
    "report",
    "stats",
    "inspect",
    "verify",
)

EPILOG = """\b
Examples:
  fpstore build web.fpstore fingerprints.npy
  fpstore probe web.fpstore 9f3a5c0012ab44de
  fpstore add web.fpstore today.csv --id-column doc_id --if-new
  fpstore build docs.fpstore documents/ --format text
  fpstore probe docs.fpstore --text "$(cat draft.txt)"
  fpstore compare draft.txt published.html
  fpstore dedup crawl.jsonl.zst -o kept.jsonl --dropped dropped.tsv
  fpstore plan --n 8e9 -k 3

\b
Exit status: 0 done (a probe without a match too); 1 an input or the machine is at fault;
2 the command line is; 3 the store is: damaged, not a store, of another version; 4 the store is
locked or changed meanwhile: try again; 130 interrupted; 141 the reader of the output left.
"""


class _Subcommands(click.Group):
    """The subcommands, imported one by one; what they raise becomes a Failure."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the work, not of the alphabet."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of that name, None if there is none."""
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = import_module(f"fpstore.cli.{cmd_name.replace('-', '_')}").command
        return command

    def invoke(self, ctx: click.Context) -> None:
        """Run the subcommand that was asked for, until its output is written."""
        try:
            super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise Failure("interrupted", INTERRUPTED) from None
        except BrokenPipeError:
            _forget_output()
            raise click.exceptions.Exit(PIPE_CLOSED) from None
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if sys.flags.dev_mode:  # python -X dev: whoever looks for a fault wants all of it
                raise
            raise failure_of(error) from error


@click.group(cls=_Subcommands, epilog=EPILOG, invoke_without_command=True)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def _fpstore(ctx: click.Context) -> None:
    """Find every stored fingerprint of 16 to 256 bits (1-bit MinHash, simhash) within Hamming distance k of a query.

    A store is a directory: built from fingerprints or texts, added to, compressed, exact, probed from the file.
    Results go to standard output, everything else to standard error.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def command() -> int:
    """Run the command line of a process that is there for it alone, and return its exit status."""
    _leave_cycles_to_the_system()
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (that of the process where None) and return its exit status."""
    mend_standard_streams()
    with warnings.catch_warnings():
        warnings.simplefilter("always", StoreWarning)
        warnings.showwarning = _telling(warnings.showwarning)
        try:
            status = _fpstore.main(arguments, prog_name="fpstore", standalone_mode=False)
        except click.Abort:
            failure = Failure("interrupted", INTERRUPTED)
        except (click.ClickException, OSError) as error:  # OSError: help that cannot be written
            failure = failure_of(error)
        else:
            return status if isinstance(status, int) else 0
    print(f"fpstore: {one_line(failure.message)}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # the output is what failed: no second word of it, and no other status
        _forget_output()
    return failure.status


def _leave_cycles_to_the_system() -> None:
    """Have the interpreter not look for cycles when it ends, which takes 50 ms: the process is over by then.

    Behind all that is to be done at its end, such as what fpstore.base does: that is registered later, and done before.
    """
    atexit.register(gc.freeze)


def _telling(show: Callable[..., None]) -> Callable[..., None]:
    """What shows warnings for users as one line on standard error, and leaves those for programmers to show."""

    def tell(message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
        if issubclass(category, UserWarning):
            print(f"fpstore: warning: {one_line(str(message))}", file=sys.stderr)
        else:
            show(message, category, *where, **options)

    return tell


def _forget_output() -> None:
    """Let the interpreter flush what is left of the output into nothing, without a word."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
