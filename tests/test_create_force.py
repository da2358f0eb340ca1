"""An empty store in the place of one that is there: with all its settings, or what was there stays as it was."""

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from living import SOME
from outcome import Command

import fpstore
from fpstore.disk import Folder
from fpstore.errors import CorruptStore, PlanError, RecipeError
from fpstore.living.catalog import Catalog

SETTINGS: dict[str, dict[str, Any]] = {
    "all as they are": {},
    **{f"id_type {each}": {"id_type": each} for each in (None, "uint64", "string", "bytes")},
    "max_distance": {"max_distance": 2},
    "plan": {"plan": "size"},
    "max_bytes": {"max_bytes": 30},
    "codec": {"codec": "xor"},
    "recipe": {"recipe": "words-4"},
    "shuffle": {"shuffle": 7},
    "mode": {"mode": 0o640},
}
BEFORE = (None, "uint64", "string", "bytes")
WRONG: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "id_type": (ValueError, {"id_type": "int32"}),
    "max_distance": (ValueError, {"max_distance": 65}),
    "plan": (PlanError, {"plan": "paper-5"}),
    "max_bytes": (PlanError, {"max_bytes": 0.5}),
    "max_bytes beside plan": (ValueError, {"max_bytes": 30, "plan": "size"}),
    "codec": (ValueError, {"codec": "zip"}),
    "recipe": (RecipeError, {"recipe": "none such"}),
    "shuffle": (ValueError, {"shuffle": "random"}),
    "mode": (ValueError, {"mode": 0o4755}),
    "durability": (ValueError, {"durability": "never"}),
    "exist_ok": (ValueError, {"exist_ok": True}),
}


def used(path: Path, id_type: Any) -> Path:
    """A store with a segment, rows that are in none, and a removal."""
    names = [f"name {index}" for index in range(len(SOME))]
    ids: dict[Any, Any] = {
        None: None,
        "uint64": np.arange(len(SOME), dtype=np.uint64),
        "string": names,
        "bytes": [name.encode() for name in names],
    }
    with fpstore.create(path, id_type=id_type, codec="gap", recipe="exact") as store:
        for part in (slice(0, 200), slice(200, 290)):
            store.add(SOME[part], **({} if id_type is None else {"ids": ids[id_type][part]}))
            if part.start == 0:
                store._flush()
        store.remove(fingerprints=SOME[:5])
    return path


def files_of(path: Path) -> dict[str, tuple[int, bytes]]:
    """Each file and folder, with its mode and its bytes; the lock of LMDB has none that last."""
    return {
        str(each.relative_to(path)): (each.stat().st_mode, each.read_bytes() if each.is_file() else b"")
        for each in [path, *path.rglob("*")]
        if not each.name.endswith("-lock")
    }


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def told(store: fpstore.Store) -> dict[str, Any]:
    """What a store says of itself that is not its own: no path, no size of its log."""
    stats = store.stats()
    counts = (stats.fingerprint_count, stats.pending_count, len(stats.segments), store.count())
    rows = [row for table in store.rows() for row in table]
    return {"settings": store._settings, "counts": counts, "rows": rows, "mode": store._living.home.mode & 0o777}


@pytest.mark.slow
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("wanted", SETTINGS)
def test_an_empty_store_by_force_is_the_one_that_would_be_new(tmp_path: Path, before: Any, wanted: str) -> None:
    settings = SETTINGS[wanted]
    used(tmp_path / "s", before)
    with fpstore.create(tmp_path / "new", **settings) as new:
        expected = told(new)
    with fpstore.create(tmp_path / "s", force=True, **settings) as store:
        assert told(store) == expected
        name: Any = {None: None, "uint64": 7, "string": "a", "bytes": b"a"}[store.id_type]
        store.add([1], ids=None if name is None else [name])
        store._flush()
        assert store.count() == 1
        store.verify()
    with fpstore.open(tmp_path / "s") as store:
        assert [row.fingerprint for table in store.rows() for row in table] == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "s"]
    assert len(list((tmp_path / "s" / "segments").iterdir())) == 1 + (store.id_type in ("string", "bytes"))


@pytest.mark.parametrize("before", ["uint64", "string"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_refused_touches_nothing(tmp_path: Path, before: Any, wrong: str) -> None:
    error, settings = WRONG[wrong]
    used(tmp_path / "s", before)
    files = files_of(tmp_path / "s")
    with pytest.raises(error):
        fpstore.create(tmp_path / "s", force=True, **settings)
    assert files_of(tmp_path / "s") == files


@pytest.mark.parametrize("before", BEFORE)
def test_a_build_that_fails_changes_no_mode(tmp_path: Path, before: Any) -> None:
    used(tmp_path / "s", before)
    with fpstore.open(tmp_path / "s") as store:
        expected = told(store)
    modes = {name: mode for name, (mode, _) in files_of(tmp_path / "s").items()}
    with pytest.raises(TypeError, match="found a str"):
        fpstore.build(tmp_path / "s", iter([SOME, "no array"]), ids=None, force=True, mode=0o666)
    with fpstore.open(tmp_path / "s") as store:
        assert told(store) == expected
    assert {name: mode for name, (mode, _) in files_of(tmp_path / "s").items()} == modes


def odd_modes(path: Path) -> dict[str, int]:
    """Give each folder and file of a store a mode that its folder's would not give it; what they are."""
    (path / "own.txt").write_text("a user's")
    for number, each in enumerate(sorted(set(path.rglob("*")) - {path / "writer.lock"})):  # every writer sets its mode
        each.chmod(0o700 | number % 8 if each.is_dir() else 0o600 | number % 8)
    return modes_of(path)


def modes_of(path: Path) -> dict[str, int]:
    return {str(each.relative_to(path)): each.stat().st_mode for each in [path, *path.rglob("*")]}


FAILS: dict[str, tuple[type[BaseException], dict[str, Any]]] = {
    "of nothing": (ValueError, {"fingerprints": []}),
    "of no array": (TypeError, {"fingerprints": [SOME, "no array"]}),
    "of an interrupted stream": (KeyboardInterrupt, {"fingerprints": SOME}),
    "of a plan that is none": (PlanError, {"fingerprints": SOME, "plan": "paper-5"}),
}


@pytest.mark.parametrize("mode", [None, 0o600, 0o664])
@pytest.mark.parametrize("fails", FAILS)
def test_a_build_that_fails_leaves_each_mode_as_it_was(tmp_path: Path, fails: str, mode: int | None) -> None:
    """Also those that are not what the mode of the folder would give."""
    path = used(tmp_path / "s", "string")
    expected = odd_modes(path)
    error, given = FAILS[fails]

    def interrupt(progress: object) -> None:
        raise KeyboardInterrupt

    asked = {**given, "progress": interrupt if error is KeyboardInterrupt else None}
    if fails == "of no array":
        asked["fingerprints"] = iter(given["fingerprints"])
    with pytest.raises(error):
        fpstore.build(path, ids=None, force=True, mode=mode, **asked)
    assert modes_of(path) == expected


def test_a_build_interrupted_behind_what_is_durable_has_the_mode_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Ctrl-C comes while the system writes the new catalog: its rows are not for whom the old ones were for."""
    path = used(tmp_path / "s", "string")
    path.chmod(0o755)
    (path / "catalog.mdb").chmod(0o644)
    publish = Catalog.publish

    def interrupt(catalog: Catalog, **given: Any) -> None:
        publish(catalog, **given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Catalog, "publish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fpstore.build(path, SOME, ids=None, force=True, mode=0o600)
    with fpstore.open(path) as store:
        assert store.count() == len(SOME)
    modes = {name: stat.S_IMODE(mode) for name, mode in modes_of(path).items()}
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}


def test_a_mode_that_may_not_be_changed_is_told_also_without_a_folder_of_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.fpstore"
    fpstore.create(path).close()
    (path / "segments").rmdir()

    def refuse(folder: Folder, mode: int) -> None:
        raise PermissionError("not the owner")

    monkeypatch.setattr(Folder, "set_mode", refuse)
    with pytest.raises(PermissionError, match="not the owner"):
        fpstore.build(path, SOME, force=True, mode=0o600)
    assert not (path / "segments").exists()


def test_a_store_that_cannot_be_swept_keeps_its_modes_and_its_missing_folder(tmp_path: Path) -> None:
    path = used(tmp_path / "s", None)
    (path / "aside").write_text("in the way")
    expected = odd_modes(path)
    with pytest.raises(CorruptStore, match="aside"):
        fpstore.build(path, SOME, ids=None, force=True, mode=0o666)
    assert modes_of(path) == expected
    fpstore.create(tmp_path / "e").close()
    (tmp_path / "e" / "segments").rmdir()
    (tmp_path / "e" / "aside").write_text("in the way")
    with pytest.raises(CorruptStore, match="aside"):
        fpstore.build(tmp_path / "e", SOME, force=True, mode=0o666)
    assert not (tmp_path / "e" / "segments").exists()


def test_what_the_command_refuses_leaves_each_mode_as_it_was(command: Command, tmp_path: Path) -> None:
    path = used(tmp_path / "s", "string")
    expected = odd_modes(path)
    (tmp_path / "empty.hex").touch()
    (tmp_path / "bad.hex").write_text("00000000000000ff\nno fingerprint\n")
    for given, more in (("empty.hex", ()), ("bad.hex", ()), ("none.hex", ()), ("bad.hex", ("--workers", "2"))):
        assert command("build", path, tmp_path / given, "--force", "--mode", "666", *more).status in (1, 2)
        assert modes_of(path) == expected
    assert command("create", path, "--exist-ok", "--mode", "666", "--id-type", "string").status == 2
    assert modes_of(path)["catalog.mdb"] == expected["catalog.mdb"]


@pytest.mark.parametrize("id_type", ["uint64", "string", "bytes", "none"])
def test_the_command_replaces_stores_of_each_kind(command: Command, tmp_path: Path, id_type: str) -> None:
    used(tmp_path / "s", "string")
    done = command("create", tmp_path / "s", "--id-type", id_type, "--force")
    assert (done.status, done.err.count("\n")) == (0, 1)
    with fpstore.open(tmp_path / "s") as store:
        assert (store.id_type, store.count()) == (None if id_type == "none" else id_type, 0)


@pytest.mark.parametrize("id_type", BEFORE)
@pytest.mark.parametrize("is_pending", [False, True])
def test_a_build_of_nothing_takes_the_place_of_nothing_alone(tmp_path: Path, id_type: Any, is_pending: bool) -> None:
    """An empty input may be a mistake; who wants the store empty makes an empty one in its place."""
    path = tmp_path / "s"
    fpstore.create(path, id_type=id_type).close()
    fpstore.build(path, [], ids=None, force=True).close()  # nothing is lost
    given: dict[Any, Any] = {None: {}, "uint64": {"ids": [1]}, "string": {"ids": ["a"]}, "bytes": {"ids": [b"a"]}}
    with fpstore.create(path, id_type=id_type, force=True) as store:
        store.add([7], **given[id_type])
        if not is_pending:
            store._flush()
    before = files_of(path)
    for build in (
        lambda: fpstore.build(path, [], ids=None, force=True),
        lambda: fpstore.build(path, iter(()), force=True),
        lambda: fpstore.minhash.build(path, [], ids=[], recipe="minhash-128", force=True),
    ):
        with pytest.raises(
            ValueError, match="found nothing to replace what the store holds, expected some; create with"
        ):
            build()
    with fpstore.open(path) as store:
        assert store.count() == 1
    assert {name: file for name, file in files_of(path).items() if "catalog" not in name} == {
        name: file for name, file in before.items() if "catalog" not in name
    }
    fpstore.create(path, force=True).close()
    with fpstore.open(path) as store:
        assert store.count() == 0


@pytest.mark.parametrize("by", ["fingerprint", "id", "pair"])
@pytest.mark.parametrize("kind", ["pending", "segment", "both", "compacted", "wide", "names", "signatures"])
def test_a_store_all_of_whose_rows_were_removed_holds_nothing(tmp_path: Path, kind: str, by: str) -> None:
    path = tmp_path / "s"
    ids: list[Any] = [1, 2]
    made: dict[str, Any] = {"names": {"id_type": "string"}, "wide": {"bits": 128, "max_distance": 9}}
    rows: Any = np.arange(4, dtype=np.uint64).reshape(2, 2) if kind == "wide" else [5, 6]
    if kind == "signatures":
        rows = np.arange(2 * 128, dtype=np.uint32).reshape(2, 128)
    if kind == "names":
        ids = ["a", "b"]
    create = fpstore.minhash.create if kind == "signatures" else fpstore.create
    open_it: Any = fpstore.minhash.open if kind == "signatures" else fpstore.open
    create(path, **made.get(kind, {})).close()
    with open_it(path, "w") as store:
        assert not store._holds_any()
        for at in range(2):
            store.add(rows[at : at + 1], ids=ids[at : at + 1])
            if kind not in ("pending", "both") or (kind, at) == ("both", 0):
                store._flush()
        whole = {"fingerprint": {"fingerprints": rows}, "id": {"ids": ids}, "pair": {"fingerprints": rows, "ids": ids}}
        asked = whole["id"] if kind == "signatures" else whole[by]
        store.remove(**{name: values[:1] for name, values in asked.items()})
        assert store._holds_any()
    with pytest.raises(ValueError, match="found nothing to replace what the store holds"):
        fpstore.build(path, [], ids=None, force=True)
    with open_it(path, "w") as store:
        store.remove(**asked)
        assert not store._holds_any()
        if kind == "compacted":
            store.compact()
            assert not store._holds_any()
    fpstore.build(path, [], ids=None, force=True).close()
    with fpstore.open(path) as store:
        assert store.count() == 0


def test_a_store_that_is_too_damaged_to_tell_is_replaced_by_something_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fpstore.build(path, SOME).close()
    (segment,) = (path / "segments").iterdir()
    whole = segment.read_bytes()
    for damaged in (bytes(len(whole)), whole[: len(whole) // 2], _flipped(whole, len(whole) // 2)):
        segment.write_bytes(damaged)
        with pytest.raises(ValueError, match="found nothing to replace what the store holds"):
            fpstore.build(path, [], force=True)
    fpstore.build(path, SOME[:3], force=True).close()
    with fpstore.open(path) as store:
        assert store.count() == 3


def test_the_command_says_empty_of_a_store_all_of_whose_rows_were_removed(command: Command, tmp_path: Path) -> None:
    for kind in ((), ("--recipe", "minhash-128")):
        store = tmp_path / f"s{len(kind)}"
        assert command("create", store, *kind).status == 0
        lines = tmp_path / "in.jsonl"
        lines.write_text('{"text": "some words that are long enough for shingles", "id": 1}\n')
        if kind:
            assert command("add", store, lines).status == 0
        else:
            with fpstore.open(store, "w") as opened:
                opened.add([7], ids=[1])
        assert "there already" in command("create", store, *kind, "--exist-ok").err
        assert command("remove", store, "--id", "1").status == 0
        assert "empty" in command("create", store, *kind, "--exist-ok").err


def test_an_empty_input_replaces_no_store_by_any_way_to_build(command: Command, tmp_path: Path) -> None:
    store, some, empty = tmp_path / "s", tmp_path / "some.hex", tmp_path / "empty.hex"
    some.write_text("00000000000000ff\n")
    empty.touch()
    assert command("build", store, some).status == 0
    for more in ((), ("--workers", "2"), ("--workers", "2", "--folder", tmp_path / "job")):
        outcome = command("build", store, empty, "--force", *more)
        assert (outcome.status, outcome.out) == (2, "")
        assert "found nothing to replace what the store holds" in outcome.err
        assert command("probe", store, "ff").out.count("\n") == 1
    assert command("create", store, "--force").status == 0
    assert command("build", store, empty, "--force").status == 0
