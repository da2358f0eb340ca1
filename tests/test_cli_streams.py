"""Standard streams: what is written arrives, or that it did not is told; closed ones matter where they are needed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jobs_model import write_jsonl

import fpstore
from fpstore.cli.streams import _Output, _Words

CLOSED = "closed, expected an open one"


def run_with_closed(closed: tuple[int, ...], *arguments: object) -> tuple[int, str, str]:
    """The status, the output and the errors of a command that starts with those streams closed."""
    code = f"import os, sys; [os.close(fd) for fd in {closed}]; os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-c", code, sys.executable, "-m", "fpstore", *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", ["a b c d", "e f g"])


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(1,), (2,), (0,), (0, 1, 2)])
def test_a_command_that_needs_no_stream_does_its_work(tmp_path: Path, source: Path, closed: tuple[int, ...]) -> None:
    status, out, err = run_with_closed(closed, "dedup", source, "-o", tmp_path / "kept.jsonl")
    assert (status, out) == (0, "")
    assert (tmp_path / "kept.jsonl").read_bytes() == source.read_bytes()
    assert ("kept 2" in err) == (2 not in closed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("recipe",),
        ("--help",),
        ("compare", "--text", "a b", "--text", "c"),
        ("cluster", "in.jsonl"),
        ("plan", "--n", "1e6"),
    ],
)
def test_results_that_cannot_be_written_are_one_line(source: Path, arguments: tuple[str, ...]) -> None:
    typed = [str(source) if each == "in.jsonl" else each for each in arguments]
    status, out, err = run_with_closed((1,), *typed)
    assert (status, out, err.splitlines()[-1:]) == (1, "", [f"fpstore: standard output: {CLOSED}"])
    assert run_with_closed((1, 2), *typed) == (1, "", "")


def test_standard_input_that_is_closed_is_one_line(tmp_path: Path) -> None:
    done = run_with_closed((0,), "build", tmp_path / "s.fpstore", "-", "--format", "hex")
    assert done == (1, "", f"fpstore: standard input: {CLOSED}\n")


@pytest.mark.slow
def test_no_file_gets_the_number_of_a_stream() -> None:
    code = """
import os
from fpstore.cli.streams import mend_standard_streams
mend_standard_streams()
fd = os.open(os.devnull, os.O_RDONLY)
os._exit(0 if fd > 2 else 1)
"""
    closing = "import os, sys; [os.close(fd) for fd in (0, 1, 2)]; os.execv(sys.executable, sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", closing, sys.executable, "-c", code], timeout=120)
    assert done.returncode == 0


LOOKS = [
    ("stats",),
    ("stats", "--spikes", "3", "--json"),
    ("inspect",),
    ("inspect", "1", "0", "0", "--all"),
    ("report",),
]


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something to say for each look."""
    path = tmp_path_factory.mktemp("looks") / "s"
    fpstore.build(path, np.arange(20_000, dtype=np.uint64), plan="paper-4").close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_a_look_at_a_store_whose_output_is_closed_or_left_ends_quietly(looked_at: Path, look: tuple[str, ...]) -> None:
    name, *rest = look
    assert run_with_closed((1,), name, looked_at, *rest) == (1, "", f"fpstore: standard output: {CLOSED}\n")
    typed = " ".join(map(str, [sys.executable, "-m", "fpstore", name, looked_at, *rest]))
    # Whoever reads has left before a byte is written.
    piped = ["bash", "-c", f"{{ sleep 0.2; {typed}; echo $? >&2; }} | true"]
    done = subprocess.run(piped, capture_output=True, timeout=120, text=True)
    assert (done.stdout, done.stderr) == ("", "141\n")


# --- Outputs that cannot take all of it ---

ROWS = 3000
# More than one write can put into the file at its limit, and less than what each command below writes.
ROOM = 5000
LIMIT = 1 << 36


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, its fingerprints and as many texts."""
    made = tmp_path_factory.mktemp("streams")
    values = np.arange(ROWS, dtype=np.uint64) << np.uint64(20)
    np.save(made / "values.npy", values)
    fpstore.build(made / "s.fpstore", values, max_distance=0, plan="size").close()
    write_jsonl(made / "in.jsonl", [f"w{i} x{i} y{i} z{i}" for i in range(ROWS)])
    return made


PRINTING: dict[str, tuple[str, ...]] = {
    "export": ("export", "s.fpstore", "-", "--format", "csv"),
    "probe": ("probe", "s.fpstore", "--input", "values.npy", "-k", "0"),
    "pairs": ("pairs", "s.fpstore", "-k", "0", "--header"),
    "add": ("add", "s.fpstore", "values.npy", "--ids", "from:9000", "--if-new", "-k", "0"),
    "dedup": ("dedup", "in.jsonl", "-o", "-"),
    "cluster": ("cluster", "in.jsonl"),
    "fingerprint": ("fingerprint", "in.jsonl"),
}
# To a file that has no room left behind ROOM bytes, while any other may grow.
INTO_A_FULL_FILE = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
out = os.open("out", os.O_RDWR | os.O_CREAT)
os.lseek(out, {LIMIT - ROOM}, os.SEEK_SET)
os.dup2(out, 1)
os.execv(sys.executable, [sys.executable, "-m", "fpstore", *sys.argv[1:]])
"""


def environment(unbuffered: str) -> dict[str, str]:
    return os.environ | {"PYTHONUNBUFFERED": unbuffered}


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("name", [name for name in PRINTING if name != "pairs"])
def test_an_output_that_was_cut_short_is_status_1(folder: Path, name: str, unbuffered: str) -> None:
    command = [sys.executable, "-c", INTO_A_FULL_FILE, *PRINTING[name]]
    done = subprocess.run(command, cwd=folder, env=environment(unbuffered), capture_output=True, timeout=120, text=True)
    assert os.path.getsize(folder / "out") == LIMIT
    (folder / "out").unlink()
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "fpstore: standard output: File too large")


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTING)
def test_without_a_buffer_the_same_is_written(folder: Path, name: str) -> None:
    command = [sys.executable, "-m", "fpstore", *PRINTING[name]]
    written = [
        subprocess.run(command, cwd=folder, env=environment(unbuffered), capture_output=True, timeout=120).stdout
        for unbuffered in ("", "1")
    ]
    assert written[0] == written[1]
    assert written[0].endswith(b"\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["export", "probe"])
def test_a_reader_that_leaves_is_status_141_without_a_buffer_too(folder: Path, name: str) -> None:
    command = [sys.executable, "-u", "-m", "fpstore", *PRINTING[name]]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(timeout=120), process.stderr.read()) == (141, b"")


# What is redirected where, of a command that has done its work, or has not: its status, what is said last, and what is
# there afterwards.
FULL = "fpstore: standard output: No space left on device"
REDIRECTED: dict[str, tuple[str, int, str | None, str]] = {
    "build, words": ("build new in.jsonl 2>/dev/full", 0, None, "new"),
    "create, words": ("create new 2>/dev/full", 0, None, "new"),
    "dedup, words": ("dedup in.jsonl -o new 2>/dev/full", 0, None, "new"),
    "export, words": ("export s.fpstore new.csv 2>/dev/full", 0, None, "new.csv"),
    "a command line that is wrong, words": ("probe s.fpstore zzz 2>/dev/full", 2, None, ""),
    "an input that is bad, words": ("dedup bad.jsonl -o new 2>/dev/full", 1, None, ""),
    "a store that is none, words": ("stats in.jsonl 2>/dev/full", 3, None, ""),
    "words that nobody reads": ("build new in.jsonl 2> >(true)", 0, None, "new"),
    "help": ("--help >/dev/full", 1, FULL, ""),
    "dedup": ("dedup in.jsonl -o - >/dev/full", 1, FULL, ""),
    "stats": ("stats s.fpstore >/dev/full", 1, FULL, ""),
    "all": ("stats s.fpstore &>/dev/full", 1, None, ""),
    "add --if-new, no duplicates": ("add s.fpstore in.hex --ids from:9 >&-", 0, "", ""),
    "a coprocess": ("probe s.fpstore --input in.hex --unbuffered >/dev/full", 1, FULL, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize(("line", "status", "last", "made"), REDIRECTED.values(), ids=REDIRECTED)
def test_the_status_is_that_of_the_work_whatever_takes_the_words(
    tmp_path: Path, line: str, status: int, last: str | None, made: str
) -> None:
    fpstore.build(tmp_path / "s.fpstore", np.arange(3, dtype=np.uint64)).close()
    write_jsonl(tmp_path / "in.jsonl", ["a b c d", "e f g"])
    (tmp_path / "bad.jsonl").write_text("bad\n")
    (tmp_path / "in.hex").write_text("1234567812345678\n")
    before = set(os.listdir(tmp_path))
    command = ["bash", "-c", f"{sys.executable} -m fpstore {line}"]
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, text=True)
    assert (done.returncode, done.stdout) == (status, "")
    if last is None:
        assert done.stderr == ""
    elif last:
        assert done.stderr.splitlines()[-1] == last
    visible = {name for name in set(os.listdir(tmp_path)) - before if not name.startswith(".")}
    assert visible == ({made} if made else set())


@pytest.mark.slow
def test_what_was_added_is_said_though_the_lines_of_the_rest_go_nowhere(folder: Path) -> None:
    """They are stored, durably, whatever becomes of the output."""
    fpstore.build(folder / "new.fpstore", np.array([0], dtype=np.uint64), max_distance=0).close()
    line = f"{sys.executable} -m fpstore add new.fpstore values.npy --ids from:9000 --if-new >&-"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, timeout=120, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"new.fpstore: added {ROWS - 1} of {ROWS} rows",
        f"fpstore: standard output: {CLOSED}",
    ]
    with fpstore.open(folder / "new.fpstore") as store:
        assert store.count("rows") == ROWS


def test_words_that_cannot_be_written_are_dropped() -> None:
    with open("/dev/full", "wb") as full:
        words = _Words(full.fileno(), "w", closefd=False)
        assert words.write(b"words") == 5
        output = _Output(full.fileno(), "w", closefd=False)
        with pytest.raises(OSError, match="No space left") as caught:
            output.write(b"results")
        assert caught.value.filename == "standard output"
