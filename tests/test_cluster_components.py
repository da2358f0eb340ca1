"""The components of a store by tasks: the very lines of one process; and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from living import writer_of
from outcome import Command
from test_cluster import ID_TYPES, grown, some_keys

import fpstore
from fpstore import Progress, cluster, jobs, minhash
from fpstore.cluster.joining import _near
from fpstore.errors import PlanError, StoreChanged


@pytest.mark.parametrize("id_type", ID_TYPES)
@pytest.mark.parametrize("distance", [0, 1, 3])
def test_tasks_join_what_one_process_joins(tmp_path: Path, id_type: Any, distance: int) -> None:
    store = grown(tmp_path / "s", id_type)
    one = jobs.cluster_store(store, tmp_path / "one.tsv", max_distance=distance, components=True)
    told: list[Progress] = []
    many = cluster.components(
        store, tmp_path / "many.tsv", max_distance=distance, tasks=5, world_size=5, workers=1, progress=told.append
    )
    assert (tmp_path / "many.tsv").read_bytes() == (tmp_path / "one.tsv").read_bytes()
    assert (many.documents, many.results, many.detail) == (one.documents, one.results, one.detail)
    total = told[-1].done
    assert total in range(2, 6)
    assert told == [Progress("pairs", count, total, "tasks") for count in range(total + 1)]


def test_the_command_prints_the_lines_of_one_process(tmp_path: Path, command: Command) -> None:
    store = grown(tmp_path / "s", "uint64")
    one = command("cluster", store, "--components")
    assert one.status == 0
    assert len({line.split("\t")[0] for line in one.lines}) < len(one.lines)
    assert command("cluster", store, "--components", "--workers", "2") == one
    assert command("cluster", store, "--components", "--engine", "local", "--folder", tmp_path / "f") == one


def test_a_store_that_has_changed_meanwhile_is_told(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", some_keys(50, 1)).close()
    with fpstore.open(tmp_path / "s") as read:
        with writer_of(tmp_path / "s") as store:
            store.add([7], ids=[1 << 40])
        with pytest.raises(StoreChanged, match="which the job began with"):
            _near(read, 3, "1GiB", asked={"workers": 1}, progress=None)


def test_what_has_no_components_by_tasks_is_refused(tmp_path: Path, command: Command) -> None:
    fpstore.build(tmp_path / "s", some_keys(50, 1)).close()
    minhash.create(tmp_path / "m").close()
    with pytest.raises(PlanError):
        cluster.components(tmp_path / "s", tmp_path / "o.tsv", max_distance=9)
    with pytest.raises(ValueError, match="max_distance: found a store of signatures, expected min_similarity"):
        cluster.components(tmp_path / "m", tmp_path / "o.tsv", max_distance=3)
    with pytest.raises(ValueError, match="min_similarity: found a store of fingerprints, expected max_distance"):
        cluster.components(tmp_path / "s", tmp_path / "o.tsv", min_similarity=0.5)
    for line, option in (
        ("--workers 2", "--workers"),
        (f"--folder {tmp_path / 'f'} --world-size 2 --rank 0", "--rank"),
    ):
        status, out, err = command("cluster", tmp_path / "s", *line.split())
        assert (status, out) == (2, "")
        assert f"{option}: found no --components, expected it" in err
    assert not (tmp_path / "o.tsv").exists()
