"""What is let go of together is all let go of, also behind what cannot be."""

import ast
import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from interruptions import interrupted, moments

from fpstore.closing import close_all
from fpstore.jobs import Inputs, dedup
from fpstore.jobs.files import AppendFile

PACKAGE = Path(__file__).parent.parent / "fpstore"

# Where closing waits for calls under way in other threads, who interrupts it is let out: it goes on when called again.
# A forked child of the nursery has the descriptors of its own, and ends with them. Workers, a mirror's threads and the
# pieces of a sort end in steps that follow from each other; a service closes one store or the other.
LETS_OUT = {
    "base.py",
    "building/spill.py",
    "nursery.py",
    "living/census.py",
    "living/live.py",
    "remote/mirror.py",
    "segment/beside.py",
    "segment/reader.py",
    "serve/held.py",
    "workers.py",
}


# What lets go of something.
CLOSE = {"close", "_let_go", "end"}


def raising(error: BaseException, called: list[str], name: str) -> None:
    called.append(name)
    raise error


def test_all_are_called_in_order_and_the_first_error_is_told() -> None:
    called: list[str] = []
    first = OSError("first")
    with pytest.raises(OSError, match="first") as caught:
        close_all(
            lambda: called.append("a"),
            lambda: raising(first, called, "b"),
            lambda: raising(OSError("second"), called, "c"),
            lambda: called.append("d"),
        )
    assert caught.value is first
    assert called == ["a", "b", "c", "d"]


def test_an_interruption_comes_before_an_error_and_the_rest_is_closed() -> None:
    called: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        close_all(
            lambda: raising(OSError("first"), called, "a"),
            lambda: raising(KeyboardInterrupt(), called, "b"),
            lambda: raising(OSError("third"), called, "c"),
            lambda: called.append("d"),
        )
    assert called == ["a", "b", "b", "c", "d"]  # one that was interrupted may not have begun


@pytest.mark.parametrize("fails", [False, True])
def test_all_are_closed_wherever_it_is_interrupted(fails: bool) -> None:
    counts = [0, 0, 0]

    def closing(index: int) -> None:
        counts[index] += 1
        if fails and index == 0:
            raise OSError("made to fail")

    closes = [partial(closing, index) for index in range(3)]
    for number in moments(lambda: suppressed(closes)):
        counts[:] = [0, 0, 0]
        interrupted(lambda: suppressed(closes), number)
        assert all(counts) or not any(counts), number  # none, where it had not begun


def suppressed(closes: Sequence[Callable[[], object]]) -> None:
    with contextlib.suppress(OSError):
        close_all(*closes)


def test_nothing_to_close_is_closed() -> None:
    close_all()


def descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # that of the list itself
            continue
    return found


@pytest.mark.parametrize("number", range(5))  # three of the spool, two of results
def test_a_job_one_of_whose_files_cannot_be_closed_leaves_nothing_open_and_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(f'{{"text": "the text of number {each} of them"}}\n' for each in range(50)))
    kept, dropped = tmp_path / "kept.jsonl", tmp_path / "dropped.tsv"
    close = AppendFile.close
    closed: list[AppendFile] = []

    def failing(file: AppendFile) -> None:
        close(file)
        closed.append(file)
        if len(closed) == number + 1:
            raise OSError(errno.EIO, "made to fail", str(kept))

    with monkeypatch.context() as patched:
        patched.setattr(AppendFile, "close", failing)
        with pytest.raises(OSError, match="made to fail") as held:  # as a service holds what it logs
            dedup(Inputs([texts]), kept, dropped=dropped)
    assert len(closed) == 5
    assert held.tb
    assert not [name for name in descriptors() if str(tmp_path) in name]
    dedup(Inputs([texts]), kept, dropped=dropped)  # whose locks nobody holds any more
    assert kept.read_bytes() == texts.read_bytes()


def is_closing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return any(map(is_closing, statement.body))
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in CLOSE):
        return False
    whose = call.func.value
    return not isinstance(whose, ast.Call) or ast.unparse(whose) == "super()"  # else it is opened there, too


def closes_several(node: ast.stmt) -> bool:
    """Whether it closes one thing behind another, which is left open where the first cannot be closed."""
    if isinstance(node, ast.For):
        return all(map(is_closing, node.body))
    return isinstance(node, ast.FunctionDef) and sum(map(is_closing, node.body)) > 1


def test_nothing_closes_one_thing_behind_another_but_by_close_all() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in LETS_OUT
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.stmt) and closes_several(node)
    }
    assert not found


def test_who_is_let_out_does_close_several() -> None:
    for name in LETS_OUT:
        nodes = [node for node in ast.walk(ast.parse((PACKAGE / name).read_text())) if isinstance(node, ast.stmt)]
        assert any(map(closes_several, nodes)), name
