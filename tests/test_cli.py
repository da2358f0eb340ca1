"""`fpstore` itself: help, statuses, errors on one line, and the progress bar."""

# mypy: disable-error-code="union-attr"

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from outcome import Command, Outcome

import fpstore
from fpstore import Progress, cli, errors
from fpstore.cli import progress
from fpstore.cli.failures import failure_of, one_line
from fpstore.inputs import BadInput


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_and_the_bare_command_list_every_subcommand(command: Command) -> None:
    for arguments in (["--help"], []):
        outcome = command(*arguments)
        assert (outcome.status, outcome.err) == (0, "")
        for name in cli.SUBCOMMANDS:
            assert f"\n  {name} " in outcome.out


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_whether_a_file_may_be_read_is_found_by_who_opens_it(name: str) -> None:
    """Where click finds it, status and hint say that the command line is at fault."""
    subcommand = cli._fpstore.get_command(click.Context(cli._fpstore), name)
    paths = [each.type for each in subcommand.params if isinstance(each.type, click.Path)]
    assert not any(path.readable or path.exists for path in paths)


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_help_of_every_subcommand_has_an_example(command: Command, name: str) -> None:
    outcome = command(name, "--help")
    assert (outcome.status, outcome.err) == (0, "")
    assert f"  fpstore {name} " in outcome.out.partition("Example")[2]


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"], ["probe", "--help"]], ids=" ".join)
def test_help_imports_neither_numpy_nor_the_store(arguments: list[str]) -> None:
    heavy = ("numpy", "lmdb", "fpstore.store", "tqdm")
    code = f"import sys; from fpstore.cli import main; main({arguments}); print(*{{*{heavy}}} & {{*sys.modules}})"
    assert run_python(code).stdout.splitlines()[-1] == ""


def test_who_looks_into_a_store_does_not_wait_for_what_reads_texts(tmp_path: Path) -> None:
    store = tmp_path / "s.fpstore"
    fpstore.build(store, [1, 2]).close()
    code = (
        "import sys; from fpstore.cli import main\n"
        f"for command in ('stats', 'report', 'verify', 'pairs'): main([command, {str(store)!r}])\n"
        f"main(['probe', {str(store)!r}, '1'])\n"
        "print(*(name for name in sys.modules if name.startswith(('fpstore.text', 'importlib.metadata'))))"
    )
    assert run_python(code).stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("is_own", [True, False])
def test_a_process_of_a_command_ends_without_a_look_for_cycles(is_own: bool) -> None:
    """But all is done first that is to be done at its end. A process that calls main() is not there for it alone."""
    called = "command()" if is_own else "main()"
    code = (
        "import atexit, gc, os, sys; from fpstore.cli import command, main\n"
        "class Told:\n"
        "    def __del__(self, write=os.write): write(1, b'found')\n"
        "told = Told()\n"
        "told.own = told\n"
        "sys.argv = ['fpstore', '--version']\n"
        f"for _ in range(2): {called}\n"
        "atexit.register(lambda: print('frozen before:', gc.get_freeze_count(), flush=True))\n"
        "del told"
    )
    assert run_python(code).stdout.split("\n")[2:] == ["frozen before: 0", "" if is_own else "found"]


def test_the_version_is_that_of_the_package(command: Command) -> None:
    assert command("--version") == Outcome(0, "fpstore 0.1.0\n", "")


@pytest.mark.parametrize("arguments", [["nosuch"], ["--nosuch"], ["plan", "--nosuch"], ["build"]])
def test_a_wrong_command_line_is_one_line_and_status_2(command: Command, arguments: list[str]) -> None:
    outcome = command(*arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("fpstore: ")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (errors.CorruptStore("page 3", 1, 2, path="a/b"), 3, "a/b: page 3: found 1, expected 2"),
        (errors.UnsupportedVersion("version", 9, 3), 3, "version: found 9, expected 3; made by a newer fpstore"),
        (errors.NotAStore("a/b: no store"), 3, "a/b: no store"),
        (errors.StoreChanged("a/b: another"), 4, "a/b: another"),
        (errors.JobError("a/b: other inputs"), 1, "a/b: other inputs"),
        (errors.TooManyMatches("5 queries"), 1, "5 queries"),
        (errors.RecipeError("recipe: none"), 2, "recipe: none"),
        (errors.ReadOnly("a/b: opened for reading"), 2, "a/b: opened for reading"),
        (errors.StoreClosed("a/b: closed"), 2, "a/b: closed"),
        (errors.StoreLocked("a/b: locked"), 4, "a/b: locked"),
        (errors.PlanError("plan x: misses y"), 2, "plan x: misses y"),
        (BadInput("a, line 2: found b, expected c"), 1, "a, line 2: found b, expected c"),
        (ValueError("k: found 65"), 2, "k: found 65"),
        (FileExistsError(17, "already there", "s.fpstore"), 2, "s.fpstore: already there"),
        (PermissionError(13, "Permission denied", "s.fpstore"), 1, "s.fpstore: Permission denied"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (OSError("odd"), 1, "odd"),
        (ImportError("reading .zst needs zstandard"), 1, "reading .zst needs zstandard"),
        (MemoryError(), 1, "out of memory"),
        (MemoryError("for 5 TB"), 1, "out of memory for 5 TB"),
        (click.ClickException("odd"), 1, "odd"),
        (click.UsageError("odd."), 2, "odd"),
        (KeyError("x"), 1, "internal error: KeyError: 'x' (python -X dev -m fpstore shows where)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_every_error_has_a_status_and_a_message(command: Command, error: Exception, status: int, message: str) -> None:
    failure = failure_of(error)
    assert (failure.status, failure.message) == (status, message)
    assert re.search(rf"[;:]\s+{failure.status} ", command("--help").out)  # the page says what it means


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "{folder}/s.fpstore", "{missing}"],
        ["learn-idf", "{folder}/a.txt", "-o", "{missing}"],
        ["dedup", "{folder}/a.txt", "-o", "{missing}"],
        ["dedup", "{folder}/a.txt", "-o", "{folder}/kept", "--dropped", "{missing}"],
        ["cluster", "{folder}/a.txt", "-o", "{missing}"],
        ["cluster", "{folder}/a.txt", "-o", "{missing}", "--components"],
        ["document-pairs", "{folder}/a.txt", "-o", "{missing}"],
    ],
    ids=" ".join,
)
def test_a_result_in_a_folder_that_is_not_there_is_named_as_it_was_typed(
    command: Command, tmp_path: Path, arguments: list[str]
) -> None:
    fpstore.build(tmp_path / "s.fpstore", [1, 2, 3]).close()
    (tmp_path / "a.txt").write_text("a text of a few words")
    missing = tmp_path / "nowhere" / "out.csv"
    outcome = command(*[each.format(folder=tmp_path, missing=missing) for each in arguments])
    assert outcome == Outcome(1, "", f"fpstore: {missing}: the file would lie in a folder that is not there\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "s.fpstore"]


def test_each_command_says_in_numbers_what_it_did(command: Command, tmp_path: Path) -> None:
    """Results aside, which are on standard output."""
    np.save(tmp_path / "a.npy", np.array([1, 2, 3], dtype=np.uint64))
    store, hexes = tmp_path / "s.fpstore", tmp_path / "a.hex"
    steps: dict[tuple[object, ...], str] = {
        ("build", store, tmp_path / "a.npy"): f"{store}: read 3 rows of 1 file; holds 3 fingerprints with 3 ids, ",
        ("create", tmp_path / "t.fpstore", "--id-type", "none"): f"{tmp_path / 't.fpstore'}: empty, without ids, plan ",
        ("add", store, tmp_path / "a.npy", "--ids", "from:7"): f"{store}: wrote 3 rows; where one was there already, ",
        ("remove", store, "--id", "7", "--id", "99"): f"{store}: removed 1 row, for 2 ids\n",
        ("compact", store): f"{store}: 1 segment, ",
        ("copy", store, tmp_path / "c.fpstore"): f"{tmp_path / 'c.fpstore'}: 5 rows, ",
        ("export", store, hexes): f"{hexes}: 5 rows, ",
        ("export", store, "-", "--format", "hex"): f"{store}: wrote 5 rows\n",
        (
            "recover",
            store,
            tmp_path / "r.fpstore",
        ): f"{tmp_path / 'r.fpstore'}: 3 fingerprints in 5 rows\n{tmp_path / 'r.fpstore'}: nothing is lost\n",
    }
    for arguments, said in steps.items():
        outcome = command(*arguments)
        assert outcome.status == 0
        assert outcome.err.startswith(said)


def test_a_store_may_lie_at_a_path_that_is_no_utf8(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 2, 3], dtype=np.uint64))
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    store = folder / os.fsdecode(b"\xff.fpstore")
    for arguments in (
        ("build", store, tmp_path / "a.npy"),
        ("add", store, tmp_path / "a.npy", "--ids", "from:7"),
        ("remove", store, "1"),
        ("probe", store, "2"),
        ("compact", store),
        ("copy", store, folder / os.fsdecode(b"\xfe.fpstore")),
        ("export", store, folder / os.fsdecode(b"\xff.parquet")),
        ("build", store, folder / os.fsdecode(b"\xff.parquet"), "--force"),
        ("stats", store),
        ("report", store),
        ("verify", store),
        ("recover", store, folder / os.fsdecode(b"\xfd.fpstore")),
    ):
        outcome = command(*arguments)
        assert (outcome.status, "encode" in outcome.err) == (0, False), (arguments, outcome)
    with fpstore.open(store) as opened:
        assert opened.count("rows") == 4


def test_what_would_start_another_line_is_escaped() -> None:
    assert one_line("a\nb\tc\x1b[0m d é") == "a\\nb\\tc\\x1b[0m d é"


def test_an_unforeseen_error_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("fpstore.plans.planner.table_of_choices", fail)
    outcome = command("plan", "--n", "5")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert outcome.err.startswith("fpstore: internal error: ZeroDivisionError: odd")


def test_python_dev_mode_shows_where_an_error_was_raised() -> None:
    code = (
        "import sys; from fpstore.plans import planner; from fpstore.cli import main\n"
        "planner.table_of_choices = None\n"
        "sys.exit(main(['plan', '--n', '5']))"
    )
    run = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.startswith("Traceback")


def test_an_interrupt_is_one_line_and_status_130(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fpstore.plans.planner.table_of_choices", interrupt)
    assert command("plan", "--n", "5") == Outcome(130, "", "fpstore: interrupted\n")


def test_an_interrupt_while_arguments_are_read_is_status_130(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "import_module", interrupt)
    outcome = command("plan", "--n", "5")
    assert (outcome.status, outcome.err.strip()) == (130, "fpstore: interrupted")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_the_output_is_reported(unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "fpstore", "plan", "--n", "5"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (run.returncode, run.stderr) == (1, "fpstore: standard output: No space left on device\n")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def show_progress(results_follow: bool = True) -> None:
    with progress.progress_bar(results_follow=results_follow) as bar:
        if bar is not None:
            bar(Progress("first phase", 1, 2, "rows"))
            bar(Progress("first phase", 2, 2, "rows"))
            bar(Progress("second phase", 1, None, "rows"))
            bar(Progress("second phase", 5, None, "rows"))


def test_a_terminal_sees_a_bar_for_each_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "SHOWN_AFTER_SECONDS", 0)
    show_progress()
    assert "first phase" in sys.stderr.getvalue()
    assert "second phase" in sys.stderr.getvalue()


def test_work_of_under_a_second_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    show_progress()
    assert "phase" not in sys.stderr.getvalue()


def test_no_bar_is_shown_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "SHOWN_AFTER_SECONDS", 0)
    show_progress()
    assert sys.stderr.getvalue() == ""


def test_no_bar_is_drawn_between_results_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(progress, "SHOWN_AFTER_SECONDS", 0)
    show_progress(results_follow=False)
    assert sys.stderr.getvalue() == ""


def test_without_tqdm_there_is_no_bar_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm", None)
    show_progress()
    assert sys.stderr.getvalue() == ""


def test_tab_completion_knows_the_subcommands() -> None:
    code = (
        "import os; os.environ.update(_FPSTORE_COMPLETE='bash_complete', COMP_WORDS='fpstore ver', COMP_CWORD='1')\n"
        "from fpstore.cli import main; main([])"
    )
    assert run_python(code).stdout.split() == ["plain,verify"]
