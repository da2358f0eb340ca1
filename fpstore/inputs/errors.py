"""Owns how a fault in an input is told, or counted and passed over."""

SHOWN_CHARACTERS = 40  # of what was found; a line of an input can be long


class BadInput(ValueError):
    """An input does not hold what its format says: where, what was found, what was expected."""


class Faults:
    """What to do with a bad line or row: raise BadInput, or count it and go on."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.count = 0

    def refuse(self, where: str, found: str, expected: str) -> None:
        """Raise BadInput, or count one more where faults are skipped."""
        self.meet(BadInput(f"{where}: found {found}, expected {expected}"))

    def meet(self, error: BadInput) -> None:
        """Raise error, or count one more where faults are skipped."""
        if not self.skip:
            raise error
        self.count += 1


def shown(value: object) -> str:
    """Value as an error message shows it: quoted, on one line, cut where it is long."""
    text = repr(value[: SHOWN_CHARACTERS + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= SHOWN_CHARACTERS + 2 else f"{text[:SHOWN_CHARACTERS]}..."
