"""The two ways of dedup through a corpus: once, keeping the first of near-duplicates, or twice, in another order."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, astuple, replace
from functools import partial
from typing import Any

import numpy as np

from fpstore.jobs.batches import Batch, Place
from fpstore.jobs.changed import changed
from fpstore.jobs.corpus import BATCH_BYTES, BATCH_DOCUMENTS, Corpus, Measuring
from fpstore.jobs.files import AppendFile
from fpstore.jobs.journal import Job
from fpstore.jobs.keep import RANK, Keep, Ranker, is_without
from fpstore.jobs.keeping import Keeping
from fpstore.jobs.kept import kept_of
from fpstore.jobs.passing import Passing, Turn
from fpstore.jobs.repeats import Repeats
from fpstore.jobs.rows import Lines
from fpstore.jobs.settings import Settings
from fpstore.jobs.spool import Spool
from fpstore.jobs.standing import Workplace
from fpstore.jobs.summary import Tally
from fpstore.progress import OnProgress, Progress
from fpstore.query.leaders import VERDICT
from fpstore.text.confirm import Confirm
from fpstore.text.packed import taken
from fpstore.text.recipe import Measured
from fpstore.types import Array, Counts

# So many bytes of its digest are enough that no two versions of a document have one digest by chance.
_DIGEST_BYTES = 8


class FirstRun:
    """One run of a job that keeps the first, from its last commit on."""

    def __init__(
        self,
        job: Job,
        corpus: Corpus,
        workplace: Workplace,
        repeats: Repeats,
        settings: Settings,
        confirm: Confirm | None,
        forms: Sequence[Any],
        keep: Keep,
        tags: bool,
        progress: OnProgress | None,
    ) -> None:
        """tags: whether all documents are written, with what became of them."""
        self._job = job
        self._settings = settings
        self._keep = keep
        self._tags = tags
        self._corpus = corpus
        self._workplace = workplace
        self._repeats = repeats
        self._progress = progress
        self._passing, self._threads = Passing(), corpus.passing_threads
        deciding = corpus.deciding_threads
        # Of two that take batches by turns the other is at work meanwhile, where it does not wait for this very one.
        comparing = 1 if keep.is_first and self._threads == corpus.threads == 2 else deciding
        self._kept = kept_of(workplace, settings, confirm, deciding, comparing)
        self._tally = Tally.of(job.state)
        self._kept.refused = self._tally.refused
        self._kept.cut_short = self._tally.cut_short
        self._place = corpus.go_on(job.state)
        self._keeping: Keeping = forms[0]
        self._dropping: Sequence[Lines] = forms[1:]
        self._measures = confirm is not None
        self._compresses_beside = corpus.threads > 1
        # Nothing that takes long is left after the last batch: the last commit is the one behind it.
        self._ends_at_once = workplace.is_own and not job.packs and keep.is_first

    def to_the_end(self) -> None:
        """Do what is left."""
        passing, threads = self._passing, self._threads
        with (
            self._job.behind(passing.wait_for_writes),
            closing(self._corpus.begun(self._place, keeps=self._measures, together=threads)) as every,
        ):
            if self._compresses_beside:
                self._job.begin_to_compress()
            done = partial(self._show_bytes, "deduplicating")
            passing.go(partial(self._take, every), threads=threads, done=done)

    def _take(self, every: Iterator[tuple[Batch, Measuring]], turn: Turn) -> bool:
        """Take the next batch through all stages; whether there was one."""
        measured = None
        with turn.at(self._passing.reading):
            begun = next(every, None)
            # What packages cut holds the interpreter's lock until workers do it: only one thread has a use for that.
            if begun is not None and self._corpus.recipe.is_prepared:
                measured = begun[1]()
        if begun is None:
            return False
        batch, measure = begun
        found, hashes = measured or measure()
        batch = replace(batch, hashes=hashes)
        del begun, measure, measured, hashes
        with turn.at(self._passing.deciding):
            if self._workplace.is_full:  # what goes to a store is committed first
                self._job.wait()
            write = self._decided_about(batch, found)
            commits = batch.settles and not (self._ends_at_once and batch.end.source == len(self._corpus.sources))
            del batch, found
            if commits and not self._workplace.is_own:  # a standing store has what comes next after this alone
                with turn.at(self._passing.writing):
                    self._job.write(write)
                    self._commit()
                return True
            state = self._state() if commits else None
        with turn.at(self._passing.writing):
            self._job.write(write)
            if state is not None:
                self._job.commit_behind(state, self._sync)
        return True

    def _decided_about(self, batch: Batch, found: Measured) -> Callable[[], None]:
        """Decide about a batch; what writes what became of it."""
        self._corpus.see(batch, found)
        self._come_to(batch)
        verdicts = self._decide(batch, found.fingerprints)
        self._repeats.see(batch.names)
        return self._told(batch, verdicts, found)

    def pause(self) -> None:
        """Make what is done durable, for a call that goes on."""
        self._commit()

    def commit_last(self) -> None:
        """All is done."""
        self._tally.repeated_names = self._repeats.count()
        if self._ends_at_once:
            self._sync()
        self._job.commit_last(self._state())

    def _read(self, phase: str, *, keeps: bool = False) -> Generator[tuple[Batch, Array]]:
        with closing(self._corpus.measured(self._place, keeps=keeps)) as every:
            for batch, fingerprints in every:
                self._come_to(batch)
                yield batch, fingerprints
                del batch, fingerprints
                self._show_bytes(phase)

    def _come_to(self, batch: Batch) -> None:
        self._place = batch.end
        self._tally.skipped, self._tally.notes = batch.skipped, batch.notes

    def _show_bytes(self, phase: str) -> None:
        self._show(Progress(phase, self._corpus.bytes_read, self._corpus.total_bytes, "bytes"))

    def _decide(self, batch: Batch, fingerprints: Array) -> Array:
        own = batch.names, batch.texts, batch.hashes
        return self._counted(self._kept.decide_all(fingerprints, *own, lines=batch.rows, settles=batch.settles))

    def _counted(self, verdicts: Array) -> Array:
        self._tally.documents += len(verdicts)
        self._tally.results += int(verdicts["leads"].sum())
        self._tally.refused, self._tally.cut_short = self._kept.refused, self._kept.cut_short
        return verdicts

    def _told(self, batch: Batch, verdicts: Array, found: Measured | None = None) -> Callable[[], None]:
        """What writes the results of a batch, given the verdict on each of its documents; it asks nobody for more.

        found: what was measured of them, where that is known.
        """
        leads = verdicts["leads"]
        added = self._tags_of(verdicts) if self._tags else None
        indexes = np.flatnonzero(~leads)
        dropped = verdicts[indexes]
        self._corpus.lengths.see_dropped(
            batch.texts,
            indexes.tolist(),
            lambda some: self._texts_of_equals(dropped[some], batch.texts, verdicts),
            found,
        )
        kept_names = self._kept.names_later(dropped["id"]) if self._dropping else list
        columns = [self._kept.nearness(dropped["distance"])] + ([dropped["measure"]] if self._measures else [])
        as_read, names = self._keeping.lines_of(batch), batch.names
        # What is not written is not held until the rest is.
        batch = replace(batch, hashes=None) if as_read is None else replace(batch, hashes=None, texts=(), rows=())

        def write() -> None:
            kept_file, *dropped_files = self._job.files
            is_first = kept_file.length == 0
            if as_read is not None:
                kept_file.append_lines(as_read, np.flatnonzero(leads))
            elif added is None:
                kept_file.write(self._keeping.lines(batch, np.flatnonzero(leads), is_first=is_first))
            else:
                kept_file.write(self._keeping.lines(batch, range(len(leads)), is_first=is_first, added=added))
            for file, lines in zip(dropped_files, self._dropping, strict=True):
                file.write(lines.encode(taken(names, indexes), kept_names(), *columns))
            for file in self._job.files:
                file.begin_to_sync()

        return write

    def _texts_of_equals(self, dropped: Array, own: Sequence[str], verdicts: Array) -> list[str | None]:
        """Of the kept documents for which some were dropped the texts, None of those that are not equal to theirs.

        own, verdicts: the texts of the batch, and what became of them; what is kept of it is in no file yet. Where no
        texts are kept none is known, so that all documents of a job are told of alike.
        """
        texts: list[str | None] = [None] * len(dropped)
        if not self._kept.has_texts:
            return texts
        alike = ((dropped["distance"] == 0) & ~(dropped["measure"] < 1)).nonzero()[0]
        if not len(alike):
            return texts
        leads = verdicts["leads"].nonzero()[0]
        leads = leads[np.argsort(verdicts["id"][leads])]
        ids, places = dropped["id"][alike], verdicts["id"][leads].searchsorted(dropped["id"][alike])
        is_own = places < len(leads)
        is_own[is_own] = verdicts["id"][leads[places[is_own]]] == ids[is_own]
        for at, place in zip(alike[is_own].tolist(), leads[places[is_own]].tolist(), strict=True):
            texts[at] = own[place]
        for at, text in zip(alike[~is_own].tolist(), self._kept.texts(ids[~is_own]), strict=True):
            texts[at] = text
        return texts

    def _tags_of(self, verdicts: Array) -> list[tuple[Any, ...]]:
        """Of each document: whether it is kept, else for which one, at what distance, and how alike they are."""
        measures = verdicts["measure"].round(4).tolist()
        found = zip(
            verdicts["leads"].tolist(),
            self._kept.names(verdicts["id"]),
            self._kept.nearness(verdicts["distance"]).tolist(),
            measures,
            strict=True,
        )
        rows = [(True, None, None, None) if leads else (False, *reason) for leads, *reason in found]
        return rows if self._measures else [row[:3] for row in rows]

    def _commit(self) -> None:
        self._sync()
        self._job.commit(self._state())

    def _sync(self) -> None:
        self._workplace.sync()
        self._repeats.sync()

    def _state(self) -> dict[str, Any]:
        return {
            "tally": asdict(self._tally),
            **self._corpus.state(self._place),
            **self._repeats.state(),
            "next_id": self._kept.next_id,
            **self._workplace.state(),
        }

    def _show(self, progress: Progress) -> None:
        if self._progress:
            self._progress(progress)


class RankedRun(FirstRun):
    """One run of a job that keeps the longest, or by a field: documents are decided as if they came in that order.

    Three passes: measure all documents; decide, in that order; read them again to write the results, if they are still
    the same. In memory are 75 bytes for each document, and texts that they are ordered by; names, and texts if they are
    to be confirmed, are on the disk.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        sketch = self._settings.sketch_type
        self._type = np.dtype([("fingerprint", *sketch), ("length", "<i8"), ("rank", RANK)])
        state = self._job.state or {"pass": "measure", "measured": 0, "decided": 0, "written": 0, "values": 0}
        self._pass: str = state["pass"]
        self._decided: int = state["decided"]
        self._written: int = state["written"]
        self._measured: int = state["measured"]
        self._values: int = state["values"]
        # Where all was measured: from then on all has to stay as it is.
        self._reached = Place(*state["reached"]) if state.get("reached") else None

    def to_the_end(self) -> None:
        """Do what is left."""
        work, texts = self._job.work_folder, self._workplace.spool.has_texts
        with (
            closing(
                Spool(self._job.subfolder("all"), texts=texts, count=self._measured, words=self._settings.words)
            ) as documents,
            closing(AppendFile(work, "measures", self._measured * self._type.itemsize)) as measures,
            closing(AppendFile(work, "digests", self._measured * _DIGEST_BYTES)) as digests,
            closing(AppendFile(work, "values", self._values)) as values,
            closing(AppendFile(work, "verdicts", self._decided * VERDICT.itemsize)) as verdicts,
        ):
            if self._pass == "measure":
                self._measure(documents, measures, digests, values)
            found = np.frombuffer(measures.view(), dtype=self._type)
            if self._pass == "measure":
                self._keep.expect_field(found["rank"])
                self._next_pass("decide")
            order = self._keep.order(found["rank"], values.view())
            if self._pass == "decide":
                self._decide_in(order, found, documents, verdicts)
                self._next_pass("write")
            by_document = np.empty(len(order), dtype=VERDICT)
            by_document[order] = np.frombuffer(verdicts.view(), dtype=VERDICT)
            self._write_all(by_document, digests)

    def _next_pass(self, name: str) -> None:
        self._pass = name
        self._commit()

    def _measure(self, documents: Spool, measures: AppendFile, digests: AppendFile, values: AppendFile) -> None:
        ranker = Ranker(self._keep, np.frombuffer(measures.view(), dtype=self._type)["rank"], self._values)
        with closing(self._read("measuring")) as every:
            for batch, fingerprints in every:
                rows = np.empty(len(batch.names), dtype=self._type)
                rows["fingerprint"] = fingerprints
                rows["length"] = [len(text) for text in batch.texts]
                rows["rank"], texts = ranker.rank(batch)
                self._tally.without_value += int(is_without(rows["rank"]).sum())
                measures.write(rows.tobytes())
                values.write(texts)
                self._values = values.length
                digests.write(_short(batch.digests))
                ids = range(self._measured, self._measured + len(rows))
                documents.append(ids, self._kept.told(fingerprints), batch.names, batch.texts)
                self._measured += len(rows)
                measures.sync()
                digests.sync()
                values.sync()
                documents.sync()
                self._repeats.see(batch.names)
                self._commit()
        self._reached, self._place = self._place, Place()

    def _decide_in(self, order: Counts, found: Array, documents: Spool, verdicts: AppendFile) -> None:
        fingerprints, lengths = found["fingerprint"], found["length"]
        while self._decided < len(order):
            chosen = order[self._decided : self._decided + BATCH_DOCUMENTS]
            held = np.cumsum(lengths[chosen])
            chosen = chosen[: 1 + int(np.searchsorted(held, BATCH_BYTES))]
            names = [name or "" for name in documents.names(chosen.astype(np.uint64))]
            texts = [text or "" for text in documents.texts(chosen.astype(np.uint64))]
            verdicts.write(self._counted(self._kept.decide_all(fingerprints[chosen], names, texts)).tobytes())
            verdicts.sync()
            self._decided += len(chosen)
            self._commit()
            self._show(Progress("deciding", self._decided, len(order), "documents"))

    def _write_all(self, verdicts: Array, digests: AppendFile) -> None:
        measured = digests.view()
        for batch in self._corpus.batches(self._place):
            self._come_to(batch)
            start, self._written = self._written, self._written + len(batch.names)
            is_last = batch.end.source == len(self._corpus.sources)
            found = _short(batch.digests)
            known = measured[start * _DIGEST_BYTES : self._written * _DIGEST_BYTES]
            if found != known or (is_last and self._written < len(verdicts)):
                starts = range(0, len(found), _DIGEST_BYTES)
                other = (i for i, at in enumerate(starts) if found[at:][:_DIGEST_BYTES] != known[at:][:_DIGEST_BYTES])
                which = f"{batch.names[i]} is another document" if (i := next(other, None)) is not None else "some went"
                told = f"the inputs have changed since they were measured: {which}"
                raise changed(told, self._job.folder)
            self._told(batch, verdicts[start : self._written])()
            self._commit()
            self._show_bytes("writing")

    def _state(self) -> dict[str, Any]:
        passes = {
            "pass": self._pass,
            "measured": self._measured,
            "values": self._values,
            "decided": self._decided,
            "written": self._written,
        }
        reached = None if self._reached is None else astuple(self._reached)
        return super()._state() | passes | {"reached": reached}


def _short(digests: Array) -> bytes:
    return digests[:, :_DIGEST_BYTES].tobytes()
