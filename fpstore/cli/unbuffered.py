"""The option that makes a command a coprocess: a line is answered as soon as it has come."""

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.serve.lines import Ask

unbuffered_option = click.option(
    "--unbuffered",
    is_flag=True,
    help="Be a coprocess: answer each line of the input by one line of JSON, at once. A line is a fingerprint, or JSON"
    ' such as {"fingerprint": "9f3a5c0012ab44de", "id": "17"} or {"text": "..."}.',
)


def answer_input(store: "Store", path: str, idf_path: str | None, ask: "Ask") -> None:
    """Answer the lines of a file or a pipe, or of standard input for -, by the recipe of the store."""
    from fpstore.cli.rows import recipe_of
    from fpstore.serve.lines import answer_lines

    recipe = None if store.recipe is None and idf_path is None else recipe_of(store, idf_path)
    if path == "-":
        standard = sys.stdin.buffer
        answer_lines(getattr(standard, "raw", standard).read, sys.stdout.write, sys.stdout.flush, recipe, ask)
        return
    with open(path, "rb", buffering=0) as source:
        answer_lines(source.read, sys.stdout.write, sys.stdout.flush, recipe, ask)
