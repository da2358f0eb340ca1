"""The fingerprints of the texts of a corpus by tasks, with the names of these: the lines of one process."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Self

from fpstore.errors import PathLike
from fpstore.jobs import Inputs
from fpstore.jobs.changed import advising, once_more
from fpstore.jobs.corpus import Corpus, Rows
from fpstore.jobs.sharing import Team, shared
from fpstore.progress import OnProgress, Progress
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.text.recipe import expect_fingerprints
from fpstore.text.short import DEFAULT_K
from fpstore.types import Keys

# Some documents: what each is called, and their fingerprints, uint64[m] or, of wide ones, uint64[m, bits / 64].
Named = tuple[Sequence[str], Keys]


class Fingerprinted(Iterator[Named]):
    """The documents of a corpus, in order, some at a time; a context manager.

    skipped, notes: how many were passed over so far by reason, and what was read in spite of some damage. warning: what
    is to be said, at the end, of texts that the recipe is weak on.
    """

    def __init__(self, corpus: Corpus, team: Team | None, progress: OnProgress | None) -> None:
        self._corpus, self._progress = corpus, progress
        self.skipped: Mapping[str, int] = {}
        self.notes: Mapping[str, int] = {}
        self._held = ExitStack()
        self._held.enter_context(shared(None, corpus, team, "fingerprint", {}, keeps=False))
        self._advice = once_more(None if team is None else team.folder)
        self._every = self._held.enter_context(closing(self._read()))

    def _read(self) -> Generator[Named]:
        with closing(self._corpus.measured()) as every:
            for batch, fingerprints in every:
                self.skipped, self.notes = batch.skipped, batch.notes
                yield batch.names, fingerprints
                if self._progress is not None:
                    self._progress(Progress("reading", self._corpus.bytes_read, self._corpus.total_bytes, "bytes"))

    @property
    def warning(self) -> str | None:
        """What to tell the user of all texts together, None where there is nothing."""
        return self._corpus.warning

    def __next__(self) -> Named:
        with advising(self._advice):
            return next(self._every)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what is under way; may be called again."""
        self._held.close()


def fingerprint(
    inputs: Inputs | Iterable[PathLike | Rows],
    *,
    recipe: Recipe | None = None,
    threads: int | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    folder: PathLike | None = None,
    progress: OnProgress | None = None,
) -> Fingerprinted:
    """What each document of inputs is called, and its fingerprint by the recipe, in the order of the inputs.

    Files are read and measured portion by portion by tasks that processes do, while what is done comes here in order;
    standard input, pipes and rows are measured here. inputs, recipe: as for `fpstore.jobs.dedup`, DEFAULT_RECIPE by
    default. threads: of this process. engine, address, workers: as for `probe`; with engine "local" and one worker this
    process does all. folder: where tasks leave their parts, which an interrupted call goes on with, and which is the
    caller's to remove; by default a temporary one. Processes that no engine starts may have done some of them by
    `fpstore.jobs.measure_rank` with job="fingerprint" and confirm=None.

    It raises what `fpstore.jobs.dedup` does of its inputs and workers, and RecipeError for a recipe of signatures.
    """
    made = expect_fingerprints(DEFAULT_RECIPE if recipe is None else recipe)
    team = Team.asked(workers, None if engine == "local" and workers == 1 else engine, address, folder)
    return Fingerprinted(Corpus(inputs, made, made.distance(DEFAULT_K), threads), team, progress)
