"""The quality bench counts right: precision and recall of a recipe whose fingerprints are known."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

TOOL = Path(__file__).parent.parent / "tools" / "bench_quality.py"
ROWS = {
    "a": {"text": "one two three"},
    "b": {"text": "one  two three"},
    "c": {"text": "four five six"},
    "d": {"text": "seven eight nine"},
}


def write_set(folder: Path, name: str, pairs: list[str]) -> None:
    documents = "".join(json.dumps({"id": name, **row}) + "\n" for name, row in ROWS.items())
    listed = "\n".join(["id1\tid2\tlabel\tscore\trelation", *pairs]) + "\n"
    for suffix, text in (("jsonl", documents), ("pairs.tsv", listed)):
        (folder / f"{name}.{suffix}.zst").write_bytes(zstandard.compress(text.encode()))


def rows_of(folder: Path, *options: str, title: str = "every k") -> list[dict[str, Any]]:
    command = [sys.executable, TOOL, folder, "--recipes", "exact", "--json", *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return next(table["rows"] for table in json.loads(done.stdout)["tables"] if title in table["title"])


def test_pairs_are_counted_by_their_labels(tmp_path: Path) -> None:
    write_set(tmp_path, "some", ["a\tb\t1\t\tx", "a\tc\t1\t\tx", "c\td\t0\t\tx", "b\td\t-1\t\tx"])
    row = rows_of(tmp_path)[0]
    assert (row["k"], row["right"], row["wrong"], row["in between"]) == (0, 1, 0, 0)
    assert (row["precision"], row["recall"], row["F1"]) == (1, 0.5, pytest.approx(2 / 3))


def test_every_other_pair_of_a_complete_list_is_wrong(tmp_path: Path) -> None:
    write_set(tmp_path, "all", ["c\td\t1\t\tx"])
    row = rows_of(tmp_path)[0]
    assert (row["right"], row["wrong"]) == (0, 1)  # a and b
    assert (row["precision"], row["recall"]) == (0, 0)


@pytest.mark.slow
def test_what_is_found_without_labels_is_judged_by_the_texts(tmp_path: Path) -> None:
    write_set(tmp_path, "some", ["a\tb\t1\t\tx"])
    (row,) = rows_of(tmp_path, "--judge", "some", title="all pairs within")
    assert (row["pairs"], row["judged"], row["Jaccard >= 0.8"], row["less"]) == (1, 1, 1, 0)


@pytest.mark.slow
def test_what_a_job_would_drop_is_judged_and_pairs_are_parted_by_length(tmp_path: Path) -> None:
    write_set(tmp_path, "some", ["a\tb\t1\t\tx", "c\td\t0\t\tx"])
    row, _ = rows_of(tmp_path, "--dropped", "some", "--accept", "--sets", "", title="what a job drops")
    assert (row["documents"], row["dropped"], row["below 0.5"], row["confirmed"]) == (4, 1, 0, 1)
    rows = rows_of(tmp_path, "--lengths", title="by length")
    assert [row["pairs"] for row in rows] == [1, 0, 0, 0, 0, 0]
    assert (rows[0]["words"], rows[0]["recall"]) == ("1 to 24", 1)


@pytest.mark.slow
def test_the_default_is_held_to_what_jobs_find_that_confirm(tmp_path: Path) -> None:
    # One word of sixty is another: near, and alike. Fourteen are missing: near by chance (at distance 3, for a Jaccard
    # of 45 in 59), but not confirmed.
    words = [f"item{number}" for number in range(60)]
    texts = [" ".join(words), " ".join([*words[:-1], "other"]), " ".join(words[:46]), "quite another text"]
    documents = "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in zip("abcd", texts, strict=True))
    listed = "id1\tid2\tlabel\tscore\trelation\na\tb\t1\t\tx\na\tc\t0\t\tx\na\td\t0\t\tx\n"
    for suffix, text in (("jsonl", documents), ("pairs.tsv", listed)):
        (tmp_path / f"some.{suffix}.zst").write_bytes(zstandard.compress(text.encode()))
    command = [sys.executable, TOOL, tmp_path, "--recipes", "text-1,web-en", "--accept", "--json", "--weak", "some"]
    command += ["--dropped", "some"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    told = json.loads(done.stdout)
    rows = [row for table in told["tables"] for row in table["rows"] if row.get("recipe") == "  jaccard>=0.82"]
    assert [(row["k"], row["right"], row["wrong"]) for row in rows] == [(3, 1, 0), (6, 1, 0)]
    every = next(table["rows"] for table in told["tables"] if "every k" in table["title"])
    assert [(row["right"], row["wrong"]) for row in every if row["recipe"] == "text-1" and row["k"] == 3] == [(1, 1)]
    bars = [bar["what"] for bar in told["bars"]]
    for way in ("k = 6, confirmed by jaccard>=0.82", "k = 3, confirmed by jaccard>=0.82", "k = 3, not confirmed"):
        assert f"some: recall of text-1 less that of web-en, {way}" in bars
    assert "some: of 1 that a job drops by default (k = 6, jaccard>=0.82) below a Jaccard of 0.5" in bars
    assert not [bar for bar in bars if "drops at k" in bar]
    (weak,) = [
        row for table in told["tables"] for row in table["rows"] if row.get("recipe") == "text-1" and "few" in row
    ]
    assert (weak["documents"], weak["few"], weak["unseen"], weak["short"]) == (4, 0, 0, 0.25)


@pytest.mark.slow
def test_labels_of_people_are_named_and_messages_of_languages_measured(tmp_path: Path) -> None:
    write_set(tmp_path, "some", ["a\tb\t1\t\thuman_likeness", "c\td\t0\t\thuman_likeness"])
    assert rows_of(tmp_path, title="by people")
    write_set(tmp_path, "some", ["a\tb\t1\t\tx", "c\td\t0\t\thuman_likeness"])
    assert rows_of(tmp_path, title="by Jaccard")
    folder = tmp_path / "package" / "locale" / "en" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    lines = "".join(f'msgid "message number {number} of all"\nmsgstr ""\n' for number in range(300))
    (folder / "some.po").write_text(lines)
    (row,) = rows_of(tmp_path, "--messages", str(tmp_path / "package"), title="languages")
    assert (row["language"], row["messages"], row["pairs"]) == ("en", 300, 44_850)
    assert (row["unrelated within 10"], row["recall at 10"]) == (0, 0)


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="an optional package draws it")
    write_set(tmp_path, "some", ["a\tb\t1\t\tx", "c\td\t0\t\tx"])
    rows_of(tmp_path, "--png", str(tmp_path / "p.png"), "--histograms")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
