"""The packages that users have their documents in: a frame with a signed column becomes a frame of matches.

Each in at most three lines, which a test counts. Needs the extra fpstore[test-clients] (make test-clients).
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

import fpstore
from fpstore.arrays import as_keys

LACKING = "installed by make test-clients"
RNG = np.random.default_rng(13)
STORED = RNG.integers(-(1 << 63), 1 << 63, 500, dtype=np.int64)
# Each of the first 100 with a bit turned, then some that are near nothing.
QUERIES = np.concatenate([STORED[:100] ^ (np.int64(1) << RNG.integers(0, 63, 100)), ~STORED[:20]])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "web.fpstore", STORED).close()
    return tmp_path / "web.fpstore"


@pytest.fixture
def store(path: Path) -> Any:
    with fpstore.open(path, signed=True) as store:
        yield store


def pandas_series(store: fpstore.Store, frame: Any) -> Any:
    return store.probe_many(frame["simhash"]).to_pandas()


def pandas_of_arrow(store: fpstore.Store, frame: Any) -> Any:
    return store.probe_many(frame["simhash"].convert_dtypes(dtype_backend="pyarrow")).to_pandas()


def polars_series(store: fpstore.Store, frame: Any) -> Any:
    return store.probe_many(frame["simhash"]).to_polars()


def polars_frame(store: fpstore.Store, frame: Any) -> Any:
    polars = pytest.importorskip("polars", reason=LACKING)
    return polars.DataFrame(store.probe_many(frame.select("simhash")))


def polars_lazy(store: fpstore.Store, frame: Any) -> Any:
    return store.probe_many(frame.lazy().select("simhash").collect()).to_polars()


def arrow_column(store: fpstore.Store, frame: Any) -> Any:
    return store.probe_many(frame["simhash"]).to_arrow()


def arrow_stream(store: fpstore.Store, frame: Any) -> Any:
    return pyarrow.table(store.probe_many(frame.select(["simhash"]).to_reader(max_chunksize=50)))


def duckdb_relation(store: fpstore.Store, frame: Any) -> Any:
    duckdb = pytest.importorskip("duckdb", reason=LACKING)
    matches = store.probe_many(duckdb.sql("SELECT simhash FROM frame"))  # noqa: F841 - DuckDB finds it by its name
    return duckdb.sql("SELECT * FROM matches")


def huggingface_column(store: fpstore.Store, frame: Any) -> Any:
    datasets = pytest.importorskip("datasets", reason=LACKING)
    return datasets.Dataset(store.probe_many(frame["simhash"]).to_arrow())


def huggingface_arrow(store: fpstore.Store, frame: Any) -> Any:
    datasets = pytest.importorskip("datasets", reason=LACKING)
    matches = store.probe_many(frame.select_columns("simhash").with_format("arrow")[:])
    return datasets.Dataset(matches.to_arrow())


def spark_rows(store: fpstore.Store, frame: Any) -> Any:
    # As Spark hands its rows to a function of mapInArrow: batches, whose only integers of 64 bits are signed.
    (batch,) = frame.to_batches()
    return store.probe_many(batch.select(["simhash"])).to_arrow()


def pandas_of(table: Any) -> Any:
    pytest.importorskip("pandas", reason=LACKING)
    return table.to_pandas()


def polars_of(table: Any) -> Any:
    return pytest.importorskip("polars", reason=LACKING).from_arrow(table)


def huggingface_of(table: Any) -> Any:
    return pytest.importorskip("datasets", reason=LACKING).Dataset(table)


def same(table: Any) -> Any:
    return table


WAYS: list[tuple[Callable[[fpstore.Store, Any], Any], Callable[[Any], Any]]] = [
    (pandas_series, pandas_of),
    (pandas_of_arrow, pandas_of),
    (polars_series, polars_of),
    (polars_frame, polars_of),
    (polars_lazy, polars_of),
    (arrow_column, same),
    (arrow_stream, same),
    (duckdb_relation, same),
    (huggingface_column, huggingface_of),
    (huggingface_arrow, huggingface_of),
    (spark_rows, same),
]


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """Of a frame of any kind, rows of plain values."""
    for turn in ("fetchall", "rows"):
        if hasattr(frame, turn):
            return list(getattr(frame, turn)())
    if hasattr(frame, "itertuples"):
        return [tuple(row) for row in frame.itertuples(index=False)]
    return [tuple(row.values()) for row in (frame.to_pylist() if hasattr(frame, "to_pylist") else frame)]


@pytest.mark.parametrize(("way", "made"), WAYS)
def test_a_signed_column_becomes_a_frame_of_signed_matches(store: fpstore.Store, way: Any, made: Any) -> None:
    found = way(store, made(pyarrow.table({"url": [f"/{i}" for i in range(len(QUERIES))], "simhash": QUERIES})))
    expected = [tuple(match) for match in store.probe_many(QUERIES)]
    assert len(expected) >= 100
    assert min(match.fingerprint for match in store.probe_many(QUERIES)) < 0
    assert sorted(rows_of(found)) == sorted(expected)
    assert list(found.column_names if hasattr(found, "column_names") else found.columns) == [
        "query",
        "fingerprint",
        "distance",
        "id",
    ]


@pytest.mark.parametrize("way", [way for way, _ in WAYS])
def test_it_takes_three_lines_at_most(way: Any) -> None:
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(way))).body
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) <= 3
    assert all(statement.lineno == statement.end_lineno for statement in function.body)


def test_a_frame_of_spark_becomes_a_frame_of_matches(store: fpstore.Store) -> None:
    sql = pytest.importorskip("pyspark.sql", reason="pyspark, which needs a Java machine")
    with sql.SparkSession.builder.master("local[1]").getOrCreate() as session:
        frame = session.createDataFrame([(int(query),) for query in QUERIES], "simhash long")
        matches = store.probe_many([row.simhash for row in frame.collect()])
        # Spark has no integers of 16 bits without a sign, so it gets the rows and their types.
        types = "query long, fingerprint long, distance int, id long"
        found = session.createDataFrame([tuple(match) for match in matches], types)
        assert [tuple(row) for row in found.collect()] == [tuple(match) for match in matches]


def test_python_integers_in_a_pandas_column_are_read_one_by_one(path: Path) -> None:
    """Arrow takes them for signed ones and overflows; numpy would make floats of a mixture."""
    pandas = pytest.importorskip("pandas", reason=LACKING)
    large = int(np.uint64(STORED[STORED < 0][0]))
    with fpstore.open(path) as store:
        assert store.probe_many(pandas.Series([5, large], dtype=object)).fingerprint.tolist() == [large]
        with pytest.raises(TypeError, match="item 1"):
            store.probe_many(pandas.Series([large, "x"], dtype=object))


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("signed", [False, True])
def test_nulls_stand_where_a_row_was_stored_and_no_bit_is_lost(path: Path, package: str, signed: bool) -> None:
    pytest.importorskip(package, reason=LACKING)
    with fpstore.open(path, "w", signed=signed) as store:
        found = store.add_if_new([STORED[0], 5, STORED[1]], ids=[1000, 1001, 1002])
        nothing = store.add_if_new([], ids=[])
    for table in (found, nothing, found[:0]):
        frame = getattr(table, f"to_{package}")()
        expected = table.to_arrow()
        assert list(frame.columns) == expected.column_names
        assert pyarrow.table(frame).select(expected.column_names).cast(expected.schema).equals(expected)
        types = [str(dtype).lower() for dtype in (frame.dtypes if package == "polars" else frame.dtypes.tolist())]
        assert types[1:] == (["int64", "uint16", "int64"] if signed else ["uint64", "uint16", "uint64"])


def test_columns_that_arrow_cannot_hold_are_read_or_refused_by_name_and_type() -> None:
    pandas = pytest.importorskip("pandas", reason=LACKING)
    polars = pytest.importorskip("polars", reason=LACKING)
    datasets = pytest.importorskip("datasets", reason=LACKING)
    sparse = pandas.arrays.SparseArray([5, 0, 7])
    for values in (
        pandas.Series(sparse),
        pandas.Series([5, 0, 7]).astype("category"),
        polars.Series("a", [5, 0, 7], dtype=polars.Int128),
        datasets.Dataset.from_dict({"a": [5, 0, 7]}),
        datasets.Dataset.from_dict({"a": [9, 5, 0, 7]}).select([1, 2, 3]),
        datasets.Dataset.from_dict({"a": [5, 0, 7]}).to_iterable_dataset(),
    ):
        assert as_keys(values, "fingerprints").tolist() == [5, 0, 7]
    for values, message in (
        (pandas.DataFrame({"a": sparse}), r"found a table with columns a: Sparse\[int64, 0\]"),
        (polars.DataFrame({"a": polars.Series([5], dtype=polars.Int128)}), "found a table with columns a: Int128"),
        (polars.Series("a", [object()], dtype=polars.Object), "found type Object"),
        (
            polars.DataFrame({"a": polars.Series([object()], dtype=polars.Object)}),
            "found a table with columns a: Object",
        ),
        (polars.Series("a", ["x"], dtype=polars.Categorical), "found type dictionary"),
        (polars.Series("a", [2**100], dtype=polars.Int128), "item 0: found 1267650600228229401496703205376"),
        (datasets.Dataset.from_dict({"a": [5], "b": [6]}), "item 0: found a row of columns a, b, expected one column"),
        (datasets.Dataset.from_dict({"a": ["x"]}), "item 0: found 'x', a str"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^fingerprints.* {message}") as caught:
            as_keys(values, "fingerprints")
        assert type(caught.value) in (TypeError, ValueError)
