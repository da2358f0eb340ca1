"""Owns which status of HTTP an error is, and what is said of it."""

import json

from fpstore import BadInput, Error, ReadOnly, StoreChanged, StoreClosed, StoreLocked, TooManyMatches
from fpstore.serve import forms


class Refused(Exception):
    """A request that is not answered, for a reason of HTTP and not of the store. type: what programs look at."""

    def __init__(self, status: int, type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.type = type


def status_of(error: Exception) -> int:
    """400: what was sent cannot be read; 422: this store does not take it; 503: later it may go well; 500: ours."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, ReadOnly):
        return 403
    if isinstance(error, ImportError):  # a form that takes a package which is not there
        return 415
    if isinstance(error, StoreChanged | StoreLocked | StoreClosed | OSError | MemoryError):
        return 503
    if isinstance(error, BadInput):
        return 400
    if isinstance(error, TooManyMatches) or (isinstance(error, Error) and isinstance(error, ValueError)):
        return 422
    return 400 if forms.is_of_the_request(error) else 500


def body_of(error: Exception) -> bytes:
    """An error as the answer has it; of what nobody foresaw only that it happened."""
    if isinstance(error, Refused):
        told = {"type": error.type, "message": str(error)}
    elif isinstance(error, Error | OSError | MemoryError) or status_of(error) != 500:
        told = forms.error_of(error)
    else:
        told = {"type": "InternalError", "message": "found an error that was not foreseen; the server's output has it"}
    return json.dumps({"format": "fpstore.error/1", "error": told}).encode()
