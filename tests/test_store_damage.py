"""What is on disk is a stranger's: a store that is damaged, or put together of parts of others, says so in one line."""

# mypy: disable-error-code="arg-type, attr-defined, type-arg, union-attr"

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import uniform
from living import writer_of

import fpstore
from fpstore import CorruptStore, StoreClosed, UnsupportedVersion, base
from fpstore.living import opening
from fpstore.living.catalog import Catalog, create_catalog
from fpstore.living.state import Settings
from fpstore.plans import families as plans
from fpstore.store import Store
from fpstore.types import Keys

COUNT = 500


def some(count: int = COUNT, seed: int = 1) -> Keys:
    return uniform(count, np.random.default_rng(seed))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of some(), with row numbers."""
    fpstore.build(tmp_path / "s", some(), plan="paper-4").close()
    return tmp_path / "s"


def segment_path(folder: Path) -> Path:
    (path,) = (folder / "segments").iterdir()
    return path


def every_use(store: Store | None) -> list[Callable[..., Any]]:
    return [
        lambda: store.probe(1),
        lambda: store.probe_many([1]),
        lambda: store.contains_near(1),
        lambda: list(store.pairs()),
        lambda: store.count_pairs(),
        lambda: store.verify(),
        lambda: store.report(),
        lambda: store.stats(largest_slots=1),
    ]


def one_line(error: pytest.ExceptionInfo) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_missing_segment_is_named(folder: Path) -> None:
    path = segment_path(folder)
    path.unlink()
    with pytest.raises(CorruptStore) as error:
        fpstore.open(folder)
    assert one_line(error) == f"{path}: segment: found none, expected the file that the catalog names"


def test_a_segment_that_is_cut_short_is_named(folder: Path) -> None:
    path = segment_path(folder)
    whole = path.read_bytes()
    for size in (0, 63, 64, 1000, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CorruptStore) as error:
            fpstore.open(folder)
        assert one_line(error).startswith(f"{path}: ")


def test_a_segment_of_another_store_is_refused(folder: Path, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "other", some(seed=2), plan="paper-4").close()
    path = segment_path(folder)
    shutil.copyfile(segment_path(tmp_path / "other"), path)
    with pytest.raises(CorruptStore) as error:
        fpstore.open(folder)
    assert one_line(error).startswith(f"{path}: segment: found (")


def test_a_segment_of_another_store_is_refused_though_all_its_sizes_are_the_same(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for seed, path in enumerate((one, other)):
        fpstore.build(path, some(seed=seed), codec="raw", plan="paper-4").close()
    assert segment_path(one).stat().st_size == segment_path(other).stat().st_size
    shutil.copyfile(segment_path(other), segment_path(one))
    with pytest.raises(CorruptStore, match="segment: found "):
        fpstore.open(one)


def recreate_catalog(folder: Path, **changes: Any) -> None:
    """The store's catalog, written anew with other settings."""
    with Catalog.open(folder) as catalog:
        state = catalog.state()
    (folder / "catalog.mdb").unlink()
    fields = {name: getattr(state.settings, name) for name in ("max_distance", "plan", "codec", "id_type")} | changes
    create_catalog(folder, Settings(**fields), state.segments)


@pytest.mark.parametrize(
    ("changes", "found", "expected"),
    [
        ({"plan": plans.paper("paper-10").to_json()}, r"'ffff000000000000', 0\)", r"'ffffffc000000000', 0\)"),
        ({"codec": "xor"}, r"\(64, 'gap', True", r"\(64, 'xor', True"),
        ({"id_type": None}, r"\(64, 'gap', True", r"\(64, 'gap', False"),
    ],
)
def test_a_catalog_that_says_something_else_than_the_segment_is_refused(
    folder: Path, changes: Any, found: str, expected: str
) -> None:
    recreate_catalog(folder, **changes)
    with pytest.raises(CorruptStore, match=f"segment: found .*{found}.*{expected}") as error:
        fpstore.open(folder)
    one_line(error)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plan": {"name": "mine"}}, "catalog, plan: .*"),
        ({"plan": {**plans.paper("paper-4").to_json(), "tables": []}}, "catalog, plan: .*"),
        ({"plan": plans.paper("paper-4").to_json() | {"max_distance": 4}}, "catalog, plan: .* would miss .*"),
        ({"max_distance": 4}, r"catalog, max_distance: found 4, expected at most 3 \(plan paper-4\)"),
    ],
)
def test_a_catalog_whose_plan_does_not_hold_is_refused(folder: Path, changes: Any, message: str) -> None:
    recreate_catalog(folder, **changes)
    with pytest.raises(CorruptStore, match=f"^{folder}: {message}$") as error:
        fpstore.open(folder)
    one_line(error)


def test_a_damaged_catalog_is_refused(folder: Path) -> None:
    data = bytearray((folder / "catalog.mdb").read_bytes())
    (folder / "catalog.mdb").write_bytes(data[:100])
    with pytest.raises(CorruptStore, match=f"^{folder}"):
        fpstore.open(folder)


def test_a_segment_of_a_later_version_says_so(folder: Path) -> None:
    path = segment_path(folder)
    data = bytearray(path.read_bytes())
    data[8] = 9
    path.write_bytes(data)
    with pytest.raises((UnsupportedVersion, CorruptStore), match=f"^{path}: ") as error:
        fpstore.open(folder)
    one_line(error)


def test_damage_met_by_any_use_names_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    fpstore.build(folder, some(20_000)).close()
    path = segment_path(folder)
    data = bytearray(path.read_bytes())
    with fpstore.open(folder) as store:
        summary_offset = store._segments[0].footer.summary_offset
    # Every page but those that opening checks: of the header, and of the records.
    for offset in range(4096, summary_offset - 4096, 4096):
        data[offset] ^= 1
    path.write_bytes(data)
    for i in range(len(every_use(None))):
        # Opened anew: pages are checked when they are first used.
        with fpstore.open(folder) as store, pytest.raises(CorruptStore) as error:
            every_use(store)[i]()
        assert one_line(error).startswith(f"{path}: ")
        assert one_line(error).count(str(path)) == 1
    with fpstore.open(folder) as store:
        store.stats()  # which are in the records


def test_verify_returns_what_it_read_and_lists_the_damage_of_every_segment(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", some(3000), plan="paper-4").close()
    with writer_of(tmp_path / "s", growth=0) as store:
        store.add(some(2000, seed=2), ids=np.arange(2000))
        store._flush()
        store.add([1], ids=[7])
        store.remove(ids=[3])
        found = store.verify()
    assert (found.segment_count, found.table_count, found.fingerprint_count, found.id_count) == (2, 8, 5000, 5000)
    assert (found.pending_count, found.removal_count) == (1, 1)
    paths = sorted((tmp_path / "s" / "segments").iterdir())
    assert found.size_bytes == sum(path.stat().st_size for path in paths)
    for path in paths:
        data = bytearray(path.read_bytes())
        data[5000] ^= 1
        path.write_bytes(data)
    with fpstore.open(tmp_path / "s") as store, pytest.raises(CorruptStore) as error:
        store.verify()
    assert [each.segment for each in error.value.damage] == [str(path) for path in paths]
    assert one_line(error) == f"{error.value.damage[0]} (and 1 more)"
    assert error.value.path == str(paths[0])


def test_damaged_ids_are_an_error_and_not_other_ids(tmp_path: Path) -> None:
    fingerprints = some(20_000)
    fpstore.build(tmp_path / "s", fingerprints).close()
    path = segment_path(tmp_path / "s")
    data = bytearray(path.read_bytes())
    with fpstore.open(tmp_path / "s") as store:
        data[store._segments[0].record.values_offset + 5000] ^= 1
    path.write_bytes(data)
    with fpstore.open(tmp_path / "s") as store, pytest.raises(CorruptStore, match=f"^{path}: ids, page at byte"):
        store.probe_many(fingerprints)


def test_a_store_that_is_replaced_while_it_is_opened_opens_as_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opening.open_part
    replacements = iter([some(seed=2), some(seed=3)])

    def open_late(*arguments: Any) -> Any:
        for fingerprints in replacements:
            fpstore_build(folder, fingerprints, force=True).close()
            break
        return first(*arguments)

    def fpstore_build(*args: object, **options: Any) -> Store:
        with monkeypatch.context() as patch:
            patch.setattr(opening, "open_part", first)
            return fpstore.build(*args, **options)

    monkeypatch.setattr(opening, "open_part", open_late)
    with fpstore.open(folder) as store:
        assert store.contains_near(int(some(seed=3)[0]))
        assert store._segments[0].path.name == "00000003.fpseg"
        store.verify()


@pytest.mark.parametrize(
    "error", [OSError(9, "Bad file descriptor"), CorruptStore("x", 1, 2), ValueError("mmap closed")]
)
def test_what_goes_wrong_because_the_store_was_closed_meanwhile_is_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    def fail(*_arguments: object) -> None:
        raise error

    def close_and_fail(*_arguments: object) -> None:
        store.close()
        raise error

    for check, expected in ((fail, type(error)), (close_and_fail, StoreClosed)):
        monkeypatch.setattr(base.verified, "verify_snapshot", check)
        with fpstore.open(folder) as store, pytest.raises(expected):
            store.verify()
