"""Jobs by signatures on standing stores whose ids are the names of documents."""

import json
import os
import shutil
import struct
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import interrupt, jaccard, lines_of
from minhashes import estimate, shared
from test_jobs_minhash import BANDS, BITS, CUT, RECIPE, ROWS
from test_jobs_named import Document, days_of_documents, write_named

from fpstore import jobs, later, ledger, minhash, notes
from fpstore._codec import crc32c
from fpstore.errors import CorruptStore, JobError
from fpstore.jobs import corpus, held, runs, signed, standing
from fpstore.query import leaders

TempFactory = pytest.TempPathFactory
Signature = Sequence[int]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs, held):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)


def sign(text: str) -> Signature:
    own: list[int] = RECIPE.sign_many([text])[0].tolist()
    return own


class Plain:
    """What a store has over several days: documents one by one, or, where nothing is confirmed, the names of before.

    A document that comes under a name that an earlier day had is no other document then: it is near what any of its
    signatures shares a band with, and as similar as the most similar of them.
    """

    def __init__(self, least: float | None, confirm: float | None) -> None:
        self.least, self.confirm = least, confirm
        self.before: dict[str, list[Signature]] = defaultdict(list)
        self.kept: list[tuple[str, str, Signature]] = []

    def near(self, own: Signature) -> list[tuple[float, int, str, str | None]]:
        """Similarity, the order among those as near, name, and text where it is known; the nearest first."""
        groups: list[tuple[str, str | None, list[Signature]]] = []
        if self.confirm is None:
            groups = [(name, None, signatures) for name, signatures in self.before.items()]
        groups += [(name, text, [signature]) for name, text, signature in self.kept]
        found = []
        for order, (name, text, signatures) in enumerate(groups):
            similarity = float(np.float32(max(estimate(own, each, BITS) for each in signatures)))
            is_near = any(shared(own, each, BANDS, ROWS) for each in signatures)
            if is_near and (self.least is None or similarity >= self.least):
                found.append((similarity, order, name, text))
        return sorted(found, key=lambda each: (-each[0], each[1]))

    def decide(self, name: str, text: str) -> tuple[set[str], float, float | None] | None:
        """Which names it may be a duplicate of, as similar as one another; the similarity, and how alike they are."""
        own = sign(text)
        near = self.near(own)
        if self.confirm is None and near:
            return {each[2] for each in near if each[0] == near[0][0]}, near[0][0], None
        for similarity, _, other, kept_text in near:
            alike = jaccard(text, kept_text or "", RECIPE)
            if self.confirm is not None and alike >= self.confirm:
                return {other}, similarity, alike
        self.kept.append((name, text, own))
        return None

    def end_day(self) -> None:
        if self.confirm is None:
            for name, _, own in self.kept:
                self.before[name].append(own)
            self.kept = []


@pytest.mark.slow
@given(
    days_of_documents,
    st.sampled_from([None, 0.3, 0.7]),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
    st.sampled_from(["first", "longest"]),
    st.integers(1, 9),
    st.sampled_from([1, 4, signed.MOST_HELD]),
)
@settings(max_examples=12, deadline=None)
def test_jobs_over_several_days_decide_and_tell_names_as_a_plain_loop_does(
    tmp_path_factory: TempFactory,
    days: list[list[Document]],
    least: float | None,
    confirm: float | None,
    keep: str,
    piece: int,
    most_held: int,
) -> None:
    folder = tmp_path_factory.mktemp("days")
    plain, every = Plain(least, confirm), set[str]()
    for number, documents in enumerate(days):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leaders, "PIECE_ROWS", piece)
            patch.setattr(signed, "MOST_HELD", most_held)
            found = jobs.dedup(
                write_named(folder / f"{number}.jsonl", documents),
                folder / f"kept{number}",
                dropped=folder / f"dropped{number}",
                store=folder / "s",
                keep=keep,
                min_similarity=least,
                confirm=None if confirm is None else f"jaccard>={confirm}",
                **CUT,
            )
        order = sorted(range(len(documents)), key=lambda i: -len(documents[i][1]) if keep == "longest" else 0)
        verdicts = {i: plain.decide(*documents[i]) for i in order}
        told = [line.split("\t") for line in lines_of(folder / f"dropped{number}")]
        dropped = [(i, verdict) for i in range(len(documents)) if (verdict := verdicts[i])]
        assert len(told) == len(dropped) == len(documents) - found.results
        for (name, kept_name, *measures), (i, (names, similarity, alike)) in zip(told, dropped, strict=True):
            assert (name, kept_name in names) == (documents[i][0], True)
            assert measures == [f"{similarity:.4f}"] + ([] if alike is None else [f"{alike:.4f}"])
        every |= {documents[i][0] for i in order if verdicts[i] is None}
        plain.end_day()
        with minhash.open(folder / "s") as store:
            assert {each for rows in store.rows() for each in rows.id.tolist()} == every
            assert store.count() == len(every)
            store.verify()


def run(folder: Path, name: str, documents: Sequence[Document], **asked: Any) -> Any:
    source = write_named(folder / f"{name}.jsonl", list(documents))
    return jobs.dedup(source, folder / name, store=folder / "s", **{**CUT, "confirm": None} | asked)


def rows_of(store: Path) -> set[tuple[Any, bytes | None]]:
    with minhash.open(store) as opened:
        return {(row.id, row.sketch) for rows in opened.rows() for row in rows}


APART = [(f"n{i}", f"x{i} y{i} z{i}") for i in range(12)]


@pytest.mark.parametrize("confirm", [None, "jaccard>=0.9"])
def test_a_name_that_comes_again_has_both_signatures_and_both_are_found(tmp_path: Path, confirm: str | None) -> None:
    run(tmp_path, "1", [("page", "a b c dd")], confirm=confirm)
    assert run(tmp_path, "2", [("page", "x y z w v"), ("page", "p q r s t")], confirm=confirm).results == 2
    with minhash.open(tmp_path / "s") as store:
        assert (store.id_type, store.count()) == ("string", 1)
        for text in ("a b c dd", "x y z w v", "p q r s t"):
            (found,) = store.probe_text(text)
            assert (found.id, found.similarity) == ("page", 1)
    again = [("other", text) for text in ("a b c dd", "x y z w v", "p q r s t")]
    assert run(tmp_path, "3", again, confirm=confirm, dropped=tmp_path / "d").results == 0
    assert [line.split("\t")[:2] for line in lines_of(tmp_path / "d")] == [["other", "page"]] * 3
    assert sorted(os.listdir(tmp_path / "s" / notes.JOBS)) == (
        ["index", "names", "settings.json", "texts"] if confirm else []
    )


@pytest.mark.parametrize("confirm", [None, "jaccard>=0.9"])
@pytest.mark.parametrize("after", [1, 2, 4])
@pytest.mark.parametrize("most_held", [2, signed.MOST_HELD])
def test_a_job_that_is_interrupted_goes_on_or_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirm: str | None, after: int, most_held: int
) -> None:
    monkeypatch.setattr(signed, "MOST_HELD", most_held)
    run(tmp_path, "1", [("n1", "a b c dd"), ("n2", "x1 y1 z1")], confirm=confirm)
    before = rows_of(tmp_path / "s")
    interrupt(monkeypatch, lambda: run(tmp_path, "2", APART, confirm=confirm), after)
    with pytest.raises(JobError, match="is not finished"):
        minhash.open(tmp_path / "s", "w")
    assert rows_of(tmp_path / "s") == before
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert run(tmp_path, "2", APART, confirm=confirm).results == len(APART) - 1
    assert len(rows_of(tmp_path / "s")) == len(before) + len(APART) - 1
    # The same moment again, where the folder of the job is removed.
    shutil.rmtree(tmp_path / "s")
    (tmp_path / "copy" / "s").rename(tmp_path / "s")
    with pytest.warns(UserWarning, match="was undone"), minhash.open(tmp_path / "s", "w"):
        assert rows_of(tmp_path / "s") == before
    assert not (tmp_path / "s" / notes.JOBS / ledger.LATER).exists()


def cut_off(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, **asked: Any) -> None:
    """Run a job that ends between its last word to the store and what the store makes of it."""

    def stop(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(standing, "_complete", stop)
        with pytest.raises(KeyboardInterrupt):
            run(folder, name, APART, **asked)


def test_what_a_job_kept_is_stored_by_the_next_writer_where_its_end_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, "1", [("n1", "a b c dd")])
    cut_off(monkeypatch, tmp_path, "2")
    path = tmp_path / "s" / notes.JOBS / ledger.LATER
    assert path.exists()
    with minhash.open(tmp_path / "s") as store:
        assert store.count() == 1  # who reads sees it when it is stored
        with pytest.raises(JobError, match="found documents of a job that its end was to store"):
            store.copy(tmp_path / "copy")
    data = path.read_bytes()
    with minhash.open(tmp_path / "s", "w") as store:
        assert store.count() == len(APART)
    assert not path.exists()
    assert run(tmp_path, "2", APART).results == len(APART)  # the job says so too
    path.write_bytes(data)  # of which the names are gone
    with pytest.raises(CorruptStore, match="documents"):
        minhash.open(tmp_path / "s", "w")


def test_what_lies_beside_a_note_is_not_stored_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job goes on, or it never was."""

    def stop(home: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(notes, "remove_note", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, "1", APART)
    path = tmp_path / "s" / notes.JOBS / ledger.LATER
    assert path.exists()
    note = notes.Asker(json.loads((tmp_path / "1.job" / notes.JOURNAL).read_text())["job"], "")
    with minhash.MinHashStore(tmp_path / "s", "w", job=note) as store:
        assert store.count() == 0
    shutil.rmtree(tmp_path / "1.job")
    with pytest.warns(UserWarning, match="was undone: 12 documents"), minhash.open(tmp_path / "s", "w") as store:
        assert store.count() == 0
    assert not path.exists()
    assert run(tmp_path, "2", APART).results == len(APART)


def test_stored_twice_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(record: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(later, "drop_later", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, "1", APART)
    with minhash.open(tmp_path / "s") as store:
        assert store.count() == len(APART)
    with minhash.open(tmp_path / "s", "w") as store:
        assert store.count() == len(APART)
        assert len(store.probe_text(APART[3][1])) == 1
        store.compact()
        store.verify()
        assert store.count_pairs() == 0
    assert run(tmp_path, "1", APART).results == len(APART)
    assert run(tmp_path, "2", APART).results == 0


@pytest.mark.parametrize("cut", [0, 10, 30, 60, -1])
def test_a_changed_byte_of_what_is_stored_later_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    cut_off(monkeypatch, tmp_path, "1")
    path = tmp_path / "s" / notes.JOBS / ledger.LATER
    data = bytearray(path.read_bytes())
    data[cut] ^= 4
    for changed in (bytes(data), bytes(data[:cut]) if cut >= 0 else bytes(data) + b"x"):
        path.write_bytes(changed)
        with pytest.raises(CorruptStore):
            minhash.open(tmp_path / "s", "w")
        with minhash.open(tmp_path / "s") as store, pytest.raises(CorruptStore):
            store.verify()


def test_what_is_stored_later_lies_as_the_format_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, "1", [("a", "p q r"), ("b", "s t u")], confirm="jaccard>=0.9")
    cut_off(monkeypatch, tmp_path, "2", confirm="jaccard>=0.9")
    data = (tmp_path / "s" / notes.JOBS / ledger.LATER).read_bytes()
    assert not (tmp_path / "s" / notes.JOBS / ledger.NOTE).exists()
    with minhash.open(tmp_path / "s") as store:
        kept = store._settings.kept
        assert kept is not None
        signed_texts = store._in_bands(store.signature_many([text for _, text in APART]))
    expected = struct.pack("<QQII", 2, len(APART), BANDS, kept.words)
    assert signed_texts.sketches is not None
    for keys, sketch in zip(signed_texts.keys.tolist(), signed_texts.sketches.tolist(), strict=True):
        expected += struct.pack(f"<{BANDS + kept.words}Q", *keys, *sketch)
    assert data == _with_crc(expected)


def _with_crc(data: bytes) -> bytes:
    return data + ledger.LATER_END.pack(crc32c(data))


def test_a_stranger_s_file_of_what_is_stored_later_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off(monkeypatch, tmp_path, "1")
    path = tmp_path / "s" / notes.JOBS / ledger.LATER
    head = ledger.LATER_HEAD
    body = path.read_bytes()[head.size : -ledger.LATER_END.size]
    row = len(body) // len(APART)
    for changed, told in (
        (head.pack(0, 1 << 40, BANDS, 4) + body, "bytes"),
        (head.pack(0, len(APART), BANDS + 1, row // 8 - BANDS - 1) + body, "keys and"),
        (head.pack(0, len(APART) + 1, BANDS, row // 8 - BANDS) + body + bytes(row), "names of 12"),
    ):
        path.write_bytes(_with_crc(changed))
        with pytest.raises(CorruptStore, match=told):
            minhash.open(tmp_path / "s", "w")


def test_a_store_of_names_that_others_filled_is_gone_on_with_unless_texts_are_compared(tmp_path: Path) -> None:
    with minhash.create(tmp_path / "s", id_type="string", **CUT) as store:
        store.add_texts(["a b c dd", "x1 y1 z1"], ids=["one", "two"])
    with pytest.raises(JobError, match="found 2 documents without their texts, which --confirm cannot check"):
        run(tmp_path, "1", APART, confirm="jaccard>=0.9")
    assert len(rows_of(tmp_path / "s")) == 2
    run(tmp_path, "1", APART, dropped=tmp_path / "d")
    assert lines_of(tmp_path / "d") == ["n1\ttwo\t1.0000"]


@pytest.mark.parametrize("confirm", [None, "jaccard>=0.9"])
def test_a_document_that_was_removed_is_no_reason_to_drop_another(tmp_path: Path, confirm: str | None) -> None:
    run(tmp_path, "1", APART, confirm=confirm)
    with minhash.open(tmp_path / "s", "w") as store:
        store.remove(ids=["n3", "n5"])
    found = run(tmp_path, "2", [(f"again {name}", text) for name, text in APART], confirm=confirm)
    assert [json.loads(line)["url"] for line in lines_of(tmp_path / "2")] == ["again n3", "again n5"]
    assert found.results == 2
    assert run(tmp_path, "3", APART, confirm=confirm).results == 0


def test_a_name_with_another_signature_than_its_text_has_no_text(tmp_path: Path) -> None:
    run(tmp_path, "1", APART, confirm="jaccard>=0.9")
    with minhash.open(tmp_path / "s", "w") as store:
        store.upsert(store.signature_many(["quite another"]), ids=["n3"])
    with pytest.raises(JobError, match="found 1 documents without their texts"):
        run(tmp_path, "2", APART, confirm="jaccard>=0.9")


def test_a_copy_of_a_store_with_names_goes_on_with_its_texts(tmp_path: Path) -> None:
    run(tmp_path, "1", APART, confirm="jaccard>=0.9")
    with minhash.open(tmp_path / "s") as store:
        store.copy(tmp_path / "t")
    source = write_named(tmp_path / "2.jsonl", APART)
    assert jobs.dedup(source, tmp_path / "2", store=tmp_path / "t", confirm="jaccard>=0.9").results == 0
