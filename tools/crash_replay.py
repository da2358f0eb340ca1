"""A disk that loses what was not synced: replays the calls that fault/shim.c recorded up to any point, then cuts power.

What was written, cut or named since the last sync of its file or folder may be there or not, in pieces of 512 bytes,
each of its own accord; so may the call that was under way. A synced file has the name that its synced folder gives it,
and no other. A mapping of changes to what is kept of them is a Keeps; losses lists the adversarial ones.
"""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

SECTOR_BYTES = 512


@dataclass
class Event:
    """One call, as in the record: what it did to which inode."""

    index: int
    kind: str
    inode: int
    a: int
    b: int
    names: str
    data: bytes


@dataclass(frozen=True, eq=False)
class Write:
    """Bytes at an offset of a file; without any, the file's new size."""

    offset: int
    data: bytes | None

    def pieces(self) -> list[tuple[int, bytes | None]]:
        """What is kept or lost of its own accord: the parts in each sector."""
        if self.data is None:
            return [(self.offset, None)]
        found: list[tuple[int, bytes | None]] = []
        at = 0
        while at < len(self.data):
            size = min(SECTOR_BYTES - (self.offset + at) % SECTOR_BYTES, len(self.data) - at)
            found.append((self.offset + at, self.data[at : at + size]))
            at += size
        return found


@dataclass(frozen=True, eq=False)
class Naming:
    """Names of a folder that change together: a file made, removed or renamed."""

    names: dict[str, "File | Folder | None"]

    def pieces(self) -> list[dict[str, "File | Folder | None"]]:
        """One: it is kept or lost whole."""
        return [self.names]


Change: TypeAlias = Write | Naming
# Whether this piece of a change, by its number, is there after the cut.
Keeps: TypeAlias = Callable[[Change, int], bool]
# What a folder holds: files' bytes and folders.
Tree: TypeAlias = "dict[str, bytes | Tree]"


def everything(change: Change, piece: int) -> bool:
    """The Keeps of a disk that loses nothing."""
    return True


@dataclass
class File:
    """What is on the disk of a file, and what may be."""

    content: bytearray = field(default_factory=bytearray)
    waiting: list[Write] = field(default_factory=list)

    def sync(self) -> None:
        """All that waits is on the disk."""
        self.content = self.after_cut(everything)
        self.waiting.clear()

    def after_cut(self, keeps: Keeps) -> bytearray:
        """What is left."""
        content = bytearray(self.content)
        for change in self.waiting:
            for number, (offset, data) in enumerate(change.pieces()):
                if keeps(change, number):
                    _change(content, offset, data)
        return content


@dataclass
class Folder:
    """The names on the disk, and the changes of names that may be."""

    names: dict[str, "File | Folder"] = field(default_factory=dict)
    waiting: list[Naming] = field(default_factory=list)

    def sync(self) -> None:
        """All that waits is on the disk."""
        self.names = self.after_cut(everything)
        self.waiting.clear()

    def after_cut(self, keeps: Keeps) -> dict[str, "File | Folder"]:
        """What is left."""
        names: dict[str, File | Folder | None] = dict(self.names)
        for change in self.waiting:
            if keeps(change, 0):
                names.update(change.names)
        return {name: node for name, node in names.items() if node is not None}


def _change(content: bytearray, offset: int, data: bytes | None) -> None:
    """Write data, or without any make offset the size."""
    if data is None:
        del content[offset:]
    end = offset + len(data or b"")
    content.extend(bytes(max(0, end - len(content))))
    content[offset:end] = data or b""


def read_trace(path: Path) -> list[Event]:
    """The events of a record."""
    events = []
    with path.open("rb") as file:
        while line := file.readline():
            index, kind, inode, a, b, length, names = line.decode().rstrip("\n").split(" ", 6)
            events.append(Event(int(index), kind, int(inode), int(a), int(b), names, file.read(int(length))))
    return events


class Disk:
    """The disk under one folder, which is empty at first."""

    def __init__(self, inode: int) -> None:
        self.root = Folder()
        self.journal = b""
        self._nodes: dict[int, File | Folder] = {inode: self.root}

    def begin(self, event: Event) -> None:
        """The call is under way: what it does may be on the disk or not."""
        node = self._nodes.get(event.inode)
        if event.kind == "W" and isinstance(node, File):
            node.waiting.append(Write(event.a, event.data))
        elif event.kind == "T" and isinstance(node, File):
            node.waiting.append(Write(event.a, None))
        elif event.kind == "C":
            self._nodes[event.inode] = made = Folder() if event.b else File()
            if event.names:
                self._folder(event.a).waiting.append(Naming({event.names: made}))
        elif event.kind == "U":
            self._folder(event.a).waiting.append(Naming({event.names: None}))
        elif event.kind == "R":
            source, target = event.names.split("/")
            assert event.a == event.b, "a store renames within one folder"
            assert node is not None
            self._folder(event.a).waiting.append(Naming({source: None, target: node}))

    def finish(self, event: Event) -> None:
        """The call has returned."""
        if event.kind == "M":
            self.journal += event.data
        node = self._nodes.get(event.inode)
        if event.kind == "S" and node is not None:
            node.sync()
        elif event.kind == "W" and event.b and isinstance(node, File):
            node.waiting.pop()  # through a descriptor opened with O_DSYNC: on the disk, whatever else waits
            _change(node.content, event.a, event.data)

    def _folder(self, inode: int) -> Folder:
        node = self._nodes[inode]
        assert isinstance(node, Folder)
        return node

    def waiting(self) -> list[Change]:
        """The changes that may be lost, of what has a name or may have one."""
        found: list[Change] = []
        seen: set[int] = set()
        nodes: list[File | Folder] = [self.root]
        for node in nodes:
            if id(node) not in seen:
                seen.add(id(node))
                found += node.waiting
                if isinstance(node, Folder):
                    nodes += node.names.values()
                    nodes += (one for change in node.waiting for one in change.names.values() if one is not None)
        return found

    def cut(self, keeps: Keeps) -> Tree:
        """What is left after a power cut."""
        return _left(self.root, keeps)


def _left(folder: Folder, keeps: Keeps) -> Tree:
    return {
        name: _left(node, keeps) if isinstance(node, Folder) else bytes(node.after_cut(keeps))
        for name, node in sorted(folder.after_cut(keeps).items())
    }


def write_tree(tree: Tree, target: Path) -> None:
    """Make the folder target, which is not there, and what it holds."""
    target.mkdir()
    for name, node in tree.items():
        if isinstance(node, bytes):
            (target / name).write_bytes(node)
        else:
            write_tree(node, target / name)


def read_tree(target: Path) -> Tree:
    """What a folder holds."""
    return {path.name: read_tree(path) if path.is_dir() else path.read_bytes() for path in sorted(target.iterdir())}


def digest(tree: Tree) -> bytes:
    """The same for the same names and bytes only."""
    found = hashlib.blake2b()
    for name, node in tree.items():
        kind, content = ("file", node) if isinstance(node, bytes) else ("folder", digest(node))
        found.update(f"{kind} {len(name)} {name} {len(content)} ".encode() + content)
    return found.digest()


# --- What may be lost ---


def nothing(change: Change, piece: int) -> bool:
    """The Keeps of a disk that loses all that waits."""
    return False


def by_chance(chance: float, rng: random.Random) -> Keeps:
    """Each piece is kept with this chance."""
    return lambda change, piece: rng.random() < chance


def only(kind: type[Change]) -> Keeps:
    """The changes of one kind are kept."""
    return lambda change, piece: isinstance(change, kind)


def all_but(lost: Change, pieces: range) -> Keeps:
    """These pieces of one change are lost."""
    return lambda change, piece: change is not lost or piece not in pieces


def alone(kept: Change) -> Keeps:
    """One change is kept."""
    return lambda change, piece: change is kept


def every_other(change: Change, piece: int) -> bool:
    """The names are kept, and of each write the second sector, the fourth and so on."""
    return piece % 2 == 1 or isinstance(change, Naming)


def losses(disk: Disk, rng: random.Random) -> Iterator[tuple[str, Keeps]]:
    """Ways to lose what waits, with what each is called."""
    waiting = disk.waiting()
    yield "nothing is lost", everything
    if not waiting:
        return
    yield "all is lost", nothing
    yield "names are lost", only(Write)
    yield "contents are lost", only(Naming)
    yield "every other piece is lost", every_other
    yield "pieces are lost by chance", by_chance(0.5, rng)
    for number, one in enumerate(waiting):
        which = f"change {number} of {len(waiting)}"
        pieces = len(one.pieces())
        yield f"{which} is lost", all_but(one, range(pieces))
        yield f"{which} alone is kept", alone(one)
        if pieces > 1:
            yield f"{which} loses its start", all_but(one, range(pieces // 2))
            yield f"{which} loses its end", all_but(one, range(pieces // 2, pieces))


def cuts(events: list[Event], inode: int) -> Iterator[tuple[int, Disk]]:
    """The disk at each event, by number, while that event is under way; then after the last."""
    disk = Disk(inode)
    for number, event in enumerate(events):
        disk.begin(event)
        yield number, disk
        disk.finish(event)
    yield len(events), disk
