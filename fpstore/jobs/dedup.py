"""The job `dedup`: of each group of near-duplicates in a corpus one is kept, the others are named with the reason."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from fpstore.jobs.corpus import Batch, Corpus, Place, document_line, fingerprints_of, json_line
from fpstore.jobs.journal import Job
from fpstore.jobs.kept import Kept, Verdicts
from fpstore.jobs.standing import Settings, Workplace, own_workplace, release, settle_settings, standing_workplace
from fpstore.text import Recipe
from fpstore.types import Progress

JSON_SUFFIXES = (".jsonl", ".ndjson")
_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"})


@dataclass
class Counts:
    """What a job has done, in all its runs."""

    documents: int = 0
    kept: int = 0
    dropped: int = 0
    bad: int = 0
    refused: int = 0


@dataclass
class Summary(Counts):
    """The same, and what the last run took: bytes of text, seconds."""

    run_bytes: int = 0
    seconds: float = 0.0


def dedup(
    sources: Sequence[str | Path],
    kept: str | Path,
    *,
    dropped: str | Path | None = None,
    store: str | Path | None = None,
    recipe: Recipe | None = None,
    k: int | None = None,
    format: str = "auto",
    text_column: str | int | None = None,
    skip_bad: bool = False,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Write the documents of sources that are near none kept before to kept, and to dropped the others and why.

    sources, format, text_column, skip_bad: as for fpstore.inputs.documents. kept: JSON lines, each as it was read
    where it was read as one, else an object with name and text. dropped: lines of name, name of the kept document
    and distance, separated by tabs, or JSON lines where it ends in .jsonl. store: a standing store, with which the
    corpus is compared too, and which gets the kept documents; made where there is none. recipe, k: those of
    the store by default, else DEFAULT and 3. force: begin again, and replace what is there. threads: for fingerprints;
    all processors by default.

    Goes on where a run with the same arguments was interrupted; the results are those of one run.
    Raises what fpstore.inputs.documents does, FileExistsError, ValueError for arguments that do not fit the store or
    the interrupted job, and JobError for what stands in the way on the disk.
    """
    started = time.monotonic()
    corpus = Corpus(sources, format=format, text_column=text_column, skip_bad=skip_bad)
    results = [Path(path).absolute() for path in (kept, dropped) if path is not None]
    standing = None if store is None else Path(store).absolute()
    settings = settle_settings(standing, recipe, k)
    identity = {
        **corpus.identity,
        "results": list(map(str, results)),
        "store": standing and str(standing),
        "recipe": settings.recipe.to_json(),
        "k": settings.k,
    }
    with Job(results, identity, corpus.look(), force=force) as job:
        run_bytes = 0
        if not job.is_finished:
            if standing is None:
                opened = own_workplace(job, settings, texts=False)
            else:
                opened = standing_workplace(standing, job, settings, texts=False)
            with opened as place:
                run = _Run(job, corpus, place, settings, threads)
                run_bytes = run.to_the_end(progress)
                if standing is not None:
                    place.store.settle()
                run.commit_last()
        if standing is not None:
            release(standing, job)
        counts = job.state["counts"] if job.state else {}
        job.finish()
    return Summary(**counts, run_bytes=run_bytes, seconds=time.monotonic() - started)


class _Run:
    """One run of the job, from its last commit on."""

    def __init__(self, job: Job, corpus: Corpus, place: Workplace, settings: Settings, threads: int | None) -> None:
        self._job = job
        self._corpus = corpus
        self._workplace = place
        self._recipe = settings.recipe
        self._threads = threads or os.cpu_count() or 1
        self._kept = Kept(place.store, place.spool, settings.k, place.next_id)
        state = job.state or {"counts": {}, "place": []}
        self._counts = Counts(**state["counts"])
        self._place = Place(*state["place"])
        self._drop_line = _dropped_json if job.results[-1].suffix in JSON_SUFFIXES else _dropped_row

    def to_the_end(self, progress: Progress | None) -> int:
        """Do what is left; how many bytes of text there were in it."""
        if self._job.state is None:
            self._job.commit(self._state())
        text_bytes = 0
        for batch in self._corpus.batches(self._place):
            self._do(batch)
            self._job.commit(self._state())
            text_bytes += batch.text_bytes
            if progress:
                progress("deduplicating (bytes)", self._corpus.bytes_read, self._corpus.total_bytes)
        return text_bytes

    def commit_last(self) -> None:
        """All is done."""
        self._job.commit_last(self._state())

    def _do(self, batch: Batch) -> None:
        verdicts = self._kept.decide(
            fingerprints_of(batch.texts, self._recipe, self._threads), batch.names, batch.texts
        )
        self._kept.sync()
        self._write(batch, verdicts)
        kept_count = int(verdicts.kept.sum())
        self._counts.documents += len(batch.names)
        self._counts.kept += kept_count
        self._counts.dropped += len(batch.names) - kept_count
        self._counts.bad = batch.bad
        self._counts.refused += verdicts.refused
        self._place = batch.end

    def _write(self, batch: Batch, verdicts: Verdicts) -> None:
        kept_file, *dropped_files = self._job.files
        columns = (verdicts.kept.tolist(), verdicts.id.tolist(), verdicts.distance.tolist(), verdicts.measures)
        kept_lines, dropped_lines = [], []
        for i, (kept, kept_id, distance, measure) in enumerate(zip(*columns, strict=True)):
            if kept:
                kept_lines.append(document_line(batch.names[i], batch.texts[i], batch.lines[i]))
            elif dropped_files:
                kept_name = self._kept.name(kept_id)
                dropped_lines.append(self._drop_line(batch.names[i], kept_name, distance, measure))
        kept_file.write(b"".join(kept_lines))
        for file in dropped_files:
            file.write(b"".join(dropped_lines))

    def _state(self) -> dict[str, Any]:
        return {
            "counts": asdict(self._counts),
            "place": astuple(self._place),
            "next_id": self._kept.next_id,
            "spool": self._workplace.spool.count,
        }


def _dropped_row(name: str, kept_name: str, distance: int, measure: float | None) -> bytes:
    row = [name.translate(_ESCAPES), kept_name.translate(_ESCAPES), str(distance)]
    if measure is not None:
        row.append(f"{measure:.4f}")
    return "\t".join(row).encode("utf-8", "surrogateescape") + b"\n"


def _dropped_json(name: str, kept_name: str, distance: int, measure: float | None) -> bytes:
    record = {"name": name, "kept": kept_name, "distance": distance}
    return json_line(record if measure is None else record | {"measure": round(measure, 4)})
