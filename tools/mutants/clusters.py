"""Mistakes in searches that are cut into tasks, and in what does these."""

from mutants.record import Mutant

_SAME = "tests/test_cluster.py::test_tasks_find_what_one_search_finds"

MUTANTS = (
    Mutant(
        "a share of a stream ends a piece early",
        "fpstore/cluster/shares.py",
        "own = pieces(part.segment, distance)[share.first : share.end]",
        "own = pieces(part.segment, distance)[share.first : max(share.first + 1, share.end - 1)]",
        "what one piece in some finds is not in the answer",
        ("tests/test_cluster.py::test_a_share_finds_what_its_pieces_find",),
    ),
    Mutant(
        "what is pending is in no share",
        "fpstore/cluster/shares.py",
        "if snapshot.pending_count:\n        looked_up",
        "if snapshot.pending_count > 1 << 30:\n        looked_up",
        "rows that were added lately are not found",
        (_SAME,),
    ),
    Mutant(
        "a query that was asked twice is answered once",
        "fpstore/cluster/shares.py",
        "if len(asked.numbers) == len(asked.distinct):",
        "if len(asked.numbers):",
        "rows have the numbers of other queries",
        (_SAME,),
    ),
    Mutant(
        "the second half of what is too much is left out",
        "fpstore/cluster/shares.py",
        "yield from _halved(find, middle, end)",
        "yield from _halved(find, middle + 1, end)",
        "of many rows some are missing",
        (_SAME,),
    ),
    Mutant(
        "names are put in order in each batch alone",
        "fpstore/cluster/probing.py",
        "chunks if snapshot.names is None else _whole_groups(chunks, end)",
        "chunks",
        "names of one fingerprint are in another order where a batch ends among them",
        ("tests/test_cluster.py::test_names_are_in_order_where_a_batch_ends_among_those_of_one_fingerprint",),
    ),
    Mutant(
        "a task answers from whatever the store is",
        "fpstore/cluster/tasks.py",
        "expect_seen(self.store, self.seen, snapshot)",
        "pass",
        "an answer is of several moments",
        ("tests/test_cluster.py::test_a_task_of_a_store_that_has_changed_is_refused",),
    ),
    Mutant(
        "a part of another job is taken",
        "fpstore/cluster/parts.py",
        "if found != (maker.job, maker.task, self._columns):",
        "if found[1:] != (maker.task, self._columns):",
        "rows of other queries are in the answer",
        ("tests/test_cluster.py::test_a_part_of_another_job_or_task_is_refused",),
    ),
    Mutant(
        "the checksum of a block is not looked at",
        "fpstore/cluster/parts.py",
        "if crc32c(data) != crc:",
        "if crc32c(data) == crc + 1:",
        "damaged rows are in the answer",
        ("tests/test_cluster.py::test_a_damaged_part_is_refused_whatever_byte_it_is",),
    ),
    Mutant(
        "a part has its name while it is written",
        "fpstore/cluster/parts.py",
        'own = f"{name}.{secrets.token_hex(8)}{NEW_SUFFIX}"',
        "own = name",
        "a part that could not be written is taken for one",
        ("tests/test_cluster.py::test_a_task_done_twice_leaves_the_same_part",),
    ),
    Mutant(
        "the folder of another job is taken over",
        "fpstore/cluster/work.py",
        "if found is not None or names:",
        "if found is None and names:",
        "parts of two jobs lie in one folder",
        ("tests/test_cluster.py::test_a_folder_of_another_job_or_of_none_is_refused",),
    ),
    Mutant(
        "a worker that was killed is not followed",
        "fpstore/workers.py",
        "if not left or not self._follow(number):",
        "if True:",
        "a job ends with the first process that is killed",
        ("tests/test_cluster_local.py::test_a_task_whose_processes_are_killed_twice_is_done_again",),
    ),
    Mutant(
        "workers follow those that were killed because nobody wants them",
        "fpstore/workers.py",
        "worker = None if self._killed else _Worker(self._environment)",
        "worker = _Worker(self._environment)",
        "Ctrl-C is followed by new processes",
        ("tests/test_cluster_local.py::test_whoever_leaves_is_followed_by_no_new_process",),
    ),
)
