"""Owns the documents that a job reads: in batches, from any place between two of them, with their fingerprints."""

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import astuple, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from fpstore.errors import PathLike
from fpstore.inputs import BadInput, Documents, GivenDocuments, Layout, Row, documents, has_columns, has_header, remote
from fpstore.inputs.blocks import FIRST_PART
from fpstore.inputs.errors import Faults, expect_some
from fpstore.inputs.portions import Portion, portions_of
from fpstore.inputs.sources import expand, expect_several, is_stream
from fpstore.jobs.arguments import expect_settings
from fpstore.jobs.batches import START, Batch, Handed, Place
from fpstore.jobs.changed import changed, changed_before
from fpstore.jobs.helping import Help
from fpstore.jobs.memory import keep_memory
from fpstore.jobs.parts import Digest, Part, parts_of
from fpstore.jobs.places import look_at
from fpstore.text import Recipe
from fpstore.text.deduplication import begin_to_measure_apart
from fpstore.text.held import KeptHashes
from fpstore.text.recipe import Measured
from fpstore.text.short import Lengths
from fpstore.threads import ahead, begun_ahead, thread_count
from fpstore.types import Array, Keys
from fpstore.workers import Workers

# Measures a batch; with the hashes of its shingles where they are to be kept.
Measuring = Callable[[], tuple[Measured, KeptHashes | None]]

# Rows of Python: mappings of names to values.
Rows = Iterable[Mapping[str, Any]]

# A batch is full with this many documents, or this many bytes of text. It is what is held.
BATCH_DOCUMENTS, BATCH_BYTES = 1 << 14, 3 << 20
# With so many a batch ends where what was read together does: it need not be copied then. The first ends with a part,
# and each with twice as many as the one before it, as the first blocks that are read are small.
_ENOUGH_BYTES = 9 << 18
# With so many documents, or bytes of text, since the last commit there is another one, and as many an interruption
# costs: to wait for the disk more often would take longer than the work, by two threads, with a disk that others use.
COMMIT_DOCUMENTS = 1 << 17
COMMIT_BYTES = 32 << 20

# So many batches are with the workers while one is waited for: where one takes long to decide they still have work.
_BEGUN_BATCHES = 2

# So many threads take batches through the stages of a job at most: the last would mostly wait for its turn to decide,
# which is a third of the work, and each holds a batch.
MOST_PASSING = 4

# So many workers have enough to do by who reads, shares out and decides, which is a fourth of the work of pages, and a
# third of that of Chinese texts; of more some wait for it.
FEW_WORKERS = 3

# Options of reading that no result follows from.
_NO_IDENTITY = ("skip_bad", "all_columns", "is_part")


@dataclass(frozen=True)
class Inputs:
    """Where documents are read from, and how: the arguments of fpstore.inputs.documents."""

    paths: Iterable[PathLike | Rows]
    format: str = "auto"
    text_column: str | int | None = None
    html: bool = False
    skip_bad: bool = False
    header: bool | None = None
    id_column: str | int | None = None


class Form(Protocol):
    """How documents are written to a result, as the corpus knows of it."""

    refuses_packed: bool

    def fault_of(self, name: str, row: Row) -> BadInput | None:
        """What is wrong with a document that it has no place for; refuses_packed: whether some of lines of JSON are."""


class Corpus:
    """The documents of several sources, one after the other, and their fingerprints.

    bytes_read: of the sources, in the pass under way; read_bytes: in all of them. text_bytes: of the texts that became
    fingerprints. lengths: what the warning is told of, by `see`, and by who drops some.
    """

    def __init__(
        self,
        sources: Inputs | Iterable[PathLike | Rows],
        recipe: Recipe,
        max_distance: int,
        threads: int | None,
        *,
        all_columns: bool = False,
        drops: bool = False,
        cut: tuple[int, int] | None = None,
        passed_over: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """threads: that make fingerprints; all processors where None. max_distance: for the warning. all_columns: for
        Batch.rows. drops: whether lengths hears of the texts that are dropped. cut: for the warning, the bands of
        signatures and the values of each. passed_over: what was before, how many by reason.

        Raises what fpstore.inputs.documents does.
        """
        expect_settings(recipe, max_distance)
        if not isinstance(sources, Inputs):
            sources = Inputs(sources)
        # Of each source that is no path, by its number, the rows.
        self._given: dict[int, Rows] = {}
        self.sources = self._named(sources.paths)
        self.bytes_read = self.read_bytes = self.text_bytes = 0
        self._handed: Callable[[int], Handed] | None = None
        self._beside, self._passed_over = 0, passed_over
        self._options: dict[str, Any] = {
            "format": sources.format,
            "text_column": sources.text_column,
            "id_column": sources.id_column,
            "header": sources.header,
            "html": sources.html,
            "skip_bad": sources.skip_bad,
            "all_columns": all_columns,
            "is_part": True,
        }
        self.recipe, self._max_distance = recipe, max_distance
        self.threads = thread_count(threads)
        self._help = Help(recipe, html=sources.html)
        self.lengths = Lengths(recipe, max_distance, drops=drops, cut=cut)
        self._checks: list[tuple[Callable[[str, Row], BadInput | None], bool]] = []
        self.total_bytes: int | None = None
        paths = self._paths
        if paths or not self._given:
            with closing(self._documents(paths)) as found:
                self.total_bytes = None if self._given else found.total_bytes
        for number in self._given:
            self._documents_of(number).close()

    def _named(self, every: Iterable[PathLike | Rows]) -> list[str]:
        """What each source is called; what is no path is kept as rows. TypeError for what can be neither."""
        expect_several("inputs", every, "a list of paths, or of rows: [rows]")
        names: list[str] = []
        for each in every:
            if isinstance(each, str | os.PathLike):
                names += expand([os.fspath(each)])
            elif isinstance(each, bytes | Mapping) or not isinstance(each, Iterable):
                found = f"found {each!r:.40}, a {type(each).__name__}"
                raise TypeError(f"inputs: {found}, expected paths, and rows that are mappings: [rows]")
            else:
                self._given[len(names)] = each
                names.append(f"rows {len(self._given)}" if len(self._given) > 1 else "rows")
        return names

    @property
    def _paths(self) -> list[str]:
        return [source for number, source in enumerate(self.sources) if number not in self._given]

    def _documents(self, sources: list[str]) -> Documents:
        return documents(sources, recipe=self.recipe, on_bytes=self._count, **self._options)

    def made_by(self, handed: Callable[[int], Handed] | None, beside: int = 0) -> None:
        """Have what others hand over of each source in place of measuring it here; None: measure it here again.

        beside: how many of them work on processors of this machine.
        """
        self._handed, self._beside = handed, beside

    @property
    def deciding_threads(self) -> int:
        """How many threads decide about what is read: those that have a processor to themselves, one at least.

        One more only waits for a processor, and all that is decided for it: of Chinese texts that was a third of the
        time of a job by two workers on two processors.
        """
        beside = self.threads if self.is_shared else self._beside
        return max(1, self.threads - min(beside, FEW_WORKERS))

    @property
    def is_shared(self) -> bool:
        """Whether there is work in it that holds the interpreter's lock, which processes share."""
        return self._help.is_any

    def help_begun(self) -> AbstractContextManager[None]:
        """A context at whose start those are begun who share it, where that is known to take long."""
        return self._help.begun(self.threads, self.total_bytes)

    def portions(self, number: int, seconds: float, least_bytes: int) -> list[Portion]:
        """What a source is cut into for others to read, as portions_of cuts; none where nobody else can."""
        if number in self._given or is_stream(self.sources[number]):
            return []
        with closing(self._documents_of(number)) as found:
            return list(portions_of(found, seconds, least_bytes))

    def _documents_of(self, number: int, workers: Workers | None = None, handed: Handed | None = None) -> Documents:
        """Those of one source, which may have no column for the texts, or no header, though others have."""
        source = self.sources[number]
        if number in self._given:
            wanted = {name: self._options[name] for name in ("text_column", "id_column", "html", "skip_bad")}
            lent = Workers(1) if workers is None else workers
            return GivenDocuments(self._given[number], source, recipe=self.recipe, workers=lent, **wanted)
        show, options = None if handed is None else handed.show, self._options_of(source)
        return documents([source], recipe=self.recipe, on_bytes=self._count, workers=workers, show=show, **options)

    def _options_of(self, source: str) -> dict[str, Any]:
        """The options of reading, as far as they say anything of a path."""
        options = self._options
        asked = [name for name in ("text_column", "id_column") if options[name] is not None]
        if asked and not has_columns(source, options["format"]):
            options = options | dict.fromkeys(asked)
        if options["header"] is not None and not has_header(source, options["format"]):
            options = options | {"header": None}
        return options

    def alone(self, number: int) -> Inputs:
        """One source, which is a file, for others to read, wherever they are."""
        source = self.sources[number]
        path = source if remote.is_remote(source) else os.path.abspath(source)
        options = self._options_of(source)
        return Inputs([path], **{each.name: options[each.name] for each in fields(Inputs) if each.name != "paths"})

    @property
    def has_id_column(self) -> bool:
        """Whether a column or field names the documents, so that several may have one name."""
        return self._options["id_column"] is not None

    @property
    def identity(self) -> dict[str, Any]:
        """All that the documents and their fingerprints follow from, but for what the sources hold.

        Not whether bad lines are passed over: a job that stopped at one may go on behind it.
        """
        options = {name: value for name, value in self._options.items() if name not in _NO_IDENTITY}
        return {"inputs": self.sources, **options, "recipe": self.recipe.to_json()}

    def layouts(self) -> Iterator[tuple[str, str, Layout | None]]:
        """As fpstore.inputs.Documents.layouts."""
        for number in range(len(self.sources)):
            with closing(self._documents_of(number)) as found:
                yield from found.layouts()

    # --- Going on ---

    def state(self, place: Place) -> dict[str, Any]:
        """What a journal has to hold of a corpus that was read up to a place."""
        return {
            "place": astuple(place),
            "skip_bad": self._options["skip_bad"],
            "token_counts": self.lengths.state,
        }

    def go_on(self, state: dict[str, Any] | None) -> Place:
        """The place that a journal tells. Once bad lines were to be passed over, they are so to the job's end."""
        if state is None:
            return Place()
        self._options["skip_bad"] |= bool(state.get("skip_bad"))
        if "token_counts" in state:
            self.lengths.go_on(state["token_counts"])
        return Place(*state["place"])

    def expect_same(self, state: dict[str, Any], changed: Sequence[int]) -> None:
        """Raise JobError where sources with these numbers, which look other, are other up to where they were read."""
        read = Place(*(state.get("reached") or state.get("place") or (len(self.sources),)))
        self.go_on({"skip_bad": state.get("skip_bad"), "place": ()})
        for number in changed:
            if number > read.source or (number == read.source and not read.document):
                continue
            count = read.document if number == read.source else None
            if number >= len(read.digests) or self._digest_of(number, count) != read.digests[number]:
                raise changed_before(self.sources[number])

    def _digest_of(self, number: int, count: int | None) -> str | None:
        """The digest of the first documents of a source, all where count is None; None where there are fewer."""
        digest, left = Digest(), count
        with closing(self._documents_of(number)) as found:
            for part in parts_of(found.in_columns()):
                taken = len(part) if left is None else min(left, len(part))
                digest.add(part[:taken])
                left = None if left is None else left - taken
                if left == 0:
                    break
        return None if left else digest.told()

    @property
    def warning(self) -> str | None:
        """What to say where most of the texts that became fingerprints are short."""
        return self.lengths.warning

    @property
    def _reads_ahead(self) -> bool:
        """Whether batches are read and measured while those before them are worked with."""
        return self.threads > 1 and len(self.files) == len(self.sources) and not any(map(remote.is_remote, self.files))

    @property
    def passing_threads(self) -> int:
        """How many threads take batches through the stages of a job, each its own.

        One where only the caller may read. Where others measure, two: more would take a processor from those.
        """
        if not self._reads_ahead:
            return 1
        return 2 if self.is_shared or self._beside else min(self.threads, MOST_PASSING)

    def begun(
        self, start: Place = START, *, keeps: bool = False, together: int = 1
    ) -> Generator[tuple[Batch, Measuring]]:
        """The batches from a place on, each with what measures it, by any thread; workers do so from now on.

        keeps: whether the hashes of the shingles are kept, where these take no more than the texts. together: how many
        batches share the threads. Of sources that are files the next are read while workers measure.
        """
        keep_memory()
        threads = max(1, self.threads // together)
        # Of two that take batches by turns none has time to unpack ahead.
        helping = 1 if together == self.threads == 2 and not self.is_shared else None

        def begin(every: Iterator[Batch], workers: Workers) -> Generator[tuple[Batch, Measuring]]:
            for batch in every:
                yield batch if batch.made is None else replace(batch, made=None), begin_to_measure(batch, workers)
                del batch  # not held while the next is read

        def begin_to_measure(batch: Batch, workers: Workers) -> Measuring:
            made = batch.made
            if made is not None:
                are_features = self.recipe.sketch == "minhash"
                return lambda: (made.measured, made.kept(are_features=are_features) if keeps else None)
            return begin_to_measure_apart(self.recipe, batch.texts, threads, workers, keeps=keeps)

        with self._workers(helping) as workers, closing(self._batches(start, workers, measures=True)) as every:
            begun = begin(every, workers)
            yield from begun_ahead(begun, _BEGUN_BATCHES) if self._reads_ahead and self.recipe.is_prepared else begun

    def measured(self, start: Place = START, *, keeps: bool = False) -> Generator[tuple[Batch, Keys]]:
        """The batches from a place on, and their fingerprints, uint64[n]; texts without tokens are told apart.

        keeps: as begun. While one is worked with, the next is read and measured, where the sources are files and there
        are threads.
        """

        def measure() -> Generator[tuple[Batch, Measured]]:
            with closing(self.begun(start, keeps=keeps)) as begun:
                for batch, measured in begun:
                    found, hashes = measured()
                    yield replace(batch, hashes=hashes), found
                    del batch, measured, found, hashes

        with closing(ahead(measure()) if self._reads_ahead else measure()) as every:
            for batch, found in every:
                self.see(batch, found)
                yield batch, found.fingerprints
                del batch, found

    def see(self, batch: Batch, found: Measured) -> None:
        """What was measured of the next batch."""
        self.text_bytes += batch.text_bytes
        self.lengths.see(batch.texts, found)

    @property
    def files(self) -> list[str]:
        """The sources that are files or folders: all but standard input, pipes and rows."""
        return [source for source in self._paths if not is_stream(source)]

    @property
    def is_read_again(self) -> bool:
        """Whether all sources can be read more than once in a run: files, and rows that are no iterator."""
        lasting = [rows for rows in self._given.values() if not isinstance(rows, Iterator)]
        return len(self.files) + len(lasting) == len(self.sources)

    def look(self) -> list[list[Any]]:
        """What each source looks like from outside; changes with its content."""
        return [
            [source, None] if number in self._given else [source, *look_at(source)]
            for number, source in enumerate(self.sources)
        ]

    def batches(self, start: Place = START) -> Generator[Batch]:
        """The documents from a place on; the last batch may be empty.

        The source that the place is in is read from its beginning; JobError where its documents up to there are others.
        BadInput at the end where all was bad.
        """
        with self._workers() as workers:
            yield from self._batches(start, workers)

    def _workers(self, threads: int | None = None) -> Workers:
        """Who shares what holds the interpreter's lock: begun at once where it is known that this takes long."""
        return self._help.workers(threads or self.threads, self.total_bytes)

    def _batches(self, start: Place, workers: Workers, *, measures: bool = False) -> Generator[Batch]:
        """measures: whether the batches are to have what others measured."""
        held: list[Part] = []
        read: list[tuple[int, Array]] = []
        count = size = unsettled_count = unsettled_size = 0
        skipped, notes = Counter(self._passed_over if start == START else start.skipped), Counter(start.notes)
        good, bad = int(start != Place()), 0  # a place is behind a document
        digests = tuple(start.digests[: start.source])
        self.bytes_read = 0
        enough = max(1, _ENOUGH_BYTES // FIRST_PART)
        for number in range(start.source, len(self.sources)):
            before, digest, index = (dict(skipped), dict(notes)), Digest(), 0
            faults = Faults(self._options["skip_bad"])
            with self._handed_of(number) as handed, closing(self._documents_of(number, workers, handed)) as found:
                first = start.document if number == start.source else 0
                for part in parts_of(found.in_columns()):
                    if measures and handed is not None and len(part):
                        part = replace(part, made=handed.made(part.texts))
                    while len(part):
                        was_read = index < first
                        room = first - index if was_read else part.fitting(BATCH_DOCUMENTS - count, BATCH_BYTES - size)
                        own, part = part[:room], part[room:]
                        digest.add(own)
                        index += len(own)
                        if index == first and was_read and digest.told() != start.digests[number]:
                            raise changed_before(self.sources[number])
                        own, good_ones = self._without_faults(own, faults)
                        if was_read:
                            continue
                        read.append((number, good_ones))
                        if not len(own):
                            continue
                        good += len(own)
                        held.append(own)
                        count, size = count + len(own), size + own.text_bytes
                        if count == BATCH_DOCUMENTS or size >= (BATCH_BYTES if len(part) else enough):
                            enough = min(2 * enough, _ENOUGH_BYTES)
                            end = Place(number, index, *before, (*digests, digest.told()))
                            passed_over = skipped + Counter(found.skipped) + faults.counts
                            so_far = dict(passed_over), dict(notes + Counter(found.notes))
                            unsettled_count, unsettled_size = unsettled_count + count, unsettled_size + size
                            settles = unsettled_count >= COMMIT_DOCUMENTS or unsettled_size >= COMMIT_BYTES
                            if settles:
                                unsettled_count = unsettled_size = 0
                            count = size = 0
                            yield Batch.of_parts(held, read, end, *so_far, settles=settles)
                if index < first:
                    raise changed_before(self.sources[number])
                if handed is not None:
                    handed.expect_end(of_texts=measures)
                skipped += Counter(found.skipped) + faults.counts
                notes += Counter(found.notes)
                bad += found.bad + faults.bad
            digests = (*digests, digest.told())
        expect_some(good, bad, skipped)
        so_far = dict(skipped), dict(notes)
        yield Batch.of_parts(held, read, Place(len(self.sources), 0, *so_far, digests), *so_far)

    @contextmanager
    def _handed_of(self, number: int) -> Iterator[Handed | None]:
        """What others hand over of a source, None where they do not."""
        if self._handed is None:
            yield None
            return
        with closing(self._handed(number)) as handed:
            yield handed if handed.are_some else None

    def _without_faults(self, part: Part, faults: Faults) -> tuple[Part, Array]:
        """The documents of a part that the results can hold, and which they are; faults hear of the others."""
        checks = [check for check, of_packed in self._checks if of_packed or not part.is_packed]
        are_good = np.ones(len(part), dtype=bool)
        if not checks:
            return part, are_good
        for index, (name, row) in enumerate(zip(part.names, part.rows, strict=True)):
            fault = next((fault for check in checks if (fault := check(name, row)) is not None), None)
            if fault is not None:
                are_good[index] = False
                faults.meet(fault)
        return part if are_good.all() else part.take(np.flatnonzero(are_good)), are_good

    def check(self, check: Callable[[str, Row], BadInput | None], *, of_packed: bool = True) -> None:
        """Pass over, or raise for, the documents of which a check, given the name and the row, tells a fault.

        of_packed: whether it may tell one of a line of JSON that is UTF-8 and has a name.
        """
        self._checks.append((check, of_packed))

    def check_form(self, form: Form) -> None:
        """The same of documents that the form of a result has no place for."""
        self.check(form.fault_of, of_packed=form.refuses_packed)

    def again(self, place: Sequence[Any], count: int) -> Iterator[Batch]:
        """All documents once more; JobError where they are others than the so many that were read up to a place."""
        read, seen = Place(*place), 0
        for batch in self.batches():
            seen += len(batch.names)
            is_last = batch.end.source == len(self.sources)
            if seen > count or (is_last and (seen < count or list(batch.end.digests) != list(read.digests))):
                raise changed("the inputs have changed since they were first read")
            yield batch

    def _count(self, count: int) -> None:
        self.bytes_read += count
        self.read_bytes += count
