"""Owns what the arguments of jobs may be: what is none is told by its name, before anything is read or written."""

import os
from operator import index
from typing import Any

from fpstore.text import Recipe


def expect_path(name: str, value: object) -> None:
    """TypeError for what names no file."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}: found {value!r:.40}, a {type(value).__name__}, expected the path of a file")


def expect_paths(*, output: object, **others: object) -> None:
    """TypeError for what names no file; None is for each but the first result."""
    expect_path("output", output)
    for name, value in others.items():
        if value is not None:
            expect_path(name, value)


def expect_settings(recipe: object, max_distance: Any) -> None:
    """TypeError for what is no recipe or no whole number, ValueError for a distance below 0; None is for each."""
    if recipe is not None and not isinstance(recipe, Recipe):
        raise TypeError(f"recipe: found {recipe!r:.40}, a {type(recipe).__name__}, expected a fpstore.text.Recipe")
    if max_distance is None:
        return
    try:
        number = None if isinstance(max_distance, bool) else index(max_distance)
    except TypeError:
        number = None
    if number is None:
        kind = type(max_distance).__name__
        raise TypeError(f"max_distance: found {max_distance!r:.40}, a {kind}, expected a whole number")
    if number < 0:
        raise ValueError(f"max_distance: found {number}, expected 0 or more")
