"""Owns the files of the inputs of a job one by one, of each of which there is to be a shard: what that is called."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from fpstore.cluster.parts import is_half_written
from fpstore.errors import PathLike
from fpstore.inputs.compressed import display_name
from fpstore.inputs.errors import Faults
from fpstore.inputs.layout import kind_of
from fpstore.inputs.remote import is_remote, name_within, naming_part, stamp_of
from fpstore.inputs.sources import Input, Source, expect_several, inputs_of, is_stream
from fpstore.jobs.claims import SUFFIX
from fpstore.jobs.corpus import Inputs, Rows
from fpstore.jobs.forms import CSV, JSON, PARQUET, TSV, form_of_shard
from fpstore.jobs.record import record_of

# What tells that all shards are there; what is called so is passed over by those who read a folder.
MARKER = "_SUCCESS"
RESERVED = (MARKER, MARKER + SUFFIX, record_of(Path(MARKER)).name)


@dataclass(frozen=True)
class Shard:
    """Of a file of the inputs, by its number. name: within the output. stamp: what it looked like when it was begun.

    within: where what is kept of it is written down. documents, kept: how many there are, and are kept.
    """

    number: int
    name: str
    stamp: tuple[Any, ...]
    within: tuple[int, int] = (0, 0)
    documents: int = 0
    kept: int = 0


class EachFile:
    """The files of the inputs of a job, each of which becomes a source, and what their shards are called.

    passed_over: what was, in folders, how many by reason.
    """

    def __init__(self, sources: Inputs | Iterable[PathLike | Rows]) -> None:
        """ValueError for what has no shard of its own: rows, streams, texts, pages; and for two of one name."""
        given = sources if isinstance(sources, Inputs) else Inputs(sources)
        expect_several("inputs", given.paths, "a list of paths")
        paths = []
        for path in given.paths:
            if not isinstance(path, str | os.PathLike):
                raise ValueError(f"shards: found rows of Python, a {type(path).__name__}, expected files alone")
            paths.append(os.fspath(path))
        faults = Faults(True)
        self.passed_over = faults.counts
        self._names: dict[str, str] = {}
        self._folders = []
        for one in inputs_of(paths, given.format):
            if one.is_folder and not is_remote(one.path):
                self._folders.append(Path(one.path))
            for source in one.files(faults):
                self._name(one, source)
        if not self._names:
            raise ValueError("shards: found no file in the inputs, expected one at least")
        self.inputs = replace(given, paths=list(self._names.values()))
        self._expect_apart()

    def _name(self, one: Input, source: Source) -> None:
        if is_stream(source.path):
            raise ValueError(f"{display_name(source.path)}: found a stream, expected a file, for a shard of its name")
        name = _within(one.path, source.path) if one.is_folder else os.path.basename(naming_part(source.path))
        expect_below(source.path, name)
        kind = kind_of(source.format)
        if kind not in (JSON, CSV, TSV, PARQUET) or form_of_shard(Path(name)).kind != kind:
            told = f"found {source.format}, expected JSON lines, CSV, TSV or Parquet, and a name that says so"
            raise ValueError(f"{source.path}: {told}, for a shard of that name; without shards a KEPT.jsonl holds any")
        if name in self._names:
            told = f"found another input {name}, {self._names[name]}, expected names that differ, or one folder of both"
            raise ValueError(f"{source.path}: {told}, as shards are named for them")
        self._names[name] = source.path

    def _expect_apart(self) -> None:
        folders = {str(parent) for name in self._names for parent in Path(name).parents}
        for name, path in self._names.items():
            if name in folders or Path(name).parts[0] in RESERVED:
                told = "found a name that something else has beside the shards, expected another"
                raise ValueError(f"{path}: {told}")

    def shards(self) -> list[Shard]:
        """One for each."""
        return [Shard(number, name, stamp_of(path)) for number, (name, path) in enumerate(self._names.items())]

    def expect_outside(self, output: Path, *others: Path | None) -> None:
        """ValueError for an output in an input, or in which something else lies that a job reads or writes."""
        home = output.resolve()
        for folder in self._folders:
            if home.is_relative_to(folder.resolve()):
                raise ValueError(f"{output}: found a place in input {folder}, expected one beside the inputs")
        for path in [*(Path(file) for file in self._names.values() if not is_remote(file)), *others]:
            if path is not None and (found := path.resolve()).is_relative_to(home):
                told = f"found {found} in it, expected a folder for shards alone"
                raise ValueError(f"{output}: {told}")


def _within(folder: str, path: str) -> str:
    """What a file is called in a folder in which it was found."""
    return name_within(folder, path) if is_remote(folder) else os.path.relpath(path, folder)


def expect_below(path: str, name: str) -> None:
    """ValueError for a name that is no place in the output, or one where writers have what is half written."""
    parts = PurePosixPath(name).parts
    if str(PurePosixPath(*parts)) != name or ".." in parts or name.startswith("/"):  # of URLs names can be anything
        raise ValueError(f"{path}: found name {name!r:.80}, expected one that leads to one place in a folder")
    if any(map(is_half_written, parts)):
        told = "which files have that are half written, and go with them; expected another"
        raise ValueError(f"{path}: found name {name!r:.80}, {told}")
