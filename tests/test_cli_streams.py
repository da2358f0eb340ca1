"""Standard streams: what is written arrives, or that it did not is told; closed ones matter where they are needed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jobs_model import write_jsonl

import fpstore

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


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_a_look_at_a_store_whose_output_is_closed_or_left_ends_quietly(tmp_path: Path, look: tuple[str, ...]) -> None:
    fpstore.build(tmp_path / "s", np.arange(200_000, dtype=np.uint64), plan="paper-4").close()
    name, *rest = look
    assert run_with_closed((1,), name, tmp_path / "s", *rest) == (1, "", f"fpstore: standard output: {CLOSED}\n")
    typed = " ".join(map(str, [sys.executable, "-m", "fpstore", name, tmp_path / "s", *rest]))
    # Whoever reads has left before a byte is written.
    piped = ["bash", "-c", f"{{ sleep 1; {typed}; echo $? >&2; }} | true"]
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
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "fpstore: File too large")


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
