"""What docs/operations.md says of backups, deploys, other users, containers and mounts, played as it says."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from living import MORE, SOME, ids_from, store_of_some

import fpstore
from fpstore import StoreChanged
from fpstore.cli import main
from fpstore.living import reader as readers

NOBODY = 65534
READ = "import sys, fpstore; print(sum(map(len, fpstore.open(sys.argv[1]).rows())))"


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return store_of_some(tmp_path / "live")


@pytest.fixture(autouse=True)
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LOOK_SECONDS", 0.0)


def count(path: Path) -> int:
    with fpstore.open(path) as store:
        store.verify()
        return store.count()


def read_all(path: Path) -> int:
    with fpstore.open(path) as store:
        return sum(map(len, store.rows()))


def as_nobody(path: Path, work: Callable[[Path], int] = read_all) -> int | str:
    """What work gives to another user, in a fork of this process, or the error that he gets."""
    hear, say = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            found: int | str = work(path)
        except Exception as error:
            found = type(error).__name__
        os.write(say, repr(found).encode())
        os._exit(0)
    os.close(say)
    os.waitpid(child, 0)
    with os.fdopen(hear) as answer:
        said = answer.read()
    return int(said) if said.isdigit() else said


# --- Backup and restore ---


def test_a_store_that_nobody_writes_to_is_copied_by_the_file_system(live: Path, tmp_path: Path) -> None:
    shutil.copytree(live, tmp_path / "backup")
    with fpstore.open(live) as one, fpstore.open(tmp_path / "backup") as other:
        assert one.identity == other.identity
    with fpstore.open(live, "w") as store:
        store.add(MORE, ids=ids_from(1000, 300))
        store.compact()
    assert (count(live), count(tmp_path / "backup")) == (600, 300)


def test_a_backup_that_shares_segments_by_hard_links_stays_as_it_was(live: Path, tmp_path: Path) -> None:
    with fpstore.open(live, "w") as store:
        store.add(MORE[:50], ids=ids_from(1000, 50))
    shutil.copytree(live, tmp_path / "backup", ignore=shutil.ignore_patterns("*.fpseg"))
    for segment in (live / "segments").iterdir():
        os.link(segment, tmp_path / "backup" / "segments" / segment.name)
    with fpstore.open(live, "w") as store:
        store.add(MORE[50:], ids=ids_from(1050, 250))
        store.compact()
        store.remove(fingerprints=SOME)
    assert (count(live), count(tmp_path / "backup")) == (300, 350)


def test_a_restore_beside_the_store_that_is_renamed_is_noticed_by_who_has_it_open(live: Path, tmp_path: Path) -> None:
    shutil.copytree(live, tmp_path / "backup")
    with fpstore.open(live, "w") as writer, fpstore.open(live) as reader:
        writer.add(MORE, ids=ids_from(1000, 300))
        live.rename(tmp_path / "old")
        shutil.copytree(tmp_path / "backup", live)
        with pytest.raises(StoreChanged):
            reader.probe(1)
        with pytest.raises(StoreChanged):
            writer.add([1], ids=[1])
    assert (count(live), count(tmp_path / "old")) == (300, 600)


# --- Deploys ---


def test_a_deploy_by_rename_leaves_both_stores_as_they_are(live: Path, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "new", MORE[:100]).close()
    with fpstore.open(live, "w") as writer, fpstore.open(live) as reader:
        writer.add(MORE[:7], ids=ids_from(1000, 7))
        live.rename(tmp_path / "old")
        (tmp_path / "new").rename(live)
        with pytest.raises(StoreChanged, match="open the store again"):
            reader.probe(1)
        with pytest.raises(StoreChanged, match="nothing was written"):
            writer._flush()
        with fpstore.open(live) as again:
            assert again.count() == 100
    assert (count(live), count(tmp_path / "old")) == (100, 307)


def test_a_deploy_by_a_link_is_noticed_by_who_came_through_it(live: Path, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "second", MORE[:100]).close()
    current = tmp_path / "current"
    current.symlink_to(live)
    with fpstore.open(current) as reader, fpstore.open(live) as direct:
        (tmp_path / "x").symlink_to(tmp_path / "second")
        (tmp_path / "x").replace(current)
        with pytest.raises(StoreChanged):
            reader.probe(1)
        assert direct.count() == 300
    assert count(current) == 100


# --- Who may read ---


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root may")
def test_another_user_reads_beside_a_writer_without_write_access(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:  # those that pytest made
            folder.chmod(0o755)
    with fpstore.create(tmp_path / "shared", mode=0o644) as writer:
        writer.add(SOME, ids=ids_from(0, 300))
        assert as_nobody(tmp_path / "shared") == 300
        writer._flush()
        writer.add(MORE, ids=ids_from(300, 300))
        assert as_nobody(tmp_path / "shared") == 600
    with fpstore.create(tmp_path / "private"):
        assert as_nobody(tmp_path / "private") == "'PermissionError'"
        # It is the machine that would not; the command line is as it should be.
        assert as_nobody(tmp_path / "private", lambda path: main(["stats", str(path)])) == 1


def _may_unshare() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run(["unshare", "--pid", "--fork", "true"]).returncode


@pytest.mark.slow
@pytest.mark.skipif(not _may_unshare(), reason="makes a namespace of processes, which this user or kernel may not")
def test_processes_of_equal_numbers_in_two_containers_share_a_store(live: Path) -> None:
    contained = ("unshare", "--pid", "--fork")
    with fpstore.open(live, "w") as writer:
        running = [
            subprocess.Popen(
                [*contained, sys.executable, "-c", f"import os\nassert os.getpid() == 1\n{READ}", os.fspath(live)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        assert [process.communicate(timeout=60)[0].strip() for process in running] == ["300", "300"]
        second = f"import fpstore; fpstore.open({os.fspath(live)!r}, 'w')"
        said = subprocess.run([*contained, sys.executable, "-c", second], capture_output=True, text=True, timeout=60)
        assert f"process {os.getpid()} is writing to this store" in said.stderr
        writer.add([1], ids=[1000])


def test_a_limit_on_file_sizes_below_the_catalogs_is_named(live: Path) -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); {READ}"
    found = subprocess.run([sys.executable, "-c", limited, os.fspath(live)], capture_output=True, text=True, timeout=60)
    assert f"OSError: [Errno 27] File too large: '{live / 'catalog.mdb'}'" in found.stderr
    assert count(live) == 300


def test_a_restored_store_has_the_largest_id_of_its_moment(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add([1], ids=[7])
    shutil.copytree(tmp_path / "s", tmp_path / "backup")
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add([2], ids=[9])
        assert store.max_id() == 9
    (tmp_path / "s").rename(tmp_path / "aside")
    (tmp_path / "backup").rename(tmp_path / "s")
    with fpstore.open(tmp_path / "s") as store:
        assert store.max_id() == 7
