"""`fpstore learn-idf`: which shingles are common in a corpus, as a model that recipes weigh by."""

from contextlib import closing
from pathlib import Path

import click

from fpstore import Progress
from fpstore.cli.common import common
from fpstore.cli.documents import passed_over, tell_done
from fpstore.cli.files import new_file
from fpstore.cli.progress import progress_bar
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import recipe_asked, recipe_option, text_batches, text_options, workers_asked
from fpstore.cli.values import FILE_PATH, RESULT_PATH, counted, format_option, skip_bad_option, tell_skipped

EPILOG = """\b
Examples:
  fpstore learn-idf crawl.jsonl.zst --recipe simhash-1 -o web.idf
  fpstore build docs.fpstore crawl.jsonl.zst --recipe simhash-1 --idf web.idf
  fpstore probe docs.fpstore --idf web.idf --text "$(cat draft.txt)"
"""


@subcommand("learn-idf", short_help="Learn which shingles of texts are common.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@click.option("-o", "--output", metavar="MODEL", required=True, type=RESULT_PATH, help="The file to write.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@recipe_option
@format_option
@text_options
@skip_bad_option
def command(
    inputs: tuple[str, ...],
    output: str,
    force: bool,
    recipe_name: str | None,
    format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    skip_bad: bool,
) -> None:
    """Learn from the texts of every INPUT in how many of them each shingle is, and write that to MODEL.

    A recipe with --idf MODEL counts a shingle that is everywhere for little, and needs that very model from then on.
    Memory is bounded, about 0.5 GiB; what is beyond 8,388,608 different shingles is counted approximately, the rarest
    not at all.
    """
    from fpstore.inputs import documents
    from fpstore.text.idf import Learner

    recipe = recipe_asked(recipe_name, None)
    learner = Learner(recipe)
    workers = workers_asked()
    texts = documents(
        inputs,
        format=format,
        text_column=text_column,
        header=input_header,
        html=html,
        recipe=recipe,
        skip_bad=skip_bad,
        workers=workers,
    )
    with new_file(Path(output), force) as file:
        with workers, closing(texts), progress_bar() as bar:
            done = 0
            for _, some in text_batches(texts):
                learner.see_many(some, common().threads, workers)
                done += len(some)
                if bar is not None:
                    bar(Progress("reading", done, None, "documents"))
        model = learner.model()
        file.write(model.to_bytes())
    tell_skipped(texts.skipped, texts.notes)
    counts = {"document_count": model.documents, "shingle_count": len(model.hashes)}
    tell_done(
        "learn-idf",
        {"path": output, **counts, "checksum": model.checksum, **passed_over(texts)},
        f"{output}: {counted(model.documents, 'document')}, {counted(len(model.hashes), 'shingle')}",
        f"{output}: checksum {model.checksum}",
    )
