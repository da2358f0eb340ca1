"""The components of a store by tasks: its pairs found by these, joined by the caller; the lines of one process."""

from functools import partial
from typing import Any

from fpstore.cluster.gathering import Batches
from fpstore.cluster.pairing import pairs
from fpstore.cluster.searching import Seen, expect_seen
from fpstore.cluster.similar import similar_handles
from fpstore.errors import PathLike
from fpstore.jobs import ClusterSummary
from fpstore.jobs.stored import components_by
from fpstore.minhash import MinHashStore
from fpstore.progress import OnProgress
from fpstore.store import Store


def components(
    store: PathLike,
    output: PathLike,
    *,
    max_distance: int | None = None,
    min_similarity: float | None = None,
    memory: str | int = "1GiB",
    force: bool = False,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
) -> ClusterSummary:
    """Write for each row of a store its component, as `fpstore.jobs.cluster_store` with components does: the same.

    Here are 65 bytes for each row; the pairs are found by tasks, from the tables of the store itself, and come some at
    a time. engine, address, workers, tasks, folder, world_size, progress: as for `pairs`. max_distance: at most the
    store's. min_similarity: of a store of signatures.

    It raises what `pairs` and `cluster_store` do; StoreChanged where the store changes meanwhile.
    """
    who = {"engine": engine, "address": address, "workers": workers, "folder": folder}
    asked: dict[str, Any] = {**who, "tasks": tasks, "world_size": world_size}
    near = partial(_near, asked=asked, progress=progress)
    return components_by(
        near, store, output, max_distance=max_distance, min_similarity=min_similarity, memory=memory, force=force
    )


def _near(
    opened: Store | MinHashStore, near: Any, memory: str | int, *, asked: dict[str, Any], progress: OnProgress | None
) -> Batches[Any]:
    """The pairs of the state that was read of the store, which is open; near: within which distance, or how similar."""
    how = {"memory": memory, "progress": progress, **asked}
    found: Batches[Any]
    if isinstance(opened, MinHashStore):
        found = similar_handles(opened.path, min_similarity=near, **how)
    else:
        found = pairs(opened.path, max_distance=near, **how)
    try:
        expect_seen(opened.path, Seen.of(opened._latest.state), found.snapshot)
    except BaseException:
        found.close()
        raise
    return found
