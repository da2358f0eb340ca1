"""What went wrong, as one line for people and an exit status for scripts.

1: an input or the machine is at fault, and another command line would not help. 2: the command line is: what it asks
for does not exist, or this store cannot do it. 3: the store is: damaged, not a store, of another version. 4: it is
locked, or changed meanwhile: the same command may go well later.
"""

import click

DONE = 0
AT_FAULT_DATA = 1
AT_FAULT_COMMAND = 2
AT_FAULT_STORE = 3
TRY_AGAIN = 4
INTERRUPTED = 130  # as a shell reports a command that ended by SIGINT
PIPE_CLOSED = 141  # and by SIGPIPE: the reader of the output left first


class Failure(click.ClickException):
    """The end of a command: a message and an exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def failure_of(error: Exception) -> Failure:
    """The failure that an error makes of the command."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, click.UsageError):
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        return Failure(error.format_message().rstrip(".") + where, AT_FAULT_COMMAND)
    if isinstance(error, click.ClickException):
        return Failure(error.format_message(), AT_FAULT_DATA)
    return Failure(_message(error), _status(error))


def one_line(message: str) -> str:
    """The message with whatever would start another line escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def say(message: str, *, err: bool = True) -> None:
    """Print one line, in which a file's name may stand."""
    click.echo(one_line(message), err=err)


def _status(error: Exception) -> int:
    from fpstore.errors import CorruptStore, NotAStore, StoreChanged, StoreLocked, UnsupportedVersion
    from fpstore.inputs import BadInput

    if isinstance(error, BadInput):
        return AT_FAULT_DATA
    if isinstance(error, CorruptStore | NotAStore | UnsupportedVersion):
        return AT_FAULT_STORE
    if isinstance(error, StoreLocked | StoreChanged):
        return TRY_AGAIN
    # FileExistsError: a store is there and --force is not. What a caller of the library did wrong was typed here.
    asked_too_much = isinstance(error, FileExistsError | ValueError)
    return AT_FAULT_COMMAND if asked_too_much else AT_FAULT_DATA


def _message(error: Exception) -> str:
    from fpstore.errors import Error

    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    if isinstance(error, MemoryError):
        return f"out of memory {error}".rstrip()
    if isinstance(error, Error | OSError | ValueError | ImportError):
        return str(error)
    return f"internal error: {type(error).__name__}: {error} (python -X dev -m fpstore shows where)"
