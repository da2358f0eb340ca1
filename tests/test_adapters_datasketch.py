"""An index in the shape of datasketch's over a store on disk answers as a plain model, and says what is wrong.

tools/check_adapter.py runs datasketch's own tests of MinHashLSH over it, unchanged.
"""

import gc
import os
import pickle
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from minhashes import signatures

import fpstore
from fpstore import minhash
from fpstore.adapters.datasketch import MinHashLSH, MinHashLSHInsertionSession, _of_pairs
from fpstore.types import Array

BANDS, ROWS, VALUES = 4, 3, 16
OWN = signatures(70, 120)
KEYS: list[Hashable] = ["a", b"a", 1, 2.5, None, ("a", 1), frozenset({1, 2}), *range(2, 60)]


class MinHash(NamedTuple):
    """As much of datasketch's as an index asks for."""

    hashvalues: Array
    scheme: str | None = "affine32"


def index(path: Path | None = None, **given: Any) -> MinHashLSH:
    return MinHashLSH(num_perm=VALUES, params=(BANDS, ROWS), path=path, **given)


class Plain:
    """datasketch's index: of each band a dict of buckets."""

    def __init__(self) -> None:
        self.held: dict[Hashable, list[Array]] = defaultdict(list)

    def tables(self) -> list[dict[bytes, set[Hashable]]]:
        made: list[dict[bytes, set[Hashable]]] = [defaultdict(set) for _ in range(BANDS)]
        for key, every in self.held.items():
            for own in every:
                for band in range(BANDS):
                    made[band][own[band * ROWS : (band + 1) * ROWS].tobytes()].add(key)
        return made

    def query(self, own: Array) -> set[Hashable]:
        cut = [own[band * ROWS : (band + 1) * ROWS].tobytes() for band in range(BANDS)]
        return set().union(*(table.get(name, set()) for name, table in zip(cut, self.tables(), strict=True)))


def expect_same(lsh: MinHashLSH, plain: Plain) -> None:
    assert {*lsh.keys} == {*plain.held}
    assert len(lsh.keys) == len(plain.held)
    assert lsh.is_empty() == (not plain.held)
    for own in OWN[::5]:
        found = lsh.query(MinHash(own))
        assert len(found) == len({*found})
        assert {*found} == plain.query(own)
    tables = plain.tables()
    assert [sorted(counts.values()) for counts in lsh.get_counts()] == [
        sorted(map(len, table.values())) for table in tables
    ]
    for view, table, counts in zip(lsh.hashtables, tables, lsh.get_counts(), strict=True):
        assert len(view) == len(table)
        buckets = {name: view[name] for name in view}
        assert {name: len(keys) for name, keys in buckets.items()} == counts
        assert {frozenset(keys) for keys in buckets.values()} == {frozenset(keys) for keys in table.values()}
        assert all(name in view for name in buckets)


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_any_changes_leave_what_they_leave_in_a_plain_index(tmp_path: Path, seed: int, on_disk: bool) -> None:
    rng, plain = random.Random(seed), Plain()
    lsh = index(tmp_path / "s" if on_disk else None)
    for _ in range(25):
        key, own = rng.choice(KEYS), OWN[rng.randrange(len(OWN))]
        what = rng.randrange(6)
        if what == 0 and plain.held:
            gone = rng.choice([*plain.held])
            lsh.remove(gone)
            del plain.held[gone]
        elif what == 1:
            with lsh.insertion_session(buffer_size=rng.choice([1, 3, 100])) as session:
                for each in rng.sample(KEYS, 8):
                    if each not in plain.held:
                        session.insert(each, MinHash(own))
                        plain.held[each].append(own)
        elif what == 2 and len(plain.held) > 3:
            with lsh.deletion_session(buffer_size=2) as removing:
                for each in rng.sample([*plain.held], 3):
                    removing.remove(each)
                    del plain.held[each]
        elif what == 3:
            lsh.insert(key, MinHash(own), check_duplication=False)
            plain.held[key].append(own)
        elif what == 4:
            with index() as other:
                other.insert(key, own)
                other.insert("other", MinHash(OWN[0]))
                lsh.merge(other)
            plain.held[key].append(own)
            plain.held["other"].append(OWN[0])
        elif key not in plain.held:
            lsh.insert(key, MinHash(own))
            plain.held[key].append(own)
        if rng.random() < 0.2:
            lsh.store._flush()
        assert all(each in lsh for each in plain.held)
        assert [each in lsh for each in KEYS] == [each in plain.held for each in KEYS]
    expect_same(lsh, plain)
    lsh.store.compact()
    expect_same(lsh, plain)
    lsh.close()
    if on_disk:
        with MinHashLSH.open(tmp_path / "s") as again:
            expect_same(again, plain)


@pytest.mark.slow
def test_many_documents_are_merged_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpstore.living.live.CHUNK_KEYS", 50)
    own, plain = signatures(71, 3000), Plain()
    with index(tmp_path / "a") as one, index(tmp_path / "b") as other:
        with other.insertion_session() as session:
            for number, each in enumerate(own):
                session.insert(number, each)
        other.insert(5, own[0], check_duplication=False)
        one.merge(other)
        one.merge(one)
        for number, each in enumerate(own):
            plain.held[number].append(each)
        plain.held[5].append(own[0])
        expect_same(one, plain)
        one.store.compact()
        expect_same(one, plain)
        found, wanted = ({match.id: match for match in lsh.store.probe(own[0])} for lsh in (one, other))
        assert found == wanted


def test_the_most_similar_come_first(tmp_path: Path) -> None:
    with index() as lsh:
        for number, each in enumerate(OWN):
            lsh.insert(number, each)
        found = lsh.query(OWN[7])
        similarity = [float(np.mean(OWN[key] == OWN[7])) for key in found if isinstance(key, int)]
        assert similarity == sorted(similarity, reverse=True)
        assert similarity[0] == 1


def test_a_key_that_is_there_or_is_not_is_an_error_that_changes_nothing() -> None:
    plain = Plain()
    with index() as lsh:
        lsh.insert("a", MinHash(OWN[0]))
        plain.held["a"].append(OWN[0])
        with pytest.raises(ValueError, match="key: found 'a', which is there already, expected a new one"):
            lsh.insert("a", MinHash(OWN[1]))
        with pytest.raises(ValueError, match="key: found 'b', which is not there, expected one that is"):
            lsh.remove("b")
        with lsh.insertion_session() as session:
            session.insert("b", OWN[1])
            for key in ("a", "b"):
                with pytest.raises(ValueError, match="which is there already"):
                    session.insert(key, OWN[1])
            with pytest.raises(TypeError, match="with prepickle=True"):
                session.insert(1j, OWN[1], check_duplication=False)
        plain.held["b"].append(OWN[1])
        expect_same(lsh, plain)
        with lsh.deletion_session() as removing:
            removing.remove("b")
            for key in ("b", "c"):
                with pytest.raises(ValueError, match="which is not there"):
                    removing.remove(key)
        del plain.held["b"]
        expect_same(lsh, plain)


def test_what_waits_in_a_session_is_done_when_it_is_left_by_an_error() -> None:
    with index() as lsh:

        def fails(session: MinHashLSHInsertionSession) -> None:
            with session:
                session.insert("a", OWN[0])
                assert "a" not in lsh
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fails(lsh.insertion_session())
        assert "a" in lsh
        with pytest.raises(ValueError, match="buffer_size: found 0, expected 1 or more"):
            lsh.insertion_session(buffer_size=0)


def test_overlaps_are_refused_before_anything_is_merged() -> None:
    with index() as one, index() as other:
        one.insert("a", OWN[0])
        other.insert("b", OWN[1])
        other.insert("a", OWN[2])
        with pytest.raises(ValueError, match="key: found 'a', which is there already"):
            one.merge(other, check_overlap=True)
        assert "b" not in one
        other.remove("a")
        one.merge(other, check_overlap=True)
        assert {*one.keys} == {"a", "b"}


def test_only_an_index_of_the_same_settings_is_merged() -> None:
    with index() as one, MinHashLSH(num_perm=VALUES, params=(2, 8)) as other:
        with pytest.raises(ValueError, match=r"found .*bands=2.*, expected .*bands=4"):
            one.merge(other)
        with pytest.raises(ValueError, match="merge: found a list, expected a MinHashLSH"):
            one.merge([])  # type: ignore[arg-type]
        one.insert("a", MinHash(OWN[0]))
    with index() as one, index() as other:
        one.insert("a", MinHash(OWN[0]))
        other.insert("b", MinHash(OWN[0], "legacy"))
        with pytest.raises(ValueError, match="found one of the scheme legacy, expected affine32, as those before"):
            one.merge(other)


def test_a_minhash_of_another_size_or_scheme_is_refused() -> None:
    with index() as lsh:
        lsh.insert("a", MinHash(OWN[0]))
        for own in (OWN[0][:-1], np.zeros((VALUES, 3), dtype=np.uint32), np.zeros((2, VALUES), dtype=np.uint32)):
            with pytest.raises(ValueError, match=r"minhash: found values of the shape \(.*\), expected 16 of them"):
                lsh.query(own)
        for asked in (lsh.query, lsh.add_to_query_buffer, lambda own: lsh.insert("b", own)):
            with pytest.raises(ValueError, match="minhash: found one of the scheme legacy, expected affine32"):
                asked(MinHash(OWN[0], "legacy"))
        assert lsh.query(MinHash(OWN[0], None)) == ["a"]


def test_a_query_teaches_no_scheme() -> None:
    with index() as lsh:
        lsh.query(MinHash(OWN[0], "legacy"))
        lsh.insert("a", MinHash(OWN[0]))
        assert lsh.query(MinHash(OWN[0])) == ["a"]


def test_weighted_ones_are_equal_where_their_pairs_are() -> None:
    rng = np.random.default_rng(3)
    pairs = rng.integers(-3, 3, size=(VALUES, 2))
    other = pairs[:, ::-1].copy()
    partly = np.where(np.arange(VALUES)[:, None] < ROWS, pairs, rng.integers(5, 9, size=(VALUES, 2)))
    with index() as lsh:
        lsh.insert("a", pairs)
        lsh.insert("b", other)
        lsh.insert("c", partly)
        assert [lsh.query(each) for each in (pairs, other, partly)] == [["a", "c"], ["b"], ["c", "a"]]
        (found,) = (match for match in lsh.store.probe(lsh._values(pairs)) if match.similarity < 1)
        assert found.shared_bands == 1


def test_the_value_of_a_pair_never_changes() -> None:
    pairs = [(0, 0), (1, 2), (2, 1), (-1, 3)]
    assert _of_pairs(np.array(pairs)).tolist() == [mixed(*pair) for pair in pairs]


def mixed(first: int, second: int) -> int:
    word = (1 << 64) - 1
    value = (first & word) * 0x9E3779B97F4A7C15 & word
    value ^= value >> 32
    value = (value ^ second & word) * 0xFF51AFD7ED558CCD & word
    return value ^ value >> 32


def test_buffered_queries_are_met_by_what_shares_a_band_with_each() -> None:
    plain = Plain()
    with index() as lsh:
        for number, each in enumerate(OWN[:60]):
            lsh.insert(number, each)
            plain.held[number].append(each)
        assert lsh.collect_query_buffer() == []
        pair = next((a, b) for a in range(60) for b in range(a) if plain.query(OWN[a]) & plain.query(OWN[b]))
        for one in pair:
            lsh.add_to_query_buffer(MinHash(OWN[one]))
        assert {*lsh.collect_query_buffer()} == plain.query(OWN[pair[0]]) & plain.query(OWN[pair[1]])
        assert lsh.collect_query_buffer() == []


def test_the_buckets_of_some_keys_are_those_that_they_are_in() -> None:
    with index() as lsh:
        for number, each in enumerate(OWN[:40]):
            lsh.insert(number, each)
        assert lsh.keys["nobody"] == []
        own = {key: lsh.keys[key] for key in range(0, 40, 3)}
        for key, names in own.items():
            assert [key in view[name] for view, name in zip(lsh.hashtables, names, strict=True)] == [True] * BANDS
        counts = lsh.get_subset_counts(*own, "nobody")
        wanted: list[dict[bytes, int]] = [defaultdict(int) for _ in range(BANDS)]
        for names in own.values():
            for band, name in enumerate(names):
                wanted[band][name] += 1
        assert counts == wanted
        view = lsh.hashtables[0]
        assert [name in view for name in (b"", b"\xff" * 9, lsh.keys[0][1], "x", 3)] == [False] * 5
        assert lsh.hashranges == [(0, 3), (3, 6), (6, 9), (9, 12)]


def test_an_index_goes_on_where_it_was(tmp_path: Path) -> None:
    with index(tmp_path / "s") as lsh:
        lsh.insert("a", OWN[0])
        with MinHashLSH.open(tmp_path / "s") as reader:
            lsh.insert("b", OWN[0])
            assert {*reader.query(OWN[0])} == {"a", "b"}
            with pytest.raises(fpstore.ReadOnly):
                reader.insert("c", OWN[1])
    with index(tmp_path / "s") as again:
        assert {*again.query(OWN[0])} == {"a", "b"}
    with MinHashLSH.open(tmp_path / "s", "w") as writer:
        assert (writer.h, writer.b, writer.r) == (VALUES, BANDS, ROWS)
        writer.remove("a")
        assert [*writer.keys] == ["b"]


def test_other_settings_than_those_of_the_store_are_refused(tmp_path: Path) -> None:
    index(tmp_path / "s").close()
    for given in ({"params": (2, 8)}, {"params": (2, 3)}, {"num_perm": 32}, {"id_type": "string"}):
        with pytest.raises(ValueError, match=r"found .*, expected"):
            MinHashLSH(**{"num_perm": VALUES, "params": (BANDS, ROWS), "path": tmp_path / "s"} | given)  # type: ignore[arg-type]


def test_a_store_of_narrower_keys_is_opened_and_not_taken_by_path(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"values": VALUES, "bands": BANDS, "rows_per_band": ROWS, "id_type": "bytes", "bits": 40}
    minhash.create(tmp_path / "s", **settings).close()
    with pytest.raises(ValueError, match="bits: found 40, expected 64"):
        index(tmp_path / "s")
    with MinHashLSH.open(tmp_path / "s", "w") as lsh:
        lsh.insert("a", OWN[0])
        assert lsh.query(OWN[0]) == ["a"]


@pytest.mark.parametrize("kept", [{"id_type": None}, {"keep_signatures": False}])
def test_a_store_that_cannot_be_an_index_is_refused(tmp_path: Path, kept: Any) -> None:
    minhash.create(tmp_path / "s", values=VALUES, bands=BANDS, rows_per_band=ROWS, **kept).close()
    with pytest.raises(fpstore.WrongKind, match="found no ids, or no signatures, expected a store that has both"):
        MinHashLSH.open(tmp_path / "s")


@pytest.mark.parametrize(("id_type", "keys"), [("string", ["a", "ü"]), ("uint64", [7, 2**64 - 1])])
def test_a_store_that_others_made_is_an_index_of_its_ids(tmp_path: Path, id_type: Any, keys: Any) -> None:
    cut: Any = {"values": VALUES, "bands": BANDS, "rows_per_band": ROWS}
    with minhash.create(tmp_path / "s", id_type=id_type, bits=64, **cut) as store:
        store.add(OWN[:2], ids=keys)
    with index(tmp_path / "s", id_type=id_type) as lsh:
        assert {*lsh.keys} == {*keys}
        assert keys[0] in lsh.query(OWN[0])
        lsh.remove(keys[0])
        assert [*lsh.keys] == keys[1:]


def test_a_store_of_narrow_keys_is_read_as_it_is_and_not_taken_for_this_index(tmp_path: Path) -> None:
    """It meets documents by chance, which datasketch's does not: whoever asks for an index is told, open is not."""
    with minhash.create(tmp_path / "s", values=VALUES, bands=BANDS, rows_per_band=ROWS, id_type="string") as store:
        store.add(OWN[:2], ids=["a", "b"])
    with pytest.raises(ValueError, match="bits: found 36, expected 64"):
        index(tmp_path / "s", id_type="string")
    with MinHashLSH.open(tmp_path / "s") as lsh:
        assert "a" in lsh.query(OWN[0])


def test_ids_that_are_no_keys_of_an_index_are_refused(tmp_path: Path) -> None:
    with minhash.create(tmp_path / "s", values=VALUES, bands=BANDS, rows_per_band=ROWS, id_type="bytes") as store:
        store.add(OWN[:1], ids=[b"a page"])
    with MinHashLSH.open(tmp_path / "s") as lsh, pytest.raises(ValueError, match="key: found b'a page', expected one"):
        lsh.query(OWN[0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold": "a"}, "threshold: found 'a', expected a number from 0 to 1"),
        ({"threshold": None}, "threshold: found None, expected a number from 0 to 1"),
        ({"num_perm": "a"}, "num_perm: found 'a', a str, expected an integer"),
        ({"num_perm": 2.5}, "num_perm: found 2.5, a float, expected an integer"),
        ({"weights": "ab"}, "weights: found 'ab', expected two numbers from 0 to 1"),
        ({"weights": ("a", 0)}, "weights: found 'a', expected a number from 0 to 1"),
    ],
)
def test_settings_of_another_type_are_named(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        MinHashLSH(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold": 1.5}, "threshold: found 1.5, expected a number from 0 to 1"),
        ({"num_perm": 1}, "num_perm: found 1, expected 2 or more"),
        ({"num_perm": 1 << 30}, "values: found 1073741824, expected an integer from 1 to 4096"),
        ({"weights": (0.5, 0.4)}, r"weights: found \(0.5, 0.4\), expected two from 0 to 1 whose sum is 1"),
        ({"weights": (1.5, -0.5)}, "weights: found"),
        ({"params": (1, 8)}, "bands: found 1, expected 2 or more"),
        ({"params": (20, 8)}, r"bands \* rows_per_band: found 160, expected at most 128"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, message: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match=message):
        MinHashLSH(**given)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_an_index_without_a_path_is_gone_with_its_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lsh = index()
    lsh.insert("a", OWN[0])
    assert len([*tmp_path.iterdir()]) == 1
    del lsh
    gc.collect()
    assert [*tmp_path.iterdir()] == []
    # Nor does a process leave one that ends, or a child that lets go of its copy take it away.
    script = (
        "import os, numpy as np; from fpstore.adapters.datasketch import MinHashLSH\n"
        "lsh = MinHashLSH(num_perm=16, params=(4, 3)); lsh.insert('a', np.arange(16))\n"
        "if not os.fork():\n    lsh.close(); os._exit(0)\n"
        "os.wait(); assert 'a' in lsh and os.path.exists(lsh.store.path)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_pickle_opens_the_same_store_for_reading(tmp_path: Path, on_disk: bool) -> None:
    with index(tmp_path / "s" if on_disk else None, durability="batch", prepickle=True) as lsh:
        lsh.insert(1j, OWN[0])
        with pickle.loads(pickle.dumps(lsh)) as other:
            assert other.query(OWN[0]) == [1j]
            assert other.store.mode == "r"
            with pickle.loads(pickle.dumps(other)) as third:
                assert third.query(OWN[0]) == [1j]
