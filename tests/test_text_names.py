"""Texts have names, where nobody gives them others: those by which jobs call them are their ids in stores of names."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore.inputs import BadInput, read

WORDS = [f"number {n} of some texts that are {n * n} words apart from each other {n * 7}" for n in range(4)]


def ids_of(path: Path) -> list[Any]:
    with fpstore.open(path) as store:
        return sorted(row.id for table in store.rows() for row in table)


def write(folder: Path, kind: str) -> Path:
    """WORDS as files of a kind."""
    if kind == "folder":
        (folder / "in" / "more").mkdir(parents=True)
        for number, text in enumerate(WORDS):
            (folder / "in" / ("more" if number % 2 else "") / f"{number}.txt").write_text(text)
        return folder / "in"
    path = folder / f"in.{kind}"
    lines = {
        "jsonl": "".join(json.dumps({"text": text}) + "\n" for text in WORDS),
        "csv": "text\n" + "".join(f"{text}\n" for text in WORDS),
        "jsonl.gz": "".join(json.dumps({"text": text}) + "\n" for text in WORDS),
    }[kind]
    path.write_bytes(gzip.compress(lines.encode()) if kind.endswith("gz") else lines.encode())
    return path


@pytest.mark.parametrize("id_type", ["string", "bytes"])
@pytest.mark.parametrize("kind", ["folder", "jsonl", "csv", "jsonl.gz"])
def test_the_ids_of_texts_are_the_names_that_jobs_give_them(
    command: Command, tmp_path: Path, kind: str, id_type: str
) -> None:
    source = write(tmp_path, kind)
    how = ["--text-column", "text"] if kind == "csv" else ["--format", "text"] if kind == "folder" else []
    done = command("build", tmp_path / "s", source, *how, "--id-type", id_type)
    assert done.status == 0, done.err
    names = ids_of(tmp_path / "s")
    assert command("dedup", source, *how, "-o", tmp_path / "kept.jsonl", "--store", tmp_path / "jobs").status == 0
    assert [each if isinstance(each, str) else each.decode() for each in names] == ids_of(tmp_path / "jobs")
    assert len(names) == len(WORDS)
    assert command("create", tmp_path / "t", "--id-type", id_type, "--recipe", "text-1").status == 0
    assert command("add", tmp_path / "t", source, *how).status == 0
    assert ids_of(tmp_path / "t") == names
    again = command("add", tmp_path / "t", source, *how, "--if-new")
    assert again.err.endswith(": added 0 of 4 rows\n")


def test_a_column_called_id_has_the_names_where_there_is_one(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"id": f"n{n}", "text": text}) + "\n" for n, text in enumerate(WORDS)))
    assert command("build", tmp_path / "s", path, "--id-type", "string").status == 0
    assert ids_of(tmp_path / "s") == ["n0", "n1", "n2", "n3"]
    (tmp_path / "z.jsonl").write_text(json.dumps({"text": WORDS[0]}) + "\n")
    done = command("build", tmp_path / "t", path, tmp_path / "z.jsonl", "--id-type", "string")
    assert done.status == 1
    assert "found no column called id, and one in the files before; expected all or none" in done.err


@pytest.mark.parametrize("ids", ["row", "none", "from:7"])
@pytest.mark.parametrize("name", ["build", "add"])
def test_numbers_are_refused_with_what_would_do(command: Command, tmp_path: Path, name: str, ids: str) -> None:
    source = write(tmp_path, "folder")
    more: list[object] = ["--id-type", "string"] if name == "build" else []
    if name == "add":
        fpstore.create(tmp_path / "s", id_type="string", recipe="text-1").close()
    done = command(name, tmp_path / "s", source, "--format", "text", "--ids", ids, *more)
    assert done.status == 2
    assert "expected --ids column, or for texts without one no --ids" in done.err
    assert command(name, tmp_path / "s", source, "--format", "text", *more).status == 0


def test_a_column_of_texts_that_have_none_is_refused_with_what_would_do(command: Command, tmp_path: Path) -> None:
    source = write(tmp_path, "folder")
    how = ["build", tmp_path / "s", source, "--format", "text", "--id-type", "string"]
    done = command(*how, "--ids", "column")
    assert (done.status, "expected ids (--ids) auto (no --ids and no --id-column)" in done.err) == (2, True)
    assert command(*how).status == 0


def test_a_file_whose_name_is_no_text_has_one_of_bytes(command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    Path(f"{tmp_path}/in/\udcff.txt").write_text(WORDS[0])
    (tmp_path / "in" / "a.txt").write_text(WORDS[1])
    how = ["--format", "text", "--id-type"]
    done = command("build", tmp_path / "s", tmp_path / "in", *how, "string")
    assert (done.status, "expected text of at most 65536 bytes" in done.err) == (1, True)
    assert command("build", tmp_path / "s", tmp_path / "in", *how, "string", "--skip-bad").status == 0
    assert ids_of(tmp_path / "s") == [f"{tmp_path}/in/a.txt"]
    assert command("build", tmp_path / "t", tmp_path / "in", *how, "bytes").status == 0
    assert ids_of(tmp_path / "t")[1] == f"{tmp_path}/in/".encode() + b"\xff.txt"


def test_fingerprints_have_no_names_of_their_own(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.arange(3, dtype=np.uint64))
    (tmp_path / "in.csv").write_text("fingerprint\n0000000000000001\n")
    for name in ("in.npy", "in.csv"):
        with pytest.raises(BadInput, match="found no ids, expected a column of names"):
            list(read([tmp_path / name], id_type="string"))
