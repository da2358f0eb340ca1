"""The job `cluster` over what a store has: bare fingerprints, by the same rules as documents.

They come in the order of their ids, and of equal ids in that of the fingerprints: row numbers give the order in which
they were stored. In memory are 65 bytes for each row, and names with 100 bytes more each. It begins again where it was
interrupted.
"""

import os
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

import fpstore
from fpstore.disk import CATALOG_NAME, expect_outside_stores
from fpstore.errors import PathLike
from fpstore.jobs.arguments import expect_path, expect_paths, expect_settings
from fpstore.jobs.centers import Centers, Votes
from fpstore.jobs.corpus import BATCH_DOCUMENTS
from fpstore.jobs.forms import PARQUET, TSV, form_of
from fpstore.jobs.journal import Job
from fpstore.jobs.near import Graph
from fpstore.jobs.rows import Lines
from fpstore.jobs.scratch import scratch_store
from fpstore.jobs.settings import Settings
from fpstore.jobs.sizes import sizes_of
from fpstore.jobs.summary import ClusterSummary, Tally
from fpstore.ledger import VOTES
from fpstore.progress import OnProgress, Progress
from fpstore.query.leaders import Leaders
from fpstore.text import DEFAULT_RECIPE
from fpstore.types import Array, Ids, Keys, expect_flags

_AT_ONCE = 1 << 16


def cluster_store(
    store: PathLike,
    output: PathLike,
    *,
    max_distance: int | None = None,
    update_center: bool = False,
    components: bool = False,
    memory: str | int = "1GiB",
    force: bool = False,
    progress: OnProgress | None = None,
) -> ClusterSummary:
    """Write for each row of a store a line of the number of its cluster, its id, its fingerprint, a distance.

    output: as for cluster; a store without ids has no ids here. Clusters are those of cluster, or of components, over
    the same fingerprints in this order. max_distance: the store's by default, else 0 to 64. memory: the budget for
    finding pairs. The store is read as it is at one moment, and not changed.

    Raises what fpstore.open does, FileExistsError for a result that is there, and ValueError for update_center with
    components.
    """
    started = time.monotonic()
    expect_flags(update_center=update_center, components=components, force=force)
    expect_path("store", store)
    expect_paths(output=output)
    expect_settings(None, max_distance)
    if update_center and components:
        raise ValueError("update_center and components: found both, expected one of the two")
    path, result = Path(store).absolute(), Path(output).absolute()
    expect_outside_stores(result)
    with _opened(path) as opened:
        opened._expect_narrow("cluster")
        most = opened.max_distance if max_distance is None else max_distance
        recipe, bits = opened._settings.recipe, opened.bits
        keys, ids = _rows_of(opened, progress)
    columns = {"cluster": "uint64", "id": "uint64", "fingerprint": "string", "distance": "uint16"}
    if ids is None:
        del columns["id"]
    elif isinstance(ids, list):
        columns["id"] = "string"
    form = form_of(result, TSV)
    lines = Lines(form, columns, "cluster-rows", recipe)
    method = "components" if components else "centers" if update_center else "leaders"
    identity = {"job": f"{method} of a store", "store": None, "results": [str(result)], "max_distance": most}
    # Whether a store has changed is not known from outside, as of standard input: so it is never known to be done.
    with Job([result], identity, [[str(path), None]], force=force, forms=[lines]) as job:
        if components:
            numbers, distances, count = Graph(keys, job.work).components(
                Settings(DEFAULT_RECIPE, most), memory, progress
            )
        else:
            numbers, distances, count = _grouped(job, keys, most, update_center=update_center, progress=progress)
        for at in range(0, len(keys), _AT_ONCE):
            own = slice(at, at + _AT_ONCE)
            told = [
                numbers[own].tolist(),
                [f"{key:0{bits // 4}x}" for key in keys[own].tolist()],
                distances[own].tolist(),
            ]
            if ids is not None:
                own_ids = list(map(_as_text, ids[own])) if isinstance(ids, list) else ids[own].tolist()
                # As strings in JSON, where larger numbers than 2**53 are rounded by many readers.
                told.insert(1, own_ids if form.kind == PARQUET else list(map(str, own_ids)))
            job.files[0].write(lines.encode(*told))
        tally = Tally(documents=len(keys), results=count, new=count, detail=sizes_of(numbers).told())
        job.commit_last({"tally": asdict(tally)})
        job.finish()
    return ClusterSummary(
        **asdict(tally),
        read_bytes=0,
        text_bytes=0,
        seconds=time.monotonic() - started,
        warning=None,
    )


def _opened(path: Path) -> fpstore.Store:
    try:
        return fpstore.open(path)
    except fpstore.WrongKind:
        told = "found signatures, expected fingerprints: cluster of a STORE goes by their distance; give it the texts"
        raise fpstore.WrongKind(told, path=path) from None


def is_store(path: str | Path) -> bool:
    """Whether there is a store at path."""
    return os.path.lexists(Path(path, CATALOG_NAME))


def _rows_of(store: fpstore.Store, progress: OnProgress | None) -> tuple[Keys, Ids | list[str | bytes] | None]:
    """All rows, in the order of their ids, which are numbers or names, then of their fingerprints."""
    keys, ids, count = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.uint64)], 0
    names: list[str | bytes] = []
    named = store.id_type in ("string", "bytes")
    for rows in store.rows():
        keys.append(rows.fingerprint)
        if named:
            names += np.asarray(rows.id).tolist()
        elif rows.id is not None:
            ids.append(rows.id)
        count += len(rows)
        if progress:
            progress(Progress("reading", count, None, "rows"))
    all_keys = np.concatenate(keys)
    if store.id_type is None:
        return np.sort(all_keys), None
    if named:
        by_key = np.argsort(all_keys, kind="stable").tolist()
        order = np.array(sorted(by_key, key=names.__getitem__), dtype=np.intp)
        return all_keys[order], [names[i] for i in order.tolist()]
    all_ids = np.concatenate(ids)
    order = np.lexsort((all_keys, all_ids))
    return all_keys[order], all_ids[order]


def _as_text(name: str | bytes) -> str:
    # Bytes that are no UTF-8 go out as the lines of other commands have them.
    return name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")


def _grouped(
    job: Job, keys: Keys, max_distance: int, *, update_center: bool, progress: OnProgress | None
) -> tuple[Array, Array, int]:
    """Of each fingerprint the number of its cluster, and the distance; how many clusters there are."""
    numbers, distances = np.empty(len(keys), dtype=np.uint64), np.empty(len(keys), dtype=np.uint8)
    with scratch_store(job.work / "store", max_distance) as store:
        votes = Votes(job.work_folder, VOTES) if update_center else None
        leaders = Leaders(store, max_distance, 0) if votes is None else Centers(store, votes, max_distance, 0)
        for at in range(0, len(keys), BATCH_DOCUMENTS):
            own = slice(at, at + BATCH_DOCUMENTS)
            found = leaders.decide(keys[own])
            numbers[own], distances[own] = found["id"], found["distance"]
            if progress:
                progress(Progress("clustering", min(own.stop, len(keys)), len(keys), "rows"))
        return numbers, distances, leaders.next_id
