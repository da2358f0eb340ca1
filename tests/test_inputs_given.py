"""Documents that Python gives to the jobs: rows that are mappings, as those of a data set."""

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from jobs_model import interrupt, lines_of, write_jsonl

from fpstore import JobError
from fpstore.inputs import BadInput, GivenDocuments, plain
from fpstore.jobs import Inputs, cluster, components, corpus, dedup, document_pairs
from fpstore.text import DEFAULT_RECIPE
from fpstore.workers import Workers

TEXTS = ["one of them", "another", "the third", "one of them"]
ROWS: list[dict[str, Any]] = [{"url": f"u{n}", "text": text, "n": n} for n, text in enumerate(TEXTS)]


class Dataset:
    """What data sets of Hugging Face are here: they give their rows again and again."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(ROWS)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 2)


@pytest.mark.parametrize("rows", [ROWS, Dataset(), [MappingProxyType(row) for row in ROWS]])
def test_rows_are_documents_with_all_their_fields(tmp_path: Path, rows: Any) -> None:
    found = dedup([rows], tmp_path / "kept.jsonl", dropped=tmp_path / "dropped", keep="max:n")
    assert [json.loads(line) for line in lines_of(tmp_path / "kept.jsonl")] == ROWS[1:]
    assert lines_of(tmp_path / "dropped") == ["rows:0\trows:3\t0\t1.0000"]
    assert (found.documents, found.kept) == (4, 3)
    dedup([rows], tmp_path / "kept.parquet", tag=True)
    assert pq.read_table(tmp_path / "kept.parquet")["duplicate_of"].to_pylist() == [None, None, None, "rows:0"]


def test_every_job_takes_rows_beside_files(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["another"])
    inputs = Inputs([ROWS, source, iter(ROWS)])
    names = [f"rows:{n}" for n in range(4)] + [f"{source}:1"] + [f"rows 2:{n}" for n in range(4)]
    for job in (cluster, components):
        job(Inputs([ROWS, source, iter(ROWS)]), tmp_path / job.__name__)
        rows = [line.split("\t") for line in lines_of(tmp_path / job.__name__)]
        assert [row[1] for row in rows] == names
        assert [row[0] for row in rows] == ["0", "1", "2", "0", "1", "0", "1", "2", "0"]
    assert document_pairs(inputs, tmp_path / "pairs").pairs == 6 + 3 + 1
    dedup(Inputs([ROWS], id_column="url"), tmp_path / "kept", dropped=tmp_path / "dropped")
    assert lines_of(tmp_path / "dropped") == ["u3\tu0\t0\t1.0000"]


def test_columns_are_fields_and_may_be_paths(tmp_path: Path) -> None:
    rows = [{"page": {"body": f"<p>{text}</p>"}} for text in TEXTS]
    found = dedup(Inputs([rows], text_column="page.body", html=True), tmp_path / "kept")
    assert (found.kept, found.dropped) == (3, 1)
    for options in ({"text_column": 0}, {"id_column": 1}):
        with pytest.raises(ValueError, match=r"rows: found a column number as .*, expected the name of a field"):
            dedup(Inputs([ROWS], **options), tmp_path / "kept2")  # type: ignore[arg-type]


def test_values_become_what_json_has() -> None:
    given = {
        "day": date(2024, 5, 31),
        "at": datetime(2024, 5, 31, 1),
        "price": Decimal("1.50"),
        "nan": float("nan"),
        "score": np.float32(0.5),
        "vector": np.arange(3),
        "more": [{"yes": np.True_}, (1, None)],
    }
    assert plain(given) == {
        "day": "2024-05-31",
        "at": "2024-05-31T01:00:00",
        "price": "1.50",
        "nan": None,
        "score": 0.5,
        "vector": [0, 1, 2],
        "more": [{"yes": True}, [1, None]],
    }


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("a text", "found 'a text', expected a mapping of names to values"),
        ({"text": "a", "image": object()}, "found a object in field image, expected what JSON has"),
        ({"text": "a", "list": [b"raw"]}, "found a list in field list, expected what JSON has"),
        ({"body": "a"}, "found fields body, expected one named text"),
        ({"text": 5}, "found 5, expected a text"),
    ],
)
def test_a_row_that_is_no_document_is_a_bad_row(tmp_path: Path, row: Any, found: str) -> None:
    with pytest.raises(BadInput, match=f"^rows, row 1: {found}"):
        dedup([[ROWS[0], row]], tmp_path / "kept")
    summary = dedup(Inputs([[ROWS[0], row, ROWS[1]]], skip_bad=True), tmp_path / "kept")
    assert (summary.documents, summary.skipped) == (2, {"bad row": 1})


@pytest.mark.parametrize("given", [5, b"path", {"text": "a"}, None])
def test_what_is_neither_a_path_nor_rows_is_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(TypeError, match=r"inputs: found .*, expected paths, and rows that are mappings"):
        dedup([given], tmp_path / "kept")


def test_an_iterator_is_read_once(tmp_path: Path) -> None:
    assert cluster([iter(ROWS)], tmp_path / "clusters").clusters == 3
    with pytest.raises(ValueError, match="found keep longest, which reads the inputs twice; expected files"):
        dedup([iter(ROWS)], tmp_path / "kept", keep="longest")
    assert cluster([ROWS], tmp_path / "again", topics=tmp_path / "topics").clusters == 3


def test_a_job_with_rows_begins_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    interrupt(monkeypatch, lambda: dedup([ROWS], tmp_path / "kept"), 1)
    with pytest.raises(JobError, match="a job was interrupted that read rows, or standard input, which cannot be"):
        dedup([ROWS], tmp_path / "kept")
    assert dedup([ROWS], tmp_path / "kept", force=True).kept == 3
    with pytest.raises(FileExistsError):  # nobody knows whether these are the same rows
        dedup([ROWS], tmp_path / "kept")


def test_rows_have_the_layout_of_json() -> None:
    asked: dict[str, Any] = {"text_column": None, "id_column": None, "html": False, "recipe": DEFAULT_RECIPE}
    found = GivenDocuments(ROWS, "rows", skip_bad=False, workers=Workers(1), **asked)
    assert [(name, kind) for name, kind, _ in found.layouts()] == [("rows", "jsonl")]
    assert (found.total_bytes, [text for _, text in found]) == (None, TEXTS)
