"""Owns how an optional package is asked for: by the extra that brings it, and in a version whose answers are known."""

import importlib
from functools import cache
from types import ModuleType

# A step that a package does is what these versions of it do; others may give other fingerprints. pyproject.toml asks
# for the same.
SERIES = {"rjieba": "0.2", "PyStemmer": "3", "stopwordsiso": "0.7", "resiliparse": "2"}


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """An optional package, imported on first use; ImportError names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {package}: pip install 'fpstore[{extra}]'") from error


@cache
def need_series(module: str, package: str, extra: str, purpose: str) -> ModuleType:
    """As need, for a step of a recipe; ImportError too where the version is not of its series."""
    # With the parts of e-mail that it reads: 10 ms that no recipe without a package needs.
    from importlib.metadata import version

    found = need(module, extra, purpose)
    series = SERIES[package]
    if not f"{version(package)}.".startswith(f"{series}."):
        expected = f"{series}.*, which this version of recipes is made of"
        raise ImportError(f"{purpose}: found {package} {version(package)}, expected {expected}")
    return found
