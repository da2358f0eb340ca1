"""A mirror: a folder of this machine that looks like a store elsewhere, of which it has what was read so far.

A page is there where its checksum holds, so nothing has to be known of a mirror but its files: a hole, bytes that a
killed process left, or damage are the same to whoever reads. Several processes may fill one mirror; they write the same
bytes. It is named for the URL and for the catalog's bytes, so that it is of one state of the store for ever.
"""

import hashlib
import os
import secrets
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fpstore import format as layout
from fpstore._codec import page_checksums
from fpstore._source import PageSource
from fpstore._view import SegmentView
from fpstore.disk import CATALOG_NAME, MAX_RECORD_BYTES, Folder, naming, read_whole, write_all
from fpstore.errors import CorruptStore, Naming, PathLike, StoreWarning, UnsupportedVersion
from fpstore.living.catalog import SEGMENTS, Catalog
from fpstore.living.live import Live
from fpstore.remote.cache import Held, cache_bytes, cache_folder, held_bytes, hold
from fpstore.remote.objects import Objects, Range, whole_catalog
from fpstore.segment.entry import SegmentEntry, sketches_name
from fpstore.segment.files import read_footer

# Who asks for pages at once; each asks for some ranges together, which a client of HTTP has under way at one time.
THREADS = 8
# How long one waits before it looks whether something else is to be done.
LOOK_MILLISECONDS = 200
# How long threads are waited for that are to end: one that waits for the network may not for a minute.
CLOSING_SECONDS = 1.0


class Lying(NamedTuple):
    """A file of the store, as its catalog has it."""

    name: str
    file_bytes: int
    crc: int


class Mirror:
    """The mirror of a store, open: `path` looks like the store, and `attach` has what is missing brought.

    objects: what lies at the URL. bytes_held: how many bytes the mirror has on disk, as far as is known here.
    outdated, outdated_bytes: as of Held.
    """

    def __init__(self, url: str, cache: PathLike | None = None, most_bytes: str | int | None = None) -> None:
        """Fetch the catalog, and of each file its end. What that raises names the object."""
        self._cache, self._most_bytes = cache_folder(cache), cache_bytes(most_bytes)
        self.objects = Objects(url)
        catalog = whole_catalog(self.objects)
        name = hashlib.sha256(self.objects.url.encode() + b"\n" + catalog).hexdigest()[:32]
        self._held: Held = hold(self._cache, name, self.objects.url, self._most_bytes)
        self.path = self._held.store
        self.outdated, self.outdated_bytes = self._held.outdated, self._held.outdated_bytes
        self._source = PageSource()
        self._views: list[tuple[SegmentView, str, int]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._told = self._failed = self._is_small = self._is_closed = False
        self._at_work = 0  # threads that have not ended
        try:
            with Folder.open(self.path) as folder, folder.inside(SEGMENTS) as segments:
                _put(folder, CATALOG_NAME, catalog)
                for lying in self._lying():
                    self._mirror(segments, lying)
            self.bytes_held = held_bytes(self._held.path)
        except BaseException:
            self._held.close()
            raise

    def attach(self, parts: Iterable[Live]) -> None:
        """Have the pages of these parts' files brought when they are needed."""
        with Folder.open(self.path) as folder, folder.inside(SEGMENTS) as segments:
            for file in [file for part in parts for file in (part.segment, *part.beside)]:
                name = f"{SEGMENTS}/{file.path.name}"
                file.view.attach(self._source, self.objects.url_of(name))
                self._views.append((file.view, name, segments.open_file(file.path.name, os.O_RDWR)))
        for _ in range(THREADS if self._views else 0):
            thread = threading.Thread(target=self._work, name="fpstore-remote", daemon=True)
            self._at_work += 1
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Let go of it, when no call is under way any more; may be called again.

        A thread whose object hangs is not waited for long: the last of them lets go of the files, when it ends.
        """
        self._source.close()
        until = time.monotonic() + CLOSING_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._threads.clear()
        with self._lock:
            self._is_closed = True
            is_last = not self._at_work
        if is_last:
            self._let_go()

    def _work(self) -> None:
        try:
            self._bring()
        finally:
            with self._lock:
                self._at_work -= 1
                is_last = self._is_closed and not self._at_work
            if is_last:
                self._let_go()

    def _let_go(self) -> None:
        while self._views:
            os.close(self._views.pop()[2])
        self._held.close()

    def leave(self) -> None:
        """Let go of what a fork has inherited: the threads are the parent's."""
        self._let_go()

    def pickled(self, kind: type, signed: bool) -> tuple[object, ...]:
        """What makes a store of that kind anew from its pickle, wherever that is read."""
        from fpstore.remote.opening import reopened

        return reopened, (kind, self.objects.url, signed, os.fspath(self._cache), self._most_bytes)

    # --- What is there before a store is opened ---

    def _lying(self) -> list[Lying]:
        """Every file that the catalog names."""
        with Catalog.open(self.path) as catalog:
            return [lying for entry in catalog.state().segments for lying in _files_of(entry)]

    def _mirror(self, segments: Folder, lying: Lying) -> None:
        """A file of that size, whose end is there."""
        name = f"{SEGMENTS}/{lying.name}"
        url = self.objects.url_of(name)
        size, _ = self.objects.look(name)
        if size != lying.file_bytes:
            expected = f"{lying.file_bytes}, as its catalog says: it was cut short, or is not whole there yet"
            raise CorruptStore("object", f"{size} bytes", expected, path=url)
        fd = segments.open_file(lying.name, os.O_RDWR | os.O_CREAT)  # what lies behind a link is not written to
        try:
            with naming(segments.path / lying.name):
                if os.fstat(fd).st_size != size:
                    os.ftruncate(fd, size)
            if not _has_ends(fd, lying):
                with Naming(url):
                    self._fetch_ends(fd, name, size)
                    if not _has_ends(fd, lying):
                        raise CorruptStore("footer", "another one", "that of the file that the catalog names")
        finally:
            os.close(fd)

    def _fetch_ends(self, fd: int, name: str, size: int) -> None:
        """Bring the first page, and from the summary on all to the end: a thousandth of the file."""
        at = max(0, size - layout.FOOTER_BYTES)
        footer = layout.Footer.unpack(self.objects.read(name, at, size), size)
        first = footer.summary_offset // layout.PAGE_BYTES * layout.PAGE_BYTES
        ranges = [Range(name, first, size), *([Range(name, 0, min(first, layout.PAGE_BYTES))] if first else [])]
        for one, data in zip(ranges, self.objects.read_many(ranges), strict=True):
            if isinstance(data, Exception):
                raise data
            write_all(fd, memoryview(data), one.first)

    # --- What is brought later ---

    def _bring(self) -> None:
        """Bring what is wanted until the source is closed."""
        while True:
            wanted = self._source.take(LOOK_MILLISECONDS)
            if wanted:
                self._bring_all(wanted)
            elif self._source.closed:
                return
            if self.bytes_held > self._most_bytes and not self._failed:
                try:
                    self._make_room()
                except Exception:  # such as a warning that is an error: who waits for pages is to get them
                    self._failed = True
                    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

    def _bring_all(self, wanted: Sequence[tuple[int, int, int]]) -> None:
        ranges, owners = [], []
        for number, (file, first, end) in enumerate(wanted):
            for start, stop in self._source.where(file, first, end):
                ranges.append(Range(self._views[file][1], start, stop))
                owners.append(number)
        failures: dict[int, Exception] = {}
        brought = 0
        try:
            for one, data, owner in zip(ranges, self.objects.read_many(ranges), owners, strict=True):
                if isinstance(data, Exception):
                    failures[owner] = data
                else:
                    write_all(self._views[wanted[owner][0]][2], memoryview(data), one.first)
                    brought += len(data)
        except Exception as error:  # such as a full disk: whoever waits is to know, and not to wait for ever
            failures.update(dict.fromkeys(range(len(wanted)), error))
        with self._lock:
            self.bytes_held += brought
        for number, (file, first, end) in enumerate(wanted):
            self._source.tell(file, first, end, failures.get(number))

    def _make_room(self) -> None:
        """Give bytes back to the disk where nobody else has the mirror, and no call is under way."""
        with self._lock, self._held.alone() as alone:
            if self.bytes_held <= self._most_bytes:
                return
            dropped = [view.drop(fd) for view, _, fd in self._views] if alone else []
            self.bytes_held = held_bytes(self._held.path) if any(dropped) else self.bytes_held
            if any(dropped) and all(dropped) and self.bytes_held > self._most_bytes and not self._is_small:
                self._is_small = True
                found = f"{self.objects.url}: found {self.bytes_held} bytes that stay, its catalog and its checksums"
                told = f"expected cache_bytes (FPSTORE_CACHE_BYTES) of {self.bytes_held} and room for pages"
                warnings.warn(f"{found}; {told}, not {self._most_bytes}", StoreWarning, stacklevel=2)
            if not alone and not self._told:
                self._told = True
                found = f"{self._held.path}: found {self.bytes_held} bytes of {self.objects.url}, which others read too"
                warnings.warn(f"{found}, expected at most {self._most_bytes}", StoreWarning, stacklevel=2)


def _files_of(entry: SegmentEntry) -> Iterator[Lying]:
    yield Lying(entry.name, entry.file_bytes, entry.crc)
    for names in entry.names:
        yield Lying(names.name, names.file_bytes, names.crc)
    if entry.sketches is not None:
        yield Lying(sketches_name(entry.name), entry.sketches.file_bytes, entry.sketches.crc)


def _put(folder: Folder, name: str, data: bytes) -> None:
    """Put a file there as a whole, if it is not there: who has it open keeps it. CorruptStore for a link."""
    if read_whole(folder, name, max(len(data), MAX_RECORD_BYTES)) == data:
        return
    new = f".{name}.{secrets.token_hex(4)}"
    fd = folder.open_file(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        write_all(fd, memoryview(data))
    finally:
        os.close(fd)
    folder.rename(new, name)


def _has_ends(fd: int, lying: Lying) -> bool:
    """Whether a file has the end that its catalog says, all checksums, its summary and its first page."""
    try:
        footer = read_footer(fd, lying.file_bytes)
    except (CorruptStore, UnsupportedVersion):
        return False
    if int.from_bytes(footer.pack()[-layout.CRC_BYTES :], "little") != lying.crc:
        return False
    sums = os.pread(fd, footer.roots_offset - footer.checksums_offset, footer.checksums_offset)
    roots = os.pread(fd, footer.footer_offset - footer.roots_offset, footer.roots_offset)
    if page_checksums(sums).astype("<u4").tobytes() != roots:
        return False
    first = footer.summary_offset // layout.PAGE_BYTES
    for start, end in (
        (0, min(layout.PAGE_BYTES, footer.checksums_offset)),
        (first * layout.PAGE_BYTES, footer.checksums_offset),
    ):
        found = page_checksums(os.pread(fd, end - start, start)).astype("<u4").tobytes()
        at = layout.CRC_BYTES * (start // layout.PAGE_BYTES)
        if found != sums[at : at + len(found)]:
            return False
    return True
