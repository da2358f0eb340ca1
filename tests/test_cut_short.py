"""A segment file that is cut short or replaced under its readers: an error or the answer as before, never a signal."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import uniform, write_segment

from fpstore import CorruptStore, _probe
from fpstore.plans import families as plans
from fpstore.segment import files
from fpstore.segment import reader as segments
from fpstore.segment.reader import Segment

SECONDS = 300


def run(what: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(__file__).parent / "cut_short.py"), what, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_the_process_that_these_tests_start_imports_the_build_under_test() -> None:
    code = "import fpstore._probe; print(fpstore._probe.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=True)
    assert done.stdout.strip() == _probe.__file__


@pytest.mark.slow
@pytest.mark.parametrize("what", ["cut_under_every_use", "cut_under_threads", "replace_by_name", "cut_in_a_child"])
def test_a_file_cut_under_its_readers_is_an_error_or_the_answer_as_before(what: str, tmp_path: Path) -> None:
    done = run(what, tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["foreign_fault", "sent_signal"])
def test_a_signal_that_is_not_ours_ends_the_process_as_before(what: str, tmp_path: Path) -> None:
    done = run(what, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGBUS, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["foreign_fault_after_faulthandler", "foreign_fault_under_faulthandler"])
def test_faulthandler_tells_of_a_signal_that_is_not_ours_and_of_no_other(what: str, tmp_path: Path) -> None:
    done = run(what, tmp_path)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "")
    assert done.stderr.count("Fatal Python error: Bus error") == 1
    assert "in read_a_foreign_mapping" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sent_signal_to_python", "sent_signal_ignored"])
def test_a_signal_that_was_sent_comes_to_those_who_wait_for_it(what: str, tmp_path: Path) -> None:
    done = run(what, tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    stored = uniform(5_000, np.random.default_rng(1))
    return write_segment(tmp_path / "x", stored, plans.flips(2, (1, 1), 3), slot_bits=7)


# Which of the bytes a copy asks for first differs from processor to processor, and with how many they are.
@pytest.mark.parametrize("length", [1, 5, 8, 24, 100, 1000, 4000])
def test_the_error_says_which_byte_is_gone(path: Path, length: int) -> None:
    segment = Segment(path)
    os.truncate(path, 8192)
    for _ in range(2):
        with pytest.raises(CorruptStore, match=rf"^{path}: file: found byte 8192 that could not be read, expected"):
            segment.read(8200, length)
        os.truncate(path, segment.file_bytes)  # what is gone stays gone
    with pytest.raises(CorruptStore, match=rf"^{path}: table 0, slot 0: found byte 8192 that could not be read"):
        next(segment.keys(0))
    segment.close()


def test_a_file_whose_end_is_another_has_been_cut_or_overwritten(path: Path) -> None:
    segment = Segment(path)
    os.truncate(path, segment.file_bytes - 5)
    with pytest.raises(CorruptStore, match=rf"^{path}: file: found another end of the file"):
        segment.read(0, 8)
    segment.close()


def test_a_file_cut_or_changed_while_it_is_opened_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = path.read_bytes()
    before, mapped = files.read_footer, files.map_file

    def cut(fd: int, file_bytes: int) -> object:
        footer = before(fd, file_bytes)
        os.truncate(path, 100)
        return footer

    def change(fd: int, file_bytes: int) -> object:
        found = mapped(fd, file_bytes)
        path.write_bytes(whole[:-64] + b"x" * 64)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(segments, "read_footer", cut)
        with pytest.raises(CorruptStore, match=f"^{path}: file: found fewer bytes, expected the {len(whole)} "):
            Segment(path)
    path.write_bytes(whole)
    monkeypatch.setattr(segments, "map_file", change)
    with pytest.raises(CorruptStore, match=f"^{path}: footer: found another one, expected that of the file"):
        Segment(path)


def test_bytes_outside_the_file_are_refused(path: Path) -> None:
    segment = Segment(path)
    for offset, length in ((segment.file_bytes, 1), (0, segment.file_bytes + 1), (1 << 63, 1 << 63)):
        with pytest.raises(ValueError, match=f"^{length} bytes at {offset}: the file has {segment.file_bytes}$"):
            segment.read(offset, length)
    assert segment.read(segment.file_bytes, 0) == b""
    segment.close()
