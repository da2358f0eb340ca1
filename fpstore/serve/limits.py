"""Owns what one client may ask for, so that all of them together stay within bounds."""

from dataclasses import dataclass

MIB = 1 << 20
# A body or an answer up to this size is small: every connection may have one.
SMALL_BYTES = 1 << 16
# Of a request, before its body.
HEAD_BYTES = 1 << 14
# Larger bodies and answers that are held at once; who comes later waits for a place.
LARGE_AT_ONCE = 8
# Connections over the limit that are being told so at once; those over this, too, are just closed.
REFUSING_AT_ONCE = 128
# Connections that the kernel holds until they are accepted, and that asyncio accepts in a turn of its loop.
BACKLOG = 128
# From accepting a connection over the limit to closing it takes four turns, and each can accept one more than that.
ACCEPTED_AT_ONCE = 4 * (BACKLOG + 1)
# Of a request for which all is read: so many words are compared, some seconds of a processor, or so many queries. Rows
# that are to be added if they are new are queries, too.
COMPARED_AT_ONCE, LEAST_QUERIES = 10**10, 16
# Rows that such a request may hold: of each query as many fingerprints as are asked for, and as many rows of each.
HELD_AT_ONCE = 1 << 22
# Files that the store and the interpreter have open, with room.
OWN_FILES = 256


@dataclass(frozen=True)
class Limits:
    """What a request may have, and how many connections there may be. ValueError for a limit below 1.

    body_bytes: of a request. queries: fingerprints, texts or ids of a request. matches: rows of an answer.
    answer_bytes: of an answer, and of the names in it before they are written.
    seconds: for a client to send what it began, to take an answer, and to ask again on its connection.
    """

    body_bytes: int = 8 * MIB
    queries: int = 100_000
    matches: int = 100_000
    answer_bytes: int = 32 * MIB
    seconds: int = 30
    connections: int = 512

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name}: found {value}, expected 1 or more")

    @property
    def files(self) -> int:
        """How many files may be open at once."""
        return self.connections + REFUSING_AT_ONCE + ACCEPTED_AT_ONCE + OWN_FILES
