"""`fpstore serve`: a store that programs in other languages ask over HTTP."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_line
from fpstore.cli.failures import say
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import idf_option
from fpstore.cli.values import FILE_PATH, store_argument

EPILOG = """\b
Examples:
  fpstore serve web.fpstore                       (a Unix socket web.fpstore.sock, its owner's alone)
  fpstore serve web.fpstore --port 3778           (http://127.0.0.1:3778, for who is on this machine)
  fpstore serve web.fpstore --port 3778 --host 0.0.0.0 --token-file token
  fpstore serve web.fpstore --port 0 --json       (any free port; a line of JSON says which, once it answers)
  curl --unix-socket web.fpstore.sock http://localhost/stats
  curl -H 'Content-Type: application/json' -d '{"fingerprints": ["9f3a5c0012ab44de"]}' http://127.0.0.1:3778/probe

\b
Asked by POST: /probe, /nearest, /lookup, /add_if_new, /add, /upsert, /remove; by GET: /stats, /healthz, /openapi.json,
and / for a page that describes them all. What was acknowledged is durable. SIGTERM or Ctrl-C ends it when what was
accepted is answered.
"""


_Command = TypeVar("_Command", bound=Callable[..., Any])


def _limit(name: str, default: int, text: str) -> Callable[[_Command], _Command]:
    return click.option(name, type=click.IntRange(1), default=default, show_default=True, metavar="N", help=text)


def _not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A callback of click: BadParameter for an empty value, as of a variable of a shell that is not set."""
    if value == "":
        raise click.BadParameter("found nothing, expected a value, or not the option")
    return value


@subcommand("serve", short_help="Serve a store over HTTP.", epilog=EPILOG)
@store_argument
@click.option(
    "--socket",
    "socket_path",
    metavar="PATH",
    callback=_not_empty,
    help="Listen at this Unix socket.  [default: STORE.sock]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="Listen at this port instead; 0: any free one."
)
@click.option(
    "--host",
    metavar="ADDRESS",
    callback=_not_empty,
    help="With --port: where. Wider than this machine takes --token-file.  [default: 127.0.0.1]",
)
@click.option(
    "--token-file",
    metavar="FILE",
    type=FILE_PATH,
    help="Answer only who shows the token in FILE (Authorization: Bearer TOKEN).",
)
@click.option("--read-only", is_flag=True, help="Change nothing, beside whatever process writes.")
@idf_option
@_limit("--max-body", 8 << 20, "Bytes of a request.")
@_limit("--max-queries", 100_000, "Fingerprints, texts or ids of a request.")
@_limit("--max-matches", 100_000, "Rows of an answer; more is an error.")
@_limit("--max-answer", 32 << 20, "Bytes of an answer; more is an error.")
@_limit("--max-connections", 512, "Connections at a time; more are told to try again.")
@_limit("--timeout", 30, "Seconds for a client to send its request, to take its answer, and to ask again.")
def command(
    store: str,
    socket_path: str | None,
    port: int | None,
    host: str | None,
    token_file: str | None,
    read_only: bool,
    idf_path: str | None,
    max_body: int,
    max_queries: int,
    max_matches: int,
    max_answer: int,
    max_connections: int,
    timeout: int,
) -> None:
    """Let other programs ask STORE, and change it, over HTTP, with bodies of JSON or Arrow.

    STORE may be a list of stores, NAME.shards.json, which is asked as one store of all their rows and only read.

    This process is the one writer of the store as long as it runs; with --read-only it only reads, and follows whoever
    writes. Without --port it listens at a Unix socket. A port of this machine is open to all of its users, unless
    --token-file says which token they must show.
    """
    from fpstore.cli.rows import recipe_of
    from fpstore.cli.stores import is_listing, opened_store, opened_to_ask
    from fpstore.serve import server, sockets
    from fpstore.serve.app import App
    from fpstore.serve.limits import Limits
    from fpstore.serve.service import Service
    from fpstore.serve.writing import Writing
    from fpstore.threads import thread_count

    limits = Limits(max_body, max_queries, max_matches, max_answer, timeout, max_connections)
    token = None if token_file is None else sockets.read_token(token_file)
    if token_file is not None and sockets.others_may_read(token_file):
        say(f"fpstore: warning: {token_file}: others than its owner may read the token (chmod 600 keeps it)")
    if port is not None and token is None and not sockets.is_local(host or "127.0.0.1"):
        raise click.UsageError(
            f"--host {host}: found no --token-file, expected one where others than this machine may ask"
        )
    server.expect_uvicorn()
    sockets.need_files(limits.files)
    with ExitStack() as stack:
        writing = None
        if not (read_only or is_listing(store)):
            writing = Writing(opened_store(store, "w"), limits.answer_bytes)
            stack.callback(writing.close)
        reader = stack.enter_context(opened_to_ask(store))
        recipe = None if reader.recipe is None and idf_path is None else recipe_of(reader, idf_path)
        if port is None:
            socket_path = f"{store.rstrip('/')}.sock" if socket_path is None else socket_path
            listener = stack.enter_context(sockets.unix_socket(socket_path))
            where = f"unix socket {socket_path}"
            told = {"socket": socket_path, "url": None}
        else:
            listener = stack.enter_context(sockets.tcp_socket(host or "127.0.0.1", port))
            address, number = listener.getsockname()[:2]
            where = f"http://[{address}]:{number}" if ":" in address else f"http://{address}:{number}"
            told = {"socket": None, "url": where}
        service = Service(reader, writing, recipe, limits)
        stack.callback(service.close)
        app = App(
            service,
            threads=thread_count(common().threads),
            token=token,
            only_local=port is not None and token is None,
        )
        stack.callback(app.close)
        server.serve(app, listener, limits, lambda: _tell_serving(store, where, told))
    say(f"{store}: ended")


def _tell_serving(store: str, where: str, told: dict[str, str | None]) -> None:
    """Say where it listens, now that it does; by --json as a line of JSON, for whoever waits for it."""
    if common().as_json:
        print_line("serve", {"path": store, **told})
        sys.stdout.flush()
    else:
        say(f"{store}: serving at {where}")
