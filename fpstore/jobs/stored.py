"""The job `cluster` over what a store has, by the same rules as documents: bare fingerprints, or ids of signatures.

Fingerprints come in the order of their ids, and of equal ids in that of the fingerprints: row numbers give the order in
which they were stored. In memory are 65 bytes for each row, and names with 100 bytes more each. Ids of signatures come
in their order; what they have lies in a file, and leaders in memory as those of documents do. It begins again where it
was interrupted.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import fpstore
from fpstore.disk import CATALOG_NAME, expect_outside_stores
from fpstore.errors import PathLike
from fpstore.fingerprints import as_numbers, as_strings, no_fingerprints, of_strings, words_of
from fpstore.jobs.arguments import expect_path, expect_paths, expect_settings
from fpstore.jobs.centers import Centers, Votes
from fpstore.jobs.corpus import BATCH_DOCUMENTS
from fpstore.jobs.forms import PARQUET, TSV, form_of
from fpstore.jobs.ids import leading, listed
from fpstore.jobs.journal import Job
from fpstore.jobs.near import Graph, Near, components_of, ranked
from fpstore.jobs.rows import Lines
from fpstore.jobs.scratch import scratch_store
from fpstore.jobs.settings import Settings
from fpstore.jobs.sizes import sizes_of
from fpstore.jobs.summary import ClusterSummary, Tally
from fpstore.ledger import VOTES
from fpstore.minhash import MinHashStore
from fpstore.minhash.making import open_any
from fpstore.progress import OnProgress, Progress
from fpstore.query.leaders import Leaders
from fpstore.query.similar_leaders import SimilarLeaders
from fpstore.text import DEFAULT_RECIPE
from fpstore.types import Array, Counts, Ids, Keys, expect_flags

_AT_ONCE = 1 << 16
_NAMED = ("string", "bytes")
# What finds the pairs of the state of a store that was read last, within a budget: those within a distance, or of a
# store of signatures, in handles, those of a similarity.
NearOf = Callable[[Any, Any, str | int], AbstractContextManager[Iterator[Any]]]


class _Shared(Graph):
    """By the fingerprints of a store, of which others find the pairs."""

    def __init__(self, fingerprints: Keys, store: fpstore.Store, near: NearOf) -> None:
        super().__init__(fingerprints, store.path, store.bits)
        self._store, self._find = store, near

    def near(
        self, settings: Settings, memory: str | int, threads: int | None, progress: OnProgress | None
    ) -> Iterator[Near]:
        """Within the distance of the settings."""
        with self._find(self._store, settings.max_distance, memory) as every:
            yield from ranked(self.distinct, every)


def cluster_store(
    store: PathLike,
    output: PathLike,
    *,
    max_distance: int | None = None,
    min_similarity: float | None = None,
    update_center: bool = False,
    components: bool = False,
    memory: str | int = "1GiB",
    threads: int | None = None,
    force: bool = False,
    progress: OnProgress | None = None,
) -> ClusterSummary:
    """Write for each row of a store a line of the number of its cluster, its id, its fingerprint, a distance.

    output: as for cluster; a store without ids has no ids here. Clusters are those of cluster, or of components, over
    the same fingerprints in this order. max_distance: the store's by default, else 0 to 64. memory: the budget for
    finding pairs, threads: how many look for those of wide fingerprints. The store is read as it is at one moment, and
    not changed.

    Of a store of signatures a line for each id, in their order: the number of its cluster, the id, the similarity to
    its leader. Two are near that are a pair of MinHashStore.pairs with this min_similarity. An id joins the most
    similar leader that it is near, of several the oldest, or leads the next cluster. Of components, which join all that
    are near, there is no similarity.

    Raises what fpstore.open does, FileExistsError for a result that is there, and ValueError for update_center with
    components, and of signatures for update_center, for max_distance, for a store without ids, and, but for components,
    for one that keeps no signatures; of fingerprints for min_similarity.
    """
    return _clustered(
        store,
        output,
        max_distance=max_distance,
        min_similarity=min_similarity,
        update_center=update_center,
        components=components,
        memory=memory,
        threads=threads,
        force=force,
        progress=progress,
        near=None,
    )


def components_by(
    near: NearOf,
    store: PathLike,
    output: PathLike,
    *,
    max_distance: int | None,
    min_similarity: float | None,
    memory: str | int,
    force: bool,
) -> ClusterSummary:
    """The same for components, whose pairs others find."""
    return _clustered(
        store,
        output,
        max_distance=max_distance,
        min_similarity=min_similarity,
        update_center=False,
        components=True,
        memory=memory,
        threads=None,
        force=force,
        progress=None,
        near=near,
    )


def _clustered(
    store: PathLike,
    output: PathLike,
    *,
    max_distance: int | None,
    min_similarity: float | None,
    update_center: bool,
    components: bool,
    memory: str | int,
    threads: int | None,
    force: bool,
    progress: OnProgress | None,
    near: NearOf | None,
) -> ClusterSummary:
    started = time.monotonic()
    expect_flags(update_center=update_center, components=components, force=force)
    expect_path("store", store)
    expect_paths(output=output)
    expect_settings(None, max_distance)
    if update_center and components:
        raise ValueError("update_center and components: found both, expected one of the two")
    path, result = Path(store).absolute(), Path(output).absolute()
    expect_outside_stores(result)
    with open_any(path) as opened:
        if isinstance(opened, MinHashStore):
            if update_center:
                told = "found a store of signatures, expected one of fingerprints, whose bits have a majority"
                raise ValueError(f"{path}: update_center: {told}")
            if max_distance is not None:
                raise ValueError(f"{path}: max_distance: found a store of signatures, expected min_similarity")
            if components:
                tally = _components(opened, result, min_similarity, memory, force, progress, near)
            else:
                tally = _leaders(opened, result, min_similarity, force, progress)
        else:
            if min_similarity is not None:
                raise ValueError(f"{path}: min_similarity: found a store of fingerprints, expected max_distance")
            method = "components" if components else "centers" if update_center else "leaders"
            tally = _of_fingerprints(opened, result, method, max_distance, (memory, threads), force, progress, near)
    return ClusterSummary(
        **asdict(tally),
        read_bytes=0,
        text_bytes=0,
        seconds=time.monotonic() - started,
        warning=None,
    )


def _of_fingerprints(
    opened: fpstore.Store,
    result: Path,
    method: str,
    max_distance: int | None,
    budget: tuple[str | int, int | None],
    force: bool,
    progress: OnProgress | None,
    near: NearOf | None,
) -> Tally:
    most = opened.max_distance if max_distance is None else max_distance
    bits = opened.bits
    keys, ids = _rows_of(opened, progress)
    columns = {"cluster": "uint64", "id": "uint64", "fingerprint": "string", "distance": "uint16"}
    if ids is None:
        del columns["id"]
    elif isinstance(ids, list):
        columns["id"] = "string"
    form = form_of(result, TSV)
    lines = Lines(form, columns, "cluster-rows", opened._settings.made_by)
    identity = {"job": f"{method} of a store", "store": None, "results": [str(result)], "max_distance": most}
    job = _job(opened, result, identity, lines, force)
    with closing(job), job:
        if method == "components":
            graph = Graph(keys, job.work, bits) if near is None else _Shared(keys, opened, near)
            numbers, distances, count = graph.components(Settings(DEFAULT_RECIPE, most), *budget, progress)
            del graph  # 16 bytes for each row
        else:
            is_center = method == "centers"
            numbers, distances, count = _grouped(job, keys, bits, most, update_center=is_center, progress=progress)

        def told(own: slice) -> list[list[Any]]:
            shown = [f"{key:0{bits // 4}x}" for key in as_numbers(keys[own])]
            of_ids = [] if ids is None else [_ids_told(ids[own], form.kind)]
            return [numbers[own].tolist(), *of_ids, shown, distances[own].tolist()]

        return _finish(job, lines, told, numbers, count)


def _components(
    opened: MinHashStore,
    result: Path,
    min_similarity: float | None,
    memory: str | int,
    force: bool,
    progress: OnProgress | None,
    near: NearOf | None,
) -> Tally:
    handles, names, found = opened._graph(min_similarity, memory, progress)
    ids, order = _in_order(names)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    lines, identity = _of_ids("components", opened.id_type, result, min_similarity, {})
    with ExitStack() as held:
        job = held.enter_context(closing(_job(opened, result, identity, lines, force)))
        held.enter_context(job)
        # Tasks are done when there is a job that wants them.
        pairs = found if near is None else held.enter_context(near(opened, min_similarity, memory))
        edges = (
            (place[handles.searchsorted(own.first_id)], place[handles.searchsorted(own.second_id)], own.similarity)
            for own in pairs
        )
        firsts = components_of(len(handles), edges)
        is_first = firsts == np.arange(len(firsts))
        numbers = (np.cumsum(is_first) - 1)[firsts]

        def told(own: slice) -> list[list[Any]]:
            return [numbers[own].tolist(), _ids_told(ids[own], lines.kind)]

        return _finish(job, lines, told, numbers, int(np.count_nonzero(is_first)))


def _leaders(
    opened: MinHashStore, result: Path, min_similarity: float | None, force: bool, progress: OnProgress | None
) -> Tally:
    opened._expect_ids("which clusters are of")
    if opened._settings.kept is None:
        expected = "expected one that does, or --components, which join what shares a band"
        raise ValueError(f"{opened.path}: found a store that keeps no signatures, {expected}")
    least, nearness = opened._least(min_similarity), {"similarity": "float32"}
    # Which ids there are is known when the job has begun.
    lines, identity = _of_ids("leaders", opened.id_type, result, min_similarity, nearness)
    job = _job(opened, result, identity, lines, force)
    with closing(job), job, listed(opened, job) as found:
        ids, order = _in_order(found.ids)
        numbers, similarities = np.empty(len(ids), dtype=np.uint64), np.empty(len(ids), dtype=np.float32)
        with leading(opened, job, found, order) as rows:
            leaders = SimilarLeaders(rows, least, 0)
            for at in range(0, len(ids), BATCH_DOCUMENTS):
                own = slice(at, min(at + BATCH_DOCUMENTS, len(ids)))
                became = leaders.decide(np.arange(own.start, own.stop))
                numbers[own], similarities[own] = became["id"], rows.kept.estimates[became["distance"]]
                if progress:
                    progress(Progress("clustering", own.stop, len(ids), "documents"))
            count = leaders.next_id

        def told(own: slice) -> list[list[Any]]:
            return [numbers[own].tolist(), _ids_told(ids[own], lines.kind), similarities[own].tolist()]

        return _finish(job, lines, told, numbers, count)


def _of_ids(
    method: str, id_type: str | None, result: Path, min_similarity: float | None, nearness: dict[str, str]
) -> tuple[Lines, dict[str, Any]]:
    """The form of a result with a line for each id, and what tells the job from others."""
    columns = {"cluster": "uint64", "id": "string" if id_type in _NAMED else "uint64"} | nearness
    identity = {
        "job": f"{method} of a store of signatures",
        "store": None,
        "results": [str(result)],
        "min_similarity": min_similarity,
    }
    return Lines(form_of(result, TSV), columns, "cluster-ids"), identity


def _in_order(ids: Array) -> tuple[Ids | list[str | bytes], Counts]:
    """Ids, in their order, and where each of them was."""
    if ids.dtype == np.uint64:
        return ids, np.arange(len(ids))  # as they come
    names = ids.tolist()
    order = sorted(range(len(names)), key=names.__getitem__)
    return [names[i] for i in order], np.array(order, dtype=np.int64)


def _job(
    opened: fpstore.Store | MinHashStore, result: Path, identity: dict[str, Any], lines: Lines, force: bool
) -> Job:
    # Whether a store has changed is not known from outside, as of standard input: so it is never known to be done.
    return Job([result], identity, [[str(opened.path), None]], force=force, forms=[lines])


def _finish(job: Job, lines: Lines, told: Callable[[slice], list[list[Any]]], numbers: Array, count: int) -> Tally:
    """Write the columns that are told of rows, of which each has the number of its cluster."""
    for at in range(0, len(numbers), _AT_ONCE):
        job.files[0].write(lines.encode(*told(slice(at, at + _AT_ONCE))))
    tally = Tally(documents=len(numbers), results=count, new=count, detail=sizes_of(numbers).told())
    job.commit_last({"tally": asdict(tally)})
    job.finish()
    return tally


def _ids_told(ids: Ids | list[str | bytes], kind: str) -> list[Any]:
    if isinstance(ids, list):
        return list(map(_as_text, ids))
    # As strings in JSON, where larger numbers than 2**53 are rounded by many readers.
    return ids.tolist() if kind == PARQUET else list(map(str, ids.tolist()))


def is_store(path: str | Path) -> bool:
    """Whether there is a store at path."""
    return os.path.lexists(Path(path, CATALOG_NAME))


def _rows_of(store: fpstore.Store, progress: OnProgress | None) -> tuple[Keys, Ids | list[str | bytes] | None]:
    """All rows, in the order of their ids, which are numbers or names, then of their fingerprints."""
    keys, ids, count = [no_fingerprints(store.bits)], [np.empty(0, dtype=np.uint64)], 0
    names: list[str | bytes] = []
    named = store.id_type in _NAMED
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
    column = as_strings(all_keys)
    if store.id_type is None:
        return of_strings(np.sort(column)), None
    if named:
        by_key = np.argsort(column, kind="stable").tolist()
        order = np.array(sorted(by_key, key=names.__getitem__), dtype=np.intp)
        return all_keys[order], [names[i] for i in order.tolist()]
    all_ids = np.concatenate(ids)
    order = np.lexsort((column, all_ids))
    return all_keys[order], all_ids[order]


def _as_text(name: str | bytes) -> str:
    # Bytes that are no UTF-8 go out as the lines of other commands have them.
    return name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")


def _grouped(
    job: Job, keys: Keys, bits: int, max_distance: int, *, update_center: bool, progress: OnProgress | None
) -> tuple[Array, Array, int]:
    """Of each fingerprint the number of its cluster, and the distance; how many clusters there are."""
    numbers, distances = np.empty(len(keys), dtype=np.uint64), np.empty(len(keys), dtype=np.uint16)
    with scratch_store(job, "store", max_distance, bits) as store:
        votes = Votes(job.work_folder, VOTES, words_of(bits)) if update_center else None
        leaders = Leaders(store, max_distance, 0) if votes is None else Centers(store, votes, max_distance, 0)
        for at in range(0, len(keys), BATCH_DOCUMENTS):
            own = slice(at, at + BATCH_DOCUMENTS)
            found = leaders.decide(keys[own])
            numbers[own], distances[own] = found["id"], found["distance"]
            if progress:
                progress(Progress("clustering", min(own.stop, len(keys)), len(keys), "rows"))
        return numbers, distances, leaders.next_id
