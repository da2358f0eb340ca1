"""One case of tools/check_identity.py as it is played, and what must not come of it."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from crash_signed import opened
from identity_damage import Damage
from identity_play import (
    BUILT,
    CHANGES,
    DOCUMENTS,
    EARLY,
    HELD,
    LATE,
    NEW,
    NEWCOMERS,
    QUERIES,
    REMOVED,
    Answer,
    Holder,
    Player,
    interrupted_job,
    newcomer,
)
from identity_shelf import Entry, Seen, Shelf, look
from identity_stores import STORES, Row, Rows, World, held, rows_of

from fpstore.text import DEFAULT_RECIPE

HOLDERS = {
    "nobody": None,
    "a reader": "r",
    "the writer": "w",
    "a reader by a relative path": "r",
    "the writer by a relative path": "w",
    "a job that was killed": "j",
}
# What is right to say of a store, where there is something to say.
NAMED = {"Error", "FileNotFoundError", "FileExistsError", "NotADirectoryError", "IsADirectoryError", "PermissionError"}

# What changes nothing but the log.
APPENDING = ("add", "add_if_new", "upsert", "remove", "remove pairs")
# What answers with rows: all, or those of QUERIES, by fingerprint and by id.
ANSWERING = ("rows", "probe", "lookup")
# What is in the names of files of segments.
OF_SEGMENTS = (".fpseg", ".fpnames", ".fpsketch")
ASKED = {key for key, _ in QUERIES}


class Case(NamedTuple):
    """damage; who has the store open meanwhile; what that one does then; what one does who comes then."""

    damage: Damage
    holder: str
    held: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.damage.name} / {self.holder} / {self.held or '-'} / {self.new or '-'}"


DOCUMENT_KEYS = {DEFAULT_RECIPE.fingerprint(json.loads(line)["text"]) for line in DOCUMENTS.splitlines()}


@dataclass
class Play:
    """One case as it is played. stores: by the folder's number, what the store in it holds."""

    case: Case
    world: World
    shelf: Shelf
    template: dict[str, Rows]
    findings: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def find(self, what: str) -> None:
        self.findings.append(what)

    def play(self) -> list[str]:
        """What was found."""
        case, world = self.case, self.world
        players: list[Player] = []
        models = dict(self.template)
        if case.damage.before:
            case.damage.before(world)
        (world.folder / "elsewhere").mkdir()
        try:
            holder = None
            mode = HOLDERS[case.holder]
            if mode == "j":
                player = Player(interrupted_job(world))
                players.append(player)
                said = player.ask("run")
                if said["error"] != "DIED":
                    self.find(f"the job was not killed: {said}")
            elif mode is not None:
                relative = "relative" in case.holder
                holder = Player(Holder(world, mode, relative=relative))
                players.append(holder)
                said = holder.ask("open")
                if not said["ok"]:
                    self.find(f"the holder could not open it: {said}")
                    return self.findings
                if mode == "w":
                    models["live"] |= held(EARLY, world.id_type)
                if relative:
                    shutil.copytree(world.other, world.folder / "elsewhere" / "live")
                    holder.ask("chdir")
            self._known = self._catalogs(models)
            self._before = look(world.folder)
            self._held_rows = models["live"]
            held_folder = os.stat(world.live)
            held_inode = (held_folder.st_dev, held_folder.st_ino)
            live = os.path.relpath(os.path.realpath(world.live), world.folder)
            case.damage.do(world)
            self._damaged(held_inode if holder else None, live)
            self._steps(holder, mode, players)
            self._judge()
        finally:
            for player in players:
                player.end()
        return self.findings

    def _catalogs(self, models: dict[str, Rows]) -> dict[str, Rows]:
        """What the store of each catalog holds, by what is in the catalog."""
        known = {}
        for name in STORES:
            path = self.world.stores / name / "catalog.mdb"
            digest = hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest()
            self.shelf.catalog(path, digest)
            known[digest] = models[name]
            self._names[digest] = name
        return known

    def _damaged(self, held_inode: tuple[int, int] | None, live_before: str) -> None:
        """Note how things are after the damage."""
        world = self.world
        self.after = look(world.folder)
        self.pool = self._segments_in(self.after)
        before = self._before
        # The store that the path leads to now.
        real = os.path.relpath(os.path.realpath(world.live), world.folder)
        self.at = real if os.path.isdir(world.live) else None
        seen = self.after.get(f"{real}/catalog.mdb")
        self.models: dict[str, Rows | None] = {}
        for name, each in self.after.items():
            if name.endswith("/catalog.mdb") and each.kind == stat.S_IFREG and "elsewhere" not in name:
                self.models[name.removesuffix("/catalog.mdb")] = self._known.get(each.digest)
        self.entries = []
        self.strays: set[Entry] = set()
        if self.at and seen and seen.kind == stat.S_IFREG:
            self.entries = self.shelf.catalog(world.folder / real / "catalog.mdb", seen.digest) or []
            self.strays = self.shelf.strays.get(seen.digest, set())
        self.whole = self.at is not None and self.models.get(real) is not None and self._has_segments(real)
        self.lockable = self.after.get(f"{real}/writer.lock", Seen(stat.S_IFREG, 0, (0, 0), 0, "")).kind == stat.S_IFREG
        # The one that the holder has.
        self.held_at = None
        if held_inode is not None:
            folders = [
                name for name, each in self.after.items() if each.kind == stat.S_IFDIR and each.inode == held_inode
            ]
            self.held_at = folders[0] if folders else None
        now = os.stat(world.live) if self.at else None
        same_folder = now is not None and (now.st_dev, now.st_ino) == held_inode

        def same(name: str, what: str) -> bool:
            one, other = before.get(f"{live_before}/{name}"), self.after.get(f"{real}/{name}")
            return one is not None and other is not None and getattr(one, what) == getattr(other, what)

        self.same_folder = same_folder
        self.in_place = same_folder and same("catalog.mdb", "inode")
        here = self.in_place and same("segments", "inode")
        self.writer_locks = same("catalog.mdb", "inode")
        # What is only added to the log may be, where the path leads to this very catalog.
        self.same_catalog = self.writer_locks and same("catalog.mdb", "digest")
        lock = before.get(f"{live_before}/writer.lock")
        self.lock_inode = lock.inode if lock else None
        self.reader_is_right = here and same("catalog.mdb", "digest")
        self.writer_is_right = self.reader_is_right and same("writer.lock", "inode")
        # A reader follows a later catalog of its store into another file.
        later = {digest for digest, name in self._names.items() if name in ("live", "newer")}
        self.may_follow = same_folder and seen is not None and seen.digest in later

    def _has_segments(self, store: str) -> bool:
        for name, mark in self.entries:
            seen = self.after.get(f"{store}/segments/{name}")
            if seen is None or seen.kind != stat.S_IFREG:
                return False
            if self.shelf.segment(self.world.folder / store / "segments" / name, seen.digest) != mark:
                return False
            # A damaged segment whose last bytes are sound.
            if seen.digest not in {each.digest for each in self._before.values()}:
                return False
        return self.after.get(f"{store}/segments", Seen(0, 0, (0, 0), 0, "")).kind == stat.S_IFDIR

    def _segments_in(self, seen: dict[str, Seen]) -> dict[Entry, Path]:
        pool = {}
        sound = {each.digest for each in self._before.values()}
        for name, each in seen.items():
            if each.kind == stat.S_IFREG and any(part in name for part in OF_SEGMENTS) and not name.endswith(".new"):
                mark = self.shelf.segment(self.world.folder / name, each.digest)
                if mark is not None and (mark not in pool or each.digest in sound):
                    pool[mark] = self.world.folder / name
        return pool

    # The steps.

    def _steps(self, holder: Player | None, mode: str | None, players: list[Player]) -> None:
        case = self.case
        self.operated: set[str] = set()
        self._opened = False
        self.said: list[Answer] = []
        failed_only = True
        if case.new:
            player = Player(newcomer(self.world))
            players.append(player)
            answer = player.ask(case.new)
            failed_only &= self._came(
                case.new, answer, writer_holds=mode == "w" and (self.held_at == self.at or self.writer_locks)
            )
        if holder is None:
            return
        if case.held in NEWCOMERS:
            answer = holder.ask(case.held)
            failed_only &= self._came(
                case.held, answer, writer_holds=mode == "w" and (self.held_at == self.at or self.writer_locks)
            )
        elif case.held != "close":
            answer = holder.ask(case.held)
            failed_only &= self._went_on(case.held, answer, mode)
        told = bool(self.said) and "StoreChanged" in self.said[-1].get("kinds", ())
        traps = case.damage.traps
        answer = holder.ask("close")
        self.said.append(answer)
        self._named("close", answer)
        if mode == "w" and not answer["ok"] and self.writer_is_right and self.whole and self.lockable and not traps:
            self.find(f"close of a store that is as it was: {answer['error']}: {answer['said']}")
        if mode == "w" and answer["ok"] and not told and not self.writer_is_right and case.held in ("close", *CHANGES):
            self.find(f"close: no error, though the store is not there any more ({case.held})")
        if failed_only and not case.new and not (self.writer_is_right if mode == "w" else self.reader_is_right):
            self._unchanged()

    def _unchanged(self) -> None:
        """Who was told that the store is not there has changed nothing, but for the number in its own lock."""
        now = look(self.world.folder)
        for name in sorted({*now, *self.after}):
            one, other = self.after.get(name), now.get(name)
            if name == "copied" or name.startswith("copied/") or name.endswith("writer.lock"):
                continue
            if one is not None and one.inode == self.lock_inode:
                continue
            if one is None and self.in_place and name.endswith(".new"):
                continue  # which the next writer removes
            if (
                one is None
                or other is None
                or (one.digest, one.mode, one.inode) != (other.digest, other.mode, other.inode)
            ):
                self.find(f"changed by who was to change nothing: {name}")

    def _came(self, what: str, answer: Answer, *, writer_holds: bool) -> bool:
        """Judge what came of a newcomer's call; whether it was an error."""
        self.said.append(answer)
        self._named(what, answer)
        changes = what not in ("open to read", "copy", "fpstore verify", "fpstore stats")
        model = self.models.get(self.at) if self.at else None
        if answer["ok"]:
            if self.at is None:
                if what != "dedup --store" and what != "build --force":
                    self.find(f"{what}: no error, though no store is there")
                return False
            if model is None and what != "fpstore stats":
                self.find(f"{what}: no error, though the catalog there is no store's")
                return False
            if what in ("open to read", "open to write"):
                self._expect_rows(what, answer, model)
            if changes:
                self._operated(what)
            self._check_copy(what, model)
            return False
        read_only = self.case.damage.name == "a read-only mount"
        if changes and writer_holds and "StoreLocked" in answer["kinds"] + [answer["said"]]:
            return True
        refused = changes and (writer_holds or not self.lockable or read_only or self.case.damage.traps)
        # Which go with it, and are looked through.
        refused |= what in ("copy", "fpstore verify") and self.case.damage.name.startswith("jobs")
        refused |= what == "build --force that fails" or (changes and HOLDERS[self.case.holder] == "j")
        if self.whole and not refused:
            self.find(f"{what}: the store there is whole, found {answer['error']}: {answer['said']}")
        # A job opens the store before it finds that this is not as it left it; who opens it removes what was replaced.
        self._opened |= what == "dedup --store" and self.whole
        # It may have been done all the same, which the error does not tell.
        self._is_unsure |= what == "build --force"
        says = self.case.damage.says
        if says and what in ("open to read", "open to write") and answer["error"] not in says:
            self.find(f"{what}: found {answer['error']}: {answer['said']}, expected {' or '.join(says)}")
        return True

    def _went_on(self, what: str, answer: Answer, mode: str | None) -> bool:
        """Judge what came of a call of the one who has it open; whether it was an error."""
        self.said.append(answer)
        self._named(what, answer)
        right = self.writer_is_right if mode == "w" else self.reader_is_right
        model = self.models.get(self.held_at) if self.held_at else None
        if answer["ok"]:
            appends = mode == "w" and what in APPENDING and self.same_catalog
            must_refuse = not right and not appends and (what in CHANGES or not (self.in_place or self.may_follow))
            if mode == "w" and what not in CHANGES:
                pass  # a writer knows what it has acknowledged, and looks before it writes
            elif must_refuse:
                self.find(f"{what}: no error, though the store is not there any more")
            elif what in CHANGES:
                self._operated(what)
            elif what in ANSWERING and not right:
                known = (model, self._held_rows)
                if not self._grown and all(self._differs(answer["value"], each, what) for each in known):
                    self.find(f"{what}: {self._differs(answer['value'], self._held_rows, what)}")
            elif what in ANSWERING and not (self.case.damage.rewrites or self._grown or self._is_unsure):
                self._expect_rows(what, answer, model)
            if not must_refuse:
                self._check_copy(what, model)
            return False
        if right and self.whole and self.lockable and not self.case.damage.traps:
            self.find(f"{what}: the store is as it was, found {answer['error']}: {answer['said']}")
        kinds = {"StoreChanged"} | ({"CorruptStore"} if self.same_folder else set())
        if not right and (what in CHANGES or mode == "r") and not kinds & set(answer["kinds"]):
            self.find(f"{what}: found {answer['error']}: {answer['said']}, expected StoreChanged")
        return True

    def _differs(self, found: list[Row], model: Rows | None, what: str = "rows") -> str:
        """How the answer to one of ANSWERING is another than that of a store with these rows."""

        def answer(rows: Rows) -> Rows:
            return rows if what == "rows" else frozenset(row for row in rows if row[0] in ASKED)

        rows = frozenset((key, number) for key, number in found if key not in DOCUMENT_KEYS)
        if model is None or rows == answer(model):
            return ""
        model = answer(model)
        of = [name for name, known in self._known.items() if answer(known) == rows]
        which = f", the rows of the catalog {of[0]}" if of else ""
        return f"found {len(rows)} rows, {len(model - rows)} missing and {len(rows - model)} too many{which}"

    def _expect_rows(self, what: str, answer: Answer, model: Rows | None) -> None:
        if difference := self._differs(answer["value"], model, what if what in ANSWERING else "rows"):
            self.find(f"{what}: {difference}")

    def _check_copy(self, what: str, model: Rows | None) -> None:
        copied = self.world.folder / "copied"
        if what == "copy" and model is not None and not self.case.damage.rewrites:
            with opened(copied) as store:
                if difference := self._differs(rows_of(store), model):
                    self.find(f"copy: {difference}")

    def _operated(self, what: str) -> None:
        """Note what the acknowledged change did to the store at the path."""
        at = self.at
        assert at is not None
        self.operated.add(at)
        model = self.models.get(at)
        if model is None:
            return
        removals = {"open and remove": REMOVED, "remove": LATE, "remove pairs": LATE}
        additions = {"open and add": NEW, "add": HELD, "add_if_new": HELD, "upsert": HELD}
        model |= held(additions.get(what, []), self.world.id_type)
        model -= held(removals.get(what, []), self.world.id_type)
        if what == "build --force":
            model = held(BUILT, self.world.id_type)
        inode = self.after[f"{at}/catalog.mdb"].inode
        for name in self.models:  # hard links, and what is mounted twice
            if self.after[f"{name}/catalog.mdb"].inode == inode:
                self.models[name] = model
                self.operated.add(name)
        if what in ("dedup --store", "fpstore add"):
            self._grown = True

    _grown = False
    _is_unsure = False

    def _named(self, what: str, answer: Answer) -> None:
        """An error must be one that names the cause, and a file."""
        if answer["ok"]:
            return
        kinds, said = set(answer["kinds"]), answer["said"]
        if answer["error"] in ("HANG", "DIED"):
            self.find(f"{what}: {answer['error']}: {said}")
        elif answer["error"].startswith("status"):
            lines = said.strip().splitlines()
            is_told = lines and lines[-1].startswith(("fpstore: ", os.sep))
            if "internal error" in said or "Traceback" in said or not is_told:
                self.find(f"{what}: {said.strip()[-300:]!r}")
        elif "OSError" in kinds:
            if not answer["file"] or "/proc/self" in answer["file"]:
                self.find(f"{what}: {answer['error']} without a file: {said}")
        elif not kinds & NAMED:
            self.find(f"{what}: bare {answer['error']}: {said}")
        elif "StoreClosed" in kinds or "/proc/self" in said:
            self.find(f"{what}: {answer['error']}: {said}")

    # The end.

    def _judge(self) -> None:
        now = look(self.world.folder)
        pool = self._segments_in(now)
        self._outside(now)
        # Each catalog that there was, with segments from wherever they lie.
        self._find_out(now, pool)
        replaced = self._replaced()
        for digest, rows in self._known.items():
            marks = self.shelf.catalog(Path(), digest) or []
            lost = [name for name, mark in marks if mark in self.pool and mark not in pool and mark not in replaced]
            if lost:
                self.find(f"files of the store of {len(rows)} rows are gone: {', '.join(lost)}")
        # Each store where it lies now.
        for at, model in self.models.items():
            seen = now.get(f"{at}/catalog.mdb")
            if model is None or (seen and self.after[f"{at}/catalog.mdb"].digest == seen.digest):
                continue
            if seen is None:
                self.find(f"{at}: its catalog is gone")
                continue
            path = self.world.folder / at / "catalog.mdb"
            self.shelf.catalog(path, seen.digest)
            if not all(mark in self.pool for _, mark in self.entries) and at == self.at and not self.whole:
                continue  # what the damage took is not there to be read
            found = self.shelf.rows(seen.digest, pool)
            if isinstance(found, str):
                self.find(f"{at}: {found}")
            elif self._grown and at in self.operated and not {key for key, _ in found} >= DOCUMENT_KEYS:
                self.find(f"{at}: found {len(found)} rows, expected {len(model)} and those of all documents")
            elif difference := self._differs([*found], model):
                self.find(f"{at}: {difference}")
        moved = [name for name in now if "/aside/" in name and name not in self.after]
        if moved and not any(self._warned()):
            self.find(f"moved without a warning: {', '.join(moved)}")

    def _find_out(self, now: dict[str, Seen], pool: dict[Entry, Path]) -> None:
        """An error of a build does not tell whether it came after the store was replaced."""
        seen = now.get(f"{self.at}/catalog.mdb")
        if (
            self.case.new == "build --force"
            and not self.said[0]["ok"]
            and self.at
            and seen
            and self.models.get(self.at)
        ):
            self.shelf.catalog(self.world.folder / self.at / "catalog.mdb", seen.digest)
            if self.shelf.rows(seen.digest, pool) == held(BUILT, self.world.id_type):
                self._operated("build --force")

    def _warned(self) -> Iterator[bool]:
        for answer in self.said:
            yield (
                any("aside" in each for each in answer.get("warnings", ()))
                or "aside" in f"{answer.get('value')}{answer.get('said')}"
            )

    def _replaced(self) -> set[Entry]:
        """What the one who was acknowledged has merged or replaced, which the store there has no need of any more."""
        entries = {mark for _, mark in self.entries} if self.operated else set()
        return entries | (self.strays if self.operated or self._opened else set())

    def _outside(self, now: dict[str, Seen]) -> None:
        """Nothing but the store at the path, and the one that the holder has, was touched."""
        places = {self.at, self.held_at} - {None}
        inodes = {self.after[at].inode for at in places if at in self.after}
        inodes |= {self.after[f"{at}/segments"].inode for at in places if f"{at}/segments" in self.after}
        own = places | {name for name, each in self.after.items() if each.kind == stat.S_IFDIR and each.inode in inodes}
        files = [f"{at}/{name}" for at in places for name in ("catalog.mdb", "writer.lock")]
        own_inodes = {seen[name].inode for seen in (self.after, self._before) for name in files if name in seen}
        own_inodes |= {each.inode for name, each in self.after.items() if any(f"{at}/jobs/" in name for at in places)}
        for name in sorted({*self.after, *now}):
            one, other = self.after.get(name), now.get(name)
            if any(name == at or name.startswith((f"{at}/", f"{at}.documents")) for at in own):
                continue
            if name.split("/")[0] in ("copied", "documents.jsonl", "kept.jsonl", "scratch") or "kept.jsonl" in name:
                continue
            if one is None and name.startswith(os.path.relpath(self.world.live, self.world.folder)):
                continue  # made where nothing was
            if one is not None and other is not None:
                if one.inode in own_inodes and "victim" not in name:
                    continue  # a hard link of the very file
                times = one.kind != stat.S_IFDIR or "victim" in name
                if (
                    one.digest == other.digest
                    and one.mode == other.mode
                    and (one.changed_ns == other.changed_ns or not times)
                ):
                    continue
            what = "made" if one is None else "removed" if other is None else "changed"
            self.find(f"outside the store, {what}: {name}")
