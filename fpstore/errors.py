"""Every error that fpstore raises on its own account, and which file one is about.

A caller's mistake is ValueError or TypeError and the operating system's errors pass through; what is
left, the state of a store or of its bytes, is one of these.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

PathLike = str | os.PathLike[str]


class Error(Exception):
    """The base of fpstore's own errors.

    path: the file or folder that it is about, None where nobody has said; where it is known the message begins with it.
    """

    def __init__(self, message: str = "", *, path: PathLike | None = None) -> None:
        super().__init__(message)
        self.path = path

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.path is None else f"{os.fspath(self.path)}: {message}"


@dataclass(frozen=True)
class Damage:
    """One damaged place. segment: the path of its file. region: what is damaged, and where in it.

    found, expected: empty where the region's decoder refuses it, which says no more.
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
        if not (self.found or self.expected):
            return self.region
        return f"{self.region}: found {self.found}, expected {self.expected}"


class CorruptStore(Error):
    """Stored bytes are damaged, cut short, or not fpstore's: where, what was found, what was expected.

    where, found, expected: as the message says them; "" where it is only told that something is wrong.
    damage: every damaged place, where all were looked for, as verify does.
    """

    where: str = ""
    found: str = ""
    expected: str = ""
    damage: tuple[Damage, ...] = ()

    @classmethod
    def of(cls, where: str, found: object, expected: object, *, path: PathLike | None = None) -> "CorruptStore":
        """The error `where: found X, expected Y` about one place."""
        error = cls(f"{where}: found {found}, expected {expected}", path=path)
        error.where, error.found, error.expected = where, str(found), str(expected)
        return error


def corrupt(damage: Sequence[Damage]) -> CorruptStore:
    """The error about some damaged places, at least one: the first, and how many more there are."""
    first = damage[0]
    more = f" (and {len(damage) - 1} more)" if len(damage) > 1 else ""
    error = CorruptStore(f"{first.line}{more}", path=first.segment)
    error.where, error.found, error.expected = first.region, first.found, first.expected
    error.damage = tuple(damage)
    return error


class NotAStore(Error):
    """What lies at the path is no store: a file, an empty folder, a folder of something else."""


class UnsupportedVersion(Error):
    """The bytes were written by a version of fpstore that this one cannot read. found, supported: these versions."""

    found: int | None = None
    supported: int | None = None

    @classmethod
    def of(cls, where: str, found: int, supported: int, advice: str = "") -> "UnsupportedVersion":
        """Of what is at where; it says which of the two is the newer."""
        age = "a newer" if found > supported else "an older"
        error = cls(f"{where}: found {found}, expected {supported}; made by {age} fpstore{advice}")
        error.found, error.supported = found, supported
        return error


class StoreLocked(Error):
    """The store has a writer: another process, or another object of this one. pid: that process, where it is known."""

    pid: int | None = None

    @classmethod
    def by(cls, pid: int | None, message: str, path: PathLike) -> "StoreLocked":
        """The error about a store that pid has."""
        error = cls(message, path=path)
        error.pid = pid
        return error


class StoreChanged(Error):
    """Another store, another moment of it, or nothing, lies where the store was opened; nothing was written there."""


class JobError(Error):
    """A job cannot begin or go on because of what is on the disk, or nobody else may write before it has ended."""


class TooManyMatches(Error):
    """An answer would have more than is held at once. rows: how many it has, or more than which, where they count."""

    def __init__(self, message: str = "", *, rows: int = 0) -> None:
        super().__init__(message)
        self.rows = rows

    @classmethod
    def found(cls, queries: int, rows: int, most: int, *, at_least: bool = False) -> "TooManyMatches":
        """For so many queries. at_least: there are more rows than that."""
        return cls(
            f"{queries} queries: found {'more than ' if at_least else ''}{rows} matches, expected at most {most} in "
            "one answer; ask fewer queries at once, or with a smaller max_distance",
            rows=rows,
        )

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
