"""Owns how a fault in an input is told, or counted by its reason and passed over."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fpstore.errors import Error
from fpstore.types import expect_flags

SHOWN_CHARACTERS = 40  # of what was found; a line of an input can be long
TOLD_CHARACTERS = 200  # of what a package says of it, or of a name that an input holds
_MAX_MESSAGE_CHARACTERS = 10_000  # more than any path has

BAD_ROW = "bad row"
# One that is no row: behind the last, or between rows that no blank line can be. Those before the first are nothing.
BLANK = "blank line"
# Noted of a text that nobody called HTML.
WITH_TAGS = "text with tags of HTML, which stay without --html"

# Noted of an id that is a number by the kind of store: 007 and +7 are 7, and that of another row perhaps.
NOT_ALONE = "id with more than its number, as 007 or +7, of which that is kept (names, of --id-type string, keep all)"

# How lines of a fingerprint, a tab and a name are read, which format hex does not.
AS_A_TABLE = "as a table (--format tsv --no-input-header --fingerprint-column 0 --id-column 1)"

# Noted of a page of which nothing is visible.
DAMAGED = "page with damaged characters"
WITHOUT_TEXT = "page without text, near none but those of the same bytes"

# Noted of a page of which nearly all is frame (fpstore.text.cleaning).
IN_FRAME = (
    "page with a main text of under a tenth of what is visible, near all others of that frame (not so by a recipe file"
    ' with "html": "main"; fpstore recipe text-1 prints one to start from)'
)

# In a reason the noun stands first: `record of another kind`, `file not in UTF-8`.
_NOUN = re.compile(r"^.*?(?= (?:of|with|without|in|not|over) |$)")


class BadInput(Error, ValueError):
    """An input does not hold what its format says: where, what was found, what was expected.

    source: the name of the file, `standard input`, None for a value alone. line: the number of the line, or of the row
    of Parquet or .npy, or of the item of an array; None where it is about the whole file.
    """

    def __init__(
        self, message: str, reason: str = BAD_ROW, *, source: str | None = None, line: int | None = None
    ) -> None:
        """reason: what it is counted as where it is passed over."""
        super().__init__(cut(message, _MAX_MESSAGE_CHARACTERS))
        self.reason, self.source, self.line = reason, source, line


@contextmanager
def about(source: str | None, line: int | None = None) -> Iterator[None]:
    """What is BadInput within is about this source, and this line of it, unless it says so itself."""
    try:
        yield
    except BadInput as error:
        error.source = source if error.source is None else error.source
        error.line = line if error.line is None else error.line
        raise


class Faults:
    """What to do with a bad line or row: raise BadInput, or count it and go on.

    counts: all that was passed over so far, by reason; what is no fault too, such as the pictures of an archive.
    bad: how many of them are faults. notes: what was read all the same though something was wrong with it.
    """

    def __init__(self, skip: bool) -> None:
        """skip: called skip_bad by whoever asks for it; TypeError for what is neither True nor False."""
        expect_flags(skip_bad=skip)
        self.skip = skip
        self.counts: Counter[str] = Counter()
        self.bad = 0
        self.notes: Counter[str] = Counter()

    def meet(self, error: BadInput) -> None:
        """Raise error, or count one more where faults are skipped."""
        if not self.skip:
            raise error
        self.counts[error.reason] += 1
        self.bad += 1

    def pass_over(self, reason: str) -> None:
        """Count what is no fault, and is not read."""
        self.counts[reason] += 1


def expect_some(good: int, bad: int, counts: Mapping[str, int]) -> None:
    """BadInput where all there is was bad, and passed over: an answer from nothing would look like one."""
    if bad and not good:
        found = f"read 0 of {bad}, as all that was found is bad ({told(counts)})"
        raise BadInput(f"inputs: {found}, expected one that can be read")


def told(counts: Mapping[str, int]) -> str:
    """Counts by reason as words, in the order in which they came: `3 bad lines, 1 hidden file`."""
    return ", ".join(f"{count} {reason if count == 1 else _plural(reason)}" for reason, count in counts.items())


def shown(value: object) -> str:
    """Value as an error message shows it: quoted, on one line, cut where it is long."""
    return cut(repr(value[: SHOWN_CHARACTERS + 1] if isinstance(value, str | bytes) else value), SHOWN_CHARACTERS + 2)


def cut(text: object, limit: int = TOLD_CHARACTERS) -> str:
    """What an error or an input says, as a message repeats it: no more than limit characters of it."""
    whole = str(text)
    return whole if len(whole) <= limit else f"{whole[: limit - 2]}..."


def _plural(reason: str) -> str:
    return _NOUN.sub(lambda noun: f"{noun[0]}s", reason, count=1)
