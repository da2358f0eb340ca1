"""The option that makes a command a coprocess: a line is answered as soon as it has come."""

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.minhash import MinHashStore
    from fpstore.serve.lines import Ask, Read

# As many as tell how a file is packed.
HEAD_BYTES = 10

unbuffered_option = click.option(
    "--unbuffered",
    is_flag=True,
    help="Be a coprocess: answer each line of the input by one line of JSON, at once. A line is a fingerprint, or JSON"
    ' such as {"fingerprint": "9f3a5c0012ab44de", "id": "17"} or {"text": "..."}.',
)


def answer_input(store: "Store | MinHashStore", path: str, idf_path: str | None, ask: "Ask") -> None:
    """Answer the lines of a file or a pipe, or of standard input for -, by the recipe of the store."""
    from fpstore.cli.rows import recipe_of
    from fpstore.serve.kinds import kind_of
    from fpstore.serve.lines import answer_lines

    recipe = None if store.recipe is None and idf_path is None else recipe_of(store, idf_path)
    if path == "-":
        standard = sys.stdin.buffer
        read = _plain(getattr(standard, "raw", standard).read, "standard input")
        answer_lines(read, sys.stdout.write, sys.stdout.flush, recipe, ask, kind_of(store))
        return
    with open(path, "rb", buffering=0) as source:
        answer_lines(_plain(source.read, path), sys.stdout.write, sys.stdout.flush, recipe, ask, kind_of(store))


def _plain(read: "Read", name: str) -> "Read":
    """What reads the lines of a file of this name. BadInput, at the first bytes, for a file that is packed."""
    from fpstore.inputs import BadInput
    from fpstore.inputs.compressed import packing_of

    is_first = True

    def read_plain(size: int) -> bytes:
        nonlocal is_first
        data = read(size)
        if is_first and (kind := packing_of(data[:HEAD_BYTES])) is not None:
            told = f"{name}: found bytes packed by {kind}, expected lines; unpack them before, as by a pipe and -"
            raise BadInput(told, source=name)
        is_first = False
        return data

    return read_plain
