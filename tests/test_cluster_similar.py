"""Pairs of a store of signatures by tasks: those of one search, each once, however the buckets are cut."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minhashes import BANDS, ROWS, VALUES, Model, signatures
from outcome import Command

from fpstore import cluster, minhash
from fpstore.cluster import similar
from fpstore.cluster.tasks import HELD, run
from fpstore.disk import Folder
from fpstore.errors import JobError, StoreChanged, WrongKind
from fpstore.jobs import cluster_store
from fpstore.living import similar_pairs as buckets
from fpstore.living.similar_pairs import Part

SETTINGS: dict[str, Any] = {"bands": BANDS, "rows_per_band": ROWS}


@pytest.fixture(autouse=True)
def held() -> Any:
    yield
    HELD.let_go()


def grown(path: Path, id_type: Any, seed: int, count: int, keeps: bool = True) -> tuple[Path, Model]:
    """A store of some segments and of rows in none, in which ids have several signatures, and its model."""
    model = Model()
    with minhash.create(path, id_type=id_type, keep_signatures=keeps, values=VALUES, **SETTINGS) as store:
        for number in range(3):
            own = signatures(seed + number, count)
            ids: list[Any] = [(7 * row + number) % (2 * count + 1) for row in range(count)]
            ids = [f"n{one}" for one in ids] if id_type == "string" else ids
            if count:
                store.add(own, ids=ids)
                model.add(own, ids)
            if number == 0:
                store.compact()
    return path, model


def found_by(path: Path, **how: Any) -> list[tuple[Any, Any, float, int]]:
    with cluster.similar_pairs(path, **how) as found:
        return [row for some in found for row in some]


@settings(max_examples=15)
@given(
    seed=st.integers(0, 99),
    count=st.integers(0, 40),
    tasks=st.integers(1, 6),
    rows=st.sampled_from([2, 7, 1 << 15]),
    least=st.sampled_from([None, 0.5, 0.9]),
    id_type=st.sampled_from(["uint64", "string"]),
)
def test_tasks_find_the_pairs_of_one_search_each_once(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    tasks: int,
    rows: int,
    least: float | None,
    id_type: str,
) -> None:
    path, model = grown(tmp_path_factory.mktemp("similar") / "s", id_type, seed, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets, "ROWS_AT_ONCE", rows)
        found = found_by(path, tasks=tasks, workers=1, min_similarity=least)
    by_ids = {(one, other): (near, bands) for one, other, near, bands in found}
    assert len(by_ids) == len(found)
    expected = model.pairs(least)
    assert set(by_ids) == set(expected)
    assert {pair: bands for pair, (_, bands) in by_ids.items()} == {pair: told[1] for pair, told in expected.items()}
    assert all(abs(near - expected[pair][0]) < 1e-6 for pair, (near, _) in by_ids.items())
    if id_type == "uint64":
        assert [row[:2] for row in found] == sorted(by_ids)


@settings(max_examples=25)
@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 7), st.sampled_from([1, 3, 20]))
def test_parts_have_every_bucket_once_and_whole(held: list[int], among: int, rows: int) -> None:
    keys = np.sort(np.array([key for key in held if held.count(key) > 1], dtype=np.uint64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets, "ROWS_AT_ONCE", rows)
        taken = [list(buckets._of_part(keys, Part(number, among))) for number in range(among)]
    stretches = [stretch for own in taken for stretch in own]
    assert [row for start, end in stretches for row in range(start, end)] == list(range(len(keys)))
    assert all(start == 0 or keys[start] != keys[start - 1] for start, _ in stretches)


def test_a_store_without_signatures_estimates_nothing(tmp_path: Path) -> None:
    path, model = grown(tmp_path / "s", "uint64", 3, 20, keeps=False)
    found = found_by(path, tasks=3, workers=1)
    assert {row[:2] for row in found} == set(model.pairs())
    assert all(np.isnan(near) for _, _, near, _ in found)


@pytest.mark.slow
def test_processes_find_what_one_search_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, model = grown(tmp_path / "s", "string", 5, 40)
    monkeypatch.setattr(similar, "ROW_NS", 1e9)
    found = found_by(path, workers=3, folder=tmp_path / "f", memory="64MiB")
    assert {row[:2] for row in found} == set(model.pairs())
    assert len(list((tmp_path / "f").glob("*.part"))) == 3
    monkeypatch.setattr(similar.SimilarTask, "run", None)
    assert found_by(path, workers=3, folder=tmp_path / "f") == found


@pytest.mark.parametrize("id_type", ["uint64", "string"])
def test_commands_print_what_one_process_does(command: Command, tmp_path: Path, id_type: str) -> None:
    path, _ = grown(tmp_path / "s", id_type, 8, 40)
    for line in (("pairs",), ("pairs", "--json", "--min-similarity", "0.6"), ("pairs", "--header")):
        one = command(line[0], path, *line[1:])
        shared = command(line[0], path, *line[1:], "--workers", "2")
        assert (sorted(shared.lines), shared.status, shared.err) == (sorted(one.lines), 0, "")
        assert len(one.lines) > 10
    for more in ((), ("--min-similarity", "0.6")):
        asked = ("cluster", path, "--components", *more)
        one = command(*asked)
        assert command(*asked, "--workers", "2") == one
        folder = tmp_path / f"f{len(more)}"
        ranked = (*asked, "--folder", folder, "--world-size", "2")
        done = [command(*ranked, "--rank", rank) for rank in "01"]
        assert [outcome.status for outcome in done] == [0, 0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(similar.SimilarTask, "run", None)
            assert command(*ranked) == one
            # The pairs that were found for components are those that `pairs` prints.
            pairs = ("pairs", path, *more)
            shared = command(*pairs, "--folder", folder, "--world-size", "2")
            assert sorted(shared.lines) == sorted(command(*pairs).lines)
        outcome = command(*pairs, "--folder", folder, "--world-size", "2", "--rank", "1")
        assert outcome.err == f"rank 1 of 2: did 0 tasks, whose parts are in {folder}\n"


def test_components_are_those_of_one_process(tmp_path: Path) -> None:
    path, _ = grown(tmp_path / "s", "string", 9, 30)
    cluster_store(path, tmp_path / "one.tsv", components=True, min_similarity=0.7)
    cluster.components(path, tmp_path / "two.tsv", min_similarity=0.7, tasks=3, workers=1)
    assert (tmp_path / "two.tsv").read_bytes() == (tmp_path / "one.tsv").read_bytes() != b""


def test_no_task_is_done_for_a_result_that_is_there(tmp_path: Path) -> None:
    path, _ = grown(tmp_path / "s", "string", 9, 30)
    (tmp_path / "two.tsv").write_text("mine\n")
    with pytest.raises(FileExistsError):
        cluster.components(path, tmp_path / "two.tsv", tasks=3, workers=1, folder=tmp_path / "f")
    assert not (tmp_path / "f").exists() or not list((tmp_path / "f").iterdir())


def test_tasks_of_another_state_version_or_folder_are_refused(tmp_path: Path) -> None:
    path, _ = grown(tmp_path / "s", "uint64", 4, 20)
    folder = tmp_path / "f"
    folder.mkdir()
    with minhash.open(path) as store, Folder.open(folder) as home:
        _, tasks = similar._tasks(store, home, None, 1 << 30, 2, 2, 2)
    assert [task.part for task in tasks] == [Part(0, 2), Part(1, 2)]
    assert {task.memory_bytes for task in tasks} == {1 << 29}
    run(tasks[0])
    with pytest.raises(
        JobError, match=rf"^task 1 of the pairs of {path}: found fpstore .*, expected 0\.0\.1, as at the"
    ):
        run(replace(tasks[1], version="0.0.1"))
    with pytest.raises(JobError, match=r"found a job, of this store, these pairs, that has tasks 2, expected 3, as is"):
        found_by(path, tasks=3, workers=1, folder=folder)
    with minhash.open(path, "w") as store:
        store.add(signatures(1, 1), ids=[999])
    with pytest.raises(StoreChanged, match="which the job began with; run it again while nobody writes"):
        run(tasks[1])


def test_other_stores_are_refused(tmp_path: Path) -> None:
    import fpstore

    fpstore.build(tmp_path / "plain", [5]).close()
    minhash.create(tmp_path / "bare", id_type=None, **SETTINGS).close()
    with pytest.raises(WrongKind, match="plain"):
        cluster.similar_pairs(tmp_path / "plain")
    with pytest.raises(ValueError, match="bare"):
        cluster.similar_pairs(tmp_path / "bare")
    with pytest.raises(ValueError, match=r"^rank: found 2, expected 0 to 1, as world_size is 2$"):
        cluster.similar_pairs_rank(tmp_path / "bare", rank=2, world_size=2, folder=tmp_path / "f")
