"""Errors say which file they are about, once, and whoever knows it first says it."""

import pickle
from pathlib import Path

import pytest

import fpstore
from fpstore.errors import CorruptStore, Error, Naming, PlanError, StoreClosed, StoreLocked, UnsupportedVersion

PATH = Path("/a/store/segments/00000001.fpseg")


def test_a_message_begins_with_the_path_where_that_is_known() -> None:
    assert str(CorruptStore("header: cut short")) == "header: cut short"
    assert CorruptStore("header: cut short").path is None
    assert str(CorruptStore("header: cut short", path=PATH)) == f"{PATH}: header: cut short"
    assert str(CorruptStore("header: cut short", path="x")) == "x: header: cut short"


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
