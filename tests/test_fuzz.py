"""The fuzzer of the compiled core finds nothing, and finds what is planted; `make fuzz` is this at full length."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import fuzz

SECONDS = 300


def run_fuzz(*arguments: object) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, fuzz.ROOT / "tools" / "fuzz.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.slow
def test_thousands_of_hostile_files_do_no_harm() -> None:
    done = run_fuzz("--inputs", 3_000, "--jobs", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    # The first of them are whole segments, which decode to their end.
    assert "job 0: 36 of 36 files sound; 3000 inputs" in done.stdout
    assert "0 findings" in done.stdout


@pytest.mark.slow
def test_a_check_that_is_missing_is_found() -> None:
    done = run_fuzz("--inputs", 100_000, "--jobs", 1, "--plant", "block-outside-payload")
    assert done.returncode == 0, done.stdout + done.stderr
    # Whichever comes first: memory that is not the image's is read, or by one set of kernels and not by the other.
    assert "ERROR: AddressSanitizer" in done.stdout or "the portable kernels do what the fast ones do" in done.stdout
    assert "1 findings" in done.stdout


@pytest.mark.parametrize("plant", fuzz.PLANTS)
def test_each_check_to_take_out_is_in_the_kernels(plant: str) -> None:
    name, check, _ = fuzz.PLANTS[plant]
    assert (fuzz.ROOT / "fpstore" / "native" / name).read_text().count(check) == 1


def test_a_check_that_is_no_longer_there_cannot_be_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fuzz.PLANTS, "gone", ("view.c", "no such check", ""))
    with pytest.raises(SystemExit, match=r"^view\.c: expected once what --plant gone takes out: no such check"):
        fuzz.build(tmp_path, "gone")


def test_a_finding_is_kept_and_is_exit_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(folder: Path, _: str | None) -> Path:
        # A fuzzer that finds something at once: its fourth argument says where to write it.
        (folder / "fuzz").write_text('#!/bin/sh\necho hostile > "$4"\necho "does not hold: it" >&2\nexit 1\n')
        (folder / "fuzz").chmod(0o700)
        return folder / "fuzz"

    monkeypatch.setattr(fuzz, "build", build)
    monkeypatch.setattr(fuzz, "write_seeds", lambda folder: [folder / "seed"])
    findings = tmp_path / "findings"
    monkeypatch.setattr(sys, "argv", ["fuzz", "--jobs", "2", "--findings", str(findings)])
    assert fuzz.main() == 1
    said = capsys.readouterr().out
    assert said.count("ended early") == 2
    assert said.count("does not hold: it") == 2
    assert f"to run one again: cd {findings} && ./fuzz 0 0 0 again finding-0" in said
    assert {path.name for path in findings.iterdir()} == {"fuzz", "finding-0", "finding-1"}
