"""What is named and which files are read for it: folders, patterns, streams, names of every kind."""

import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fpstore
from fpstore.inputs import FORMATS, BadInput, documents, format_of, read
from fpstore.inputs import sources as sources_module
from fpstore.inputs.delimited import DIALECTS
from fpstore.inputs.errors import BadInput as Bad
from fpstore.inputs.errors import cut, told
from fpstore.inputs.sources import expand, inputs_of, is_stream, walk
from fpstore.text import fingerprint

TEXTS = ["the first of the texts", "another one, the second", "and here is the third"]


def jsonl(texts: list[str]) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def npy(*values: int) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(values, dtype=np.uint64))
    return file.getvalue()


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def write(folder: Path, **files: bytes) -> Path:
    """The files in the folder; of a name `__` is a point and `___` a slash."""
    for name, data in files.items():
        path = folder / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def texts_of(*sources: Path | str, **options: Any) -> list[str]:
    return [text for _, text in documents(list(sources), **options)]


def fingerprints_of(*sources: Path | str, **options: Any) -> list[int]:
    return [int(value) for batch in read(list(sources), **options) for value in batch.fingerprints]


# Of each: the files of a folder, what is asked for, and the texts of it.
FOLDERS_OF_TEXTS: dict[str, tuple[dict[str, bytes], dict[str, Any], list[str]]] = {
    "shards of JSON lines": ({"a__jsonl": jsonl(TEXTS[:2]), "b__jsonl": jsonl(TEXTS[2:])}, {}, TEXTS),
    "packed shards": (
        {"a__jsonl__gz": gzip.compress(jsonl(TEXTS[:1])), "b__jsonl__xz": lzma.compress(jsonl(TEXTS[1:]))},
        {},
        TEXTS,
    ),
    "folders in folders": (
        {"b___x__jsonl": jsonl(TEXTS[1:2]), "a__jsonl": jsonl(TEXTS[:1]), "c__txt": TEXTS[2].encode()},
        {},
        TEXTS,
    ),
    "what Spark writes": (
        {
            "part-0__csv": b"text\n" + TEXTS[0].encode(),
            "_SUCCESS": b"",
            "_metadata": b"x",
            "__part-0__csv__crc": b"crc",
            "_temporary___x": b"",
        },
        {"text_column": "text"},
        TEXTS[:1],
    ),
    "pages, cleaned as when they are named": (
        {"a__html": b"<nav>menu</nav><p>%s" % (b"one " * 99), "b__htm": b"<p>two"},
        {},
        [("one " * 99).strip(), "two"],
    ),
    "pages beside texts": ({"a__html": b"<p>one", "b__txt": b"two"}, {}, ["one", "two"]),
    "Parquet beside pages": (
        {"a__parquet": parquet(number=[1], body=["one"]), "b__html": b"<p>two", "c__txt": b"three"},
        {"text_column": "body"},
        ["one", "two", "three"],
    ),
    "one format for all": ({"a": jsonl(TEXTS[:1]), "b__log": jsonl(TEXTS[1:])}, {"format": "jsonl"}, TEXTS),
    "source files": (
        {"a__py": b"one", "Makefile": b"two", "b___c__md": b"three"},
        {"format": "text"},
        ["two", "one", "three"],
    ),
    "hidden ones": ({"a__txt": b"one", "__git___config": b"x", "__hidden__npy": b"x"}, {}, ["one"]),
    "nothing": ({}, {}, []),
}


@pytest.mark.parametrize(("files", "options", "texts"), FOLDERS_OF_TEXTS.values(), ids=FOLDERS_OF_TEXTS)
def test_a_folder_of_texts_is_read_as_its_files_would_be(tmp_path: Path, files: Any, options: Any, texts: Any) -> None:
    folder = write(tmp_path / "in", **files)
    folder.mkdir(exist_ok=True)
    assert texts_of(folder, **options) == texts
    assert fingerprints_of(folder, **options) == [fingerprint(text) for text in texts]
    named = list(walk(str(folder)))
    assert texts_of(*named, **options) == texts
    assert list(documents([folder], **options)) == list(documents(named, **options))


BY_H = {"fingerprint_column": "h"}
FOLDERS_OF_FINGERPRINTS: dict[str, tuple[dict[str, bytes], dict[str, Any], list[int]]] = {
    "npy": ({"a__npy": npy(5, 6), "b__npy": npy(7)}, {}, [5, 6, 7]),
    "Parquet": (
        {"a__parquet": parquet(h=[5, 6]), "b__parquet": parquet(h=[7])},
        BY_H,
        [5, 6, 7],
    ),
    "hex beside npy": ({"a__hex": b"0x5\n0x6\n", "b__npy": npy(7)}, {}, [5, 6, 7]),
    "CSV": ({"a__csv__gz": gzip.compress(b"0x5\n0x6\n"), "b__csv": b"0x7\n"}, {}, [5, 6, 7]),
    "JSON lines": (
        {"a__jsonl": b'{"h": 5}\n{"h": 6}\n', "b__json": b'[{"h": 7}]'},
        BY_H,
        [5, 6, 7],
    ),
    "u64": ({"a__u64": (5).to_bytes(8, "little"), "b__u64": (6).to_bytes(8, "little")}, {}, [5, 6]),
}


@pytest.mark.parametrize(("files", "options", "values"), FOLDERS_OF_FINGERPRINTS.values(), ids=FOLDERS_OF_FINGERPRINTS)
def test_a_folder_of_fingerprints_is_read_as_its_files_would_be(
    tmp_path: Path, files: Any, options: Any, values: Any
) -> None:
    folder = write(tmp_path / "in", **files)
    reader = read([folder], **options)
    batches = list(reader)
    assert [int(value) for batch in batches for value in batch.fingerprints] == values
    assert [int(value) for batch in batches if batch.ids is not None for value in batch.ids] == list(range(len(values)))
    assert (reader.seen.files, reader.seen.rows) == (len(files), len(values))
    assert reader.recipe is None
    assert reader.total_bytes == sum(map(len, files.values()))


REFUSED: dict[str, tuple[dict[str, bytes], str]] = {
    "only unknown suffixes": (
        {"a__md": b"one", "b": b"two"},
        r"in: found 2 files of a suffix that no format has, such as .*a\.md; expected one format .*--format text",
    ),
    "an unknown one beside data": (
        {"a__npy": npy(5), "README__md": b"one"},
        r"in: found 1 file of a suffix that no format has, such as .*README\.md, beside .*npy\); expected files",
    ),
    "texts beside fingerprints": ({"a__npy": npy(5), "b__txt": b"one"}, r"b\.txt: found texts .*a\.npy \(format npy\)"),
    "texts beside a table": ({"a__csv": b"0x5\n", "b__txt": b"one"}, r"b\.txt: found texts .* or text_column"),
}


@pytest.mark.parametrize(("files", "message"), REFUSED.values(), ids=REFUSED)
def test_a_folder_that_cannot_be_meant_in_one_way_is_refused(tmp_path: Path, files: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read([write(tmp_path / "in", **files)])
    assert not isinstance(caught.value, BadInput)


@pytest.mark.parametrize("format", sorted(set(FORMATS) - {"auto", "text", "html", *DIALECTS}))
@pytest.mark.parametrize("named", [True, False])
def test_data_is_never_read_as_a_text(tmp_path: Path, format: str, named: bool) -> None:
    data = {
        "npy": npy(5),
        "u64": (5).to_bytes(8, "little"),
        "parquet": parquet(h=[5]),
        "warc": gzip.compress(b"WARC/1.0"),
        "hex": gzip.compress(gzip.compress(b"0x5")),
        "jsonl": b"PK\x03\x04zip",
        "json": b"%PDF-1.4",
    }[format]
    folder = write(tmp_path / "in", a=b"one", b=data)
    if data.startswith(b"\x1f\x8b") and format == "warc":
        (folder / "b").write_bytes(gzip.compress(data))
    sources = [folder / "b"] if named else [folder]
    with pytest.raises(BadInput, match=r"/b: found .*, expected a text in UTF-8, or with a byte order mark"):
        texts_of(*sources, format="text")
    found = documents(sources, format="text", skip_bad=True, is_part=True)
    assert [text for _, text in found] == ([] if named else ["one"])
    assert found.skipped == {"file without text": 1}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("é one".encode(), "é one"),
        ("\ufeffé one".encode(), "é one"),
        ("\ufeffé one".encode("utf-16-le"), "é one"),
        ("\ufeffé one".encode("utf-16-be"), "é one"),
        ("\ufeffé one".encode("utf-32-le"), "é one"),
        ("\ufeffé one".encode("utf-32-be"), "é one"),
        (b"", ""),
        (b"\xef\xbb\xbf", ""),
        (b"tab\tand\x0bmore\x1b[0m\r\n", "tab\tand\x0bmore\x1b[0m\r\n"),
    ],
)
def test_a_text_is_decoded_by_its_mark(tmp_path: Path, data: bytes, text: str) -> None:
    write(tmp_path, a__txt=data)
    assert texts_of(tmp_path / "a.txt") == [text]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"caf\xe9", r"bytes that are no UTF-8 \(at offset 3\)"),
        (b"one\0two", r"a NUL character \(at character 3\)"),
        ("one".encode("utf-16-le"), "a NUL character"),
        ("日本".encode("utf-16-be"), "bytes that are no UTF-8"),
        (b"\xff\xfeo", "bytes that are no UTF-16"),
        (b"\xff\xfe\0\0o", "bytes that are no UTF-32"),
        (b"\xef\xbb\xbf\xff", "bytes that are no UTF-8"),
        (b"PAR1", "Parquet data"),
        (b"SQLite format 3", "SQLite data"),
    ],
)
def test_what_is_no_text_is_refused_or_counted(tmp_path: Path, data: bytes, found: str) -> None:
    write(tmp_path, a__txt=data, b__txt=b"good")
    with pytest.raises(BadInput, match=rf"a\.txt: found {found}.*, expected a text in UTF-8"):
        texts_of(tmp_path / "a.txt")
    assert texts_of(tmp_path, skip_bad=True) == ["good"]


def test_unlike_texts_in_utf_16_stay_unlike(tmp_path: Path) -> None:
    """Decoded with replacement characters, Greek in UTF-16 has no letter left, and all of it one fingerprint."""
    texts = ["".join(chr(ord("α") + int(digit)) for digit in str(1000 + number * 37)) for number in range(41)]
    write(tmp_path / "marked", **{f"{number}__txt": text.encode("utf-16") for number, text in enumerate(texts)})
    assert len({fingerprint(text.encode("utf-16").decode(errors="replace")) for text in texts}) == 1
    assert sorted(fingerprints_of(tmp_path / "marked")) == sorted(map(fingerprint, texts))
    assert len(set(map(fingerprint, texts))) == 41
    write(tmp_path / "bare", **{f"{number}__txt": text.encode("utf-16-le") for number, text in enumerate(texts)})
    with pytest.raises(BadInput, match=r"0\.txt: found .*, expected a text in UTF-8"):
        texts_of(tmp_path / "bare")
    assert texts_of(tmp_path / "bare", skip_bad=True, is_part=True) == []


def test_what_is_passed_over_in_a_folder_is_counted(tmp_path: Path) -> None:
    write(tmp_path, a__txt=b"one", _SUCCESS=b"", __a=b"", __b=b"", __c___d=b"", e___f__txt=b"two")
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "pipe")
    found = documents([tmp_path])
    assert found.skipped == {}
    assert [text for _, text in found] == ["one", "two"]
    assert found.skipped == {
        "hidden file": 2,
        "hidden folder": 1,
        "marker of Spark": 1,
        "link": 1,
        "special file": 1,
    }
    assert told(found.skipped) == "2 hidden files, 1 hidden folder, 1 marker of Spark, 1 link, 1 special file"


def test_counts_are_said_with_the_noun_in_the_plural() -> None:
    counts = {"record of another kind": 2, "line over the limit": 2, "file without text": 3, "bad line": 1}
    assert told(counts) == "2 records of another kind, 2 lines over the limit, 3 files without text, 1 bad line"


def test_a_message_holds_no_more_than_a_part_of_what_it_is_about() -> None:
    assert len(str(Bad("x" * 3_000_000))) <= 10_001
    assert cut("x" * 200) == "x" * 200
    assert len(cut("x" * 3_000_000)) == 201


@pytest.mark.parametrize("pattern", ["in/part-*.jsonl", "in/**/*.jsonl", "in/part-[01].jsonl", "in/part-?.jsonl"])
def test_a_pattern_stands_for_what_it_matches(tmp_path: Path, pattern: str) -> None:
    folder = write(tmp_path / "in", **{"part-0__jsonl": jsonl(TEXTS[:1]), "part-1__jsonl": jsonl(TEXTS[1:])})
    (folder / "README").write_bytes(b"x")
    assert texts_of(tmp_path / pattern) == TEXTS
    assert format_of(tmp_path / pattern) == "jsonl"


def test_a_pattern_that_nothing_matches_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file matches this pattern") as caught:
        read([tmp_path / "*.csv"])
    assert caught.value.filename == str(tmp_path / "*.csv")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    write(tmp_path, **{"a[1]__txt": b"one", "a1__txt": b"two"})
    assert texts_of(tmp_path / "a[1].txt") == ["one"]


def test_the_format_of_a_folder_is_that_of_all_its_files(tmp_path: Path) -> None:
    write(tmp_path, a___x__csv=b"", b___x__csv__gz=b"", b___y__npy=b"")
    assert format_of(tmp_path / "a") == "csv"
    with pytest.raises(ValueError, match=r"b: found files of formats csv, npy, expected one format for all"):
        format_of(tmp_path / "b")
    (tmp_path / "c").mkdir()
    with pytest.raises(ValueError, match=r"c: found files of formats none, expected one format for all"):
        format_of(tmp_path / "c")


def test_nothing_is_read_of_an_empty_input_and_it_can_be_told(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path, a__csv=b"", b__jsonl=b"\n\n", c__hex=b"")
    for sources, files in (([tmp_path / "in"], 0), ([tmp_path / "a.csv", tmp_path / "c.hex"], 2), ([], 0)):
        reader = read(sources)
        assert list(reader) == []
        assert (reader.seen.files, reader.seen.rows) == (files, 0)
    found = documents([tmp_path / "b.jsonl"])
    assert list(found) == []
    assert (found.seen.files, found.seen.rows) == (1, 0)


def test_a_column_of_texts_is_for_what_has_columns(tmp_path: Path) -> None:
    write(tmp_path, a__csv=b"id,body\n1,one\n", b__html=b"<p>two", c___d__txt=b"three", e__hex=b"0x5\n")
    names = [tmp_path / name for name in ("a.csv", "b.html", "c")]
    assert texts_of(*names, text_column="body") == ["one", "two", "three"]
    with pytest.raises(ValueError, match=r"found fingerprints in .*a\.csv|and fingerprints in .*a\.csv"):
        read(names)
    # Where nothing has columns, it would do nothing.
    with pytest.raises(ValueError, match=r"b\.html: found column 'body', expected none for format html"):
        read([tmp_path / "b.html"], text_column="body")
    with pytest.raises(ValueError, match=r"e\.hex: found column 'body', expected none for format hex"):
        read([tmp_path / "a.csv", tmp_path / "e.hex"], text_column="body")


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
def test_every_name_of_standard_input_is_standard_input(name: str) -> None:
    assert expand([name]) == ["-"]
    assert is_stream(name)
    with pytest.raises(ValueError, match="standard input: found no suffix to tell its format, expected one of"):
        read([name])
    with pytest.raises(ValueError, match="standard input: found it more than once"):
        read([name, "-"], format="hex")


@pytest.mark.slow
def test_a_pipe_of_the_shell_is_read_as_a_stream(tmp_path: Path) -> None:
    script = (
        "import sys, fpstore.inputs as inputs;"
        "print([text for _, text in inputs.documents(sys.argv[1:], format='jsonl')])"
    )
    command = f'exec {sys.executable} -c "{script}" <(cat {tmp_path}/a.jsonl) /dev/stdin < {tmp_path}/b.jsonl'
    write(tmp_path, a__jsonl=jsonl(TEXTS[:1]), b__jsonl=jsonl(TEXTS[1:]))
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (run.stderr, run.stdout) == ("", f"{TEXTS}\n")


def test_a_named_pipe_has_no_size_and_is_no_plain_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    feeder = threading.Thread(target=lambda: (tmp_path / "a.jsonl").write_bytes(jsonl(TEXTS)))
    found = documents([tmp_path / "a.jsonl"])
    assert found.total_bytes is None
    feeder.start()
    assert [text for _, text in found] == TEXTS
    feeder.join()
    os.mkfifo(tmp_path / "b")
    with pytest.raises(ValueError, match=r"/b: found no suffix to tell its format, expected one of npy, u64,"):
        read([tmp_path / "b"])
    os.mkfifo(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="found a stream, expected a plain file for format parquet"):
        read([tmp_path / "a.parquet"])


ODD = os.fsdecode(b"caf\xe9")
NAMED: dict[str, tuple[bytes, dict[str, Any]]] = {
    "txt": (b"one", {}),
    "html": (b"<p>one", {}),
    "jsonl": (b'{"text": "one"}', {}),
    "json": (b'[{"text": "one"}]', {}),
    "csv": (b"text\none\n", {"text_column": "text"}),
    "txt.gz": (gzip.compress(b"one"), {}),
    "parquet": (parquet(text=["one"]), {"text_column": "text"}),
}


@pytest.mark.parametrize("suffix", NAMED)
def test_names_that_are_no_utf_8_are_read(tmp_path: Path, suffix: str) -> None:
    data, options = NAMED[suffix]
    folder = tmp_path / ODD
    folder.mkdir()
    path = folder / f"{ODD}.{suffix}"
    path.write_bytes(data)
    for source in (path, folder, tmp_path / "*" / f"*.{suffix}"):
        assert texts_of(source, **options) == ["one"]
        assert next(documents([source], **options))[0].startswith(str(path))


@pytest.mark.slow
def test_a_deep_folder_is_walked(tmp_path: Path) -> None:
    before = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1200):  # deeper than calls may nest
            os.mkdir("d")
            os.chdir("d")
        Path("a.txt").write_bytes(b"one")
        os.chdir(tmp_path)
        assert texts_of("d") == ["one"]
    finally:
        os.chdir(before)
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


@pytest.mark.parametrize("format", ["auto", "text", "hex"])
def test_a_store_among_the_sources_is_refused_as_a_store(tmp_path: Path, format: str) -> None:
    folder = tmp_path / "crawl" / "deep"
    folder.mkdir(parents=True)
    (tmp_path / "crawl" / "a.txt").write_text("a text")
    fpstore.build(folder / "s.fpstore", [1, 2]).close()
    for named in (folder / "s.fpstore", folder, tmp_path / "crawl"):
        with pytest.raises(ValueError, match=r"s\.fpstore: found a store, expected files: fpstore export"):
            inputs_of([named], format)
    fpstore.create(folder / "empty.fpstore").close()
    with pytest.raises(ValueError, match=r"empty\.fpstore: found a store, expected files"):
        inputs_of([folder / "empty.fpstore"], format)
    own = tmp_path / "own"
    own.mkdir()
    (own / "catalog.mdb").write_text("of another program")
    assert inputs_of([own], "text")[0].total_bytes == len("of another program")


@pytest.mark.parametrize(
    "names",
    [
        ["d/a.hex", "d/a.hex"],
        ["d/a.hex", "d/../d/a.hex"],
        ["d/a.hex", "link.hex"],
        ["d", "d"],
        ["d", "d/a.hex"],
        ["d/a.hex", "d"],
        ["d/sub", "d"],
        ["d", "d/sub/b.hex"],
        ["d/*.hex", "d/a.hex"],
    ],
)
def test_a_file_that_would_be_read_twice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d/sub").mkdir(parents=True)
    for name in ("d/a.hex", "d/sub/b.hex", "d/.hidden.hex", "e.hex"):
        (tmp_path / name).write_text("00000000000000ff\n")
    (tmp_path / "link.hex").symlink_to("d/a.hex")
    with pytest.raises(ValueError, match=r"found it (twice )?among the sources,.* expected it once$"):
        read(names)
    assert len(next(read(["d", "e.hex", "d/.hidden.hex"])).fingerprints) == 4


@pytest.mark.parametrize(
    ("head", "advice"),
    [
        (b"import os\n", r"\(--format text: each is a text\)"),
        (b'{"text": "a"}\n', r"\(--format jsonl: as a\.dat looks\)"),
        (b"PAR1....", r"\(--format parquet: "),
        (b"\x93NUMPY\1\0", r"\(--format npy: "),
        (b"WARC/1.0\r\n", r"\(--format warc: "),
        (b"<html>", r"\(--format html: "),
        (b"\0\1\2\3", r"expected files of one kind; a pattern names some of them, such as '.*/d/\*\*/\*\.jsonl'"),
        (gzip.compress(b'{"text": "a"}\n', mtime=0), r"\(--format jsonl: "),
        (gzip.compress(b"damaged" * 99, mtime=0)[:20], "expected files of one kind"),
    ],
)
def test_the_advice_about_a_folder_names_what_would_read_it(tmp_path: Path, head: bytes, advice: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.dat").write_bytes(head)
    with pytest.raises(ValueError, match=advice):
        read([tmp_path / "d"])
    np.save(tmp_path / "d/b.npy", np.zeros(1, dtype=np.uint64))
    if b"NUMPY" not in head:
        with pytest.raises(ValueError, match=r"such as '.*/d/\*\*/\*\.npy'$"):
            read([tmp_path / "d"])


@pytest.mark.parametrize("name", ["b.hex.gz", "b.HEX.GZ"])
def test_the_pattern_that_is_advised_reads_what_is_packed(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.md").write_text("one")
    (tmp_path / name).write_bytes(gzip.compress(b"0x5\n"))
    with pytest.raises(ValueError, match="a pattern names some of them, such as ") as caught:
        read([tmp_path])
    pattern = str(caught.value).rpartition("such as ")[2].strip("'")
    assert [list(batch.fingerprints) for batch in read([pattern])] == [[5]]


def test_a_folder_is_gone_through_once_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data in (("a.txt", b"12"), ("b.html", b"345"), ("c.txt", b"6")):
        (tmp_path / name).write_bytes(data)
    walked: list[str] = []

    def seen(folder: str) -> Iterator[str]:
        walked.append(folder)
        return walk(folder)

    monkeypatch.setattr(sources_module, "walk", seen)
    (found,) = inputs_of([tmp_path], "auto")
    assert (found.total_bytes, list(found.kinds)) == (6, ["text", "html"])
    assert walked == [str(tmp_path)]
    (found,) = inputs_of([tmp_path], "text")
    assert (found.total_bytes, found.kinds) == (6, {"text": str(tmp_path / "a.txt")})
    assert len(walked) == 2
    with closing(documents([tmp_path])) as every:
        assert every.formats == {"text", "html"}
