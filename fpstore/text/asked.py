"""Owns what can be asked for of texts that are near, by fingerprints or by signatures."""

from __future__ import annotations

from dataclasses import dataclass

from fpstore.text.recipe import Recipe

# In how many bands a signature is cut, and how many values a band has, where nobody says.
BANDS, ROWS_PER_BAND = 16, 8


@dataclass(frozen=True)
class Asked:
    """What is asked for of what is near; None for what is not said."""

    max_distance: int | None = None
    bands: int | None = None
    rows_per_band: int | None = None
    min_similarity: float | None = None

    @property
    def cut(self) -> tuple[int, int]:
        """The bands of signatures, and the values of each."""
        return (
            BANDS if self.bands is None else self.bands,
            ROWS_PER_BAND if self.rows_per_band is None else self.rows_per_band,
        )

    def expect_of(self, recipe: Recipe) -> None:
        """ValueError for what says nothing about what the recipe makes."""
        if recipe.sketch == "minhash" and self.max_distance is not None:
            told = f"found {self.max_distance} with recipe {recipe.name}, which makes signatures"
            raise ValueError(f"max_distance: {told}, expected none: bands and min_similarity say what is near")
        if recipe.sketch != "minhash":
            for name in ("bands", "rows_per_band", "min_similarity"):
                if (found := getattr(self, name)) is not None:
                    told = f"found {found!r:.40} with recipe {recipe.name}, which makes fingerprints"
                    raise ValueError(f"{name}: {told}, expected none: max_distance says what is near")
