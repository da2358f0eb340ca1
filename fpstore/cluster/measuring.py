"""The tasks of a job over a corpus: each reads a portion of the inputs, and hands over what takes long to make of it.

That is what pages show, and what the recipe makes of the texts. Who decides reads the inputs too, and has of the tasks
what they made, in the same order. So one piece of code reads, decides and writes, whoever measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fpstore.cluster.made import MadeWriter
from fpstore.cluster.parts import Maker, whole_file
from fpstore.cluster.tasks import expect_version
from fpstore.disk import Folder
from fpstore.inputs import BadInput
from fpstore.inputs.blocks import Columns, Document
from fpstore.inputs.portions import Portion, read_portion
from fpstore.nursery import Ready
from fpstore.text import Recipe
from fpstore.text.deduplication import begin_to_measure_apart
from fpstore.text.shared import Page, Shown, ready_for, shown_of
from fpstore.workers import Workers

# Texts that come one by one are measured together up to so many, and so many characters.
_AT_ONCE, _CHARACTERS_AT_ONCE = 1024, 1 << 20


@dataclass(frozen=True)
class MeasureTask:
    """Some documents of a corpus, which are measured. version: of the fpstore that cut it. keeps: hashes as well.

    durable: as of whole_file; workers of other machines see by it what they share.
    """

    maker: Maker
    version: str
    folder: Path
    portion: Portion
    recipe: Recipe
    keeps: bool
    durable: bool

    def __str__(self) -> str:
        first, within = self.portion.files[0].path, self.portion.within
        where = f"{first} from byte {within[0]} on" if within is not None else first
        others = len(self.portion.files) - 1
        return f"task {self.maker.task}, of {where}{f' and {others} more files' if others else ''}"

    def do(self) -> int:
        """Write the part; how many documents it has."""
        expect_version(self, self.version)
        name, durable = self.maker.name, self.durable
        with Folder.open(self.folder) as folder, whole_file(folder, name, durable=durable) as file:
            return self._write(MadeWriter(file, self.maker))

    def ready(self) -> Ready:
        """As a task; a recipe that takes much to send is brought with each task alone."""
        return ready_for(self.recipe, html=self.portion.html)

    def _write(self, writer: MadeWriter) -> int:
        alone = Workers(1)

        def show(pages: Sequence[Page]) -> Callable[[], Shown]:
            found = shown_of(pages, self.recipe.html, alone)()
            writer.pages(pages, found)
            return lambda: found

        with closing(read_portion(self.portion, self.recipe, show)) as every:
            for texts in _texts_of(every.in_columns()):
                writer.texts(texts, *begin_to_measure_apart(self.recipe, texts, 1, alone, keeps=self.keeps)())
        return writer.end()


def _texts_of(every: Iterator[Columns | Document]) -> Iterator[Sequence[str]]:
    """The texts of documents, some at a time, as far as they can be read: who decides says where, and what is wrong."""
    held: list[str] = []
    characters = 0
    is_last = False
    while not is_last:
        try:
            one = next(every, None)
        except BadInput:
            one = None
        is_last = one is None
        if isinstance(one, tuple):
            held.append(one[1])
            characters += len(one[1])
            if len(held) < _AT_ONCE and characters < _CHARACTERS_AT_ONCE:
                continue
        if held:
            yield held
            held, characters = [], 0
        if isinstance(one, Columns):
            yield one.texts
