"""Builds of wide fingerprints by tasks: the bytes of a build by one process, and damage that is told or made anew."""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome import Command
from test_cluster_build import expect_equal, in_one, segment_of
from test_wide import WIDTHS

import fpstore
from fpstore import cluster
from fpstore._codec import crc32c
from fpstore.cluster import coding, gathering, parts, work
from fpstore.cluster.coding import CodesTableTask, TableFile
from fpstore.cluster.parts import Maker, write_footer
from fpstore.disk import Folder
from fpstore.errors import JobError
from fpstore.fingerprints import as_bytes, as_hexadecimal
from fpstore.types import Keys

PLANS = ("balanced", "size", "speed")


def some_codes(count: int, bits: int, seed: int) -> Keys:
    """Codes of which some are equal, and some share their first words."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 1 << 64, (count, bits // 64), dtype=np.uint64)
    codes[: count // 4] = codes[rng.integers(0, max(1, count), count // 4)] if count else codes
    codes[: count // 3, 0] &= np.uint64(3)
    return codes


def written(folder: Path, codes: Keys, kinds: list[str], with_ids: bool) -> list[Path]:
    """The codes in files of these kinds, one after the other; ids of their own are in no order, nor distinct."""
    found = []
    for number, (kind, own) in enumerate(zip(kinds, np.array_split(codes, len(kinds)), strict=True)):
        path, lines = folder / f"{number}.{kind}", as_hexadecimal(own)
        if kind == "npy":
            np.save(path, own if number % 2 else as_bytes(own))
        else:
            separator = "," if kind == "csv" else "\t"
            ids = [f"{separator}{at * 7 % 50}" if with_ids else "" for at in range(len(own))]
            head = "fingerprint,id\n" if with_ids else "fingerprint\n"
            rows = [f"{line}{id}\n" for line, id in zip(lines, ids, strict=True)]
            path.write_text(head * (kind == "csv") + "".join(rows))
        found.append(path)
    return found


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_tasks_build_the_bytes_of_one_process(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from(sorted(WIDTHS)))
    ids = data.draw(st.sampled_from(["auto", "row", None]))
    own = ids == "auto" and data.draw(st.booleans())
    kind = st.sampled_from(["csv", "hex"] if own else ["npy", "csv", "hex"])
    kinds = data.draw(st.lists(kind, min_size=1, max_size=4))
    codes = some_codes(data.draw(st.sampled_from([0, 1, 40, 700])), bits, data.draw(st.integers(0, 9)))
    given: dict[str, Any] = {
        "bits": bits,
        "max_distance": data.draw(st.integers(0, WIDTHS[bits])),
        "plan": data.draw(st.sampled_from(PLANS)),
        "shuffle": data.draw(st.sampled_from([None, 5])),
        "ids": ids,
        "first_id": data.draw(st.sampled_from([0, 1 << 40])) if ids == "row" else 0,
    }
    folder = tmp_path_factory.mktemp("built")
    files = written(folder, codes, kinds, own)
    in_one(folder / "one", files, **given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "BLOCK_ROWS", 13)
        patch.setattr(gathering, "MOST_RUNS", 2)
        patch.setattr(coding, "PIECE_BYTES", 100)
        cluster.build(folder / "many", files, tasks=data.draw(st.integers(1, 6)), workers=1, **given).close()
    expect_equal(folder / "one", folder / "many")
    shutil.rmtree(folder)


def built(folder: Path, bits: int = 128, **more: Any) -> tuple[dict[str, Any], list[Path]]:
    """What was asked for a build whose folder is kept, and its files."""
    files = written(folder, some_codes(900, bits, 4), ["npy", "hex"], False)
    asked: dict[str, Any] = {"bits": bits, "max_distance": 9, "ids": "row", "workers": 1, "tasks": 3}
    asked["folder"] = folder / "f"
    cluster.build(folder / "s", files, **asked, **more).close()
    return asked, files


def tables_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.startswith("0000") and not path.name.endswith(".part"))


@pytest.mark.slow
def test_the_command_builds_wide_fingerprints_by_processes(tmp_path: Path, command: Command) -> None:
    files = written(tmp_path, some_codes(3000, 256, 4), ["npy", "hex"], False)
    in_one(tmp_path / "one", files, bits=256, max_distance=31)
    asked = ("--bits", "256", "-k", "31", "--workers", "2")
    outcome = command("build", tmp_path / "many", *files, *asked)
    assert outcome.status == 0, outcome.err
    expect_equal(tmp_path / "one", tmp_path / "many")


def test_what_is_missing_or_of_another_first_number_is_made_anew(tmp_path: Path) -> None:
    asked, files = built(tmp_path)
    before = segment_of(tmp_path / "s")
    (merged,) = (tmp_path / "f").glob(f"{work.MOST_TASKS:05d}.*.part")
    for gone in ("00001.part", merged.name, tables_in(tmp_path / "f")[1].name):
        (tmp_path / "f" / gone).unlink()
        cluster.build(tmp_path / "s", files, force=True, **asked).close()
        assert segment_of(tmp_path / "s") == before
    cluster.build(tmp_path / "t", files, first_id=7, **asked).close()
    in_one(tmp_path / "one", files, bits=128, max_distance=9, ids="row", first_id=7)
    expect_equal(tmp_path / "one", tmp_path / "t")
    # Each has rows of its own, so that both may be at work at once.
    assert len({merged, *(tmp_path / "f").glob(f"{work.MOST_TASKS:05d}.*.part")}) == 2
    shutil.copy(tmp_path / "f" / "00000.part", merged)  # of another maker
    cluster.build(tmp_path / "s", files, force=True, **asked).close()
    assert segment_of(tmp_path / "s") == before


def test_a_table_has_the_bytes_that_the_format_says(tmp_path: Path) -> None:
    _, _ = built(tmp_path)
    tables = tables_in(tmp_path / "f")
    with fpstore.open(tmp_path / "s") as store:
        (segment,) = store._segments
        records, data = segment.tables, segment_of(tmp_path / "s")
        assert len(records) == len(tables)
        for record, path in zip(records, tables, strict=True):
            file = path.read_bytes()
            size, crc, magic = struct.unpack("<QI8s", file[-20:])
            footer = json.loads(file[-20 - size : -20])
            assert (magic, crc32c(file[-20 - size : -20])) == (b"fptabl01", crc)
            starts = data[record.starts_offset :][: record.starts_bytes]  # type: ignore[attr-defined]
            entries = data[record.entries_offset :][: record.entries_bytes]  # type: ignore[attr-defined]
            assert file[: -20 - size] == starts + entries
            assert footer["starts"] == [[len(starts), crc32c(starts)]]
            at = 0
            for size, crc in footer["entries"]:
                assert crc == crc32c(entries[at : at + size])
                at += size
            assert at == len(entries)
            for name in ("slot_bits", "tag_bits", "flips"):
                assert footer[name] == getattr(record, name)


def test_a_damaged_table_is_refused_whatever_byte_it_is_and_wherever_it_is_cut(tmp_path: Path) -> None:
    asked, files = built(tmp_path)
    path = tables_in(tmp_path / "f")[1]
    good = path.read_bytes()
    with fpstore.open(tmp_path / "s") as store:
        plan, count = store.plan, store.count()
    maker = Maker(path.name.partition(".")[2].partition(".")[2] or path.name.rpartition(".")[2], 1)
    task: Any = CodesTableTask(maker, fpstore.__version__, tmp_path / "f", maker, plan, None)  # type: ignore[arg-type]

    def read() -> None:
        with Folder.open(tmp_path / "f") as folder:
            file = TableFile(folder, task, count)
            try:
                for region in file.table()[1:]:
                    for _ in region:
                        pass
            finally:
                file.close()

    assert task.name == path.name
    read()
    for at in [*range(0, len(good), 97), *range(len(good) - 300, len(good))]:
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(JobError):
            read()
        path.write_bytes(good[:at])
        with pytest.raises(JobError):
            read()
    path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    with pytest.raises(JobError, match="a block at 0: found another checksum"):
        cluster.build(tmp_path / "t", files, **asked)
    assert not (tmp_path / "t").exists()
    path.unlink()
    cluster.build(tmp_path / "t", files, **asked).close()
    assert segment_of(tmp_path / "t") == segment_of(tmp_path / "s")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"job": "x"}, "found table 1 of job 'x'; expected table 1 of job"),
        ({"task": 2}, "found table 2 of job"),
        ({"starts": []}, "the footer: found regions of"),
        ({"slot_bits": "9"}, "the footer: found b"),
        ({"slot_bits": 36}, "the footer: found b"),
        ({"flips": 7}, "the footer: found b"),
        ({"flips": -1}, "the footer: found b"),
        ({"tag_bits": 1}, "the footer: found b"),
        ({"entries": 5}, "the footer: found b"),
        ({"entries": [[1 << 45, 0], [-(1 << 45), 0]]}, "the footer: found b"),
        ({"entries": [[-5, 0]]}, "the footer: found b"),
        ({"entries": [[5.0, 0]]}, "the footer: found b"),
        ({"entries": [[(1 << 20) + 1, 0]]}, "the footer: found b"),
    ],
)
def test_a_footer_that_no_task_writes_is_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    asked, files = built(tmp_path)
    path = tables_in(tmp_path / "f")[1]
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[-20:-12])
    footer = json.loads(data[-20 - size : -20])
    with path.open("wb") as file:
        file.write(data[: -20 - size])
        write_footer(file, footer | more, coding.MAGIC)
    with pytest.raises(JobError, match=message):
        cluster.build(tmp_path / "t", files, **asked)
