"""A disk that loses what was not synced: replays the calls that fault/shim.c recorded up to any point, then cuts power.

What was written, cut or named since the last sync of its file or folder may be there or not, in pieces of 512 bytes,
each of its own accord; so may the call that was under way. A synced file has the name that its synced folder gives it,
and no other.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass
class File:
    """What is on the disk of a file, and what may be: writes (offset, data) and sizes, in their order."""

    content: bytearray = field(default_factory=bytearray)
    waiting: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        """All that waits is on the disk."""
        for offset, data in self.waiting:
            _change(self.content, offset, data)
        self.waiting.clear()

    def after_cut(self, chance: float, rng: random.Random) -> bytearray:
        """What is left: each piece of what waits with this chance."""
        content = bytearray(self.content)
        for offset, data in self.waiting:
            if data is None:
                if rng.random() < chance:
                    _change(content, offset, None)
                continue
            at = 0
            while at < len(data):
                size = min(SECTOR_BYTES - (offset + at) % SECTOR_BYTES, len(data) - at)
                if rng.random() < chance:
                    _change(content, offset + at, data[at : at + size])
                at += size
        return content


@dataclass
class Folder:
    """The names on the disk, and the changes of names that may be."""

    names: dict[str, "File | Folder"] = field(default_factory=dict)
    waiting: list[dict[str, "File | Folder | None"]] = field(default_factory=list)

    def sync(self) -> None:
        """All that waits is on the disk."""
        self.names = self.after_cut(1.0, random.Random(0))
        self.waiting.clear()

    def after_cut(self, chance: float, rng: random.Random) -> dict[str, "File | Folder"]:
        """What is left: each change of what waits, whole, with this chance."""
        names: dict[str, File | Folder | None] = dict(self.names)
        for change in self.waiting:
            if rng.random() < chance:
                names.update(change)
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
            node.waiting.append((event.a, event.data))
        elif event.kind == "T" and isinstance(node, File):
            node.waiting.append((event.a, None))
        elif event.kind == "C":
            self._nodes[event.inode] = made = Folder() if event.b else File()
            if event.names:
                self._folder(event.a).waiting.append({event.names: made})
        elif event.kind == "U":
            self._folder(event.a).waiting.append({event.names: None})
        elif event.kind == "R":
            source, target = event.names.split("/")
            assert event.a == event.b, "a store renames within one folder"
            assert node is not None
            self._folder(event.a).waiting.append({source: None, target: node})

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

    def cut(self, target: Path, chance: float, rng: random.Random) -> None:
        """Write what is left after a power cut into target, which is not there."""
        _restore(self.root, target, chance, rng)


def _restore(folder: Folder, target: Path, chance: float, rng: random.Random) -> None:
    target.mkdir()
    for name, node in sorted(folder.after_cut(chance, rng).items()):
        if isinstance(node, Folder):
            _restore(node, target / name, chance, rng)
        else:
            (target / name).write_bytes(node.after_cut(chance, rng))


def cuts(events: list[Event], inode: int, points: list[int]) -> Iterator[tuple[int, Disk]]:
    """The disk at each of points, numbers of events, while that event is under way."""
    disk = Disk(inode)
    wanted = set(points)
    for number, event in enumerate(events):
        disk.begin(event)
        if number in wanted:
            yield number, disk
        disk.finish(event)
