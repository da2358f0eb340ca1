"""Standing stores whose ids are the names of documents: what jobs take, store and tell, and stores with other ids."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import fingerprints, first_come, interrupt, jaccard, lines_of, texts
from outcome import Command

import fpstore
from fpstore import notes
from fpstore.inputs import BadInput
from fpstore.jobs import Inputs, JobError, cluster_store, corpus, dedup, naming, runs
from fpstore.text import DEFAULT_RECIPE, Recipe

TempFactory = pytest.TempPathFactory

WORDS = Recipe("words", shingle=1)
# By that recipe both have one fingerprint, as most of the words of the second are the first.
ONE, OTHER = "b", "a b b"
CONFIRM = "jaccard>=0.9"

Document = tuple[str, str]
days_of_documents = st.lists(
    st.lists(st.tuples(st.sampled_from(["x", "y", "z", "é/1"]), texts), max_size=12), max_size=3
)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)


def write_named(path: Path, documents: list[Document]) -> Inputs:
    path.write_text("".join(json.dumps({"url": name, "text": text}) + "\n" for name, text in documents))
    return Inputs([path], id_column="url")


def rows_of(path: Path) -> set[tuple[int, Any]]:
    with fpstore.open(path) as store:
        return {(row.fingerprint, row.id) for rows in store.rows() for row in rows}


# --- What dedup makes ---


@pytest.mark.slow
@given(days_of_documents, st.sampled_from([None, 0.0, 0.5, 1.0]), st.sampled_from(["first", "longest"]))
@settings(max_examples=25)
def test_jobs_over_several_days_decide_and_tell_names_as_plain_python_does(
    tmp_path_factory: TempFactory, days: list[list[Document]], least: float | None, keep: str
) -> None:
    folder = tmp_path_factory.mktemp("days")
    store, kept, every = folder / "s.fpstore", list[tuple[int, int]](), list[Document]()
    for number, documents in enumerate(days):
        start, keys = len(every), fingerprints([text for _, text in documents], WORDS)
        every += documents

        def alike(one: int, other: int, start: int = start, every: list[Document] = every) -> bool:
            own, kept_one = every[start + one][1], every[other + (start if other >= 0 else 0)][1]
            return least is None or jaccard(own, kept_one, WORDS) >= least

        order = list(range(len(documents)))
        if keep == "longest":
            order.sort(key=lambda i: -len(documents[i][1]))
        # Kept ones of earlier days have their numbers from below 0 on, so that every[number] is theirs.
        known = [(key, other - len(every)) for key, other in kept]
        verdicts = first_come(order, keys, 6, known, alike)
        dedup(
            write_named(folder / f"{number}.jsonl", documents),
            folder / f"kept{number}",
            dropped=folder / f"dropped{number}",
            store=store,
            keep=keep,
            recipe=WORDS,
            max_distance=6,
            confirm=None if least is None else f"jaccard>={least}",
        )
        told = [line.split("\t")[:3] for line in lines_of(folder / f"dropped{number}")]
        assert told == [
            [documents[i][0], (every[found[0]] if found[0] < 0 else documents[found[0]])[0], str(found[1])]
            for i, found in enumerate(verdicts)
            if found
        ]
        kept += [(keys[i], start + i) for i in order if verdicts[i] is None]
        assert rows_of(store) == {(key, every[i][0]) for key, i in kept}


@pytest.mark.parametrize("confirm", [None, CONFIRM])
def test_a_finished_job_leaves_names_in_the_store_alone_and_texts_where_they_are_confirmed(
    tmp_path: Path, confirm: str | None
) -> None:
    store = tmp_path / "s.fpstore"
    for day in ("1", "2"):
        documents = write_named(tmp_path / f"{day}.jsonl", [(f"http://{day}/{i}", f"{day} {i} " * 5) for i in range(5)])
        dedup(documents, tmp_path / day, store=store, max_distance=0, confirm=confirm)
        assert sorted(os.listdir(store / notes.JOBS)) == (
            ["index", "names", "settings.json", "texts"] if confirm else []
        )
    with fpstore.open(store) as opened:
        assert opened.id_type == "string"
        assert [str(row.id) for row in opened.lookup(["http://2/4", "http://1/3", "no"])] == [
            "http://1/3",
            "http://2/4",
        ]


def test_what_somebody_stored_under_a_name_is_told_by_it(tmp_path: Path) -> None:
    store, documents = tmp_path / "s.fpstore", [("one", "a b c d"), ("two", "x")]
    keys = fingerprints([text for _, text in documents])
    with fpstore.create(store, id_type="string", recipe=DEFAULT_RECIPE) as opened:
        opened.add([keys[0], keys[0]], ids=["theirs", "also theirs"])
    dedup(write_named(tmp_path / "1.jsonl", documents), tmp_path / "1", dropped=tmp_path / "d", store=store)
    # Of several names of one fingerprint the least, as a probe says.
    assert lines_of(tmp_path / "d") == ["one\talso theirs\t0"]
    assert rows_of(store) == {(keys[0], "theirs"), (keys[0], "also theirs"), (keys[1], "two")}
    with pytest.raises(JobError, match="found 3 documents without their texts, which --confirm cannot check"):
        dedup(write_named(tmp_path / "1.jsonl", documents), tmp_path / "2", store=store, confirm=CONFIRM)


def test_a_row_that_was_removed_is_no_reason_to_drop_a_document(tmp_path: Path) -> None:
    for confirm in (None, CONFIRM):
        which = "plain" if confirm is None else "confirmed"
        store = tmp_path / f"{which}.fpstore"
        documents = write_named(tmp_path / "in.jsonl", [("one", "a b c d"), ("two", "x")])
        options: dict[str, Any] = {"store": store, "confirm": confirm}
        dedup(documents, tmp_path / f"1{which}", **options)
        before = rows_of(store)
        with fpstore.open(store, "w") as opened:
            opened.remove(ids=["two"])
        assert dedup(documents, tmp_path / f"2{which}", **options).results == 1
        assert rows_of(store) == before
        assert dedup(documents, tmp_path / f"3{which}", **options).results == 0


def test_a_row_of_another_name_in_place_of_one_that_was_removed_has_no_text(tmp_path: Path) -> None:
    store, documents = tmp_path / "s.fpstore", write_named(tmp_path / "in.jsonl", [("one", "a b c d"), ("two", "x")])
    dedup(documents, tmp_path / "1", store=store, confirm=CONFIRM)
    with fpstore.open(store, "w") as opened:
        opened.remove(ids=["two"])
        opened.add(fingerprints(["x"]), ids=["three"])
    with pytest.raises(JobError, match="found 1 documents without their texts"):
        dedup(documents, tmp_path / "2", store=store, confirm=CONFIRM)


@pytest.mark.parametrize("after", [1, 2])
def test_a_row_that_was_there_before_a_job_stays_when_the_job_is_undone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: int
) -> None:
    store = tmp_path / "s.fpstore"
    options: dict[str, Any] = {"store": store, "recipe": WORDS, "confirm": CONFIRM}
    dedup(write_named(tmp_path / "1.jsonl", [("page", ONE)]), tmp_path / "1", **options)
    before = rows_of(store)
    # The page has another text of the same fingerprint: it is kept, and its row is there.
    again = write_named(tmp_path / "2.jsonl", [("page", OTHER), ("more", "c dd"), ("most", "eee"), ("page", "c b b b")])
    interrupt(monkeypatch, lambda: dedup(again, tmp_path / "2", **options), after)
    assert rows_of(store) > before
    shutil.rmtree(tmp_path / "2.job")
    with pytest.warns(UserWarning, match="was undone: "), fpstore.open(store, "w"):
        assert rows_of(store) == before
    assert dedup(again, tmp_path / "3", **options).results == 4


# --- Stores with other ids ---


def test_in_a_store_of_numbers_a_job_tells_names_of_its_own_and_numbers_of_others(tmp_path: Path) -> None:
    store = tmp_path / "s.fpstore"
    fpstore.create(store, recipe=DEFAULT_RECIPE).close()
    first = write_named(tmp_path / "1.jsonl", [("one", "a b c d"), ("two", "a b c d")])
    dedup(first, tmp_path / "1", dropped=tmp_path / "1d", store=store, confirm=None)
    assert lines_of(tmp_path / "1d") == ["two\tone\t0"]
    dedup(first, tmp_path / "2", dropped=tmp_path / "2d", store=store, confirm=None)
    assert lines_of(tmp_path / "2d") == [f"one\t{store}#0\t0", f"two\t{store}#0\t0"]


def test_a_store_of_numbers_that_is_empty_may_get_texts_later(tmp_path: Path) -> None:
    store = tmp_path / "s.fpstore"
    fpstore.create(store, recipe=DEFAULT_RECIPE).close()
    first = write_named(tmp_path / "1.jsonl", [("one", "a b c d")])
    dedup(first, tmp_path / "1", store=store, confirm=None)
    with fpstore.open(store, "w") as opened:
        opened.remove(ids=[0])
    for number, results in ((2, 1), (3, 0)):
        dropped = tmp_path / f"d{number}"
        assert dedup(first, tmp_path / str(number), dropped=dropped, store=store, confirm=CONFIRM).results == results
    assert lines_of(dropped) == ["one\tone\t0\t1.0000"]
    assert [number for _, number in rows_of(store)] == [1]


def test_a_store_with_other_ids_than_a_moment_ago_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    documents, store = write_named(tmp_path / "in.jsonl", [("one", "a b c d")]), tmp_path / "s.fpstore"
    make = fpstore.create

    def other(path: Path, *, id_type: str, **options: Any) -> fpstore.Store:
        return make(path, **options)

    monkeypatch.setattr(fpstore, "create", other)
    with pytest.raises(JobError, match=f"^{store}: found other ids than a moment ago: replaced meanwhile"):
        dedup(documents, tmp_path / "out", store=store)


def test_a_name_that_comes_again_may_have_a_text_longer_than_a_name(tmp_path: Path) -> None:
    """Texts of names that are there twice are compared when the next job begins: there is no longest one."""
    long = " ".join(map(str, range(20_000)))
    inputs = write_named(tmp_path / "in.jsonl", [("x", "few words"), ("x", long), ("y", "other ones"), ("x", long)])
    for results in (3, 0):
        found = dedup(inputs, tmp_path / f"{results}.jsonl", store=tmp_path / "s.fpstore", confirm=CONFIRM)
        assert found.results == results


def test_a_name_that_no_store_takes_is_a_bad_row(tmp_path: Path) -> None:
    folder, unreadable = tmp_path / "in", b"half \xff.txt"
    folder.mkdir()
    for name in (b"one.txt", unreadable):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text(f"a b c d {len(name)}")
    with pytest.raises(BadInput, match=r"half \\udcff.txt': found a name that is no UTF-8, expected one that a store"):
        dedup([folder], tmp_path / "1", store=tmp_path / "1.fpstore", max_distance=0)
    skipping = Inputs([folder], skip_bad=True)
    found = dedup(skipping, tmp_path / "2", store=tmp_path / "2.fpstore", max_distance=0)
    assert (found.results, sum(found.skipped.values())) == (1, 1)
    assert dedup([folder], tmp_path / "3", max_distance=0).results == 2  # its own store has numbers


@pytest.mark.parametrize(
    ("name", "is_one"), [("é" * 32768, True), ("é" * 32769, False), ("e" * 65536, True), ("", True)]
)
def test_a_name_that_is_too_long_is_a_bad_row(name: str, is_one: bool) -> None:
    fault = naming.fault_of_name(name)
    assert (fault is None) is is_one
    if fault is not None:
        assert "found a name of 32769 characters, expected at most 65,536 bytes, which a store takes" in str(fault)


# --- Clusters of what such a store has ---


@pytest.mark.parametrize("id_type", ["string", "bytes"])
def test_clusters_of_a_store_have_its_names_in_their_order(tmp_path: Path, id_type: Any) -> None:
    rows = [("b", 3), ("é\t1", 1 << 63), ("a", 7), ("b", 1 << 62), ("", 7)]
    names: list[Any] = [name if id_type == "string" else name.encode() for name, _ in rows]
    fpstore.build(tmp_path / "s", [key for _, key in rows], ids=names, id_type=id_type).close()
    expected = [("", 7, 0, 0), ("a", 7, 0, 0), ("b", 3, 0, 1), ("b", 1 << 62, 1, 0), ("é\t1", 1 << 63, 2, 0)]
    summary = cluster_store(tmp_path / "s", tmp_path / "out.jsonl", max_distance=1)
    assert (summary.documents, summary.clusters) == (5, 3)
    told = [json.loads(line) for line in lines_of(tmp_path / "out.jsonl")]
    assert [(row["id"], int(row["fingerprint"], 16), row["cluster"], row["distance"]) for row in told] == expected
    cluster_store(tmp_path / "s", tmp_path / "out", max_distance=1)
    assert lines_of(tmp_path / "out")[-1] == "2\té\\t1\t8000000000000000\t0"


def test_names_that_are_no_text_go_out_as_lines_have_them(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [3], ids=[b"\xff"], id_type="bytes").close()
    cluster_store(tmp_path / "s", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"0\t\\xff\t0000000000000003\t0\n"
    with pytest.raises(BadInput, match="found a name that is no UTF-8"):
        cluster_store(tmp_path / "s", tmp_path / "out.parquet")


def test_the_command_takes_names_by_a_column(command: Command, tmp_path: Path) -> None:
    write_named(tmp_path / "in.jsonl", [("http://e.org/1", "a b c d"), ("http://e.org/2", "a b c d")])
    store = tmp_path / "s.fpstore"
    done = command("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "1", "--store", store, "--id-column", "url")
    assert done.status == 0, done.err
    found = command("lookup", store, "http://e.org/1")
    assert found.out.split() == ["http://e.org/1", f"{fingerprints(['a b c d'])[0]:016x}"]
    clusters = command("cluster", store, "-o", tmp_path / "c.csv")
    assert clusters.status == 0, clusters.err
    assert lines_of(tmp_path / "c.csv")[1].split(",")[:2] == ["0", "http://e.org/1"]
