"""The command line on stores whose ids are names."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome import Command

import fpstore

NAMES = ["b", "", "http://example.org/é?a=1,2", 'q"uote', "two\nlines", "tab\there", "back\\slash", " spaces ", "17"]
KEYS = (np.arange(len(NAMES), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).tolist()


def rows_of(path: Path) -> list[tuple[int, Any]]:
    with fpstore.open(path) as store:
        return sorted((row.fingerprint, row.id) for table in store.rows() for row in table)


ROWS = sorted(zip(KEYS, NAMES, strict=True))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s", KEYS, ids=NAMES, id_type="string").close()
    return tmp_path / "s"


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("how", ["build", "add"])
def test_what_is_exported_comes_back(command: Command, store: Path, tmp_path: Path, format: str, how: str) -> None:
    file, new = tmp_path / f"out.{format}", tmp_path / "new"
    assert command("export", store, file).status == 0
    if format == "csv":
        with open(file, newline="") as opened:
            assert sorted((int(row["fingerprint"], 16), row["id"]) for row in csv.DictReader(opened)) == ROWS
    if format == "jsonl":
        records = [json.loads(line) for line in file.read_text().splitlines()]
        assert sorted((int(record["fingerprint"], 16), record["id"]) for record in records) == ROWS
    if how == "build":
        done = command("build", new, file, "--id-type", "string")
    else:
        assert command("create", new, "--id-type", "string").status == 0
        done = command("add", new, file)
    assert done.status == 0, done.err
    assert rows_of(new) == ROWS


def test_bytes_go_out_and_come_in_as_parquet(command: Command, tmp_path: Path) -> None:
    names = [b"a", b"\xff\0", b""]
    fpstore.build(tmp_path / "s", KEYS[:3], ids=names, id_type="bytes").close()
    assert command("export", tmp_path / "s", tmp_path / "out.parquet").status == 0
    assert command("build", tmp_path / "t", tmp_path / "out.parquet", "--id-type", "bytes").status == 0
    assert rows_of(tmp_path / "t") == sorted(zip(KEYS, names, strict=False))
    refused = command("export", tmp_path / "s", tmp_path / "out.csv")
    assert refused.status == 2
    assert "format csv holds no ids that are bytes: expected parquet, or --no-ids" in refused.err
    found = command("probe", tmp_path / "s", f"{KEYS[1]:016x}", "--json")
    assert json.loads(found.out)["id"] == "\udcff\0"
    assert command("remove", tmp_path / "s", "--id", "\udcff").status == 0


def test_hex_holds_no_names(command: Command, store: Path, tmp_path: Path) -> None:
    refused = command("export", store, tmp_path / "out.hex")
    assert refused.status == 2
    assert "format hex holds no ids that are string: expected csv, jsonl or parquet, or --no-ids" in refused.err
    assert command("export", store, tmp_path / "out.hex", "--no-ids").status == 0
    refused = command("add", store, tmp_path / "out.hex")
    assert "names, which format hex does not hold" in refused.err


def test_a_probe_writes_names_so_that_a_line_stays_a_line(command: Command, store: Path) -> None:
    for key, name in ROWS:
        line = command("probe", store, f"{key:016x}", "-k", 0).out
        written = name.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
        assert line == f"{key:016x}\t{key:016x}\t0\t{written}\n"
        record = json.loads(command("probe", store, f"{key:016x}", "-k", 0, "--json").out)
        assert record["id"] == name


def test_rows_that_are_near_are_told_with_both_names(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"fingerprint,id\n{KEYS[0] ^ 1:016x},near\n{0x123456789ABCDEF:016x},far\n")
    done = command("add", store, tmp_path / "in.csv", "--if-new", "--json")
    (record,) = [json.loads(line) for line in done.out.splitlines()]
    assert (record["id"], record["match_id"]) == ("near", "b")
    assert (0x123456789ABCDEF, "far") in rows_of(store)


def test_names_are_removed_by_name_and_from_a_file(command: Command, store: Path, tmp_path: Path) -> None:
    done = command("remove", store, "--id", "b", "--id", "two\nlines", "--id", "nobody")
    assert "removed 2 rows, for 3 ids" in done.err
    (tmp_path / "gone.jsonl").write_text('{"id": "tab\\there"}\n{"id": 17}\n')
    done = command("remove", store, "--id-input", tmp_path / "gone.jsonl")
    assert "removed 2 rows, for 2 ids" in done.err
    gone = {"b", "two\nlines", "tab\there", "17"}
    assert rows_of(store) == [row for row in ROWS if row[1] not in gone]


def test_rows_without_a_name_are_refused_or_skipped(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        f'{{"fingerprint": "{5:016x}", "id": null}}\n{{"fingerprint": "{6:016x}", "id": "six"}}\n'
        f'{{"fingerprint": "{7:016x}", "id": "\\ud800"}}\n{{"fingerprint": "{8:016x}", "id": true}}\n'
    )
    refused = command("add", store, tmp_path / "in.jsonl")
    assert refused.status == 1
    assert "expected text of at most 65536 bytes, or a whole number" in refused.err
    assert command("add", store, tmp_path / "in.jsonl", "--skip-bad").status == 0
    assert rows_of(store) == sorted([*ROWS, (6, "six")])
    (tmp_path / "in.csv").write_text(f"fingerprint\n{5:016x}\n")
    assert command("add", store, tmp_path / "in.csv").status == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["add", "--ids", "from:5"], "the ids of the store are names, expected --ids column"),
        (["build", "--id-type", "string", "--ids", "row"], "--id-type string: found ids that are numbers or none"),
        (["build", "--id-type", "string", "--ids", "none"], "--id-type string: found ids that are numbers or none"),
    ],
)
def test_numbers_in_the_place_of_names_are_refused(
    command: Command, store: Path, tmp_path: Path, arguments: list[str], told: str
) -> None:
    (tmp_path / "in.csv").write_text(f"fingerprint,id\n{5:016x},x\n")
    where = store if arguments[0] == "add" else tmp_path / "new"
    refused = command(arguments[0], where, tmp_path / "in.csv", *arguments[1:])
    assert refused.status == 2
    assert told in refused.err


def test_reading_refuses_what_gives_no_names(tmp_path: Path) -> None:
    from fpstore.inputs import read

    np.save(tmp_path / "in.npy", np.arange(3, dtype=np.uint64))
    with pytest.raises(ValueError, match="id_type: found 'text', expected one of uint64, string, bytes"):
        read([tmp_path / "in.npy"], id_type="text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ids: found 'row' with id_type 'string', expected 'column'"):
        read([tmp_path / "in.npy"], id_type="string", ids="row")
    with pytest.raises(ValueError, match="found no ids, expected a column of names"):
        list(read([tmp_path / "in.npy"], id_type="string"))


def test_rows_are_looked_up_by_name(command: Command, store: Path, tmp_path: Path) -> None:
    done = command("lookup", store, "two\nlines", "nobody", "17")
    keys = dict(zip(NAMES, KEYS, strict=True))
    assert done.out == f"17\t{keys['17']:016x}\ntwo\\nlines\t{keys[chr(10).join(['two', 'lines'])]:016x}\n"
    (tmp_path / "in.csv").write_text("id\nb\n")
    done = command("lookup", store, "--input", tmp_path / "in.csv", "--json")
    assert json.loads(done.out)["id"] == "b"


def test_pairs_and_new_rows_of_a_name(command: Command, store: Path, tmp_path: Path) -> None:
    keys = dict(zip(NAMES, KEYS, strict=True))
    (tmp_path / "in.csv").write_text(f"fingerprint,id\n{0x123456789ABCDEF:016x},b\n{keys['17']:016x},new\n")
    assert command("add", store, tmp_path / "in.csv", "--upsert").status == 0
    assert (0x123456789ABCDEF, "b") in rows_of(store)
    assert (keys["b"], "b") not in rows_of(store)
    done = command("remove", store, f"{keys['17']:016x}", "--id", "17", "--pairs")
    assert "removed 1 row, for 1 pair" in done.err
    assert (keys["17"], "new") in rows_of(store)
    assert (keys["17"], "17") not in rows_of(store)


def test_programs_give_names_as_strings() -> None:
    from fpstore.inputs import BadInput
    from fpstore.serve.forms import cells_of, ids_of

    assert ids_of(["a", "", 17], "string").tolist() == ["a", "", "17"]
    assert ids_of(["a", "\udcff"], "bytes").tolist() == [b"a", b"\xff"]
    assert list(cells_of(ids_of(['a"b', "\udcff"], "bytes"), 2)) == ['"a\\"b"', '"\\udcff"']
    with pytest.raises(BadInput, match="expected text of at most 65536 bytes, or a whole number"):
        ids_of(["a", None], "string")
