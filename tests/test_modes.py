"""Whom a store's files are for: the mode of its folder says it, whatever the umask, for all that is ever made."""

import os
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from living import MORE, SOME, ids_from

import fpstore
from fpstore import cli
from fpstore.cli import main


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(path: Path) -> set[str]:
    """Those of the folders and of the files, in octal."""
    every = [path, *path.rglob("*")]
    return {f"{'folder' if each.is_dir() else 'file'} {stat.S_IMODE(each.stat().st_mode):o}" for each in every}


def used(path: Path) -> Path:
    """The store at path, after flushes and merges and with something set aside."""
    (path / "segments" / "00000050.fpseg").write_bytes(b"strange")
    (path / "segments" / "00000050.fpseg").chmod(stat.S_IMODE(path.stat().st_mode) & 0o666)
    with pytest.warns(UserWarning, match="00000050"):
        store = fpstore.open(path, "w")
    with store:
        store.add(MORE, ids=ids_from(0, 300))
        store._flush()
        store.compact()
        store.add([1], ids=[1])
    return path


def test_a_store_is_its_owners_alone_by_default(tmp_path: Path, umask: int) -> None:
    fpstore.build(tmp_path / "built", SOME).close()
    fpstore.create(tmp_path / "created").close()
    with fpstore.open(tmp_path / "built") as store:
        store.copy(tmp_path / "copied")
    for name in ("built", "created", "copied"):
        assert modes(used(tmp_path / name)) == {"folder 700", "file 600"}


@pytest.mark.parametrize(("mode", "found"), [(0o640, (0o750, 0o640)), (0o750, (0o750, 0o640)), (0o664, (0o775, 0o664))])
def test_the_mode_that_was_asked_for_holds_for_all_that_is_ever_made(
    tmp_path: Path, umask: int, mode: int, found: tuple[int, int]
) -> None:
    expected = {f"folder {found[0]:o}", f"file {found[1]:o}"}
    fpstore.build(tmp_path / "built", SOME, mode=mode).close()
    fpstore.create(tmp_path / "created", mode=mode).close()
    with fpstore.open(tmp_path / "built") as store:
        store.copy(tmp_path / "copied", mode=mode)
    for name in ("built", "created", "copied"):
        assert modes(used(tmp_path / name)) == expected


def test_a_build_by_force_keeps_the_mode_or_takes_another(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", SOME, mode=0o640).close()
    fpstore.build(tmp_path / "s", MORE, force=True).close()
    assert modes(tmp_path / "s") == {"folder 750", "file 640"}
    fpstore.build(tmp_path / "s", SOME, force=True, mode=0o600).close()
    assert modes(tmp_path / "s") == {"folder 700", "file 600"}


def test_a_build_by_force_changes_no_mode_of_what_the_store_has_not_made(tmp_path: Path) -> None:
    store, secret = tmp_path / "s", tmp_path / "secret"
    fpstore.build(store, SOME).close()
    secret.write_text("a password")
    secret.chmod(0o600)
    (store / "writer.lock").unlink(missing_ok=True)
    for name in ("writer.lock", "linked", "segments/linked", "segments/00000077.fpseg"):
        os.link(secret, store / name)
    (store / "own.txt").write_text("a user's")
    (store / "own.txt").chmod(0o600)
    with pytest.warns(UserWarning, match="00000077"):
        fpstore.build(store, MORE, force=True, mode=0o644).close()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (secret, store / "own.txt")} == {0o600}
    assert stat.S_IMODE((store / "catalog.mdb").stat().st_mode) == 0o644


def test_who_changes_the_mode_of_the_folder_says_it_for_what_comes(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    (tmp_path / "s").chmod(0o750)
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add([1], ids=[1])
        store._flush()
        assert stat.S_IMODE(store._segments[0].path.stat().st_mode) == 0o640
        assert stat.S_IMODE(store._segments[0].path.parent.stat().st_mode) == 0o750


@pytest.mark.parametrize("mode", [-1, 0, 0o040, 0o400, 0o1000, 0o4755, "0640", 6.5, True])
def test_a_mode_with_which_its_owner_cannot_work_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ValueError, match=r"mode: found .*, expected bits such as 0o640"):
        fpstore.create(tmp_path / "s", mode=mode)
    with pytest.raises(ValueError, match=r"mode: found .*, expected bits such as 0o640"):
        fpstore.build(tmp_path / "s", SOME, mode=mode)
    with fpstore.create(tmp_path / "t") as store, pytest.raises(ValueError, match="mode: found"):
        store.copy(tmp_path / "s", mode=mode)
    assert [each.name for each in tmp_path.iterdir()] == ["t"]


def test_the_command_line_takes_a_mode_in_octal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_text("0123456789abcdef\n")
    built, created, copied = (str(tmp_path / name) for name in ("built", "created", "copied"))
    assert main(["build", built, str(tmp_path / "in"), "--format", "hex", "--mode", "0640"]) == 0
    assert main(["create", created, "--mode", "750"]) == 0
    assert main(["copy", built, copied, "--mode", "640"]) == 0
    for name in (built, created, copied):
        assert modes(Path(name)) == {"folder 750", "file 640"}
    for typed in ("0o640", "rw-r-----", "0888", "00640", ""):
        assert main(["create", str(tmp_path / "s"), "--mode", typed]) == 2
        assert "expected octal digits such as 0640 or 0750" in capsys.readouterr().err
    assert main(["create", str(tmp_path / "s"), "--mode", "0040"]) == 2


def test_the_command_line_tells_a_warning_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fpstore.create(tmp_path / "s").close()
    (tmp_path / "s" / "segments" / "00000050.fpseg").write_bytes(b"strange")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["compact", str(tmp_path / "s")]) == 0
    line, _ = capsys.readouterr().err.splitlines()
    assert line.startswith(f"fpstore: warning: {tmp_path / 's'}: found segments that its catalog never named, 00000050")
    left = []
    cli._telling(lambda *given: left.append(given))("for programmers", DeprecationWarning, "x.py", 7)
    assert left == [("for programmers", DeprecationWarning, "x.py", 7)]
