"""Owns how the texts of kept documents are read again, where a result has the line of each."""

from __future__ import annotations

from contextlib import closing

from fpstore.inputs import documents, remote
from fpstore.inputs.blocks import LineTexts, reads_blocks
from fpstore.jobs.corpus import Corpus
from fpstore.jobs.journal import Job
from fpstore.jobs.keeping import Keeping
from fpstore.jobs.spool import KeptLines


def kept_lines(job: Job, corpus: Corpus, keeping: Keeping) -> KeptLines | None:
    """The first result of a job that has begun or goes on; None where it has other than the lines as they were."""
    texts = _line_texts(corpus) if keeping.has_lines else None
    return None if texts is None else KeptLines(job.files[0], texts.of, job.wait_for_writes)


def _line_texts(corpus: Corpus) -> LineTexts | None:
    """What reads the texts of lines of all sources, which are files that can be looked at as often as one likes."""
    if corpus.files != corpus.sources or any(map(remote.is_remote, corpus.files)):
        return None
    texts: LineTexts | None = None
    for number in range(len(corpus.sources)):
        alone = vars(corpus.alone(number))
        with closing(documents(alone.pop("paths"), **alone, recipe=corpus.recipe)) as found:
            request = found.request
            if request.html or not all(reads_blocks(format, request) for format in found.formats):
                return None
        own = LineTexts(request)
        if texts is not None and texts.field != own.field:
            return None
        texts = own
    return texts
