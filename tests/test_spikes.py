"""Spikes: the fingerprints that the most rows share, exact against a Counter, whatever the store went through."""

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from helpers import fingerprint_array
from hypothesis import given, settings
from hypothesis import strategies as st
from living import store_without_ids, writer_of

import fpstore
from fpstore import Progress, Sharing, Spike, Spikes
from fpstore.segment.spikes import count_spikes

# Few, so that many are equal; some far from others.
FINGERPRINTS = st.sampled_from([0, 1, 5, 6, 1 << 40, (1 << 64) - 1, *range(100, 110)])
ROWS = st.lists(st.tuples(FINGERPRINTS, st.integers(0, 40)), max_size=60)


def plain(counts: dict[int, int], named: int) -> Spikes:
    """The spikes of so many rows of each fingerprint."""
    largest = sorted((-count, key) for key, count in counts.items() if count > 1)[:named]
    sizes: dict[int, list[int]] = {}
    for count in counts.values():
        sizes.setdefault(count.bit_length() - 1, []).append(count)
    sharing = [Sharing(1 << size, 2 ** (size + 1) - 1, len(own), sum(own)) for size, own in sorted(sizes.items())]
    return Spikes(
        len(counts), sum(counts.values()), tuple(Spike(key, -count) for count, key in largest), tuple(sharing)
    )


@given(st.lists(FINGERPRINTS, max_size=200), st.lists(st.integers(0, 200), max_size=6), st.integers(0, 5))
def test_spikes_are_those_of_a_counter_however_the_rows_are_cut(rows: list[int], cuts: list[int], named: int) -> None:
    ordered = fingerprint_array(sorted(rows))
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    chunks = [ordered[first:end] for first, end in itertools.pairwise(bounds)]
    assert count_spikes(chunks, named) == plain(Counter(rows), named)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 1023, 1024, (1 << 20) + 1])
def test_a_group_of_any_size_is_counted_in_its_class(size: int) -> None:
    found = count_spikes([np.full(size, 9, dtype=np.uint64)])
    assert found == plain({9: size}, 10)
    assert found.shared_row_count == (size if size > 1 else 0)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "ids", "fingerprints", "flush", "compact"]), ROWS), min_size=1, max_size=8
    ),
    st.integers(1, 4),
)
@pytest.mark.slow
def test_spikes_of_a_store_are_those_of_its_rows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[tuple[int, int]]]], named: int
) -> None:
    folder = tmp_path_factory.mktemp("s") / "s"
    fpstore.create(folder).close()
    model: set[tuple[int, int]] = set()
    with writer_of(folder, growth=0) as store, fpstore.open(folder) as reader:
        for step, rows in steps:
            if step == "add" and rows:
                store.add([key for key, _ in rows], ids=[each for _, each in rows])
                model |= set(rows)
            elif step == "ids" and rows:
                store.remove(ids=[each for _, each in rows[:3]])
                model = {row for row in model if row[1] not in {each for _, each in rows[:3]}}
            elif step == "fingerprints" and rows:
                store.remove(fingerprints=[rows[0][0]])
                model = {row for row in model if row[0] != rows[0][0]}
            elif step == "flush":
                store._flush()
            elif step == "compact":
                store.compact()
        expected = plain(Counter(key for key, _ in model), named)
        for each in (store, reader):
            assert each.stats(spikes=named).spikes == expected
            assert each.report().spikes == plain(Counter(key for key, _ in model), 10)


def test_spikes_cost_nothing_unless_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.build(tmp_path / "s", [1, 1, 2]) as store:
        monkeypatch.setattr("fpstore.living.snapshot.Snapshot.rows", None)
        assert store.stats().spikes is None
        assert store.stats(largest_slots=2).spikes is None
        with pytest.raises(TypeError):
            store.stats(spikes=1)


def test_without_ids_there_are_none(tmp_path: Path) -> None:
    with fpstore.open(store_without_ids(tmp_path / "s"), "w") as store:
        store.add([1, 1, 2])
        assert store.stats(spikes=3).spikes is None
        assert store.report().spikes is None
        assert store.report().to_json()["spikes"] is None


def test_fewer_than_none_are_refused(tmp_path: Path) -> None:
    for ids in ("row", None):
        store = fpstore.build(tmp_path / str(ids), [1], ids=ids)
        with store, pytest.raises(ValueError, match="spikes: found -1, expected 0 or more"):
            store.stats(spikes=-1)


def test_spikes_as_json_and_as_text(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [5] * 1000 + [7] * 3 + [9]) as store:
        phases: list[Progress] = []
        report = store.report(progress=phases.append)
        record = json.loads(json.dumps(store.stats(spikes=1).to_json()))["spikes"]
    assert record == {
        "fingerprint_count": 3,
        "row_count": 1004,
        "shared_row_count": 1003,
        "largest": [{"fingerprint": "0000000000000005", "row_count": 1000}],
        "sharing": [
            {"least": 1, "most": 1, "fingerprint_count": 1, "row_count": 1},
            {"least": 2, "most": 3, "fingerprint_count": 1, "row_count": 3},
            {"least": 512, "most": 1023, "fingerprint_count": 1, "row_count": 1000},
        ],
    }
    assert phases[-1] == ("spikes", 1004, 1004, "rows")
    text = report.to_text().partition("rows of one fingerprint")[2].splitlines()
    assert text[1:] == [
        f"{'1':<27}{1:>14}{1:>14}",
        f"{'2 to 3':<27}{1:>14}{3:>14}",
        f"{'512 to 1,023':<27}{1:>14}{'1,000':>14}",
        "the most rows have:",
        "  0000000000000005  1,000 rows",
        "  0000000000000007      3 rows",
    ]
    assert count_spikes([fingerprint_array([1, 2])]).to_text()[-1] == "no fingerprint is that of two rows"
