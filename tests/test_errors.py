"""Errors say which file they are about, once, and whoever knows it first says it."""

import os
import pickle
from pathlib import Path

import pytest

import fpstore
from fpstore import format as layout
from fpstore.errors import (
    CorruptStore,
    Damage,
    Error,
    Naming,
    PlanError,
    StoreClosed,
    StoreLocked,
    UnsupportedVersion,
    corrupt,
)

PATH = Path("/a/store/segments/00000001.fpseg")


def test_a_message_begins_with_the_path_where_that_is_known() -> None:
    assert str(CorruptStore("header: cut short")) == "header: cut short"
    assert CorruptStore("header: cut short").path is None
    assert str(CorruptStore("header: cut short", path=PATH)) == f"{PATH}: header: cut short"
    assert str(CorruptStore("header: cut short", path="x")) == "x: header: cut short"


def test_what_a_message_says_is_in_attributes_too(tmp_path: Path) -> None:
    damaged = CorruptStore.of("footer, checksum", 1, "2 or 3", path=PATH)
    assert str(damaged) == f"{PATH}: footer, checksum: found 1, expected 2 or 3"
    assert (damaged.where, damaged.found, damaged.expected) == ("footer, checksum", "1", "2 or 3")
    places = [Damage("a", "table 1", "3", "4"), Damage("b", "ids", "", "")]
    assert (corrupt(places).where, corrupt(places).found, corrupt(places).expected) == ("table 1", "3", "4")
    version = UnsupportedVersion.of("header, version", 9, 3)
    assert (version.found, version.supported) == (9, 3)
    locked = StoreLocked.by(17, "process 17 is writing to this store", PATH)
    assert locked.pid == 17
    for error in (damaged, version, locked):
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), vars(again)) == (str(error), vars(error))
    assert (CorruptStore("odd").where, UnsupportedVersion("odd").found, StoreLocked("odd").pid) == ("", None, None)


def test_errors_about_a_store_say_in_attributes_what_their_message_says(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [1, 2, 3]).close()
    with fpstore.open(tmp_path / "s", "w"), pytest.raises(StoreLocked, match="this process") as locked:
        fpstore.open(tmp_path / "s", "w")
    assert locked.value.pid == os.getpid()
    (path,) = (tmp_path / "s" / "segments").iterdir()
    data = path.read_bytes()
    for offset, where in ((1, "footer, magic"), (30, "footer, checksum")):
        place = len(data) - layout.FOOTER_BYTES + offset if where != "footer, magic" else len(data) - 5
        path.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        with pytest.raises(CorruptStore) as damaged:
            fpstore.open(tmp_path / "s")
        error = damaged.value
        assert (error.path, error.where) == (path, where)
        assert str(error) == f"{path}: {where}: found {error.found}, expected {error.expected}"


@pytest.mark.parametrize("kind", [CorruptStore, UnsupportedVersion])
def test_bad_bytes_get_the_name_of_the_innermost_file(kind: type[Error]) -> None:
    with pytest.raises(kind, match=rf"^{PATH}: table 1 is odd$") as caught, Naming("/elsewhere"), Naming(PATH):
        raise kind("table 1 is odd")
    assert caught.value.path == PATH


def test_a_name_that_is_there_already_stays() -> None:
    with pytest.raises(CorruptStore, match=r"^b: odd$"), Naming(PATH):
        raise CorruptStore("odd", path="b")


@pytest.mark.parametrize("error", [StoreClosed("closed"), PlanError("misses"), ValueError("v"), KeyboardInterrupt()])
def test_what_is_not_about_bytes_gets_no_name(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, Naming(PATH):
        raise error
    assert caught.value is error
    assert str(PATH) not in str(error)


def test_the_path_travels_with_a_pickled_error() -> None:
    error = pickle.loads(pickle.dumps(CorruptStore("odd", path=PATH)))
    assert (str(error), error.path) == (f"{PATH}: odd", PATH)


def test_an_error_about_a_store_has_its_path(tmp_path: Path) -> None:
    path = tmp_path / "s"
    store = fpstore.create(path)
    with pytest.raises(StoreLocked) as locked:
        fpstore.open(path, "w")
    with pytest.raises(StoreLocked) as recovering:
        fpstore.recover(path, tmp_path / "new")
    store.close()
    with pytest.raises(StoreClosed) as closed:
        store.probe(1)
    for caught in (locked, recovering, closed):
        assert (caught.value.path, str(caught.value).count(str(path))) == (path, 1)


def test_one_context_serves_many_uses_at_once() -> None:
    naming = Naming(PATH)
    with pytest.raises(CorruptStore, match=rf"^{PATH}: inner$"), naming, naming:
        raise CorruptStore("inner")
