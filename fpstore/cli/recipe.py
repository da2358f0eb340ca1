"""`fpstore recipe`: the recipes that have a name, to use or to start from."""

from dataclasses import replace

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_document, print_line
from fpstore.cli.subcommand import subcommand

EPILOG = """\b
Examples:
  fpstore recipe                                      (their names)
  fpstore recipe text-1 > mine.json                   (change a step in an editor)
  fpstore recipe text-1 --bits 256 > wide.json        (text-1-256, for stores of 256 bits)
  fpstore build docs.fpstore crawl.warc.gz --recipe mine.json
"""


@subcommand("recipe", short_help="Print recipes for texts.", epilog=EPILOG)
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--bits", type=int, metavar="BITS", help="With so many bits: 64, 128 or 256; its name then ends with them."
)
def command(name: str | None, bits: int | None) -> None:
    """Print the recipe NAME as JSON; without a NAME, the names of all recipes and how each differs.

    With --json and without a NAME each recipe is a line, as a file of --recipe has it.

    The steps and what each can be: the documentation of fpstore.text.recipe. Which to choose:
    docs/choosing-a-recipe.md.
    """
    from fpstore.text import recipes
    from fpstore.text.presets import FOR_STORED
    from fpstore.text.recipe import Recipe

    if name is None and bits is not None:
        raise click.UsageError("--bits: found no NAME, expected the recipe that is to make so many")
    if name is None:
        if common().as_json:
            for preset in recipes().values():
                print_line("recipe", preset.to_json())
            return
        plain = Recipe("plain").to_json()
        for preset in recipes().values():
            own = {
                step: value for step, value in preset.to_json().items() if value != plain.get(step) and step != "name"
            }
            steps = " ".join(f"{step}={value}" for step, value in own.items())
            told = (
                "\tfor stored fingerprints: one repeated shingle can decide alone" if preset.name in FOR_STORED else ""
            )
            click.echo(f"{preset.name}\t{steps}".rstrip() + told)
        return
    if name not in recipes():
        raise click.UsageError(f"recipe: found {name!r}, expected one of {', '.join(recipes())}")
    recipe = recipes()[name]
    if bits is not None and bits != recipe.bits:
        try:
            recipe = replace(recipe, name=f"{name}-{bits}", bits=bits)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    print_document("recipe", recipe.to_json())
