"""Every error that fpstore raises on its own account.

A caller's mistake is ValueError or TypeError and the operating system's errors pass through; what is
left, the state of a store or of its bytes, is one of these.
"""


class Error(Exception):
    """The base of fpstore's own errors."""


class CorruptStore(Error):
    """Stored bytes are damaged, cut short, or not fpstore's: where, what was found, what was expected."""


class UnsupportedVersion(Error):
    """The bytes were written by a version of fpstore that this one cannot read."""


class StoreLocked(Error):
    """Another process is the store's writer."""


class PlanError(Error, ValueError):
    """A plan could miss a match, or cannot answer the distance asked for."""


class StoreClosed(Error, ValueError):
    """The store was closed, or was opened before a fork."""
