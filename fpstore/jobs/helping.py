"""Owns the processes that help a job with what holds the interpreter's lock: whether there are any, and since when."""

from collections.abc import Iterator
from contextlib import contextmanager

from fpstore.text import Recipe
from fpstore.text.shared import is_for_workers, ready_for
from fpstore.workers import Workers

# Of so many bytes, packed or not, pages and texts that packages cut take a second or more.
LONG_BYTES = 25_000_000
# How often an item is given to a worker.
_TRIES = 3


class Help:
    """Who helps with documents of a recipe; html: whether they are pages.

    is_any: whether there is work that processes share and threads do not.
    """

    def __init__(self, recipe: Recipe, *, html: bool) -> None:
        self._ready = ready_for(recipe, html=html)
        self._is_begun_early = html or is_for_workers(recipe)
        self.is_any = html or recipe.is_prepared
        self._begun: Workers | None = None

    def workers(self, count: int, total_bytes: int | None) -> Workers:
        """Those that were begun, for who asks first; or so many, at work once it is known that it takes long."""
        begun, self._begun = self._begun, None
        return self._made(count, total_bytes) if begun is None else begun

    def _made(self, count: int, total_bytes: int | None) -> Workers:
        is_long = self._is_long(total_bytes)
        return Workers(count, 0.0 if is_long else None, _TRIES, helps=is_long)

    def _is_long(self, total_bytes: int | None) -> bool:
        return self.is_any and (total_bytes or 0) > LONG_BYTES

    @contextmanager
    def begun(self, count: int, total_bytes: int | None) -> Iterator[None]:
        """A context at whose start they are begun, where it is known that it takes long: they have much to import.

        A job that begins them when it has the first texts waits for them a quarter of a second longer.
        """
        if not self._is_begun_early or not self._is_long(total_bytes):
            yield
            return
        with self._made(count, total_bytes) as workers:
            workers.bring(ready_for.__module__, self._ready)
            self._begun = workers
            try:
                yield
            finally:
                self._begun = None
