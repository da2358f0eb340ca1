"""Every error that fpstore raises on its own account, and which file one is about.

A caller's mistake is ValueError or TypeError and the operating system's errors pass through; what is
left, the state of a store or of its bytes, is one of these.
"""

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

PathLike = str | os.PathLike[str]

# What the name of a list of stores ends in (fpstore.cluster.Shards).
LIST_ENDING = ".shards.json"


def no_folder(what: str, path: PathLike) -> FileNotFoundError:
    """Of a path to be written; what: `the file would lie in a folder`.

    A path made of a URL has its protocol for a folder: then it is told what is written where a URL leads.
    """
    is_url = re.search(r"(?:^|/)[a-zA-Z][a-zA-Z0-9+.-]*:(?:/|$)", os.fspath(path)) is not None
    way = "; what is written lies on this machine, and fpstore copy puts a store at a URL" if is_url else ""
    return FileNotFoundError(errno.ENOENT, f"{what} that is not there{way}", os.fspath(path))


def folder_in(path: PathLike) -> str | None:
    """What tells that a path is one of a folder, None for what may be one of a file: `a folder`.

    Where a file is to be written a folder was meant for something else, or a name was forgotten.
    """
    typed = os.fspath(path)
    if os.path.basename(typed) in ("", os.curdir, os.pardir):
        return "a path that only a folder has"
    return "a folder" if os.path.isdir(typed) and not os.path.islink(typed) else None


class Error(Exception):
    """The base of fpstore's own errors.

    path: the file or folder that it is about, None where nobody has said; where it is known the message begins with it.
    """

    def __init__(self, message: str = "", *, path: PathLike | None = None) -> None:
        super().__init__(message)
        self.path = path

    def __str__(self) -> str:
        return self._message() if self.path is None else f"{os.fspath(self.path)}: {self._message()}"

    def _message(self) -> str:
        """All but the path."""
        return super().__str__()


class Wrong(ValueError):
    """A value that is not what it has to be: `where: found X, expected Y`, each of the three an attribute too."""

    def __init__(self, where: str, found: object, expected: object) -> None:
        super().__init__(where, str(found), str(expected))
        self.where, self.found, self.expected = where, str(found), str(expected)

    def __str__(self) -> str:
        return _line(self.where, self.found, self.expected)


def _line(where: str, found: str, expected: str) -> str:
    """The one form of what is said of something wrong."""
    return f"{where}: found {found}, expected {expected}"


@dataclass(frozen=True)
class Damage:
    """One damaged place. segment: the path of its file. region: what is damaged, and where in it.

    found, expected: what it has, and what it should have; never empty.
    """

    segment: str
    region: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.segment}: {self.line}"

    @property
    def line(self) -> str:
        """All but the file."""
        return _line(self.region, self.found, self.expected)


class CorruptStore(Error):
    """Stored bytes are damaged, cut short, or not fpstore's.

    where, found, expected: what the message is made of, never empty. damage: every damaged place, where all were looked
    for, as verify does. note: what else is to be said, "" for nothing.
    """

    def __init__(
        self, where: str, found: object, expected: object, *, path: PathLike | None = None, note: str = ""
    ) -> None:
        super().__init__(path=path)
        self.args = (where, str(found), str(expected))  # by which it is made again from a pickle
        self.where, self.found, self.expected = self.args
        self.note = note
        self.damage: tuple[Damage, ...] = ()

    @classmethod
    def by(cls, error: ValueError, where: str, *, path: PathLike | None = None) -> "CorruptStore":
        """The error about stored bytes that a check has refused. where: what these are."""
        if isinstance(error, Wrong):
            return cls(f"{where}, {error.where}" if where else error.where, error.found, error.expected, path=path)
        return cls(where or "a record", f"what is refused ({error})", "what fpstore writes", path=path)

    def in_file(self, path: PathLike) -> Damage:
        """As one damaged place of the file at path, or of its own where it names one."""
        return Damage(os.fspath(path if self.path is None else self.path), *self.args)

    @property
    def line(self) -> str:
        """All but the file, and what else is said."""
        return _line(self.where, self.found, self.expected)

    def _message(self) -> str:
        more = f" (and {len(self.damage) - 1} more)" if len(self.damage) > 1 else ""
        return f"{self.line}{more}{self.note and f'; {self.note}'}"


def corrupt(damage: Sequence[Damage]) -> CorruptStore:
    """The error about some damaged places, at least one: the first, and how many more there are."""
    first = damage[0]
    error = CorruptStore(first.region, first.found, first.expected, path=first.segment)
    error.damage = tuple(damage)
    return error


class NotAStore(Error):
    """What lies at the path is no store: a file, an empty folder, a folder of something else."""

    @classmethod
    def a_file(cls, path: PathLike) -> Self:
        """Of a path to a store at which there is a file."""
        if os.fspath(path).endswith(LIST_ENDING):
            takes = "fpstore probe, nearest, lookup, pairs, serve, stats and verify take a list, and cluster.Shards"
            told = f"found a list of stores, expected the folder of one: {takes}; else name each store"
            return cls(told, path=path)
        return cls("found a file, expected the folder of a store", path=path)


class UnsupportedVersion(Error):
    """The bytes were written by a version of fpstore that this one cannot read. found, supported: these versions.

    where: what of them says so.
    """

    def __init__(
        self, where: str, found: int, supported: int, advice: str = "", *, path: PathLike | None = None
    ) -> None:
        """Of what is at where."""
        super().__init__(path=path)
        self.args = (where, found, supported, advice)
        self.where, self.found, self.supported, self._advice = where, found, supported, advice

    def _message(self) -> str:
        age = "a newer" if self.found > self.supported else "an older"
        return f"{_line(self.where, str(self.found), str(self.supported))}; made by {age} fpstore{self._advice}"


class StoreLocked(Error):
    """The store has a writer: another process, or another object of this one. pid: that process, where it is known."""

    def __init__(self, message: str = "", *, pid: int | None = None, path: PathLike | None = None) -> None:
        super().__init__(message, path=path)
        self.pid = pid


class StoreChanged(Error):
    """Another store, another moment of it, or nothing, lies where the store was opened; nothing was written there."""


class JobError(Error):
    """A job cannot begin or go on because of what is on the disk, or nobody else may write before it has ended."""


class TooManyMatches(Error):
    """An answer would have more than is held at once. rows: how many it has, or more than which, where they count."""

    _looked_at = False  # rows are those that were looked at for it

    def __init__(self, message: str = "", *, rows: int = 0) -> None:
        super().__init__(message)
        self.rows = rows

    def of_all(self, queries: int, most: int) -> "TooManyMatches":
        """This one, of so many queries, of which it may be about some only. most: what found was told."""
        if self._looked_at:
            return self.of_rows(queries, self.rows)
        return self.found(queries, max(self.rows, most), most, at_least=True)

    @classmethod
    def found(cls, queries: int, rows: int, most: int, *, at_least: bool = False) -> "TooManyMatches":
        """For so many queries. at_least: there are more rows than that."""
        return cls(
            f"{queries} queries: found {'more than ' if at_least else ''}{rows} matches, expected at most {most} in "
            "one answer; ask fewer queries at once, or for what is nearer",
            rows=rows,
        )

    @classmethod
    def of_rows(cls, queries: int, most: int) -> "TooManyMatches":
        """For so many queries by bands, of which more rows than that would be looked at together."""
        error = cls(
            f"{queries} queries: found more than {most} rows of documents that share a band, expected at most {most}; "
            "ask fewer queries at once",
            rows=most,
        )
        error._looked_at = True
        return error

    @classmethod
    def of_ids(cls, ids: int, most: int) -> "TooManyMatches":
        """For so many ids that are looked up, which have more rows than that."""
        told = f"found more than {most} rows, expected at most {most} in one answer; look up fewer ids at once"
        return cls(f"{ids} ids: {told}", rows=most)

    @classmethod
    def of_names(cls, most: int) -> "TooManyMatches":
        """For names that are more bytes than that."""
        return cls(f"names: found more than {most} bytes, expected at most {most} in one answer; ask for less at once")


class StoreWarning(UserWarning):
    """What is wrong with a store though the call went well: damage that was read around, files that are not its own."""


class PlanError(Error, ValueError):
    """A plan could miss a match, or cannot answer the distance asked for."""


class RecipeError(Error, ValueError):
    """There is no such recipe, or the store has none, or another."""


class WrongKind(Error, ValueError):
    """The store is of another kind than what was asked of it."""


class ReadOnly(Error, ValueError):
    """The store was opened for reading."""


class StoreClosed(Error, ValueError):
    """The store was closed, or was opened before a fork."""


class Naming:
    """A context in which errors about stored bytes are about the file at path, unless they name one already.

    It keeps nothing, so one serves any number of uses at a time.
    """

    __slots__ = ("_path",)

    def __init__(self, path: PathLike) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CorruptStore | NotAStore | UnsupportedVersion) and error.path is None:
            error.path = self._path
