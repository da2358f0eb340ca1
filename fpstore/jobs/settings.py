"""Owns what a job and a store agree on: the recipe, and which documents count as near each other.

By a recipe that makes fingerprints those within a distance; by one of sketch minhash those whose signatures share a
band, and, where that is asked for, have an estimated similarity.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fpstore import notes
from fpstore.disk import Folder
from fpstore.errors import Error
from fpstore.jobs.arguments import expect_settings
from fpstore.ledger import read_settings
from fpstore.minhash import MinHashStore
from fpstore.minhash.making import as_least, expect_bands, open_any
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.text.asked import Asked as Asked
from fpstore.text.confirm import CONFIRMED_DISTANCE
from fpstore.text.permutations import permutations_of


@dataclass(frozen=True)
class Settings:
    """What a store and a job with it agree on.

    max_distance: 0 where signatures are compared, and bands and rows_per_band else. store: the identity of a standing
    store that is there. named: whether the ids of a standing store are names. can_confirm: whether what the store
    holds, if it holds anything, has its texts beside it.
    """

    recipe: Recipe
    max_distance: int = 0
    store: str | None = None
    named: bool = False
    can_confirm: bool = True
    bands: int = 0
    rows_per_band: int = 0
    min_similarity: float | None = None

    @property
    def signs(self) -> bool:
        """Whether signatures are compared."""
        return self.recipe.sketch == "minhash"

    @property
    def words(self) -> int:
        """How many words of 64 bits the record has for a fingerprint; one where signatures are compared."""
        return self.recipe.bits // 64

    @property
    def cut(self) -> tuple[int, int] | None:
        """The bands of signatures, and the values of each."""
        return (self.bands, self.rows_per_band) if self.signs else None

    @property
    def sketch_type(self) -> tuple[Any, ...]:
        """What a document is compared by, as a field of numpy's: a fingerprint, or the values of a signature."""
        if not self.signs:
            return ("<u8",) if self.words == 1 else ("<u8", (self.words,))
        of_values = permutations_of(self.recipe.permutations, self.recipe.values, self.recipe.seed).dtype
        return of_values.newbyteorder("<"), (self.recipe.values,)

    @property
    def nearness(self) -> dict[str, str]:
        """The column of results that says how near two documents are, and its type in Arrow."""
        return {"similarity": "float32"} if self.signs else {"distance": "uint16"}

    @property
    def told(self) -> dict[str, Any]:
        """What of them decides about results, beside the recipe."""
        if not self.signs:
            return {"max_distance": self.max_distance}
        return {"bands": self.bands, "rows_per_band": self.rows_per_band, "min_similarity": self.min_similarity}


def settle(recipe: Recipe, asked: Asked, default_distance: int) -> Settings:
    """Those of a job without a standing store. ValueError for what does not go together."""
    asked.expect_of(recipe)
    if recipe.sketch != "minhash":
        usual = recipe.distance(default_distance)
        return Settings(recipe, usual if asked.max_distance is None else asked.max_distance)
    bands, rows = asked.cut
    expect_bands(recipe.values, bands, rows)
    least = as_least(asked.min_similarity)
    return Settings(recipe, bands=bands, rows_per_band=rows, min_similarity=least)


def settle_settings(
    store: Path | None,
    recipe: Recipe | None,
    asked: Asked,
    default_distance: int = CONFIRMED_DISTANCE,
    *,
    clusters: bool = False,
) -> Settings:
    """The settings of a job: those given, else those of the standing store, else the defaults.

    clusters: whether it is one about clusters, which makes a store of their numbers. Raises ValueError where the store
    has another recipe or none, a smaller max_distance, other bands, or no ids, or other ids; TypeError for what is no
    recipe or number.
    """
    expect_settings(recipe, asked.max_distance)
    if store is None or not os.path.lexists(store):
        settings = settle(recipe or DEFAULT_RECIPE, asked, default_distance)
        return replace(settings, named=store is not None and not clusters)
    with open_any(store) as opened:
        if not opened._settings.ids:
            raise ValueError(f"{store}: found a store without ids, expected one with ids")
        if opened.id_type == "bytes":
            told = "found ids that are bytes, expected strings, as the names of documents are"
            raise ValueError(f"{store}: {told}: take another store; one that is not there is made")
        if opened.recipe is None:
            raise ValueError(f"{store}: found no recipe for texts in the store, expected one built from texts")
        own: Recipe = opened.recipe
        if recipe not in (None, own):
            raise ValueError(f"{store}: found recipe {own.name}, expected {recipe.name}: the store's is the one to use")
        asked.expect_of(own)
        if isinstance(opened, MinHashStore):
            found = _of_signatures(store, opened, asked)
        else:
            found = _of_fingerprints(store, opened, asked, clusters=clusters)
        return replace(
            found,
            recipe=recipe or own,
            store=opened.identity,
            named=opened._settings.named,
            can_confirm=_has_texts(opened),
        )


def _of_fingerprints(store: Path, opened: Any, asked: Asked, *, clusters: bool) -> Settings:
    distance = asked.max_distance
    if distance is not None and not 0 <= distance <= opened.plan.max_distance:
        most = opened.plan.max_distance
        raise ValueError(f"{store}: found max_distance {distance}, expected 0..{most}, what the store answers")
    distance = opened.max_distance if distance is None else distance
    if clusters and distance != opened.max_distance:
        told = f"found max_distance {distance}, expected {opened.max_distance}, as the store has"
        raise ValueError(f"{store}: {told}: clusters of several jobs are those of one job, which has one distance")
    return Settings(opened.recipe, distance)


def _of_signatures(store: Path, opened: MinHashStore, asked: Asked) -> Settings:
    if opened._settings.kept is None:
        raise ValueError(f"{store}: found a store that keeps no signatures, expected one that does")
    bands, rows = _bands(asked, opened.bands, opened.rows_per_band)
    if (bands, rows) != (opened.bands, opened.rows_per_band):
        told = f"found {bands} bands of {rows} values, expected {opened.bands} of {opened.rows_per_band}"
        raise ValueError(f"{store}: {told}, as the store has")
    least = as_least(asked.min_similarity)
    assert opened.recipe is not None
    return Settings(opened.recipe, bands=bands, rows_per_band=rows, min_similarity=least)


def _bands(asked: Asked, bands: int, rows: int) -> tuple[int, int]:
    return (
        bands if asked.bands is None else asked.bands,
        rows if asked.rows_per_band is None else asked.rows_per_band,
    )


def _has_texts(store: Any) -> bool:
    """Whether jobs write down the texts of what they add to the store; before the first of them, whether it is empty.

    Not whether all are there: what others add meanwhile does not make another job of one that was interrupted.
    """
    with suppress(Error, OSError):  # who opens it for writing says what is wrong
        with Folder.open(store.path) as home:
            record = notes.open_record(home, store.identity)
        if record is not None:
            with record:
                settings = read_settings(record)
            if settings is not None and settings.get("texts"):
                return True
        return not any(len(rows) for rows in store.rows(batch=1))
    return False
