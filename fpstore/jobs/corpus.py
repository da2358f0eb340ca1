"""Owns the documents that a job reads: in batches, from any place between two of them, with their fingerprints."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from fpstore.disk import expect_outside_stores
from fpstore.errors import JobError, PathLike
from fpstore.inputs import BadInput, Documents, GivenDocuments, Layout, Row, documents, has_columns, has_header, remote
from fpstore.inputs.errors import Faults, expect_some
from fpstore.inputs.sources import expand, is_stream, walk
from fpstore.jobs.arguments import expect_settings
from fpstore.jobs.claims import folder_of
from fpstore.text import Recipe
from fpstore.text.deduplication import measured_apart
from fpstore.text.short import Lengths
from fpstore.threads import thread_count
from fpstore.types import Keys

# Rows of Python: mappings of names to values.
Rows = Iterable[Mapping[str, Any]]

# A batch is full with this many documents, or this many bytes of text. It is what is held, and what an interruption
# costs.
BATCH_DOCUMENTS = 8192
BATCH_BYTES = 16 << 20

_DIGEST_BYTES = 16
# Options of reading that no result follows from.
_NO_IDENTITY = ("skip_bad", "all_columns", "is_part")


@dataclass(frozen=True, slots=True)
class Place:
    """Between two documents: how many sources are done, how many documents of the next.

    skipped: what was passed over in the former, how many by reason. notes: what was read in spite of some damage.
    digests: of the documents of each source that is done, and of those that were read of the next.
    """

    source: int = 0
    document: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    digests: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that follow each other, as columns; rows: all that the inputs have of each, and digests of that.

    end: the place behind them. skipped, notes: as in Place, from the first source on.
    """

    names: list[str]
    texts: list[str]
    rows: list[Row]
    digests: list[bytes]
    text_bytes: int
    end: Place
    skipped: Mapping[str, int]
    notes: Mapping[str, int]


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


class Corpus:
    """The documents of several sources, one after the other, and their fingerprints.

    bytes_read: of the sources, in the pass under way; read_bytes: in all of them. text_bytes: of the texts that became
    fingerprints.
    """

    def __init__(
        self,
        sources: Inputs | Iterable[PathLike | Rows],
        recipe: Recipe,
        max_distance: int,
        threads: int | None,
        *,
        all_columns: bool = False,
    ) -> None:
        """threads: that make fingerprints; all processors where None. max_distance: for the warning. all_columns: for
        Batch.rows.

        Raises what fpstore.inputs.documents does.
        """
        expect_settings(recipe, max_distance)
        if isinstance(sources, str | bytes | os.PathLike):
            raise TypeError(f"inputs: found one {type(sources).__name__}, expected a list of paths")
        if not isinstance(sources, Inputs):
            sources = Inputs(sources)
        # Of each source that is no path, by its number, the rows.
        self._given: dict[int, Rows] = {}
        self.sources = self._named(sources.paths)
        self.bytes_read = self.read_bytes = self.text_bytes = 0
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
        self._recipe = recipe
        self._threads = thread_count(threads)
        self._lengths = Lengths(recipe, max_distance)
        # Each tells, given its name and row, of a document that a result of the job cannot hold; None of all others.
        self.checks: list[Callable[[str, Row], BadInput | None]] = []
        self.total_bytes: int | None = None
        paths = self._paths
        if paths or not self._given:
            with closing(self._documents(paths)) as found:
                self.total_bytes = None if self._given else found.total_bytes
        for number in self._given:
            self._documents_of(number).close()

    def _named(self, every: Iterable[PathLike | Rows]) -> list[str]:
        """What each source is called; what is no path is kept as rows. TypeError for what can be neither."""
        names: list[str] = []
        for each in every:
            if isinstance(each, str | os.PathLike):
                names += expand([os.fspath(each)])
            elif isinstance(each, bytes | Mapping) or not isinstance(each, Iterable):
                found = f"found {each!r:.40}, a {type(each).__name__}"
                raise TypeError(f"inputs: {found}, expected paths, and rows that are mappings")
            else:
                self._given[len(names)] = each
                names.append(f"rows {len(self._given)}" if len(self._given) > 1 else "rows")
        return names

    @property
    def _paths(self) -> list[str]:
        return [source for number, source in enumerate(self.sources) if number not in self._given]

    def _documents(self, sources: list[str]) -> Documents:
        return documents(sources, recipe=self._recipe, on_bytes=self._count, **self._options)

    def _documents_of(self, number: int) -> Documents:
        """Those of one source, which may have no column for the texts, or no header, though others have."""
        source, options = self.sources[number], self._options
        if number in self._given:
            wanted = {name: options[name] for name in ("text_column", "id_column", "html", "skip_bad")}
            return GivenDocuments(self._given[number], source, recipe=self._recipe, **wanted)
        asked = [name for name in ("text_column", "id_column") if options[name] is not None]
        if asked and not has_columns(source, options["format"]):
            options = options | dict.fromkeys(asked)
        if options["header"] is not None and not has_header(source, options["format"]):
            options = options | {"header": None}
        return documents([source], recipe=self._recipe, on_bytes=self._count, **options)

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
        return {"inputs": self.sources, **options, "recipe": self._recipe.to_json()}

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
            "token_counts": self._lengths.state,
        }

    def go_on(self, state: dict[str, Any] | None) -> Place:
        """The place that a journal tells. Once bad lines were to be passed over, they are so to the job's end."""
        if state is None:
            return Place()
        self._options["skip_bad"] |= bool(state.get("skip_bad"))
        if "token_counts" in state:
            self._lengths.go_on(state["token_counts"])
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
                raise _changed(self.sources[number])

    def _digest_of(self, number: int, count: int | None) -> str | None:
        """The digest of the first documents of a source, all where count is None; None where there are fewer."""
        digest, added = _Digest(), 0
        with closing(self._documents_of(number)) as found:
            for document in islice(found.with_rows(), count):
                digest.add(*document)
                added += 1
        return None if count is not None and added < count else digest.told()

    @property
    def warning(self) -> str | None:
        """What to say where most of the texts that became fingerprints are short."""
        return self._lengths.warning

    def fingerprints(self, batch: "Batch") -> Keys:
        """Of a batch, by the recipe, texts without tokens told apart: uint64[n]."""
        self.text_bytes += batch.text_bytes
        measured = measured_apart(self._recipe, batch.texts, self._threads)
        self._lengths.see(batch.texts, measured)
        return measured.fingerprints

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
            [source, None] if number in self._given else [source, *_look(source)]
            for number, source in enumerate(self.sources)
        ]

    def batches(self, start: Place = Place()) -> Iterator[Batch]:
        """The documents from a place on; the last batch may be empty.

        The source that the place is in is read from its beginning; JobError where its documents up to there are others.
        BadInput at the end where all was bad.
        """
        names: list[str] = []
        texts: list[str] = []
        rows: list[Row] = []
        document_digests: list[bytes] = []
        size, skipped, notes = 0, Counter(start.skipped), Counter(start.notes)
        good, bad = int(start != Place()), 0  # a place is behind a document
        digests = tuple(start.digests[: start.source])
        self.bytes_read = 0
        for number in range(start.source, len(self.sources)):
            before, digest, index = (dict(skipped), dict(notes)), _Digest(), -1
            faults = Faults(self._options["skip_bad"])
            with closing(self._documents_of(number)) as found:
                first = start.document if number == start.source else 0
                for index, (name, text, row) in enumerate(found.with_rows()):
                    own = digest.add(name, text, row)
                    if (fault := self._fault_of(name, row)) is not None:
                        faults.meet(fault)
                    if index < first:
                        if index == first - 1 and digest.told() != start.digests[number]:
                            raise _changed(self.sources[number])
                        continue
                    if fault is not None:
                        continue
                    good += 1
                    names.append(name)
                    texts.append(text)
                    rows.append(row)
                    document_digests.append(own)
                    size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
                    if len(names) == BATCH_DOCUMENTS or size >= BATCH_BYTES:
                        end = Place(number, index + 1, *before, (*digests, digest.told()))
                        passed_over = skipped + Counter(found.skipped) + faults.counts
                        so_far = dict(passed_over), dict(notes + Counter(found.notes))
                        yield Batch(names, texts, rows, document_digests, size, end, *so_far)
                        names, texts, rows, document_digests, size = [], [], [], [], 0
                if index + 1 < first:
                    raise _changed(self.sources[number])
                skipped += Counter(found.skipped) + faults.counts
                notes += Counter(found.notes)
                bad += found.bad + faults.bad
            digests = (*digests, digest.told())
        expect_some(good, bad, skipped)
        so_far = dict(skipped), dict(notes)
        end = Place(len(self.sources), 0, *so_far, digests)
        yield Batch(names, texts, rows, document_digests, size, end, *so_far)

    def _fault_of(self, name: str, row: Row) -> BadInput | None:
        return next((fault for check in self.checks if (fault := check(name, row)) is not None), None)

    def again(self, place: Sequence[Any], count: int) -> Iterator[Batch]:
        """All documents once more; JobError where they are others than the so many that were read up to a place."""
        read, seen = Place(*place), 0
        for batch in self.batches():
            seen += len(batch.names)
            is_last = batch.end.source == len(self.sources)
            if seen > count or (is_last and (seen < count or list(batch.end.digests) != list(read.digests))):
                raise JobError("the inputs have changed since they were first read; --force begins again")
            yield batch

    def _count(self, count: int) -> None:
        self.bytes_read += count
        self.read_bytes += count


class _Digest:
    """Tells the documents of a source, with all their columns, from other ones."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        # Of the batch of Arrow that the last document was in.
        self._arrow: Any = None
        self._values: list[Any] = []
        self._layout: Layout | None = None
        self._of_layout = b""

    def add(self, name: str, text: str, row: Row) -> bytes:
        """One more; its own digest, in which what its columns are counts too."""
        data = row.data
        if row.layout is not self._layout:
            self._layout, self._of_layout = row.layout, _digest_of_layout(row.layout)
        if isinstance(data, tuple):
            if data[0] is not self._arrow:
                # By column: an object of a row would have one of two columns of one name.
                self._arrow = data[0]
                self._values = list(zip(*(column.to_pylist() for column in self._arrow.columns), strict=True))
            content = repr(self._values[data[1]]).encode("utf-8", "surrogatepass")
        else:
            content = text.encode("utf-8", "surrogatepass") if data is None else data
        named = name.encode("utf-8", "surrogatepass") + b"\0" + self._of_layout + content
        found = hashlib.blake2b(named, digest_size=_DIGEST_BYTES).digest()
        self._digest.update(found)
        return found

    def told(self) -> str:
        """That of all so far."""
        return self._digest.hexdigest()


def _digest_of_layout(layout: Layout) -> bytes:
    """Of what the same cells mean something else without: format, names, types, and the header as it stands."""
    schema = layout.schema
    types = "" if schema is None else schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    told = repr((layout.format, layout.columns, layout.header, types))
    return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _changed(source: str) -> JobError:
    told = "has changed before the place where the interrupted job goes on"
    return JobError(f"{told}, expected the same documents up to there; --force begins again", path=source)


def expect_other_files(results: Sequence[Path], corpus: Corpus, store: Path | None = None) -> None:
    """Raise ValueError where what a job writes is an input, in the folder of one, or something else that it writes."""
    written = [_settled(path) for result in results for path in (result, folder_of(result))]
    if store is not None:
        written.append(store.resolve())
    for path in written:
        if sum(path == other or path.is_relative_to(other) for other in written) > 1:
            told = "found a result at, or in, another place that the job writes to (a result, its .job, the store)"
            raise ValueError(f"{path}: {told}; expected places of their own")
    for result in results:
        expect_outside_stores(result)
    inputs = [Path(source).resolve() for source in corpus.files if not remote.is_remote(source)]
    for path in written:
        for source in inputs:
            if path.is_relative_to(source):
                raise ValueError(f"{path}: found a result that is also an input, or in one; expected another place")


def _settled(path: Path) -> Path:
    """The path with the links on the way to it followed, but not itself."""
    return path.parent.resolve() / path.name


def _look(source: str) -> tuple[Any, ...]:
    if is_stream(source):
        return (None,)
    if remote.is_remote(source):
        paths = list(walk(source)) if remote.is_folder(source) else [source]
        return "elsewhere", [[path, remote.look(path)] for path in paths]
    if not os.path.isdir(source):
        status = os.stat(source)
        return status.st_size, status.st_mtime_ns
    digest = hashlib.blake2b(digest_size=16)
    count = 0
    for path in walk(source):
        status = os.lstat(path)
        count += 1
        digest.update(os.fsencode(path) + f"\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return count, digest.hexdigest()
