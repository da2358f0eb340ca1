"""Owns how a job survives being killed: its journal, and the files that become its results.

Each result has a folder RESULT.job while the job is not finished, in which it grows; that of the first has the journal
too. The journal, replaced as a whole after these are on the disk, says how far each of them is good and from where to
go on. Whatever was written after the last journal is cut off when the job goes on.
"""

import errno
import json
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from fpstore.closing import close_all
from fpstore.disk import Folder
from fpstore.errors import JobError
from fpstore.jobs import record as records
from fpstore.jobs.behind import Behind
from fpstore.jobs.changed import changed
from fpstore.jobs.claims import PACKED, PART, WORK, Claim, expect_result, folder_of
from fpstore.jobs.compressing import Compressing
from fpstore.jobs.files import AppendFile, files_of_jobs, look, write_json
from fpstore.jobs.forms import Compress, Pack
from fpstore.notes import JOURNAL
from fpstore.threads import Threads

_FINISHED = "finished"

# Given a state, and which inputs look other than when they were read.
ExpectSame = Callable[[dict[str, Any], list[int]], None]


class _Closed(Protocol):
    def close(self) -> None: ...


_Held = TypeVar("_Held", bound=_Closed)


class Form(Protocol):
    """How a result begins, and what makes it of its part; None where the part is the result."""

    @property
    def head(self) -> bytes:
        """What the part begins with."""

    @property
    def pack(self) -> Pack | None:
        """What makes the result of the part."""


class Job:
    """A piece of work with results that are files; a context manager, which leaves what was done for another run.

    It is used as `with closing(job), job`: an interruption may come as the one begins to end, and then the other ends.

    state: what the job itself has in its journal, None before its first commit. id: of this job and no other, for as
    long as it goes on. work: a folder for what it needs until it ends, held open as work_folder.
    """

    work_folder: Folder

    def __init__(
        self,
        results: list[Path],
        identity: dict[str, Any],
        inputs: list[Any],
        *,
        force: bool,
        store: str | None = None,
        forms: Sequence[Form] = (),
        expect_same: ExpectSame | None = None,
    ) -> None:
        """Begin, or go on with what the journal tells.

        results: the first names the job's folder. identity: all that the results follow from, for json; inputs: what
        the inputs look like from outside. force: begin again, and write over results that are there. store: the
        identity of the standing store that it adds to, if that is there. forms: of each result; they are plain bytes
        where there are none. expect_same: raises JobError where inputs that look other than when they were read are not
        the same, as far as they were read. Raises FileExistsError for results of another job; ValueError for what can
        be no result, and where the journal is that of another command line; JobError where inputs or store have
        changed, while another process is at it, and where a result is another job's.
        """
        self.results = results
        self.folder = folder_of(results[0])
        self.work = self.folder / WORK
        self.id = secrets.token_hex(16)
        self.state: dict[str, Any] | None = None
        self.was_done = False
        # What lies beside the results and belongs to them; what it looked like, as the record of the job says.
        self.beside: list[Path] = []
        self.beside_was: list[Any] = []
        self._header: dict[str, Any] = {"identity": identity, "inputs": inputs}
        self._store = store
        self._forms = forms
        self._expect_same_inputs = expect_same
        # What results that are there look like: those go, and no others that come instead.
        self._replaces: list[list[int] | None] = look(results) if force else [None] * len(results)
        self._claims: list[Claim] = []
        self._files: list[AppendFile] = []
        self._held: list[Callable[[], None]] = []
        self._is_closed = False
        self._lengths: list[int] = [0] * len(results)
        self._behind = Behind()
        self._syncing = Threads(len(results) + 1)
        self._compressing: dict[int, Compressing] = {}  # while they grow, by place
        for path in results:
            expect_result(path)
        try:
            for path in results:
                self._claims.append(Claim(path))
            self._begin(force)
        except BaseException:
            try:
                for claim in self._claims:
                    if claim.is_new and self.state is None:
                        claim.remove()
            finally:
                self._close()
            raise

    def _begin(self, force: bool) -> None:
        first = self._claims[0]
        if force:
            self._expect_not_done_into_store()
        else:
            journal = first.read_journal()
            if journal is not None:
                self._expect_same(journal)
                self.id, self._replaces = journal["job"], journal["replaces"]
                self._lengths = journal["lengths"]
                if not journal["state"].get(_FINISHED):
                    self._expect_own_claims()
                self.state = journal["state"]
            else:
                self._look_for_results()
        if self.state is None:
            self._do_together([claim.begin for claim in self._claims])
            self.work_folder = first.folder.create(WORK)
        elif not self.is_finished:
            with files_of_jobs():
                self.work_folder = first.folder.inside(WORK)
        if not self.is_finished:
            for place, (claim, length) in enumerate(zip(self._claims, self._lengths, strict=True)):
                claim.forget_packed()  # which is begun anew, and would take room until then
                is_read = self._pack(place) is not None  # in the end, all of it
                self._files.append(AppendFile(claim.folder, PART, length, by_umask=True, is_read=is_read))
            for file, form in zip(self._files, self._forms, strict=False):
                if file.length == 0 and form.head:
                    file.write(form.head)

    def _look_for_results(self) -> None:
        """The record of this job, if it was done; else there may be no results."""
        for claim in self._claims:
            claim.expect_unused()
        record = records.read_record(self._claims[0])
        if record is not None and records.tells_of(record, self.results, self._header) and not self._reads_stdin():
            self.state = {"tally": record["tally"], _FINISHED: True}
            self.beside_was = record.get("beside", [])
            self.was_done = True
            return
        for path in self.results:
            if path.exists():
                raise FileExistsError(errno.EEXIST, "already there; --force replaces it", str(path))

    def _expect_own_claims(self) -> None:
        for claim in self._claims[1:]:
            if claim.owner() != (str(self.folder), self.id):
                told = f"used by another job since {self.folder} was interrupted; --force begins again"
                raise JobError(told, path=claim.path)

    def _expect_not_done_into_store(self) -> None:
        """Refuse to begin a job again of which a standing store has all documents: each would be one seen before."""
        if self._store is None:
            return
        first, inputs = self._claims[0], json.loads(json.dumps(self._header["inputs"]))
        try:
            journal = first.read_journal() or {}
        except JobError:
            journal = {}
        state = journal.get("state") or {}
        if state.get(_FINISHED) and state.get("store") == self._store and journal["inputs"] == inputs:
            raise JobError("this job is done but for its last step; run it without --force", path=self.folder)
        record = records.read_record(first) or {}
        if record.get("store") == self._store and records.wrote_first(record, self.results, inputs):
            told = "a job that is finished wrote it, and its documents are in the store: begun again it would"
            twice = self._header["identity"]["job"] != "dedup"
            what = "count each a second time" if twice else "drop all of them and leave nothing here"
            raise JobError(f"{told} {what}; move the file away if you want that", path=first.result)

    def _reads_stdin(self) -> bool:
        return any(look[1] is None for look in self._header["inputs"])

    def _expect_same(self, journal: dict[str, Any]) -> None:
        wanted = json.loads(json.dumps(self._header))
        advice = "go on with the same, or begin again with --force"
        place, added_to = journal["identity"].get("store"), journal["state"].get("store")
        if place is not None and place == wanted["identity"].get("store") and added_to != self._store:
            found = "nothing" if self._store is None else f"store {self._store}"
            told = f"found {found}, expected store {added_to}, which the interrupted job {self.folder} adds to"
            raise JobError(f"{told}; --force begins again", path=place)
        for name, value in journal["identity"].items():
            if wanted["identity"].get(name) != value:
                found = f"found {name} {wanted['identity'].get(name)!r}, that job has {value!r}"
                raise ValueError(f"{self.folder}: a job was interrupted here: {found}; {advice}")
        counts = len(journal["inputs"]), len(journal["lengths"]), len(journal["replaces"])
        if counts != (len(wanted["inputs"]), len(self.results), len(self.results)):
            raise JobError(f"{self.folder / JOURNAL}: found no journal of this job, expected one; --force begins again")
        looks = list(zip(journal["inputs"], wanted["inputs"], strict=True))
        if any(now[1] is None for _, now in looks):
            found = "a job was interrupted that read rows, or standard input, which cannot be read again"
            raise JobError(f"{found}; --force begins again", path=self.folder)
        numbers = [number for number, (before, now) in enumerate(looks) if before != now]
        if numbers and self._expect_same_inputs is None:
            told = f"a job was interrupted, and {looks[numbers[0]][1][0]} has changed"
            raise changed(told, self.folder)
        if numbers and self._expect_same_inputs is not None:
            self._expect_same_inputs(journal["state"], numbers)

    def hold(self, store: _Held) -> _Held:
        """The same, which is closed when all ends: where its own end was interrupted it would stay locked."""
        self._held.append(store.close)
        return store

    def close(self) -> None:
        """Let go of all that the job has; may be called again: one that was interrupted goes on."""
        if self._is_closed:
            return
        try:
            self._close()
        except Exception:
            self._is_closed = True
            raise
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end_compressing()
        finally:
            self._leave()

    def _leave(self) -> None:
        try:
            # A signal can come between the first journal and its state here: what was done stays, as that journal says.
            has_begun = self.state is not None or self._claims[0].read_journal() is not None
            if self.was_done or not has_begun:
                for claim in reversed(self._claims):
                    claim.remove()
        finally:
            self.close()

    def _end_compressing(self) -> None:
        """Nobody is at it any more then, however often this is interrupted: what is compressed goes when it ends."""
        try:
            while self._compressing:
                last = [*self._compressing.values()][-1]
                if not last.is_closed:
                    last.close()
                self._compressing.popitem()  # once it is closed: who is interrupted before that closes it all the same
        finally:
            if self._compressing:
                self._end_compressing()

    def _close(self) -> None:
        folders = [self.work_folder.close] if hasattr(self, "work_folder") else []
        files, claims = [file.close for file in self._files], [claim.close for claim in self._claims]
        held = [partial(_quietly, close) for close in reversed(self._held)]
        close_all(*held, self._behind.end, self._syncing.close, *files, *folders, *claims)

    @property
    def is_finished(self) -> bool:
        """Whether all was done before, but for what finish does."""
        return self.state is not None and bool(self.state.get(_FINISHED))

    @property
    def packs(self) -> bool:
        """Whether a result is made of its part in the end."""
        return any(self._pack(place) is not None for place in range(len(self.results)))

    @property
    def packed(self) -> bytes | None:
        """The first result, where it was packed and has yet to get its name."""
        folder = self._claims[0].folder
        if folder.identity_of(PACKED) is None:
            return None
        with files_of_jobs(), os.fdopen(folder.open_file(PACKED), "rb") as file:
            return file.read()

    @property
    def files(self) -> list[AppendFile]:
        """One for each result, to append to."""
        return self._files

    def commit(
        self, state: dict[str, Any], *beside: Callable[[], object], lengths: Sequence[int] | None = None
    ) -> None:
        """Make all that was written durable, and state with it.

        beside: what else is to be done before the journal tells of it. lengths: of the results, where more is written
        to them meanwhile, which the journal does not tell of.
        """
        lengths = [file.length for file in self._files] if lengths is None else [*lengths]
        self._do_together([*beside, *map(self._sync, range(len(self._files)))])
        self.work_folder.sync_owed()
        self._lengths = lengths
        journal = {"job": self.id, **self._header, "state": state, "lengths": self._lengths, "replaces": self._replaces}
        write_json(self._claims[0].folder, JOURNAL, journal)
        self.state = state

    def _sync(self, place: int) -> Callable[[], None]:
        """What makes a result durable as far as it is written, and whose it is before the first journal."""
        claim, file = self._claims[place], self._files[place]

        def sync() -> None:
            if place and self.state is None:
                claim.own(self.folder, self.id)
            file.sync()
            claim.parent.sync_owed()

        return sync

    def _do_together(self, works: Sequence[Callable[[], object]]) -> None:
        """Do what waits for the disk, each piece beside the others: a disk does several at a time in that of one."""
        self._syncing.map(lambda work: work(), works)

    def subfolder(self, name: str) -> Folder:
        """The folder of that name among what the job needs, made where there is none: durable with the next commit."""
        try:
            with files_of_jobs():
                folder = self.work_folder.inside(name)
        except FileNotFoundError:
            folder = self.work_folder.create(name)
        self.work_folder.sync_later()  # of one that was there, too: who made it may have been killed before that
        return folder

    def write(self, write: Callable[[], object]) -> None:
        """Have the results written to, in a context of `behind`; not where a commit behind is known to have failed."""
        self._behind.expect_none_failed()
        write()
        for each in self._compressing.values():
            each.go_on()

    def begin_to_compress(self) -> None:
        """Have results compressed while they are written to, in a context of `behind`, by threads of their own."""
        for place, (claim, file) in enumerate(zip(self._claims, self._files, strict=True)):
            pack = self._pack(place)
            if isinstance(pack, Compress):
                self._compressing[place] = Compressing(claim, pack, file)
                self._compressing[place].begin()  # once it is known here, for who is interrupted

    def commit_behind(self, state: dict[str, Any], first: Callable[[], None]) -> None:
        """As commit, beside what is written later, in a context of `behind`; first: what is to be done before.

        One is under way at a time: who writes waits for that before, and raises what it did.
        """
        lengths = [file.length for file in self._files]
        self._behind.commit(lambda: self.commit(state, first, lengths=lengths))

    def wait_for_writes(self) -> None:
        """Until all that was decided about in a context of `behind` is written."""
        self._behind.wait_for_writes()

    def wait(self) -> None:
        """Until that is written, and no commit is under way any more; raises what the last one did."""
        self._behind.wait_for_writes()
        self._behind.wait_for_commit()

    def behind(self, wait_for_writes: Callable[[], object]) -> AbstractContextManager[None]:
        """A context that does not end before what is behind in it; an error of that came before those of the caller.

        However often it is interrupted: files and claims go when it ends. wait_for_writes: as the method.
        """
        return self._behind.waited_for(wait_for_writes)

    def commit_last(self, state: dict[str, Any]) -> None:
        """Pack the results, and commit; nothing is left to do but finish."""
        for place, claim in enumerate(self._claims):
            pack = self._pack(place)
            if pack is not None:
                begun = self._compressing.get(place)
                packed = claim.pack(pack) if begun is None else begun.finish()
                self._files[place].close()
                self._files[place] = packed
                self._compressing.pop(place, None)
        self.commit({**state, _FINISHED: True})

    def _pack(self, place: int) -> Pack | None:
        """What makes a result of its part, None where the part is the result."""
        return self._forms[place].pack if self._forms else None

    def withdraw(self) -> None:
        """Take the first result away that --force replaces, before what it tells of is replaced."""
        self._claims[0].withdraw(self._replaces[0])

    def finish(self) -> None:
        """Put the results where they belong, the first of them last, and leave nothing of the job but its record."""
        if self.was_done:
            return
        state = self.state or {}
        for place, (claim, length) in reversed([*enumerate(zip(self._claims, self._lengths, strict=True))]):
            name = PART if self._pack(place) is None else PACKED
            claim.publish(name, length, replaces=self._replaces[place])
            if place:  # as the first tells that all are there
                claim.parent.sync()
        told = state.get("tally"), state.get("store")
        records.write_record(self._claims[0], self.results, self._header, *told, self.beside)
        self._claims[0].parent.sync()
        self._claims[0].remove_work()  # while the journal still says that all is done
        for claim in reversed(self._claims):
            claim.remove()


def _quietly(close: Callable[[], None]) -> None:
    """Close what an interruption may have left open, which is what is told then."""
    with suppress(Exception):
        close()
