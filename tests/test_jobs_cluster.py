"""`fpstore.jobs.cluster`: which documents are in one cluster."""

from contextlib import closing
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import Clusters, corpora, fingerprints, leader_follower, lines_of, majority, write_jsonl

import fpstore
from fpstore.disk import Folder
from fpstore.jobs import centers, cluster, corpus, dedup, grouping
from fpstore.jobs.centers import Centers, Votes
from fpstore.jobs.files import AppendFile
from fpstore.query import leaders
from fpstore.query.leaders import Leaders

TempFactory = pytest.TempPathFactory

# Fingerprints a few bits from each other, so that centers move and change sides.
bit_sets = st.sets(st.integers(0, 9), max_size=4).map(lambda bits: sum(1 << 7 * bit % 64 for bit in bits))
streams = st.lists(bit_sets, max_size=60)


def expected_lines(source: Path, found: Clusters) -> list[str]:
    return [f"{number}\t{source}:{i + 1}\t{distance}" for i, (number, distance) in enumerate(found)]


@pytest.mark.slow
@given(corpora, st.integers(0, 8), st.booleans())
@settings(max_examples=30)
def test_a_document_joins_the_nearest_leader_or_leads(
    tmp_path_factory: TempFactory, documents: list[str], k: int, update_center: bool
) -> None:
    folder = tmp_path_factory.mktemp("cluster")
    source = write_jsonl(folder / "in.jsonl", documents)
    found = cluster([source], folder / "out", max_distance=k, update_center=update_center)
    expected = leader_follower(fingerprints(documents), k, update_center=update_center)
    assert lines_of(folder / "out") == expected_lines(source, expected)
    assert (found.documents, found.results) == (len(documents), len({number for number, _ in expected}))
    assert sorted(path.name for path in folder.iterdir()) == [".out.done", "in.jsonl", "out"]


@pytest.mark.slow
@given(streams, st.integers(0, 6), st.booleans(), st.sampled_from([1, 3, 2048]), st.booleans())
@settings(max_examples=60)
def test_fingerprints_join_as_in_the_model(
    tmp_path_factory: TempFactory, keys: list[int], k: int, update_center: bool, slice_size: int, looks_on: bool
) -> None:
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch, fpstore.create(folder / "s.fpstore", max_distance=6) as store:
        patch.setattr(centers, "SLICE", slice_size)
        patch.setattr(leaders, "PIECE_ROWS", slice_size)
        patch.setattr(leaders, "MOST_LOOKED_AT", 1)
        patch.setattr(Leaders, "looks_on", looks_on)
        patch.setattr(centers, "_FIRST_CAPACITY", 1)
        found = Centers(store, Votes(Folder.open(folder), "votes", 1), k, 0) if update_center else Leaders(store, k, 0)
        verdicts = found.decide(np.array(keys, dtype=np.uint64))
    joined = list(zip(verdicts["id"].tolist(), verdicts["distance"].tolist(), strict=True))
    assert joined == leader_follower(keys, k, update_center=update_center)


def test_of_leaders_at_one_distance_that_with_the_least_fingerprint_is_joined(tmp_path: Path) -> None:
    near_both = [0x30, 0x03, 0x11]  # the first two are 4 apart, the third is 2 from each
    fpstore.create(tmp_path / "s", max_distance=3).close()
    with fpstore.open(tmp_path / "s", "w") as store:
        found = Leaders(store, 3, 0).decide(np.array(near_both, dtype=np.uint64))
    assert (found["id"].tolist(), found["distance"].tolist()) == ([0, 1, 1], [0, 0, 2])


@pytest.mark.slow
@given(st.lists(bit_sets, min_size=1), st.lists(bit_sets, min_size=1))
def test_votes_restored_are_those_that_were_cast(
    tmp_path_factory: TempFactory, first: list[int], second: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("votes")
    votes = Votes(Folder.open(folder), "votes", 1)
    for number, keys in enumerate((first, second)):
        votes.lead(number, keys[0])
        for key in keys[1:]:
            votes.join(number, key)
    expected = [majority(first), majority(second)]
    ids = np.arange(2, dtype=np.uint64)
    assert votes.centers(ids).tolist() == [votes.center(0), votes.center(1)] == expected


def test_equal_documents_are_one_cluster(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["the same four words"] * 5000)
    for update_center in (False, True):
        found = cluster([source], tmp_path / f"out{update_center}", update_center=update_center)
        assert (found.documents, found.results) == (5000, 1)


def test_documents_without_tokens_are_in_one_cluster_if_equal(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["", "!", "", "?"])
    cluster([source], tmp_path / "out")
    assert [line.split("\t")[0] for line in lines_of(tmp_path / "out")] == ["0", "1", "0", "2"]


def test_there_is_room_for_votes_of_any_number_of_clusters(tmp_path: Path) -> None:
    votes, last = Votes(Folder.open(tmp_path), "votes", 1), 5 * centers._FIRST_CAPACITY
    first = np.array([(7, last)], dtype=[("fingerprint", "<u8"), ("cluster", "<u8")])
    votes.restore(first["fingerprint"], first["cluster"], first)
    assert votes.center(last) == 7
    votes.lead(2 * last, 9)
    assert (votes.center(last), votes.center(2 * last)) == (7, 9)


@pytest.mark.parametrize("at_once", [1, 3])
def test_centers_are_made_again_from_members_in_pieces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_once: int
) -> None:
    monkeypatch.setattr(grouping, "_MEMBERS_AT_ONCE", at_once)
    keys = np.array([0b111 << 6 * number for number in (0, 1, 0, 2, 1, 0, 3, 2)], dtype=np.uint64)
    clusters = np.array([0, 1, 0, 2, 1, 0, 3, 2], dtype=np.uint64)
    with closing(AppendFile(Folder.open(tmp_path), "members", 0)) as members:
        members.write(np.column_stack([keys, clusters]).astype("<u8").tobytes())
        fpstore.create(tmp_path / "s").close()
        with fpstore.open(tmp_path / "s", "w") as store:
            restored = grouping._restored(store, members, Votes(Folder.open(tmp_path), "votes", 1), 3)
            assert restored.next_id == 4
            pairs = [
                zip(keys.tolist(), ids.tolist(), strict=True)
                for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows())
                if ids is not None
            ]
    assert sorted(chain.from_iterable(pairs)) == [(0b111 << 6 * number, number) for number in range(4)]


@pytest.mark.slow
@settings(max_examples=30)
@given(corpora, st.sampled_from([None, "default", "jaccard>=0.4", "cosine>=0.7"]), st.integers(0, 16))
def test_members_are_what_dedup_drops_for_the_leader(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], confirm: str | None, k: int
) -> None:
    folder = tmp_path_factory.mktemp("cluster")
    source = write_jsonl(folder / "in.jsonl", documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "BATCH_DOCUMENTS", 3)
        kept = dedup([source], folder / "kept", dropped=folder / "dropped", max_distance=k, confirm=confirm)
        found = cluster([source], folder / "out", max_distance=k, confirm=confirm)
    assert (found.clusters, found.refused, found.confirm) == (kept.kept, kept.refused, kept.confirm)
    members = [line.split("\t") for line in lines_of(folder / "out")]
    reasons = {name: (reason, distance) for name, reason, distance, *_ in map(str.split, lines_of(folder / "dropped"))}
    leaders = [name for _, name, _ in members if name not in reasons]
    told = [
        (str(leaders.index(reasons.get(name, (name,))[0])), name, reasons.get(name, ("", "0"))[1])
        for _, name, _ in members
    ]
    assert [tuple(row) for row in members] == told


def test_by_default_leaders_are_confirmed_and_centers_are_nearer(tmp_path: Path) -> None:
    words = [f"word{i}" for i in range(60)]
    unlike = " ".join(words[:53] + [f"x48y{i}" for i in range(7)])  # within 6, and too little alike
    source = write_jsonl(tmp_path / "in.jsonl", [" ".join(words), unlike, " ".join([*words, "more"])])
    found = cluster([source], tmp_path / "leaders", store=tmp_path / "s.fpstore")
    assert (found.clusters, found.refused, found.confirm) == (2, 1, "jaccard>=0.82")
    assert found.to_json()["refused_matches"] == 1
    assert cluster([source], tmp_path / "again", store=tmp_path / "s.fpstore").new == 0
    assert cluster([source], tmp_path / "near", confirm=None).clusters == 1
    with fpstore.open(tmp_path / "s.fpstore") as opened:
        assert opened.max_distance == 6
    found = cluster([source], tmp_path / "centers", update_center=True, store=tmp_path / "c.fpstore")
    assert (found.refused, found.confirm) == (0, None)
    with fpstore.open(tmp_path / "c.fpstore") as opened:
        assert opened.max_distance == 3
    with pytest.raises(ValueError, match=r"confirm: found 'jaccard>=0.8' with update_center, expected None"):
        cluster([source], tmp_path / "no", update_center=True, confirm="jaccard>=0.8")
