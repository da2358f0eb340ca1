"""Errors say which file they are about, once, and whoever knows it first says it."""

import ast
import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fpstore
from fpstore import format as layout
from fpstore.errors import (
    CorruptStore,
    Damage,
    Naming,
    PlanError,
    StoreClosed,
    StoreLocked,
    UnsupportedVersion,
    Wrong,
    corrupt,
)

ROOT = Path(fpstore.__file__).parent
SOURCES = sorted(path for suffix in ("py", "pyx") for path in ROOT.rglob(f"*.{suffix}"))
# How many parts the message of an error is made of, by its name.
PARTS = {"CorruptStore": 3, "UnsupportedVersion": 3, "Wrong": 3, "Damage": 4}
PATH = Path("/a/store/segments/00000001.fpseg")


def test_a_message_begins_with_the_path_where_that_is_known() -> None:
    line = "header: found 3, expected 4"
    assert str(CorruptStore("header", 3, 4)) == line
    assert CorruptStore("header", 3, 4).path is None
    assert str(CorruptStore("header", 3, 4, path=PATH)) == f"{PATH}: {line}"
    assert str(CorruptStore("header", 3, 4, path="x", note="all is lost")) == f"x: {line}; all is lost"


def test_what_a_message_says_is_in_attributes_too(tmp_path: Path) -> None:
    damaged = CorruptStore("footer, checksum", 1, "2 or 3", path=PATH)
    assert str(damaged) == f"{PATH}: footer, checksum: found 1, expected 2 or 3"
    assert (damaged.where, damaged.found, damaged.expected) == ("footer, checksum", "1", "2 or 3")
    places = [Damage("a", "table 1", "3", "4"), Damage("b", "ids", "1", "2")]
    assert (corrupt(places).where, corrupt(places).found, corrupt(places).expected) == ("table 1", "3", "4")
    version = UnsupportedVersion("header, version", 9, 3)
    assert (version.found, version.supported) == (9, 3)
    locked = StoreLocked("process 17 is writing to this store", pid=17, path=PATH)
    assert locked.pid == 17
    for error in (
        damaged,
        version,
        locked,
        corrupt(places),
        CorruptStore("a", 1, 2, note="n", path="p"),
        Wrong("a", 1, 2),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), vars(again)) == (str(error), vars(error))
    assert StoreLocked("odd").pid is None


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
def test_bad_bytes_get_the_name_of_the_innermost_file(kind: type[CorruptStore] | type[UnsupportedVersion]) -> None:
    with pytest.raises(kind, match=rf"^{PATH}: table 1: found 2, expected 3") as caught, Naming("/e"), Naming(PATH):
        raise kind("table 1", 2, 3)
    assert caught.value.path == PATH


def test_a_name_that_is_there_already_stays() -> None:
    with pytest.raises(CorruptStore, match=r"^b: odd: found 2, expected 1$"), Naming(PATH):
        raise CorruptStore("odd", 2, 1, path="b")


@pytest.mark.parametrize("error", [StoreClosed("closed"), PlanError("misses"), ValueError("v"), KeyboardInterrupt()])
def test_what_is_not_about_bytes_gets_no_name(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, Naming(PATH):
        raise error
    assert caught.value is error
    assert str(PATH) not in str(error)


def test_the_path_travels_with_a_pickled_error() -> None:
    error = pickle.loads(pickle.dumps(CorruptStore("odd", 2, 1, path=PATH)))
    assert (str(error), error.path) == (f"{PATH}: odd: found 2, expected 1", PATH)


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
    with pytest.raises(CorruptStore, match=rf"^{PATH}: inner: found"), naming, naming:
        raise CorruptStore("inner", 1, 2)


def calls_in(source: str) -> Iterator[ast.Call]:
    """Every place where an error of PARTS is made, in Python or Cython; the calls are Python in both."""
    for found in re.finditer(rf"(?<![\w.\[])(?<!class )({'|'.join(PARTS)})\(", source):
        for end in (each.end() for each in re.finditer(r"\)", source[found.end() :])):
            try:
                tree = ast.parse(source[found.start() : found.end() + end], mode="eval").body
            except SyntaxError:
                continue
            assert isinstance(tree, ast.Call)
            yield tree
            break


def test_every_error_about_stored_bytes_is_made_of_its_three_parts() -> None:
    """So that the message has one form, and nobody takes it apart. tests/conftest.py looks at each that is met."""
    known = 0
    for path in SOURCES:
        source = path.read_text()
        if path.name == "errors.py":
            source = source.partition("class Error(")[0] + source.partition("class NotAStore")[2]
        for call in calls_in(source):
            assert isinstance(call.func, ast.Name)
            stars = [each for each in call.args if isinstance(each, ast.Starred)]
            assert stars or len(call.args) >= PARTS[call.func.id], (path, ast.unparse(call))
            words = [part.value for each in call.args for part in ast.walk(each) if isinstance(part, ast.Constant)]
            told = " ".join(word for word in words if isinstance(word, str))
            assert not re.search(r"^: |: found |\bfound .* expected\b", told), (path, ast.unparse(call))
            known += 1
    assert known > 90


def test_what_a_check_refused_is_told_in_the_same_form() -> None:
    damaged = CorruptStore.by(Wrong("a number", 3, "4"), "catalog", path=PATH)
    assert str(damaged) == f"{PATH}: catalog, a number: found 3, expected 4"
    assert str(CorruptStore.by(Wrong("a number", 3, "4"), "")) == "a number: found 3, expected 4"
    odd = CorruptStore.by(ValueError("odd"), "catalog")
    assert (odd.where, odd.found, odd.expected) == ("catalog", "what is refused (odd)", "what fpstore writes")
    assert CorruptStore.by(ValueError("odd"), "").where == "a record"
    assert str(odd.in_file("f")) == "f: catalog: found what is refused (odd), expected what fpstore writes"
    assert damaged.in_file("f").segment == str(PATH)
