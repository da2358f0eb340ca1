"""What docs/concurrency.md says of threads, processes, signals and the ends of things, where no other file shows it."""

import _thread
import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT, blocks

import fpstore
from fpstore.living.snapshot import Snapshot
from fpstore.types import Durability

PAGE = "docs/concurrency.md"
# What shows each contract of the page's table, by the first cell of its row.
SHOWN = {
    "a call": ["readers::test_every_answer_beside_a_writer_is_right_for_a_state_of_its_time"],
    "an iterator (`rows`, `pairs`)": [
        "surface::test_rows_and_pairs_are_those_of_the_moment_of_the_call",
        "living::test_an_iterator_keeps_the_state_it_began_with",
        "concurrency::test_an_iterator_belongs_to_one_thread",
    ],
    "a store and threads": [
        "store::test_many_threads_may_use_and_close_a_store_at_once",
        "store::test_closing_waits_for_a_probe_in_another_thread",
    ],
    "a writer and readers": [
        "concurrency::test_readers_and_a_writer_of_one_process_follow_each_other",
        "identity::test_two_writers_never_write_to_one_store",
    ],
    "a second writer": ["living::test_a_second_writer_in_another_process_is_told_the_first_ones_number"],
    "`with` left by an exception": [
        "concurrency::test_what_was_added_before_an_exception_stays",
        "identity::test_what_went_wrong_in_a_with_block_is_told_before_what_closing_says",
    ],
    "`upsert`, `remove`": [
        "rows::test_a_reader_sees_old_rows_or_new_ones",
        "crash::test_nothing_acknowledged_is_lost_in_a_power_cut_at_any_call",
    ],
    "`close`": [
        "living::test_closing_ends_a_merge_where_it_is",
        "surface::test_close_can_wait_for_merges_that_are_due",
    ],
    "a process that dies": [
        "crash::test_nothing_acknowledged_is_lost_when_writers_are_killed",
        "living::test_a_process_that_dies_loses_the_batch_and_nothing_more",
    ],
    "a process that ends without closing its writer": [
        "store::test_rows_that_wait_are_kept_where_the_program_ends_without_closing"
    ],
    "a coprocess (`--unbuffered`)": [
        "serve_lines::test_a_line_is_answered_before_the_next_is_asked_and_by_what_others_have_written",
    ],
    "`fpstore serve`": [
        "serve_writing::test_changes_that_wait_go_together_and_in_order",
        "serve_writing::test_together_they_come_to_what_they_do_one_by_one",
        "serve_app::test_an_addition_tells_what_became_of_each_row_and_is_found_by_the_next_probe",
    ],
    "fork": [
        "store::test_a_fork_is_told_to_open_the_store_again",
        "forks::test_a_child_waits_for_no_value_that_another_thread_computes",
        "forks::test_a_child_waits_for_no_import_that_another_thread_had_begun",
        "identity::test_a_store_closes_at_once_in_a_child_whatever_threads_held",
    ],
    "pickle": [
        "store::test_a_pickled_store_opens_the_same_path",
        "living::test_a_pickled_writer_opens_for_reading",
    ],
    "asyncio": ["concurrency::test_calls_from_coroutines_go_through_threads"],
    "Ctrl-C": [
        "concurrency::test_an_interrupted_batch_leaves_a_store_that_answers",
        "builder_interrupted::test_ctrl_c_does_not_wait_for_a_long_sort_and_leaves_what_was_there",
    ],
    "`close` in a signal's handler": [
        "collected::test_a_handler_closes_a_store_in_the_midst_of_a_call_or_is_told_that_it_cannot",
        "remote::test_a_handler_does_not_wait_for_a_call_of_its_thread_that_waits_for_pages",
    ],
    "SIGBUS": [
        "cut_short::test_a_file_cut_under_its_readers_is_an_error_or_the_answer_as_before",
        "cut_short::test_a_signal_that_is_not_ours_ends_the_process_as_before",
    ],
    "a store that is replaced while it is open": [
        "identity::test_a_reader_whose_path_leads_elsewhere_says_so_at_every_call",
        "identity::test_a_writer_whose_store_was_replaced_says_so_and_changes_neither",
    ],
}
KEYS = np.random.default_rng(3).integers(0, 1 << 64, 2000, dtype=np.uint64)


def test_each_contract_of_the_table_is_shown_by_a_test() -> None:
    """That each of these tests is there, tests/test_docs.py looks."""
    rows = [
        line.split(" | ")[0].removeprefix("| ") for line in (ROOT / PAGE).read_text().splitlines() if line[:2] == "| "
    ]
    assert rows[1:] == list(SHOWN)
    named = [name for block in blocks(PAGE) for name in block.shown_by]
    assert named == [f"tests/test_{name.replace('::', '.py::')}" for names in SHOWN.values() for name in names]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with fpstore.create(tmp_path / "s") as store:
        store.add(KEYS[:1000], ids=np.arange(1000))
    return tmp_path / "s"


def test_an_iterator_belongs_to_one_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()
    rows = Snapshot.rows

    def waiting(self: Snapshot) -> object:
        entered.set()
        leave.wait(60)
        return rows(self)

    monkeypatch.setattr(Snapshot, "rows", waiting)
    with fpstore.open(path) as store:
        batches = store.rows()
        thread = threading.Thread(target=next, args=(batches,))
        thread.start()
        entered.wait(60)
        with pytest.raises(ValueError, match="generator already executing"):
            next(batches)
        leave.set()
        thread.join()


def test_readers_and_a_writer_of_one_process_follow_each_other(path: Path) -> None:
    with fpstore.open(path, "w") as writer, fpstore.open(path) as first, fpstore.open(path) as second:
        writer.add(KEYS[1000:], ids=np.arange(1000, 2000))
        writer.compact()
        for store in (writer, first, second):
            assert store.count() == 2000
        first.close()
        writer.remove(ids=[1999])
        assert not second.contains_near(int(KEYS[1999]), max_distance=0)


def test_calls_from_coroutines_go_through_threads(path: Path) -> None:
    async def ask() -> list[bool]:
        with fpstore.open(path, "w") as store:
            near = [asyncio.to_thread(store.contains_near, int(key), max_distance=0) for key in KEYS[:50]]
            adding = asyncio.create_task(asyncio.to_thread(store.add, KEYS[1000:1100], ids=np.arange(1000, 1100)))
            found = await asyncio.gather(*near)
            await adding
            return [*found, store.contains_near(int(KEYS[1099]), max_distance=0)]

    assert all(asyncio.run(ask()))


def test_an_interrupted_batch_leaves_a_store_that_answers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Snapshot.search
    interrupted: list[bool] = []

    def interrupt(self: Snapshot, *arguments: object) -> object:
        if not interrupted:
            interrupted.append(True)
            _thread.interrupt_main()
        return search(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Snapshot, "search", interrupt)
    with fpstore.open(path) as store:
        with pytest.raises(KeyboardInterrupt):
            store.probe_many(KEYS, threads=1)
        assert len(store.probe_many(KEYS[:1000], max_distance=0, threads=1)) == 1000


@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_what_was_added_before_an_exception_stays(path: Path, durability: Durability) -> None:
    def fail() -> None:
        with fpstore.open(path, "w", durability=durability) as store:
            store.add(KEYS[1000:], ids=np.arange(1000, 2000))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with fpstore.open(path) as store:
        assert store.count() == 2000
