"""The fingerprints of a job without a standing store: in memory, in its record, and in a store where they are many."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jobs_model import interrupt, lines_of, write_jsonl

from fpstore import jobs
from fpstore.errors import JobError
from fpstore.jobs import corpus, own, standing
from fpstore.jobs.own import OwnKeys
from fpstore.query import leaders
from fpstore.text import DEFAULT_RECIPE

NEAR: dict[str, Any] = {"max_distance": 11}
DOCUMENTS = [f"{i % 9} {i % 4} {i // 12} {i // 9} x{i // 9} a b c d e" for i in range(60)]


def in_a_store(patch: pytest.MonkeyPatch) -> None:
    """As jobs with fingerprints of more bits do it, or within a larger distance."""
    patch.setattr(standing, "fits_memory", lambda settings: False)


@pytest.mark.parametrize("held", [1, 10, 1000])
@pytest.mark.parametrize("confirm", [None, "jaccard>=0.4"])
@pytest.mark.parametrize("job", ["dedup", "cluster"])
def test_what_is_decided_does_not_depend_on_where_fingerprints_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, confirm: str | None, held: int
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 10)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 5)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run(name: str) -> Any:
        return getattr(jobs, job)([source], tmp_path / name, confirm=confirm, **NEAR)

    with monkeypatch.context() as patch:
        in_a_store(patch)
        whole = run("whole")
    assert 1 < whole.results < len(DOCUMENTS)
    monkeypatch.setattr(own, "MOST_HELD", held)
    spilled = []
    settle = OwnKeys.settle
    monkeypatch.setattr(OwnKeys, "settle", lambda rows: (settle(rows), spilled.append(rows.spilled))[0])
    found = run("own")
    assert bool(spilled[-1]) is (held < whole.results)
    assert (found.results, found.refused) == (whole.results, whole.refused)
    assert lines_of(tmp_path / "own") == lines_of(tmp_path / "whole")


@pytest.mark.parametrize("held", [1, 5])
@pytest.mark.parametrize("job", ["dedup", "cluster"])
def test_a_job_of_its_own_goes_on_wherever_its_fingerprints_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, job: str
) -> None:
    """Interrupted behind a commit, and when some have gone to the store of which no commit tells yet."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 10)
    monkeypatch.setattr(own, "MOST_HELD", held)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run(name: str) -> Any:
        return getattr(jobs, job)([source], tmp_path / name, confirm="jaccard>=0.4", **NEAR)

    whole = run("whole")
    settle = OwnKeys.settle
    for stops in (1, 2):
        spills = 0

        def spill(rows: OwnKeys, stops: int = stops) -> None:
            nonlocal spills
            before = rows.spilled
            settle(rows)
            spills += rows.spilled > before
            if spills == stops:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(OwnKeys, "settle", spill)
            with pytest.raises(KeyboardInterrupt):
                run(f"stopped-{stops}")
        found = run(f"stopped-{stops}")
        assert (found.results, found.refused) == (whole.results, whole.refused)
        assert lines_of(tmp_path / f"stopped-{stops}") == lines_of(tmp_path / "whole")
    for after in (1, 3):
        interrupt(monkeypatch, partial(run, f"after-{after}"), after)
        run(f"after-{after}")
        assert lines_of(tmp_path / f"after-{after}") == lines_of(tmp_path / "whole")


def test_equal_ones_behind_more_than_are_looked_at_are_found_in_both_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their fingerprints are all alike, as each has one shingle many times and another once."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 5)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 10)
    monkeypatch.setattr(own, "MOST_HELD", 20)
    documents = [f"{'same ' * 12}w{i}" for i in range(80)]
    source = write_jsonl(tmp_path / "in.jsonl", documents + documents)
    one = DEFAULT_RECIPE
    found = jobs.dedup([source], tmp_path / "kept", recipe=one, confirm="jaccard>=1", max_distance=11)
    assert (found.documents, found.results) == (160, 80)


def test_a_job_that_an_earlier_version_began_goes_on_with_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run(name: str) -> Any:
        return jobs.dedup([source], tmp_path / name, **NEAR)

    run("whole")
    with monkeypatch.context() as patch:
        in_a_store(patch)
        interrupt(monkeypatch, partial(run, "begun"), 2)
    run("begun")
    assert lines_of(tmp_path / "begun") == lines_of(tmp_path / "whole")


def test_a_store_that_went_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(own, "MOST_HELD", 1)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run() -> Any:
        return jobs.dedup([source], tmp_path / "kept", **NEAR)

    interrupt(monkeypatch, run, 3)
    (catalog,) = (path for path in tmp_path.rglob("store") if path.is_dir())
    catalog.rename(tmp_path / "elsewhere")
    with pytest.raises(JobError, match="found no store, expected the one that the interrupted job"):
        run()
