"""Clusters that go on in standing stores whose ids are the names of documents: as if all had come in one job."""

import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import fingerprints, interrupt, jaccard, lines_of
from minhashes import estimate, shared
from test_jobs_minhash import BANDS, BITS, CUT, RECIPE, ROWS
from test_jobs_named import Document, days_of_documents, write_named

import fpstore
from fpstore import JobError, ledger, minhash, notes
from fpstore.jobs import cluster, corpus, dedup, held, standing
from fpstore.minhash.making import open_any
from fpstore.text import DEFAULT_RECIPE, Recipe

TempFactory = pytest.TempPathFactory

# What a job is asked for, and with it which store there is: of fingerprints, with moving centers too, or of signatures.
ASKED: dict[str, dict[str, Any]] = {
    "leaders": {"max_distance": 8, "confirm": None},
    "confirmed": {"max_distance": 8, "confirm": "jaccard>=0.5"},
    "centers": {"max_distance": 8, "update_center": True},
    "signed": {**CUT, "confirm": None},
    "signed like": {**CUT, "confirm": None, "min_similarity": 0.5},
    "signed and confirmed": {**CUT, "confirm": "jaccard>=0.5"},
}
EACH = pytest.mark.parametrize("asked", ASKED.values(), ids=[*ASKED])
DAYS: list[list[Document]] = [
    [(f"n{i}", text) for i, text in enumerate(["a b c d e", "x", "a b c d fox", "", "y z", "!", "x y"] * 2)],
    [(f"n{3 * i}", text) for i, text in enumerate(["a b c dd e", "x", "fox dog", "y z dog", "a b c d e", "new"] * 2)],
    [("n1", "fox dog"), ("last", "a b"), ("n1", "x y z"), ("n1", "the last of all"), ("é/1", "a b c d e")],
]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, held):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)


def make(path: Path, asked: dict[str, Any], id_type: Any = "string") -> None:
    if "recipe" in asked:
        minhash.create(path, id_type=id_type, **CUT).close()
    else:
        fpstore.create(path, id_type=id_type, recipe=DEFAULT_RECIPE, max_distance=8).close()


def day(folder: Path, name: str, documents: list[Document], asked: dict[str, Any], *, stands: bool = True) -> Any:
    """The lines of a job, with the store of the folder or without."""
    source = write_named(folder / f"{name}.jsonl", documents)
    cluster(source, folder / name, store=folder / "s" if stands else None, **asked)
    return lines_of(folder / name)


def whole(folder: Path, days: list[list[Document]], asked: dict[str, Any]) -> list[list[str]]:
    """What one job says of all days, cut into these."""
    found = iter(day(folder, "whole", [*chain.from_iterable(days)], asked, stands=False))
    (folder / "whole").unlink()
    (folder / ".whole.done").unlink(missing_ok=True)
    return [[next(found) for _ in documents] for documents in days]


def names_in(path: Path) -> list[str]:
    with open_any(path) as store:
        return sorted(str(row.id) for rows in store.rows() for row in rows)


@pytest.mark.slow
@given(days_of_documents, st.sampled_from([*ASKED]))
@settings(max_examples=30, deadline=None)
def test_clusters_over_several_days_are_those_of_one_run(
    tmp_path_factory: TempFactory, days: list[list[Document]], kind: str
) -> None:
    folder, asked = tmp_path_factory.mktemp("days"), ASKED[kind]
    make(folder / "s", asked)
    assert [day(folder, str(i), documents, asked) for i, documents in enumerate(days)] == whole(folder, days, asked)


@EACH
def test_the_store_has_the_first_document_of_each_cluster_under_its_name(tmp_path: Path, asked: Any) -> None:
    make(tmp_path / "s", asked)
    found = [day(tmp_path, str(i), documents, asked) for i, documents in enumerate(DAYS)]
    assert found == whole(tmp_path, DAYS, asked)
    first: dict[str, str] = {}
    for line in chain.from_iterable(found):
        number, name, _ = line.split("\t")
        first.setdefault(number, name)
    assert {*names_in(tmp_path / "s")} == {*first.values()}
    assert [*map(int, first)] == [*range(len(first))]
    with open_any(tmp_path / "s") as store:
        store.verify()
        store.copy(tmp_path / "copy")
    again = tmp_path / "again"
    again.mkdir()
    (tmp_path / "copy").rename(again / "s")
    assert [line.split("\t")[0] for line in day(again, "1", DAYS[0], {**asked})] == [
        line.split("\t")[0] for line in day(tmp_path, "3", DAYS[0], asked)
    ]


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("after", [1, 3, 4])
def test_a_day_that_is_interrupted_goes_on_or_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any, after: int
) -> None:
    make(tmp_path / "s", asked)
    expected, without = whole(tmp_path, DAYS, asked), whole(tmp_path, [DAYS[0], DAYS[2]], asked)
    assert day(tmp_path, "0", DAYS[0], asked) == expected[0]
    interrupt(monkeypatch, lambda: day(tmp_path, "1", DAYS[1], asked), after)
    with pytest.raises(JobError, match="is not finished, and only it may write here"):
        day(tmp_path, "2", DAYS[2], asked)
    shutil.copytree(tmp_path, tmp_path / "given up")
    assert [day(tmp_path, str(i), DAYS[i], asked) for i in (1, 2)] == expected[1:]
    # The same moment again, where the folder of the job is removed.
    shutil.rmtree(tmp_path / "1.job", ignore_errors=True)
    shutil.rmtree(tmp_path / "s")
    (tmp_path / "given up" / "s").rename(tmp_path / "s")
    (tmp_path / "2").unlink()
    (tmp_path / ".2.done").unlink()
    with pytest.warns(UserWarning, match="which did not end and cannot go on, was undone"):
        assert day(tmp_path, "2", DAYS[2], asked) == without[1]


def test_what_a_day_led_is_in_the_store_when_its_end_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ASKED["signed"]
    make(tmp_path / "s", asked)
    expected = whole(tmp_path, DAYS, asked)

    def stop(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(standing, "_complete", stop)
        with pytest.raises(KeyboardInterrupt):
            day(tmp_path, "0", DAYS[0], asked)
    assert not (tmp_path / "s" / notes.JOBS / ledger.NOTE).exists()
    assert [day(tmp_path, str(i), DAYS[i], asked) for i in (1, 2)] == expected[1:]


@EACH
def test_a_cluster_whose_row_was_removed_takes_no_members_any_more(tmp_path: Path, asked: Any) -> None:
    make(tmp_path / "s", asked)
    rows = [("one", "x y z w"), ("two", "fox dog a b")]
    assert [line.split("\t")[0] for line in day(tmp_path, "0", rows, asked)] == ["0", "1"]
    with open_any(tmp_path / "s", "w") as store:
        store.remove(ids=["one"])
    # Under its own name again too: what it led before stays without members.
    for number in ("1", "2"):
        assert [line.split("\t")[0] for line in day(tmp_path, number, rows, asked)] == ["2", "1"]


def test_what_was_removed_counts_again_where_another_text_of_its_name_has_its_values(tmp_path: Path) -> None:
    asked = ASKED["signed and confirmed"]
    make(tmp_path / "s", asked)
    assert day(tmp_path, "0", [("one", "x y z w")], asked) == ["0\tone\t1.0000"]
    with open_any(tmp_path / "s", "w") as store:
        store.remove(ids=["one"])
    assert day(tmp_path, "1", [("one", "w z y x")], asked) == ["1\tone\t1.0000"]
    assert day(tmp_path, "2", [("two", "w z y x")], asked) == ["0\ttwo\t1.0000"]


class Plain:
    """Leaders with their names, of which some are removed, by a plain loop over all of them."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.signs, self.least = "recipe" in asked, asked.get("min_similarity")
        self.alike = None if asked.get("confirm") is None else float(asked["confirm"].partition(">=")[2])
        self.led: list[tuple[str, str, Any] | None] = []

    def sketch(self, text: str) -> Any:
        return RECIPE.sign_many([text])[0].tolist() if self.signs else fingerprints([text])[0]

    def order(self, own: Any, other: Any) -> tuple[float, int] | None:
        """What the nearest has the least of, None where the two are not near."""
        if not self.signs:
            distance = (own ^ other).bit_count()
            return (distance, other) if distance <= 8 else None
        similarity = float(np.float32(estimate(own, other, BITS)))
        is_near = shared(own, other, BANDS, ROWS) and (self.least is None or similarity >= self.least)
        return (-similarity, 0) if is_near else None

    def decide(self, name: str, text: str) -> int:
        """The number of its cluster."""
        own, found = self.sketch(text), []
        for number, leader in enumerate(self.led):
            order = leader and self.order(own, leader[2])
            if leader and order and (self.alike is None or jaccard(text, leader[1], self.recipe) >= self.alike):
                found.append((*order, number))
        if found:
            return min(found)[2]
        self.led.append((name, text, own))
        return len(self.led) - 1

    @property
    def recipe(self) -> Recipe:
        return RECIPE if self.signs else DEFAULT_RECIPE

    def remove(self, names: set[str]) -> None:
        self.led = [None if leader is None or leader[0] in names else leader for leader in self.led]


@pytest.mark.slow
@given(days_of_documents, st.sampled_from([kind for kind in ASKED if kind != "centers"]), st.data())
@settings(max_examples=12, deadline=None)
def test_names_that_are_removed_between_days_lead_no_more(
    tmp_path_factory: TempFactory, days: list[list[Document]], kind: str, data: st.DataObject
) -> None:
    folder, asked = tmp_path_factory.mktemp("gone"), ASKED[kind]
    make(folder / "s", asked)
    plain = Plain(asked)
    for number, given_ones in enumerate([*days, *days[:1]]):
        # Of the words of a text one order, as those with the same values are told apart by their texts.
        documents = [(name, " ".join(sorted({*text.split()}))) for name, text in given_ones]
        told = [line.split("\t")[0] for line in day(folder, str(number), documents, asked)]
        assert told == [str(plain.decide(*document)) for document in documents]
        gone = data.draw(st.sets(st.sampled_from(["x", "y", "z", "é/1"])))
        with open_any(folder / "s", "w") as store:
            store.remove(ids=sorted(gone))
        plain.remove(gone)


@EACH
def test_what_is_no_first_document_of_a_cluster_is_refused(tmp_path: Path, asked: Any) -> None:
    make(tmp_path / "s", asked)
    day(tmp_path, "0", DAYS[0], asked)
    texts = [text for _, text in DAYS[0][:1]]
    with open_any(tmp_path / "s", "w") as store:
        store.add_texts(["somebody else's"], ids=["theirs"])
    with pytest.raises(
        ValueError,
        match=r"found 1 rows or numbers that no job .*; take what was added out again \(fpstore remove\), or",
    ):
        day(tmp_path, "1", DAYS[1], asked)
    with open_any(tmp_path / "s", "w") as store:
        store.remove(ids=["theirs"])
    with pytest.raises(ValueError, match="found a store of clusters"):
        dedup(write_named(tmp_path / "in.jsonl", [("n", texts[0])]), tmp_path / "out", store=tmp_path / "s")
    assert day(tmp_path, "1", DAYS[1], asked) == whole(tmp_path, DAYS[:2], asked)[1]


@EACH
@pytest.mark.parametrize("confirm", [None, "default"])
def test_a_store_that_dedup_filled_is_refused(tmp_path: Path, asked: Any, confirm: str | None) -> None:
    make(tmp_path / "s", asked)
    given = {key: value for key, value in asked.items() if key != "update_center"} | {"confirm": confirm}
    dedup(write_named(tmp_path / "in.jsonl", DAYS[0]), tmp_path / "kept", store=tmp_path / "s", **given)
    before = names_in(tmp_path / "s")
    told = r"found \d+ rows or numbers that no job with (cluster|--update-center) gave, expected none"
    with pytest.raises(ValueError, match=told):
        day(tmp_path, "1", DAYS[1], asked)
    assert names_in(tmp_path / "s") == before
    with open_any(tmp_path / "s", "w"):  # and no note is left
        pass


@EACH
def test_of_ids_that_are_bytes_it_is_said_what_to_take(tmp_path: Path, asked: Any) -> None:
    make(tmp_path / "s", asked, "bytes")
    told = "found ids that are bytes, expected strings, as the names of documents are: take another store; one"
    with pytest.raises(ValueError, match=told):
        day(tmp_path, "0", DAYS[0], asked)
    with pytest.raises(ValueError, match=told):
        dedup(write_named(tmp_path / "in.jsonl", DAYS[0]), tmp_path / "kept", store=tmp_path / "s")
    for name in ("named", "new"):  # as that says
        folder = tmp_path / name
        folder.mkdir()
        if name == "named":
            make(folder / "s", asked)
        assert day(folder, "0", DAYS[0], asked) == whole(tmp_path, DAYS[:1], asked)[0]


def test_a_name_that_no_store_takes_is_a_bad_row(tmp_path: Path) -> None:
    asked = ASKED["leaders"]
    make(tmp_path / "s", asked)
    documents = replace(write_named(tmp_path / "in.jsonl", [("n" * 70_000, "a"), ("n", "b")]), skip_bad=True)
    found = cluster(documents, tmp_path / "out", store=tmp_path / "s", **asked)
    assert (found.documents, sum(found.skipped.values())) == (1, 1)
