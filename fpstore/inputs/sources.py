"""Owns the way from what a caller names to the files that are read, and the format of each.

- `-`, and what leads to the same (`/dev/stdin`), is standard input.
- A pattern such as `part-*.jsonl`, where no file has that very name, stands for the paths that match it, sorted.
  What lies in a folder that it matches too is read with that folder, once.
- A folder stands for the files under it, each as if it had been named: sorted, folder by folder. What is hidden, links,
  pipes, and the files with which Spark marks a folder are passed over and counted. A store in it is refused.
- A file is read once: by two names, or by its name and through a folder, is refused.
- A URL, such as `s3://bucket/part-*.jsonl`, is a file, a folder or a pattern that fsspec reaches.
- The format is the one that was asked for, or goes by the suffix. In a folder too: a suffix that no format has is
  refused there, as nobody can tell texts from something else by their names.
"""

from __future__ import annotations

import errno
import glob
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fpstore.errors import PathLike
from fpstore.inputs import remote
from fpstore.inputs.compressed import STANDARD_INPUT, SUFFIXES, display_name, open_stream
from fpstore.inputs.decoding import marked, text_of
from fpstore.inputs.errors import Faults

FORMATS = (
    "auto",
    "npy",
    "u64",
    "hex",
    "csv",
    "tsv",
    "tsv-quoted",
    "tsv-plain",
    "tsv-escaped",
    "parquet",
    "jsonl",
    "json",
    "text",
    "html",
    "warc",
)
_FORMAT_OF_SUFFIX = {f".{name}": name for name in FORMATS[1:] if name.isalnum() and name != "text"} | {
    ".ndjson": "jsonl",
    ".txt": "text",
    ".htm": "html",
    ".xhtml": "html",
    ".wet": "warc",
}
_STANDARD_INPUTS = frozenset((STANDARD_INPUT, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_PATTERN = re.compile(r"[*?[]")
# With these Spark and Hadoop mark a folder of parts; they hold no rows.
_MARKERS = re.compile(r"_SUCCESS|_(?:common_)?metadata|_(?:started|committed)_.*|_temporary|_delta_log|_spark_metadata")

# What the folder of a store has, and no other: a catalog alone may be somebody's own file.
_OF_A_STORE = frozenset(("catalog.mdb", "segments"))

# For advice about a file whose suffix says nothing.
_LOOK_BYTES = 4096
_NOT_ASCII = bytes(range(128, 256))
_MARKS = {
    b"PAR1": "parquet",
    b"\x93NUMPY": "npy",
    b"WARC/": "warc",
    b'{"': "jsonl",
    b"<!DOCTYPE": "html",
    b"<html": "html",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A file or a stream (`-` is standard input) and its format."""

    path: str
    format: str


@dataclass(frozen=True, slots=True)
class Input:
    """What was named, looked through: a file, a stream or a folder.

    format: of its files; `auto` where it goes by the suffix of each, in a folder only. kinds: the formats that there
    are, each with the path of the first file of it. total_bytes: of all files, None where only reading tells.
    """

    path: str
    format: str
    kinds: dict[str, str]
    total_bytes: int | None
    is_folder: bool

    def files(self, faults: Faults) -> Iterator[Source]:
        """What is to be read, in order; faults hear of what is passed over."""
        if not self.is_folder:
            yield Source(self.path, self.format)
            return
        for path in walk(self.path, faults.pass_over):
            yield Source(path, format_of_name(path) if self.format == "auto" else self.format)


def inputs_of(paths: Sequence[PathLike], format: str, standard_input: str | None = None) -> list[Input]:
    """What paths stand for, with format where that is not `auto`. Looks at names and sizes, and reads nothing.

    standard_input: its format, where `auto` would not tell.

    Raises ValueError where the format of a file cannot be told, and for standard input or a file twice, by its name or
    through a folder; FileNotFoundError for what is not there, and for a pattern that nothing matches.
    """
    of_stream = standard_input if format == "auto" and standard_input is not None else format
    found = [_input_of(path, of_stream if path == STANDARD_INPUT else format) for path in expand(paths)]
    if sum(one.path == STANDARD_INPUT for one in found) > 1:
        raise ValueError("standard input: found it more than once among the sources, expected it once")
    _expect_once(found)
    return found


def expect_several(name: str, value: object, expected: str) -> None:
    """TypeError for one path in place of several, and for what gives names of its own that would be taken for paths.

    So a mapping does, and a table with columns, when somebody goes through it.
    """
    if isinstance(value, str | bytes | os.PathLike | Mapping) or hasattr(value, "columns"):
        raise TypeError(f"{name}: found one {type(value).__name__}, expected {expected}")


def expand(paths: Sequence[PathLike]) -> list[str]:
    """The paths with patterns replaced by what matches them, and every name of standard input by `-`.

    Raises TypeError as expect_several does.
    """
    expect_several("sources", paths, "a list of paths")
    expanded: list[str] = []
    for each in paths:
        path = remote.local_path(os.fspath(each))
        if path in _STANDARD_INPUTS:
            expanded.append(STANDARD_INPUT)
        elif remote.is_remote(path):
            expanded += _expand_remote(path)
        elif _PATTERN.search(path) and not os.path.lexists(path):
            matching = remote.outermost(glob.glob(path, recursive=True))
            if not matching:
                raise FileNotFoundError(errno.ENOENT, "no file matches this pattern", path)
            expanded += matching
        else:
            expanded.append(path)
    return expanded


def _expand_remote(path: str) -> list[str]:
    if not _PATTERN.search(remote.naming_part(path)) or remote.exists(path):
        return [path]
    matching = remote.expand(path)
    if not matching:
        raise FileNotFoundError(errno.ENOENT, "no file matches this pattern", path)
    return matching


def is_stream(path: str) -> bool:
    """Whether what is at path can be read only once: standard input, a pipe, a device."""
    return path == STANDARD_INPUT or (os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)))


def format_of(path: str | Path) -> str:
    """The format that `auto` takes path for, by the suffix before .gz and the like; of a folder, that of all files.

    Raises ValueError for a suffix that no format has, for standard input, and for a folder whose files have none or
    several; OSError for a folder that cannot be listed.
    """
    kinds = list(dict.fromkeys(format for one in expand([path]) for format in _kinds(one)))
    if len(kinds) != 1:
        raise ValueError(f"{path}: found files of formats {', '.join(kinds) or 'none'}, expected one format for all")
    return kinds[0]


def format_of_name(path: str) -> str:
    """The format of a file by its suffix. Raises ValueError for one that no format has, and for standard input."""
    suffix = _suffix(path)
    format = _FORMAT_OF_SUFFIX.get(suffix)
    if format is None and is_stream(path):
        raise ValueError(f"{display_name(path)}: found no suffix to tell its format, expected one of {_known()}")
    if format is None:
        expected = f"{', '.join(_FORMAT_OF_SUFFIX)} or a format, one of {_known()}"
        raise ValueError(f"{path}: found suffix {suffix or 'none'}, expected {expected}")
    return format


def walk(folder: str, pass_over: Callable[[str], object] | None = None) -> Iterator[str]:
    """The path of every file under folder that is read, names compared by code point; pass_over hears of the rest."""
    if remote.is_remote(folder):
        yield from _walk_remote(folder, pass_over)
        return
    listings = [iter(_listing(folder))]
    while listings:
        entry = next(listings[-1], None)
        if entry is None:
            listings.pop()
            continue
        reason = _reason(entry)
        if reason is not None:
            if pass_over is not None:
                pass_over(reason)
        elif entry.is_dir(follow_symlinks=False):
            listings.append(iter(_listing(entry.path)))
        else:
            yield entry.path


def _walk_remote(folder: str, pass_over: Callable[[str], object] | None) -> Iterator[str]:
    """As walk; of a hidden folder each file is heard of, as not every keeper has folders."""
    for path, names in remote.files_under(folder):
        if any(name.startswith(".") for name in names):
            reason: str | None = "hidden file"
        else:
            reason = "marker of Spark" if any(map(_MARKERS.fullmatch, names)) else None
        if reason is None:
            yield path
        elif pass_over is not None:
            pass_over(reason)


def _is_folder(path: str) -> bool:
    return remote.is_folder(path) if remote.is_remote(path) else os.path.isdir(path)


def _listing(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder, in order. ValueError for a store, whose files are no texts and have no suffix of ours."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    if {entry.name for entry in found} >= _OF_A_STORE:
        taken = "fpstore export writes a file of what it holds; pairs, cluster and stats take it as it is"
        raise ValueError(f"{folder}: found a store, expected files: {taken}")
    return found


def _reason(entry: os.DirEntry[str]) -> str | None:
    """Why an entry of a folder is passed over, None where it is not."""
    is_folder = entry.is_dir(follow_symlinks=False)
    if entry.name.startswith("."):
        return "hidden folder" if is_folder else "hidden file"
    if entry.is_symlink():
        return "link"
    if not is_folder and not entry.is_file(follow_symlinks=False):
        return "special file"
    return "marker of Spark" if _MARKERS.fullmatch(entry.name) else None


def _input_of(path: str, format: str) -> Input:
    if path == STANDARD_INPUT:
        format = format_of_name(path) if format == "auto" else format
        return Input(path, format, {format: path}, None, False)
    if remote.is_remote(path):
        return _remote_input(path, format)
    status = os.stat(path)  # so that a missing last file is known before the first is read
    if not os.path.isdir(path):
        format = format_of_name(path) if format == "auto" else format
        return Input(path, format, {format: path}, status.st_size if os.path.isfile(path) else None, False)
    sizes = [0]  # of all files, as they are gone through once

    def weighed(file: str) -> str:
        sizes[0] += os.path.getsize(file)
        return file

    files = map(weighed, walk(path))
    kinds = _kinds_of(path, files) if format == "auto" else {format: next(files, path)}
    deque(files, maxlen=0)  # those behind the first
    return Input(path, format, kinds, sizes[0], True)


def _expect_once(inputs: list[Input]) -> None:
    """Refuse a file that would be read twice: each of its documents would be there twice, under other row numbers."""
    named: dict[str, Input] = {}
    for one in inputs:
        if not is_stream(one.path):
            real = os.path.realpath(one.path)
            if real in named:
                raise ValueError(f"{one.path}: found it twice among the sources, expected it once")
            named[real] = one
    for real, one in named.items():
        parts = [real]
        while (folder := os.path.dirname(parts[0])) != parts[0]:
            name = os.path.basename(parts[0])
            if name.startswith(".") or _MARKERS.fullmatch(name):
                break  # walk does not come here
            if folder in named and named[folder].is_folder:
                raise ValueError(
                    f"{one.path}: found it among the sources, and in {named[folder].path}, expected it once"
                )
            parts = [folder]


def _remote_input(path: str, format: str) -> Input:
    if not remote.is_folder(path):
        format = format_of_name(path) if format == "auto" else format
        return Input(path, format, {format: path}, remote.size(path), False)
    kinds = _kinds(path) if format == "auto" else {format: next(walk(path), path)}
    sizes = [remote.size(file) for file in walk(path)]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    return Input(path, format, kinds, total, True)


def _kinds(path: str) -> dict[str, str]:
    """The formats of the files at path by their suffixes, each with the first file that has it."""
    if path == STANDARD_INPUT or not _is_folder(path):
        return {format_of_name(path): path}
    return _kinds_of(path, walk(path))


def _kinds_of(path: str, files: Iterable[str]) -> dict[str, str]:
    """The same of a folder that has these files."""
    kinds: dict[str, str] = {}
    unknown, first_unknown = 0, ""
    for file in files:
        format = _FORMAT_OF_SUFFIX.get(_suffix(file))
        if format is None:
            unknown, first_unknown = unknown + 1, first_unknown or file
        else:
            kinds.setdefault(format, file)
    if unknown:
        _refuse_unknown(path, unknown, first_unknown, kinds)
    return kinds


def _refuse_unknown(folder: str, unknown: int, first: str, kinds: dict[str, str]) -> NoReturn:
    of_files = "1 file" if unknown == 1 else f"{unknown} files"
    beside = "".join(f", beside {file} ({format})" for format, file in list(kinds.items())[:1])
    found = f"{of_files} of a suffix that no format has, such as {first}{beside}"
    looked = _looked_at(first)
    if looked is not None and set(kinds) <= {looked}:
        each = "each is a text" if looked == "text" else f"as {os.path.basename(first)} looks"
        expected = f"one format for all files of the folder (--format {looked}: {each}), or a pattern for some of them"
    else:
        known = next((_ending(file) for file in kinds.values()), ".jsonl")
        expected = f"files of one kind; a pattern names some of them, such as '{glob.escape(folder)}/**/*{known}'"
    raise ValueError(f"{folder}: found {found}; expected {expected}")


def _looked_at(path: str) -> str | None:
    """The format that the first bytes of a file are of, None where no reader takes them."""
    try:
        with open_stream(path, None) as stream:
            head = stream.reader.read(_LOOK_BYTES)
    except (OSError, ValueError, ImportError):
        return None
    for mark, format in _MARKS.items():
        if head.startswith(mark):
            return format
    try:
        text_of(head if marked(head) else head.rstrip(_NOT_ASCII))  # the last character can be cut
    except ValueError:
        return None
    return "text"


def _suffix(path: str) -> str:
    """The suffix of a name in lower case, that before .gz and the like."""
    stem, suffix = os.path.splitext(remote.naming_part(path))
    if suffix.lower() in SUFFIXES:
        suffix = os.path.splitext(stem)[1]
    return suffix.lower()


def _ending(path: str) -> str:
    """What a pattern for files of this kind ends with, that of packed ones with .gz and the like."""
    stem, suffix = os.path.splitext(path)
    return os.path.splitext(stem)[1] + suffix if suffix.lower() in SUFFIXES else suffix


def _known() -> str:
    return ", ".join(FORMATS[1:])


def total_bytes(inputs: list[Input]) -> int | None:
    """What all of them hold; None where that is not known of each."""
    sizes = [one.total_bytes for one in inputs]
    return None if None in sizes else sum(size for size in sizes if size is not None)
