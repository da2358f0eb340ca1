"""Owns the record that a finished job leaves beside its first result, for who asks again whether it was done.

A hidden file, .RESULT.done: what the results followed from, what they look like, and what became of the documents.
"""

import json
import os
from pathlib import Path
from typing import Any

from fpstore.disk import write_whole
from fpstore.errors import CorruptStore, JobError
from fpstore.jobs.claims import RECORD, Claim
from fpstore.jobs.files import files_of_jobs, look, read_json

_KIND = "a finished job of fpstore"


def record_of(result: Path) -> Path:
    """Where the record of a job with this first result is."""
    return result.with_name(f".{result.name}.done")


def write_record(
    claim: Claim, results: list[Path], header: dict[str, Any], tally: object, store: str | None, beside: list[Path]
) -> None:
    """Leave the record of a job; who calls this makes its name durable.

    store: the identity of the standing store that has its documents. beside: files beside the results that belong to
    them. A file of that name that is no record is left alone, and so is a result with a name too long for one more
    beside it.
    """
    name = record_of(claim.result).name
    if len(os.fsencode(name)) > os.pathconf(claim.parent.fd, "PC_NAME_MAX"):
        return
    if claim.parent.identity_of(name) is not None and read_record(claim) is None:
        return
    record = {"made by": _KIND, **header, "results": look(results), "tally": tally, "store": store}
    if beside:
        record["beside"] = look(beside)
    with files_of_jobs():
        write_whole(claim.folder, RECORD[0], json.dumps(record).encode())  # so that it is as private as that folder
    claim.folder.rename(RECORD[0], name, to=claim.parent)


def read_record(claim: Claim) -> dict[str, Any] | None:
    """The record beside the result of a claim; None where there is none."""
    try:
        record = read_json(claim.parent, record_of(claim.result).name)
    except (JobError, CorruptStore, OSError):
        return None  # somebody else's
    return record if record is not None and record.get("made by") == _KIND else None


def tells_of(record: dict[str, Any], results: list[Path], header: dict[str, Any]) -> bool:
    """Whether this very job is done: all results follow from the same, and are as it left them."""
    same = all(record.get(name) == value for name, value in json.loads(json.dumps(header)).items())
    is_one = isinstance(record.get("tally"), dict) and isinstance(record.get("beside", []), list)
    return same and is_one and record.get("results") == look(results)


def wrote_first(record: dict[str, Any], results: list[Path], inputs: list[Any]) -> bool:
    """Whether a job that read the same inputs wrote the first result, whatever its arguments, and it is still there.

    Somebody may have edited it since.
    """
    return record.get("inputs") == inputs and os.path.lexists(results[0])
