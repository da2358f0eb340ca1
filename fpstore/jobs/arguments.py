"""Owns what the arguments of jobs may be: what is none is told by its name, before anything is read or written."""

import os
from operator import index
from typing import Any, cast

from fpstore.errors import PathLike, folder_in
from fpstore.text import Recipe


def expect_path(name: str, value: object) -> None:
    """TypeError for what is no path."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}: found {value!r:.40}, a {type(value).__name__}, expected the path of a file")


def expect_paths(*, output: object, store: object = None, shards: bool | None = None, **others: object) -> None:
    """TypeError for what is no path, ValueError for a result where one is a folder; None is for others than output.

    shards: whether output is a folder; None of jobs that have no such.
    """
    if store is not None:
        expect_path("store", store)
    for name, value in {"output": output, **others}.items():
        if value is None and name != "output":
            continue
        expect_path(name, value)
        is_folder = name == "output" and shards
        if not is_folder and (found := folder_in(cast(PathLike, value))):
            advice = "; with shards=True it is a folder" if name == "output" and shards is not None else ""
            raise ValueError(f"{name}: found {os.fspath(cast(PathLike, value))!r}, {found}, expected a file{advice}")


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
