"""A list of stores that is asked as one store: the rows of a store of all of them, and what is refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from living import writer_of
from outcome import Command
from test_cluster import grown, rows_of, some_keys

import fpstore
from fpstore import cluster, minhash
from fpstore.cluster import Shards, shards
from fpstore.cluster import listed as listed_pairs
from fpstore.cluster.tasks import HELD
from fpstore.disk import Folder
from fpstore.errors import NotAStore, PlanError, StoreChanged, StoreWarning, WrongKind
from fpstore.inspection import inspect_store
from fpstore.living import radius
from fpstore.types import Paired

KEYS = some_keys(900, 4)


def listed(folder: Path, with_ids: bool, count: int, overlap: int) -> tuple[Path, Path]:
    """A list of stores that overlap, and one store of all of them."""
    ids: Any = np.arange(len(KEYS), dtype=np.uint64) % np.uint64(500) if with_ids else None
    fpstore.build(folder / "all", KEYS, ids=ids).close()
    cuts = np.linspace(0, len(KEYS), count + 1).astype(int).tolist()
    stores = []
    for number, (first, end) in enumerate(pairwise(cuts)):
        own = slice(max(0, first - overlap), end)
        stores.append(folder / f"{number}.fpstore")
        fpstore.build(stores[-1], KEYS[own], ids=None if ids is None else ids[own]).close()
    Shards.write(folder / "web.shards.json", stores)
    return folder / "web.shards.json", folder / "all"


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(with_ids=st.booleans(), count=st.integers(1, 4), overlap=st.sampled_from([0, 60]), distance=st.integers(0, 3))
def test_a_list_of_stores_answers_as_one_store_of_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, with_ids: bool, count: int, overlap: int, distance: int
) -> None:
    path, whole = listed(tmp_path_factory.mktemp("shards"), with_ids, count, overlap)
    queries = some_keys(200, 4)
    with fpstore.open(whole) as one, Shards(path) as many:
        expected = rows_of([one.probe_many(queries, max_distance=distance)])
        assert rows_of([many.probe_many(queries, max_distance=distance)]) == expected
        assert rows_of([many.probe(int(KEYS[0]))]) == rows_of([one.probe_many([int(KEYS[0])])])
    with cluster.probe(path, queries, max_distance=distance, tasks=3, workers=1) as answer:
        assert rows_of(list(answer)) == expected


def test_each_store_has_a_folder_of_its_own_and_is_not_asked_again(tmp_path: Path) -> None:
    path, _ = listed(tmp_path, True, 3, 0)
    found = []
    for _ in range(2):
        with cluster.probe(path, KEYS, tasks=2, workers=1, folder=tmp_path / "f") as answer:
            found.append(rows_of(list(answer)))
    assert found[0] == found[1]
    names = sorted(each.relative_to(tmp_path / "f").as_posix() for each in (tmp_path / "f").rglob("*.part"))
    assert names == [f"0000{store}/0000{task}.part" for store in range(3) for task in range(2)]


def test_a_list_tells_what_its_stores_hold_and_checks_all_of_them(tmp_path: Path) -> None:
    path, _ = listed(tmp_path, True, 3, 0)
    with Shards(path) as many:
        stats = many.stats()
        assert [each.identity for each in stats] == [shard.identity for shard in many.shards]
        assert many.verify().id_count == len({(k, i % 500) for i, k in enumerate(KEYS.tolist())})
        assert (many.bits, many.id_type, many.max_distance) == (64, "uint64", 3)
    record = json.loads(path.read_text())
    assert [each["store"] for each in record["stores"]] == ["0.fpstore", "1.fpstore", "2.fpstore"]
    path.rename(tmp_path / "moved.shards.json")
    (tmp_path / "elsewhere").mkdir()
    Shards.write(tmp_path / "elsewhere" / "web.shards.json", [tmp_path / "0.fpstore"])
    assert json.loads((tmp_path / "elsewhere" / "web.shards.json").read_text())["stores"][0]["store"] == "../0.fpstore"
    with Shards(tmp_path / "elsewhere" / "web.shards.json") as one:
        assert len(one.stores) == 1


def test_a_list_reaches_as_far_as_the_store_that_reaches_least(tmp_path: Path) -> None:
    for distance in (3, 2):
        fpstore.build(tmp_path / f"{distance}", KEYS, ids=None, max_distance=distance).close()
    Shards.write(tmp_path / "web.shards.json", [tmp_path / "3", tmp_path / "2"])
    with Shards(tmp_path / "web.shards.json") as many, fpstore.open(tmp_path / "3") as one:
        expected = rows_of([one.probe_many(KEYS, max_distance=2)])
        assert many.max_distance == 2
        assert rows_of([many.probe_many(KEYS)]) == expected
    with cluster.probe(tmp_path / "web.shards.json", KEYS, workers=1) as answer:
        assert rows_of(list(answer)) == expected


def test_a_distance_that_a_store_of_a_list_does_not_reach_names_that_store(tmp_path: Path) -> None:
    for distance in (3, 2):
        fpstore.build(tmp_path / f"{distance}", KEYS, ids=None, max_distance=distance).close()
    Shards.write(tmp_path / "web.shards.json", [tmp_path / "3", tmp_path / "2"])
    with Shards(tmp_path / "web.shards.json") as many:
        with pytest.raises(PlanError, match=rf"^{tmp_path}/2: max_distance: found 3, expected at most 2, as plan "):
            many.pairs(max_distance=3)
        assert sum(map(len, many.pairs(max_distance=2))) > 0


def test_what_is_no_file_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "a.shards.json").mkdir()
    with pytest.raises(NotAStore, match=r"a\.shards\.json: found no list of stores \(file: found what is not a reg"):
        Shards(tmp_path / "a.shards.json")


def test_a_list_of_very_many_stores_is_refused(tmp_path: Path) -> None:
    shards = [{"store": f"{number}", "identity": "", "fingerprints": 0} for number in range(10_001)]
    record = {"format": "fpstore.shards/1", "bits": 64, "ids": None, "stores": shards}
    (tmp_path / "web.shards.json").write_text(json.dumps(record))
    with pytest.raises(NotAStore, match="stores: found 10001 items, expected at most 10000"):
        Shards(tmp_path / "web.shards.json")


def test_a_store_that_is_not_as_listed_is_told_when_the_list_is_opened(tmp_path: Path) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    with writer_of(tmp_path / "1.fpstore") as store:
        store.remove(ids=[5])
    Shards(path).close()
    with writer_of(tmp_path / "1.fpstore") as store:
        store.add([5], ids=[1 << 40])
    with pytest.raises(NotAStore, match=r"1\.fpstore: found \d+ fingerprints, expected \d+, as listed: write"):
        Shards(path)
    fpstore.build(tmp_path / "1.fpstore", [1], force=True).close()
    with pytest.raises(NotAStore, match=r"1\.fpstore: found store \w+, expected \w+, which is listed: another has"):
        cluster.probe(path, KEYS)
    (tmp_path / "1.fpstore").rename(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"1\.fpstore"):
        Shards(path)


@pytest.mark.parametrize("changed", [{"bits": 32}, {"bits": [64]}, {"ids": None}, {"ids": "string"}])
def test_stores_of_another_kind_than_the_list_says_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(NotAStore, match=r"web\.shards\.json: found (no list|bits .* and ids .* as the stores have)"):
        Shards(path)


@pytest.mark.parametrize("other", ["./0.fpstore", "{}/0.fpstore", "link"])
def test_one_store_by_two_names_is_refused(tmp_path: Path, other: str) -> None:
    path, _ = listed(tmp_path, True, 1, 0)
    (tmp_path / "link").symlink_to("0.fpstore")
    record = json.loads(path.read_text())
    record["stores"].append(record["stores"][0] | {"store": other.format(tmp_path)})
    path.write_text(json.dumps(record))
    with pytest.raises(NotAStore, match="twice, expected each store once"):
        Shards(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"format": "fpstore.shards/2", "bits": 64, "ids": null, "stores": []}',
        '{"format": "fpstore.shards/1", "bits": 64, "ids": null, "stores": []}',
        '{"format": "fpstore.shards/1", "bits": 64, "ids": null, "stores": [7]}',
        '{"format": "fpstore.shards/1", "bits": 64, "ids": null, "stores": [{"store": "", "identity": "", '
        '"fingerprints": 0}]}',
        '{"format": "fpstore.shards/1", "bits": 64, "ids": null, "stores": [{"store": "a", "identity": "", '
        '"fingerprints": -1}]}',
        '{"format": "fpstore.shards/1", "bits": 64, "ids": null, "stores": [{"store": "a\\u0000b", "identity": "", '
        '"fingerprints": 0}]}',
        '{"format": "fpstore.shards/1", "bits": 64, "ids": null, "stores": [{"store": "a\\ud800", "identity": "", '
        '"fingerprints": 0}]}',
    ],
)
def test_what_is_no_list_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.shards.json"
    path.write_text(text)
    with pytest.raises(NotAStore, match=r"a\.shards\.json: found no list of stores .*expected what fpstore"):
        Shards(path)


def test_what_cannot_be_listed_together_is_refused(tmp_path: Path) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    fpstore.build(tmp_path / "bare", KEYS, ids=None).close()
    fpstore.build(tmp_path / "other", KEYS, recipe="text-1").close()
    fpstore.create(tmp_path / "wide", bits=128).close()
    minhash.create(tmp_path / "m").close()
    first = tmp_path / "0.fpstore"
    with pytest.raises(ValueError, match=r"bare: id_type: found None, expected uint64, as of .*0\.fpstore"):
        Shards.write(path, [first, tmp_path / "bare"])
    with pytest.raises(ValueError, match=r"other: recipe: found .*, expected None, as of"):
        Shards.write(path, [first, tmp_path / "other"])
    with pytest.raises(ValueError, match=r"wide: bits: found 128, expected 64, as of .*0\.fpstore"):
        Shards.write(path, [first, tmp_path / "wide"])
    for name in ("m", "named"):
        if name == "named":
            grown(tmp_path / name, "string")
        with pytest.raises(WrongKind):
            Shards.write(path, [tmp_path / name])
    with pytest.raises(ValueError, match="stores: found none, expected one or more"):
        Shards.write(path, [])
    with pytest.raises(ValueError, match=r"found a name without it, expected one that ends in \.shards\.json"):
        Shards.write(tmp_path / "web.json", [first])
    with pytest.raises(FileNotFoundError):
        Shards(tmp_path / "none.shards.json")
    record = json.loads(path.read_text())
    record["stores"].append(record["stores"][0])
    path.write_text(json.dumps(record))
    with pytest.raises(NotAStore, match=r"found .*0\.fpstore twice, expected each store once"):
        Shards(path)


OTHERS: list[Any] = [None, 0, 5, -1, 2**70, 1.5, True, "", "x", "a\0b", [], {}]


def test_every_field_of_a_list_is_looked_at(tmp_path: Path) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    record = json.loads(path.read_text())
    first = record["stores"][0]
    tried = 0
    for fields in (record, first):
        for name, own in [*fields.items()]:
            for other in [each for each in OTHERS if (type(each), each) != (type(own), own)]:
                fields[name] = other
                path.write_text(json.dumps(record))
                with pytest.raises((NotAStore, FileNotFoundError)):
                    Shards(path)
                tried += 1
            del fields[name]
            path.write_text(json.dumps(record))
            with pytest.raises(NotAStore):
                Shards(path)
            fields[name] = own
    assert tried > 6 * len(OTHERS)
    record["bits"] = 32
    path.write_text(json.dumps(record))
    with pytest.raises(NotAStore, match="found bits 32 and ids uint64, expected 64 and uint64, as the stores have"):
        Shards(path)


def test_a_list_of_one_store_twice_is_not_written(tmp_path: Path) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    before = path.read_bytes()
    first = tmp_path / "0.fpstore"
    for again in (first, tmp_path / "." / "1.fpstore" / ".." / "0.fpstore"):
        with pytest.raises(ValueError, match=r"stores: found .*0\.fpstore twice, expected each store once"):
            Shards.write(path, [first, tmp_path / "1.fpstore", again])
    one: Any
    for one in (str(first), first):
        with pytest.raises(TypeError, match=r"stores: found one path, .*0\.fpstore', expected several"):
            Shards.write(path, one)
    assert path.read_bytes() == before


def test_who_opens_a_list_as_a_store_is_told_what_takes_it(tmp_path: Path) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    openings: list[Callable[[Path], object]] = [fpstore.open, minhash.open, inspect_store]
    openings.append(lambda place: fpstore.recover(place, tmp_path / "new"))
    for opening in openings:
        with pytest.raises(
            NotAStore,
            match=r"found a list of stores, expected the folder of one: fpstore probe, nearest, lookup, pairs",
        ):
            opening(path)


# --- Commands ---


@pytest.mark.parametrize("with_ids", [True, False])
def test_commands_answer_of_a_list_as_of_one_store(tmp_path: Path, command: Command, with_ids: bool) -> None:
    path, whole = listed(tmp_path, with_ids, 3, 40)
    np.save(tmp_path / "q.npy", KEYS[::13] ^ np.uint64(1 << 40))
    folder = ("--folder", tmp_path / "f", "--world-size", "2")
    for line in (
        ("probe", f"{KEYS[0]:x}", f"{KEYS[300]:x}", "--json", "-k", "2"),
        ("probe", "--input", tmp_path / "q.npy", "--header"),
        ("probe", "--input", tmp_path / "q.npy", "--workers", "2"),
        ("nearest", f"{KEYS[0] ^ np.uint64(0xFFFF):x}", "--count", "7"),
        ("nearest", "--input", tmp_path / "q.npy", "--count", "4", "-k", "9"),
        ("nearest", "--input", tmp_path / "q.npy"),
    ):
        one, many = (command(line[0], place, *line[1:]) for place in (whole, path))
        assert many == one
        assert many.status == 0
        assert len(many.lines) >= 1
    asked = ("probe", path, "--input", tmp_path / "q.npy")
    done = [command(*asked, *folder, "--rank", rank) for rank in ("0", "1", "1")]
    assert [int(outcome.err.split("did ")[1].split()[0]) for outcome in done] == [2, 1, 0]  # a task of each store
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fpstore.cluster.searching.ProbeTask.run", None)
        assert command(*asked, *folder) == command(*asked)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stored=st.lists(st.lists(st.integers(0, 15), max_size=12), min_size=1, max_size=3),
    asked=st.lists(st.integers(0, 15), min_size=1, max_size=3),
    count=st.integers(1, 9),
    with_ids=st.booleans(),
)
def test_the_nearest_of_a_list_are_those_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory, stored: list[list[int]], asked: list[int], count: int, with_ids: bool
) -> None:
    folder = tmp_path_factory.mktemp("nearest")
    rows: set[tuple[int, int | None]] = set()
    for number, keys in enumerate(stored):
        # Ids by which some rows lie in several stores.
        own = [(key, index % 3 if with_ids else None) for index, key in enumerate(keys)]
        rows |= set(own)
        ids: Any = [one for _, one in own] if with_ids else None
        given_keys = np.array(keys, dtype=np.uint64)
        fpstore.build(folder / f"{number}", given_keys, ids=ids, bits=16).close()
    Shards.write(folder / "a.shards.json", [folder / f"{number}" for number in range(len(stored))])
    expected = []
    for query, key in enumerate(asked):
        near = sorted((bin(key ^ each).count("1"), each, one or 0) for each, one in rows)
        expected += [(query, each, distance, one if with_ids else None) for distance, each, one in near[:count]]
    with Shards(folder / "a.shards.json") as many:
        found = many.nearest_many(np.array(asked, dtype=np.uint64), count)
    assert [(row.query, row.fingerprint, row.distance, row.id) for row in found] == expected


@pytest.mark.parametrize("bits", [16, 128])
@settings(max_examples=30)
@given(
    stored=st.lists(st.lists(st.integers(0, 40), max_size=12), min_size=1, max_size=4),
    distance=st.integers(0, 3),
    with_ids=st.booleans(),
)
def test_the_pairs_of_a_list_are_those_of_all_rows_each_once(
    tmp_path_factory: pytest.TempPathFactory, bits: int, stored: list[list[int]], distance: int, with_ids: bool
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    for number, keys in enumerate(stored):
        words = [[key << 3, key] if bits == 128 else key for key in keys]
        own = np.array(words, dtype=np.uint64).reshape((-1, 2) if bits == 128 else -1)
        ids: Any = [index % 3 for index in range(len(keys))] if with_ids else None
        fpstore.build(folder / f"{number}", own, ids=ids, bits=bits, max_distance=3).close()
    Shards.write(folder / "a.shards.json", [folder / f"{number}" for number in range(len(stored))])
    every = sorted({key << 67 | key if bits == 128 else key for keys in stored for key in keys})
    expected = sorted(
        (one, other, (one ^ other).bit_count())
        for one, other in combinations(every, 2)
        if (one ^ other).bit_count() <= distance
    )
    rows = {(key << 67 | key if bits == 128 else key, index % 3) for keys in stored for index, key in enumerate(keys)}
    of_ids = sorted(
        (*sorted((id_of, other_id)), (one ^ other).bit_count())
        for (one, id_of), (other, other_id) in combinations(rows, 2)
        if id_of != other_id and (one ^ other).bit_count() <= distance
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "_PAIRED_AT_ONCE", 2)
        with Shards(folder / "a.shards.json") as many:
            found = [tuple(row) for some in many.pairs(max_distance=distance) for row in some]
            with pytest.raises(ValueError, match="max_distance"):
                many.pairs(max_distance=4)
            if with_ids:
                assert (
                    sorted(tuple(row) for some in many.pairs(max_distance=distance, of="ids") for row in some) == of_ids
                )
            else:
                with pytest.raises(ValueError, match="the store has no ids; ask for pairs of fingerprints"):
                    many.pairs(of="ids")
    assert sorted(found) == expected


def test_the_command_prints_the_pairs_of_a_list_as_of_one_store(tmp_path: Path, command: Command) -> None:
    path, whole = listed(tmp_path, True, 3, 60)
    expected = command("pairs", whole)
    assert sorted(command("pairs", path).lines) == sorted(expected.lines) != []
    assert command("pairs", path, "--count") == command("pairs", whole, "--count")
    assert command("pairs", path, "--count", "--json") == command("pairs", whole, "--count", "--json")
    of_ids = command("pairs", whole, "--of", "ids")
    assert sorted(command("pairs", path, "--of", "ids", "--memory", "8MiB").lines) == sorted(of_ids.lines) != []
    assert command("pairs", path, "--of", "ids", "--count") == command("pairs", whole, "--of", "ids", "--count")


@pytest.mark.parametrize("of", ["fingerprints", "ids"])
def test_tasks_find_the_pairs_of_a_list(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, of: Paired
) -> None:
    path, _ = listed(tmp_path, True, 3, 60)
    monkeypatch.setattr(shards, "_PAIRED_AT_ONCE", 7)
    monkeypatch.setattr("fpstore.cluster.runs.RUN_ROWS", 5)
    expected = command("pairs", path, "--of", of)
    assert len(expected.lines) > 20
    for count in (1, 2, 5, 40):
        with cluster.pairs(path, of=of, tasks=count, workers=1) as answer:
            found = [tuple(row) for some in answer for row in some]
        assert found == sorted(found)
        with Shards(path) as many:
            assert found == sorted(tuple(row) for some in many.pairs(of=of) for row in some)
    asked = ("pairs", path, "--of", of, "--folder", tmp_path / "f", "--world-size", "3")
    monkeypatch.setattr("fpstore.cluster.listed.START_AFTER_SECONDS", -1.0)
    for rank in ("0", "2", "1", "1"):
        outcome = command(*asked, "--rank", rank)
        assert (outcome.status, outcome.out) == (0, "")
    assert len(list((tmp_path / "f").glob("*.part"))) == 3
    assert all(each.stat().st_size > 0 for each in (tmp_path / "f").glob("*.part"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fpstore.cluster.listed.ListedPairsTask.run", None)
        outcome = command(*asked)
        assert sorted(outcome.lines) == sorted(expected.lines)
    told = command(*asked, "-k", "1").err
    assert "found a job, of this store, these pairs, that has max_distance 3, expected 1, as is asked for here" in told
    HELD.let_go()


def test_a_store_of_a_list_that_changes_under_tasks_is_told(tmp_path: Path) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    with Shards(path) as many, Folder.open(tmp_path) as home:
        (tmp_path / "f").mkdir()
        with home.inside("f") as own:
            _, (task,) = listed_pairs.listed_tasks(many, own, "fingerprints", 3, 1 << 30, 1, 1, 1)
        seen = replace(task.seen[1], transaction=task.seen[1].transaction + 1)
        with pytest.raises(StoreChanged, match=r"1\.fpstore: found store .*, expected store"):
            replace(task, seen=(task.seen[0], seen)).run(many)
        with pytest.raises(PlanError, match=r"0\.fpstore: .*max_distance"):
            cluster.pairs(path, max_distance=9)
    HELD.let_go()


def test_the_rows_near_one_fingerprint_of_a_list_are_held_in_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        keys = [5] * 300 + [7, 1 << 40]
        fpstore.build(tmp_path / f"{number}", keys, ids=range(number * 200, number * 200 + 302)).close()
    Shards.write(tmp_path / "a.shards.json", [tmp_path / "0", tmp_path / "1"])
    with Shards(tmp_path / "a.shards.json") as many:
        expected = sorted(tuple(row) for some in many.pairs(of="ids") for row in some)
        held = shards.Shards._near
        most: list[int] = []

        def near(self: Shards, *asked: Any) -> Any:
            found = held(self, *asked)
            most.append(len(found))
            return found

        monkeypatch.setattr(shards.Shards, "_near", near)
        # Of 5 there are 500 rows, of the two near it two each: 176 bytes each.
        found = sorted(tuple(row) for some in many.pairs(of="ids", memory=504 * 176) for row in some)
        assert found == expected
        assert len(most) > 1
        assert max(most) == 504
        with pytest.raises(ValueError, match=r"^0{15}5: more than 503 rows are within 3 bits of it; finding its pairs"):
            list(many.pairs(of="ids", memory=503 * 176))


def test_pairs_of_a_list_are_looked_for_by_the_threads_that_were_asked_for(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    asked = []
    probe_many, nearest_many = fpstore.Store._probe_many, fpstore.Store.nearest_many

    def probing(store: fpstore.Store, keys: Any, distance: int, threads: int, most: int) -> Any:
        asked.append(threads)
        return probe_many(store, keys, distance, threads, most)

    def looking(store: fpstore.Store, keys: object, **how: Any) -> Any:
        asked.append(how["threads"])
        return nearest_many(store, keys, **how)

    monkeypatch.setattr(fpstore.Store, "_probe_many", probing)
    monkeypatch.setattr(fpstore.Store, "nearest_many", looking)
    assert command("pairs", path, "--threads", "1").status == 0
    assert len(asked) == 2 * 2 + 1
    assert set(asked) == {1}
    with Shards(path) as many, pytest.raises(ValueError, match="threads"):
        many.pairs(threads=0)


def test_stats_and_verify_tell_of_each_store_of_a_list(tmp_path: Path, command: Command) -> None:
    path, whole = listed(tmp_path, True, 3, 0)
    stores = sorted(tmp_path.glob("*.fpstore"))
    one, many = command("stats", *stores), command("stats", path, whole)
    with Shards(path) as every:
        total = sum(store.count() for store in every.stores)
    assert many.lines[0] == f"{path}: 3 stores, {total:,} fingerprints in all"
    assert many.lines[1 : 1 + len(one.lines)] == one.lines
    assert f"{whole}" in many.lines[len(one.lines) :]
    assert command("stats", path, "--json") == command("stats", *stores, "--json")
    assert [json.loads(line)["path"] for line in command("verify", path, "--json").lines] == list(map(str, stores))


def test_a_list_that_is_not_as_it_was_is_one_error_of_each_command(tmp_path: Path, command: Command) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    (tmp_path / "q.hex").write_text("00000000000000ff\n")
    ranks = ("--folder", tmp_path / "f", "--world-size", "2", "--rank", "0")
    lines: list[tuple[Any, ...]] = [("stats",), ("verify",), ("nearest", "5"), ("probe", "5")]
    lines += [("probe", "--input", tmp_path / "q.hex", *more) for more in ((), ("--workers", "2"), ranks)]
    shutil.move(tmp_path / "1.fpstore", tmp_path / "away")
    for name, *more in lines:
        outcome = command(name, path, *more)
        assert (outcome.status, outcome.out) == (1, "")
        begin = "" if name == "verify" else "fpstore: "  # whose lines all begin with what they are about
        assert outcome.err == f"{begin}{tmp_path / '1.fpstore'}: No such file or directory\n"
    fpstore.build(tmp_path / "1.fpstore", [5]).close()
    for name, *more in lines:
        outcome = command(name, path, *more)
        assert (outcome.status, outcome.out) == (3, "")
        begin = "" if name == "verify" else "fpstore: "
        assert outcome.err.startswith(f"{begin}{tmp_path / '1.fpstore'}: found store ")
        assert "which is listed: another has taken its place" in outcome.err
    assert not (tmp_path / "f").exists()


def test_what_is_wrong_with_a_list_hides_no_store_beside_it(tmp_path: Path, command: Command) -> None:
    path, whole = listed(tmp_path, True, 2, 0)
    shutil.move(tmp_path / "1.fpstore", tmp_path / "away")
    for name in ("stats", "verify"):
        outcome = command(name, path, whole)
        assert outcome.status == 1
        assert outcome.err.count("No such file") == 1
        assert str(whole) in outcome.out
    told = [json.loads(line) for line in command("verify", path, whole, "--json").lines]
    assert [(each["path"], each["sound"]) for each in told] == [(str(path), False), (str(whole), True)]


def test_a_link_to_a_list_tells_of_the_stores_beside_the_list(tmp_path: Path, command: Command) -> None:
    (tmp_path / "here").mkdir()
    path, _ = listed(tmp_path / "here", True, 2, 0)
    link = tmp_path / "link.shards.json"
    link.symlink_to(path)
    for name in ("stats", "verify"):
        assert command(name, link, "--json") == command(name, path, "--json")
    # One that is written in a folder that a link names lists what lies where the folder is.
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "short").symlink_to(tmp_path / "deep" / "er")
    Shards.write(tmp_path / "short" / "b.shards.json", sorted((tmp_path / "here").glob("*.fpstore")))
    with Shards(tmp_path / "short" / "b.shards.json") as many:
        assert len(many.stores) == 2


def test_a_store_behind_a_link_and_two_dots_is_listed_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, key in (("far/here", 1), ("far", 2), (".", 3)):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        fpstore.build(tmp_path / folder / "a", [key]).close()
    (tmp_path / "lnk").symlink_to(tmp_path / "far" / "here")
    monkeypatch.chdir(tmp_path)
    for place, listed_as, key in (
        ("lnk/../a", "far/a", 2),
        ("lnk/../here/a/../../a", "far/a", 2),
        ("lnk/a", "lnk/a", 1),
        ("far/../a", "a", 3),
        ("lnk/a/../../../a/segments/..", "a", 3),
    ):
        Shards.write("web.shards.json", [place])
        assert [each.store for each in shards.listed(tmp_path / "web.shards.json").shards] == [listed_as]
        with Shards("web.shards.json") as many:
            assert many.probe(key, max_distance=0).fingerprint.tolist() == [key]


def test_what_a_far_distance_costs_is_said_of_all_stores_of_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [tmp_path / f"{number}" for number in range(3)]
    for number, path in enumerate(stores):
        fpstore.build(path, some_keys(1000 + number, 4), max_distance=3 + number % 2).close()
    Shards.write(tmp_path / "a.shards.json", stores)
    with Shards(tmp_path / "a.shards.json") as many:
        count = sum(store.stats().fingerprint_count or 0 for store in many.stores)
        for distance, limit in ((7, 3), (4, 3)):
            monkeypatch.setattr(radius, "_told", False)
            with pytest.warns(StoreWarning, match=f"^max_distance: {distance} is above the {limit} that plan") as told:
                many.probe_many([5], max_distance=distance)
            assert len(told) == 1
            assert told[0].filename == __file__
            assert f"a query of these {count:,} fingerprints of 3 stores takes some" in str(told[0].message)
        with pytest.raises(ValueError, match="max_distance: found 65"):
            many.probe_many([5], max_distance=65)
    for path in stores[:2]:
        shutil.rmtree(path)
        fpstore.build(path, some_keys(30_000 if path.name == "1" else 900, 4), plan="scan").close()
    Shards.write(tmp_path / "a.shards.json", stores)
    monkeypatch.setattr(radius, "_told", False)
    with Shards(tmp_path / "a.shards.json") as many:
        with pytest.warns(StoreWarning, match=r"reads them all; .* \(the largest such store of 3\)$") as told:
            many.probe_many([5], max_distance=3)
        assert f"{many.stores[1].stats().fingerprint_count:,} fingerprints" in str(told[0].message)


def test_a_list_is_refused_by_who_takes_one_store(tmp_path: Path, command: Command) -> None:
    path, _ = listed(tmp_path, True, 2, 0)
    (tmp_path / "q.hex").write_text("00000000000000ff\n")
    outcome = command("probe", path, "--input", tmp_path / "q.hex", "--unbuffered")
    assert outcome.status == 2
    assert "--unbuffered: found a list of stores, expected one store" in outcome.err
    for line in (
        ("cluster", "--components"),
        ("export", tmp_path / "o.csv"),
        ("compact",),
    ):
        outcome = command(line[0], path, *line[1:])
        assert (outcome.status, outcome.out) == (3, "")
        told = "found a list of stores, expected the folder of one: fpstore probe, nearest, lookup, pairs, serve, stats"
        assert told in outcome.err


@pytest.mark.parametrize("path", ["web.shards.json/", "web.shards.json/."])
def test_a_list_is_written_to_no_path_that_only_a_folder_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"^{path}: found a name without it, expected one that ends in"):
        Shards.write(path, [])
    assert not any(tmp_path.iterdir())
