"""The benchmarks say what they promise and check their answers; how fast anything is, no test asks."""

import ast
import json
import math
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import arguments
import bench_model
import bench_pairs
import bench_probe
import bench_scale
import benchlib as common
import check_size
from helpers import brute_force, fingerprint_array

TOOLS = Path(__file__).parent.parent / "tools"
PLANS = ["size", "balanced", "speed"]
VERDICTS = {"ok", "missed", "small"}
SECONDS = 300


def run_tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, TOOLS / f"{name}.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def result_of(name: str, *arguments: object) -> dict[str, Any]:
    """What a tool says as JSON at a size for tests; its answers were right."""
    done = run_tool(name, "--small", "--json", "--n", 20_000, *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["tool"] == name
    assert found["differences"] == []
    assert found["machine"]["cores"]
    assert {bar["verdict"] for bar in found["bars"]} <= {"small"}
    return found


def titles(found: dict[str, Any]) -> list[str]:
    return [table["title"] for table in found["tables"]]


def rows_of(found: dict[str, Any], part: str) -> list[dict[str, Any]]:
    return [row for table in found["tables"] if part in table["title"] for row in table["rows"]]


# What is asked.


BAD: dict[str, tuple[Callable[[str], Any], list[str]]] = {
    "whole": (arguments.parse_whole, ["-1", "1.5", "inf", "nan", "1e400", "x", ""]),
    "count": (arguments.parse_count, ["0", "-1", "1.5", "inf", "-inf", "nan", "1e400", "x", ""]),
    "seconds": (arguments.parse_seconds, ["0", "-1", "inf", "nan", "x", ""]),
    "list": (arguments.parse_list, ["", ",", "a,", ",a", "a,,b"]),
    "counts": (arguments.parse_counts, ["", "0", "1,0", "1,x", "1e400"]),
    "wholes": (arguments.parse_wholes, ["", "-1", "1,x"]),
    "folder": (arguments.parse_folder, ["nowhere", __file__, ""]),
    "file": (arguments.parse_file, ["nowhere", str(TOOLS), ""]),
    "any": (arguments.parse_any, [",", "a,", "a,,b"]),
    "names": (arguments.names_among(("u", "c")), ["x", "u,x", "u,", "U", ""]),
    "wholes among": (arguments.wholes_among([64, 256]), ["", "65", "64,x", "64,128"]),
    "wholes of a range": (arguments.wholes_among(range(65)), ["65", "3,65"]),
    "apart": (arguments.parse_apart, ["", "x", "65", "-1", "far,x", "3,"]),
    "cases": (arguments.parse_cases, ["", "64", "64:", ":3", "64:x", "100:3", "64:65", "64:3,65:3", "64:3:1"]),
    "recipes": (arguments.parse_recipes, ["", "text-1,nowhere"]),
    "two counts": (arguments.parse_two_counts, ["", "1", "1,1", "2,1", "1,2,3", "0,1", "1,x"]),
    "recipe": (arguments.parse_recipe, ["nowhere", "", str(TOOLS), __file__]),
    "confirm": (arguments.parse_confirm, ["", "x", "jaccard", "jaccard>=2", "jaccard>=x", "None"]),
    "sizes": (
        arguments.parse_living_sizes,
        ["x", "x=1", "growth", "growth=", "growth=-1", "growth=x", "growth=1,", "small_rows=0", "names_growth=1"],
    ),
    "plans": (arguments.parse_plans, ["x", "speed,x", "paper-0", "parts-0:0", ""]),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_wrong_value_is_a_line_and_status_2(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    parse, wrong = BAD[kind]
    parser = ArgumentParser(prog="tool")
    parser.add_argument("--asked", type=parse)
    for text in wrong:
        with pytest.raises(SystemExit) as ended:
            parser.parse_args([f"--asked={text}"])
        assert ended.value.code == 2
        assert re.search(r"error: argument --asked: .*found .*, expected ", capsys.readouterr().err), text


def test_a_right_value_is_taken() -> None:
    taken: list[tuple[Callable[[str], Any], str, object]] = [
        (arguments.parse_whole, "0", 0),
        (arguments.parse_count, "1e7", 10**7),
        (arguments.parse_count, str((1 << 64) - 1), (1 << 64) - 1),
        (arguments.parse_seconds, "0.5", 0.5),
        (arguments.parse_wholes, "0,3", [0, 3]),
        (arguments.wholes_among([64, 256]), "256,64", [256, 64]),
        (arguments.parse_apart, "0,64,far", ["0", "64", "far"]),
        (arguments.parse_cases, "64:3,256:31", ["64:3", "256:31"]),
        (arguments.parse_recipes, "text-1,words-4", ["text-1", "words-4"]),
        (arguments.parse_folder, str(TOOLS), TOOLS),
        (arguments.names_among(("u", "c")), "c,u", ["c", "u"]),
        (arguments.parse_any, "", []),
        (arguments.parse_any, "c,u", ["c", "u"]),
        (arguments.parse_two_counts, "1e7,1e8", [10**7, 10**8]),
        (arguments.parse_recipe, "text-1", "text-1"),
        (arguments.parse_confirm, "none", "none"),
        (arguments.parse_confirm, "jaccard>=0.5", "jaccard>=0.5"),
        (arguments.parse_living_sizes, "", {}),
        (arguments.parse_living_sizes, "small_segments=4,growth=0", {"small_segments": 4, "growth": 0}),
        (arguments.parse_plans, "speed,paper-4", ["speed", "paper-4"]),
    ]
    for parse, text, expected in taken:
        assert parse(text) == expected


def test_a_set_that_is_not_there_is_a_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "here.jsonl.zst").touch()
    arguments.expect_sets(ArgumentParser(prog="tool"), tmp_path, ["here"])
    with pytest.raises(SystemExit) as ended:
        arguments.expect_sets(ArgumentParser(prog="tool"), tmp_path, ["here", "gone"])
    assert ended.value.code == 2
    assert f"error: found no gone.jsonl.zst in {tmp_path}, expected" in capsys.readouterr().err


# What takes any text: a name of somebody else's, a part of one, sets that are looked for when all is parsed, and what a
# tool gives to itself alone.
ANY_TEXT = {
    "bench_jobs --text-column",
    "check_mutants -k",
    "check_defaults names",
    "check_readers --task",
    "check_damage --kind",
    "check_damage --mode",
}


def test_every_tool_says_what_is_wrong_with_each_of_its_values() -> None:
    """No value is parsed by what raises something else, or takes what the tool fails on later."""
    own = {name for name in vars(arguments) if name.startswith("parse_")} | {"names_among", "wholes_among"}
    # The first two raise ValueError alone; a Path is one of what is to be written, or may not be there.
    others = {"part": "check_crash", "parse_memory": "bench_minhash_store", "Path": "bench_quality fuzz make_unicode"}
    seen, untyped = 0, set[str]()
    for path in TOOLS.glob("*.py"):
        tree = ast.parse(source := path.read_text())
        loops = [loop for loop in ast.walk(tree) if isinstance(loop, ast.For)]
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                given = {keyword.arg: keyword.value for keyword in call.keywords}
                takes_none = isinstance(action := given.get("action"), ast.Constant) and action.value == "store_true"
                if not takes_none and given.keys().isdisjoint(("type", "choices")):
                    name = call.args[0]
                    if isinstance(name, ast.Name):  # the innermost of the loops around it has the names
                        within = [loop.iter for loop in loops if call in ast.walk(loop)]
                        untyped |= {f"{path.stem} {each}" for each in ast.literal_eval(within[-1])}
                    else:
                        untyped.add(f"{path.stem} {ast.literal_eval(name)}")
                for keyword in call.keywords:
                    if keyword.arg == "type":
                        value = keyword.value.func if isinstance(keyword.value, ast.Call) else keyword.value
                        assert isinstance(value, ast.Name), f"{path.name}:{call.lineno}"
                        # Who takes any names knows more when all is parsed, and says so at once.
                        assert value.id not in ("parse_list", "parse_any") or "expect_sets" in source, path.name
                        known = value.id in own or path.stem in others.get(value.id, "").split()
                        assert known, f"{path.name}:{call.lineno}: {value.id}"
                        seen += 1
    assert seen > 100
    assert untyped == ANY_TEXT


# Each tool, small.


@pytest.mark.slow
def test_bench_codec_gives_rates_and_bits_of_every_codec_on_both_sets() -> None:
    found = result_of("bench_codec")
    for kind in ("uniform", "clustered"):
        rates, bits = (rows_of(found, f"{kind} ")[start : start + 4] for start in (0, 4))
        assert [row["codec"] for row in rates] == [row["codec"] for row in bits] == ["gap", "xor", "rice", "raw"]
        assert all(row["decode M keys/s"] > 0 and row["one stream"] > 0 for row in rates)
        assert bits[3]["bits per key"] == 64
    assert [bar["what"].split(": ")[1] for bar in found["bars"]] == 2 * ["decode over scan", "decode over one stream"]


@pytest.mark.slow
def test_bench_plans_holds_every_choice_that_an_aim_picks_against_its_store() -> None:
    found = result_of("bench_plans", "--cases", "64:3,128:9", "--picked")
    narrow, wide = rows_of(found, "64 bits, k = 3"), rows_of(found, "128 bits, k = 9")
    assert {row["layout"] for row in narrow} == {"slots", "blocks"}
    for layout, rows in (("slots", narrow), ("blocks", narrow), ("slots", wide)):
        own = [row for row in rows if row["layout"] == layout]
        assert {aim for row in own for aim in row["picked by"].split(", ")} == set(PLANS)
        assert all(row["bytes"] == pytest.approx(row["said"], rel=0.1) for row in own)
    assert len(found["bars"]) == 2 * (len(narrow) + len(wide))


@pytest.mark.slow
def test_bench_batches_holds_what_is_picked_against_every_way() -> None:
    found = result_of("bench_batches", "--cases", "3", "--aims", "size,balanced")
    for title in ("k = 3, size, uniform", "k = 3, size, clustered", "k = 3, balanced, uniform"):
        rows = rows_of(found, title)
        assert {row["of"] for row in rows} == {"uniform", "near", "clustered"}
        for row in rows:
            figures = {way: row[f"{way} ns"] for way in ("probe", "stream", "scan")}
            assert row["of best"] == pytest.approx(figures[row["picked"]] / min(figures.values()))
            assert row["ms"] == pytest.approx(min(figures.values()) * row["queries"] / 1e6)
    assert len(found["bars"]) == 4


@pytest.mark.slow
def test_bench_serve_times_lines_and_requests() -> None:
    found = result_of("bench_serve")
    (lines,) = (table["rows"] for table in found["tables"] if "a line of a coprocess" in table["title"])
    assert [row["what"] for row in lines] == ["probe a line", "add a line", "a synced write"]
    (requests,) = (table["rows"] for table in found["tables"] if "requests over 16 connections" in table["title"])
    assert all(row["times"] > 0 and row["p50 ms"] <= row["p99 ms"] <= row["most ms"] for row in lines + requests)
    assert [bar["at_most"] for bar in found["bars"]] == [1.0, 1.0]


@pytest.mark.slow
def test_bench_probe_gives_every_plan_on_both_sets_and_the_planner_beside_them() -> None:
    found = result_of("bench_probe", "--queries", 200, "--larger", 40_000)
    for kind in ("uniform", "clustered"):
        (rates,) = (
            table["rows"] for table in found["tables"] if f"{kind} " in table["title"] and "a query" in table["title"]
        )
        assert [row["plan"].split()[0] for row in rates] == PLANS
        assert all(row["single in C us"] > 0 and row["batch us"] > 0 and row["touched us"] > 0 for row in rates)
    calls = [row["call"] for row in rows_of(found, "single calls from Python")]
    assert calls[:3] == [f"probe, plan {plan}" for plan in PLANS]
    said = [row for row in rows_of(found, "predictions") if row["plan"] == "balanced"]
    assert all(row["bytes predicted"] > 0 and row["block decodes predicted"] > 0 for row in said)
    assert any("predicted bytes" in bar["what"] for bar in found["bars"])
    larger = rows_of(found, "of more keys")
    assert [row["plan"] for row in larger] == ["size", "balanced"]
    assert all(row["40,000 keys, us"] > 0 and row["ratio"] > 0 for row in larger)


@pytest.mark.slow
def test_bench_call_gives_each_call_beside_its_time_in_c() -> None:
    found = result_of("bench_call", "--queries", 400, "--rounds", 1, "--plans", "speed,size")
    calls = rows_of(found, "single calls")
    kinds = ["probe", "contains_near", "probe with ids and a hit"]
    assert [row["call"] for row in calls] == [f"{kind}, plan {plan}" for plan in ("speed", "size") for kind in kinds]
    assert all(row["in C us"] > 0 and row["from Python us"] > 0 and row["Python / C"] > 0 for row in calls)
    assert [row["call"] for row in rows_of(found, "segments of")][-1] == "each segment more, from Python"
    assert all(row["p50 us"] > 0 for row in rows_of(found, "a row at a time"))
    assert [row["call"] for row in rows_of(found, "one durable row")] == ["a bare commit", "add", "add_if_new"]
    assert {"each segment more", "add_if_new of one"} <= {bar["what"] for bar in found["bars"]}


@pytest.mark.slow
def test_bench_reader_gives_probes_after_a_commit_beside_a_writer_and_at_opening() -> None:
    found = result_of("bench_reader")
    first, own, later = rows_of(found, "a reader after commits of 1,000 rows")
    assert (first["times"], own["times"], later["times"]) == (10, 10, 200)
    beside = [row for table in found["tables"] if "beside a writer" in table["title"] for row in table["rows"]]
    assert [row["writer"] for row in beside] == ["add_if_new", "add"]
    assert all(row["probes"] > 0 and row["rows/s"] > 0 and row["written bytes/row"] > 16 for row in beside)
    opened = rows_of(found, "opening a store in a new process")
    assert [row["rows added"] for row in opened] == [0, 3000, 10_000]
    assert [row["of them pending"] for row in opened] == [0, 3000, 10_000]
    assert len(found["bars"]) == 9


@pytest.mark.slow
def test_bench_recipes_gives_packages_and_recipes_beside_each_other() -> None:
    found = result_of("bench_recipes", "--rounds", 1)
    assert [row[""] for row in rows_of(found, "Chinese words")][:2] == ["rjieba", "recipe zh"]
    assert [row[""] for row in rows_of(found, "HTML to main text")] == ["resiliparse", "recipe web-en"]
    assert found["bars"] == []


def test_bench_probe_without_its_peers_says_so_and_measures_fpstore(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for peer in ("faiss", "simhash"):
        monkeypatch.setitem(sys.modules, peer, None)
    arguments = ["bench_probe", "--small", "--json", "--n", "2000", "--queries", "60", "--sets", "u", "--plans", "size"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert bench_probe.main() == 0
    captured = capsys.readouterr()
    assert "FAISS is not installed" in captured.err
    assert "simhash is not installed" in captured.err
    (row,) = json.loads(captured.out)["tables"][0]["rows"]
    assert row["R us"] is None
    assert row["batch us"] > 0


@pytest.mark.slow
def test_bench_build_gives_the_time_of_a_table_and_the_memory_of_a_whole_build() -> None:
    found = result_of("bench_build", "--plans", "size,speed", "--sets", "c")
    assert [row["plan"] for row in rows_of(found, "building in memory")] == ["size", "speed"]
    assert all(row["np.sort CPU s"] > 0 for row in rows_of(found, "building in memory"))
    assert all(row["sort_keys / np.sort"] > 0 for row in rows_of(found, "sorting, one thread"))
    whole = rows_of(found, "in its own process")
    assert [row["plan"] for row in whole] == ["size", "speed"]
    assert all(row["written/file"] >= 1 for row in whole)
    assert all(row["peak RSS MiB"] >= row["before the build MiB"] > 0 for row in whole)


@pytest.mark.slow
def test_bench_pairs_finds_as_many_pairs_under_every_plan() -> None:
    found = result_of("bench_pairs")
    assert [row["plan"].split()[0] for row in rows_of(found, "clustered")] == PLANS
    (count,) = {row["pairs"] for row in rows_of(found, "clustered")}
    assert count > 0
    assert all(row["numpy CPU s"] > 0 for row in rows_of(found, "clustered"))


@pytest.mark.slow
def test_bench_pairs_compares_several_segments_with_the_same_store_compacted_and_with_one_built_anew() -> None:
    found = result_of("bench_pairs", "--parts", "2", "--sets", "u", "--plans", "balanced")
    rows = rows_of(found, "uniform")
    assert [row["what"].split(",")[0] for row in rows] == ["pairs", "count_pairs"]
    for row in rows:
        several = row["several CPU s"]
        assert several > 0
        for over in ("compacted", "built"):
            assert row[f"/ {over}"] > 0
            assert row[f"{over} CPU s"] > 0
    assert len(found["bars"]) == 4


@pytest.mark.slow
def test_bench_text_gives_rates_of_words_and_of_shingles(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Each word of Größe " * 100)
    (tmp_path / "empty.txt").write_text("")
    for paths in ([], [tmp_path]):
        found = result_of("bench_text", *paths)
        for part in ("words:", "4-word shingles:"):
            rows = rows_of(found, part)
            assert [row[""] for row in rows][:2] == ["fpstore", "fpstore, two threads"]
            assert all(row["MB/s of a processor"] > 0 for row in rows)
    assert [bar["what"] for bar in found["bars"]] == [
        *(f"{what}, {threads}" for what in ("words", "4-word shingles") for threads in ("one thread", "two threads")),
        *(f"recipe {name}, these texts, one thread" for name in ("text-1", "multilingual")),
    ]


def test_bench_text_without_a_text_says_so(tmp_path: Path) -> None:
    done = run_tool("bench_text", "--small", tmp_path)
    assert done.returncode == 1
    assert "the inputs hold no text" in done.stderr


@pytest.mark.slow
def test_bench_ingest_adds_probes_and_merges() -> None:
    found = result_of("bench_ingest", "--singles", 10, "--merge-n", 5_000)
    (added,), (tested,) = rows_of(found, "add, 1,000"), rows_of(found, "add_if_new, 1,000 keys at a time, half")
    (sustained,) = rows_of(found, "a reader beside")
    assert sustained["probes beside"] >= 0
    assert sustained["keys"] > 0
    assert (added["keys"], tested["keys"], tested["stored"]) == (2_000, 400, 200)
    (single,) = rows_of(found, "of one key")
    assert single["calls"] == 10
    (probed,) = rows_of(found, "probe from Python")
    assert probed["pending"] == 2_000
    assert [row["rows"] for row in rows_of(found, "search of a count")] == [1, 100_000]
    assert [row["ids asked for"] for row in rows_of(found, "lookup")] == [1, 1_000, 20_000]
    (merged,) = rows_of(found, "merge of")
    assert merged["keys read"] == 10_000
    assert len(found["bars"]) == 8


@pytest.mark.slow
def test_keys_that_aim_at_public_plans_crowd_them_and_not_those_of_a_seed() -> None:
    result = result_of("check_adversarial", "--plans", "size,balanced,paper-20")
    found = {row["plan"]: row for row in rows_of(result, "agree")}
    for plan in ("flips-3:1,0,0", "paper-20"):
        assert found[plan]["with one prefix"] == 20_000
        assert found[f"{plan} shuffled"]["with one prefix"] < 5_000
    (judged,) = result["bars"]
    assert (judged["at_most"], judged["verdict"]) == (60, "small")
    assert judged["found"] == found["flips-2:1,1 shuffled"]["times that"] > 0
    assert len(rows_of(result, "arranged around one query")) == 1


@pytest.mark.slow
def test_bench_scale_builds_probes_and_verifies() -> None:
    found = result_of("bench_scale", "--memory", "64MiB", "--queries", 500)
    (build,) = rows_of(found, "build of")
    assert build["peak RSS MiB"] > 0
    (store,) = rows_of(found, "store")
    assert store["keys"] == 20_000
    (cold,) = rows_of(found, "cold")
    assert cold["probe p50 ms"] > 0
    assert [row["what"].split(",")[0] for row in rows_of(found, "batches")] == ["first batch", "verify", "batch"]
    whats = [bar["what"] for bar in found["bars"]]
    assert whats[1:4] == ["bytes per key", "open", "warm probe p50"]


@pytest.mark.slow
def test_bench_scale_leaves_the_store_where_it_is_told_and_uses_it_again(tmp_path: Path) -> None:
    arguments = ("--queries", 100, "--keep", "--dir", tmp_path)
    assert any("phases" in title for title in titles(result_of("bench_scale", *arguments)))
    assert (tmp_path / "scale.fpstore").is_dir()
    assert not any("phases" in title for title in titles(result_of("bench_scale", *arguments)))


@pytest.mark.slow
def test_bench_model_says_what_a_large_store_would_take() -> None:
    found = result_of("bench_model")
    assert [row["keys"] for row in rows_of(found, "2,000 queries")] == ["32,768", "65,536", "20,000"]
    assert [row["way"] for row in rows_of(found, "20,000 keys")] == ["looked up", "streamed"]
    whats = [(bar["what"], bar["verdict"]) for bar in found["bars"]]
    assert whats == [("looked up: off by", "small"), ("streamed: off by", "small"), ("8,000,000,000 keys", "small")]
    assert found["differences"] == []


def test_a_line_goes_through_both_figures() -> None:
    found = bench_model.line(math.log2, [4, 16], [1.0, 3.0])
    assert [found(n) for n in (4, 16, 64)] == [1.0, 3.0, 5.0]


def test_bench_scale_refuses_to_keep_a_store_in_a_folder_that_goes() -> None:
    done = run_tool("bench_scale", "--small", "--keep")
    assert done.returncode == 2
    assert "--keep needs --dir" in done.stderr


def test_bench_scale_refuses_more_keys_than_the_disk_takes() -> None:
    done = run_tool("bench_scale", "--n", "1e15")
    assert done.returncode == 1
    assert "bytes free, expected 28000000000000000" in done.stderr


@pytest.mark.slow
def test_check_size_compares_the_codecs_on_the_documents_it_is_given(tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"word{i} and word{i % 7} again"}) + "\n" for i in range(50)))
    hexes = tmp_path / "fingerprints.txt.old"
    hexes.write_text("".join(f"{i * 0x123456789ABCD:016x}\n" for i in range(1, 60)))
    found = result_of("check_size", texts, hexes)
    rows = rows_of(found, "each codec")
    assert [(row["set"], row["distinct keys"]) for row in rows[2:]] == [
        ("texts.jsonl, words-1", 50),
        ("texts.jsonl, words-4", 50),
        ("fingerprints.txt.old", 59),
    ]
    assert [row["plan"].split()[0] for row in rows_of(found, "without ids")] == PLANS


def test_check_size_fails_where_a_bar_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check_size", "--n", "20000", "--plans", "size"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(check_size, "MAX_OF_BOUND", {"size": 1.2})
    assert check_size.main() == 0
    monkeypatch.setattr(check_size, "MAX_OF_BOUND", {"size": 0.9})
    assert check_size.main() == 1
    assert "missed" in capsys.readouterr().out


@pytest.mark.slow
def test_a_table_for_people_is_on_standard_output_unless_json_is_asked_for() -> None:
    plain = run_tool("bench_codec", "--small", "--n", 2_000, "--sets", "u")
    assert "decode M keys/s" in plain.stdout
    assert plain.stderr == ""
    as_json = run_tool("bench_codec", "--small", "--n", 2_000, "--sets", "u", "--json")
    assert "decode M keys/s" in as_json.stderr
    assert json.loads(as_json.stdout)["arguments"]["n"] == 2_000


# What they share.


@pytest.mark.parametrize("kind", ["u", "c"])
def test_a_set_is_the_same_each_time_and_holds_each_key_once(kind: str) -> None:
    keys = common.make_set(kind, 5_000)
    assert np.array_equal(keys, common.make_set(kind, 5_000))
    assert len(set(keys.tolist())) == len(keys)
    assert not np.array_equal(keys, np.sort(keys))


def test_copies_are_two_fifths_of_the_clustered_set_and_lie_within_six_of_their_base() -> None:
    keys = common.clustered(20_000, np.random.default_rng(0))
    copies, others = keys[:8_000], keys[8_000:]
    # Copies of one base stand together, and two of them differ in at most twice six bits.
    assert np.mean(np.bitwise_count(copies[1:] ^ copies[:-1]) <= 2 * common.MAX_FLIPS) > 0.5
    assert np.mean(np.bitwise_count(others[1:] ^ others[:-1]) <= 2 * common.MAX_FLIPS) < 0.01
    # Zipf's law: 1 / zeta(2) of the bases have one copy.
    starts = np.flatnonzero(np.bitwise_count(copies[1:] ^ copies[:-1]) > 2 * common.MAX_FLIPS)
    assert np.mean(np.diff(starts) == 1) == pytest.approx(6 / np.pi**2, abs=0.05)


def test_flipped_inverts_as_many_bits_as_asked() -> None:
    rng = np.random.default_rng(3)
    keys, counts = common.uniform(1_000, rng), rng.integers(0, 65, 1_000)
    assert np.array_equal(np.bitwise_count(common.flipped(keys, counts, rng) ^ keys), counts)


def test_half_of_the_queries_are_near_a_stored_key() -> None:
    stored = common.make_set("u", 2_000)
    queries = common.make_queries(stored, 400)
    near = set(brute_force(stored, queries, 3)[0].tolist())
    assert len(near) == 200


def test_any_chunk_of_a_stream_can_be_made_again() -> None:
    chunks = list(common.stream(4, common.CHUNK_KEYS + 10))
    assert [len(chunk) for chunk in chunks] == [common.CHUNK_KEYS, 10]
    assert np.array_equal(chunks[1], common.chunk_of_stream(4, 1, 10))


def test_interleaved_calls_take_turns() -> None:
    order: list[str] = []
    timings = common.interleaved([lambda: order.append("a"), lambda: order.append("b")], 3)
    assert order == ["a", "b"] * 3
    assert [len(own) for own in timings] == [3, 3]


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    own = [common.Timing(1, 2), common.Timing(1, 6), common.Timing(9, 80)]
    other = [common.Timing(2, 1), common.Timing(4, 2), common.Timing(1, 1)]
    assert common.cpu_ratio(own, other) == 3
    assert common.median_wall(own) == 1
    assert common.best_wall(other) == 1


@pytest.mark.parametrize(
    ("found", "limits", "verdict"),
    [
        (1.0, {"at_most": 1.0}, "ok"),
        (1.01, {"at_most": 1.0}, "missed"),
        (1.0, {"at_least": 1.0}, "ok"),
        (0.99, {"at_least": 1.0}, "missed"),
        (3.0, {"at_least": 1.0, "at_most": 2.0}, "missed"),
    ],
)
def test_a_bar_is_met_or_missed(
    found: float, limits: dict[str, float], verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    results = common.Results("x", common.parse_arguments(common.new_parser("", rounds=1), []))
    results.bar("it", found, **cast(Any, limits))
    assert results.missed == (["it"] if verdict == "missed" else [])
    assert results.finish() == 0
    told = capsys.readouterr().out
    assert verdict in told
    assert ("answers: all as expected; bars: 1 of 1 MISSED" in told) is (verdict == "missed")


def test_a_bar_is_not_judged_at_another_size_than_its_own() -> None:
    arguments = common.parse_arguments(common.new_parser("", rounds=1), ["--n", "1000"])
    for only_keys, missed in ((None, ["it"]), (1000, ["it"]), (10**7, [])):
        results = common.Results("x", arguments, only_keys=only_keys)
        results.bar("it", 2, at_most=1)
        assert results.missed == missed


def test_a_wrong_answer_is_exit_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    results = common.Results("x", common.parse_arguments(common.new_parser("", rounds=1), ["--json"]))
    results.expect(True, "fine")
    results.expect(False, "one is missing")
    assert results.finish() == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["differences"] == ["one is missing"]
    assert "DIFFERENT: one is missing" in captured.err


@pytest.mark.parametrize("text", ["0", "1.5", "-3"])
def test_a_count_that_is_no_whole_number_is_refused(text: str) -> None:
    done = run_tool("bench_codec", f"--n={text}")
    assert done.returncode == 2
    assert f"found {text}, expected a whole number from 1" in done.stderr


def test_a_child_that_fails_ends_the_benchmark(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text("import sys; sys.exit(3)")
    with pytest.raises(SystemExit, match=r"child\.py: the child of {'x': 1} ended with status 3"):
        common.run_child(str(script), {"x": 1})


def test_the_baseline_in_numpy_finds_the_pairs_that_brute_force_finds() -> None:
    rng = np.random.default_rng(8)
    # Cramped, so that pairs agree in two bands, in three, and in all but one; and long runs of equal prefixes.
    crowd = common.flipped(np.repeat(common.uniform(20, rng), 30), rng.integers(0, 4, 600), rng)
    keys = rng.permutation(common.distinct(np.concatenate([crowd, common.uniform(500, rng)])))
    expected = {
        (min(a, b), max(a, b)) for a, b in zip(*(column.tolist() for column in near_pairs(keys)), strict=True) if a != b
    }
    found = [
        (min(a, b), max(a, b))
        for moves, one, other in bench_pairs.numpy_pairs(keys)
        for a, b in zip(
            bench_pairs.restored(one, moves).tolist(), bench_pairs.restored(other, moves).tolist(), strict=True
        )
    ]
    assert len(found) == len(set(found))
    assert set(found) == expected
    first, second = (fingerprint_array(column) for column in zip(*expected, strict=True))
    assert bench_pairs.numpy_answer(keys) == (len(expected), bench_pairs.digest(first, second))


def near_pairs(keys: common.Keys) -> tuple[common.Keys, common.Keys]:
    query, fingerprint, _ = brute_force(keys, keys, common.DISTANCE)
    return keys[query], fingerprint


def test_the_digest_of_pairs_sees_neither_order_nor_sides_but_every_key() -> None:
    first, second = fingerprint_array([1, 2, 3]), fingerprint_array([4, 5, 6])
    assert bench_pairs.digest(first, second) == bench_pairs.digest(second[::-1], first[::-1])
    assert bench_pairs.digest(first, second) != bench_pairs.digest(first, fingerprint_array([4, 5, 7]))


def test_a_stored_key_that_a_batch_does_not_find_is_counted() -> None:
    queries, places, near = bench_scale.make_stream_queries(50_000, 40)
    stored = next(iter(common.stream(bench_scale.SEED, 50_000)))
    answer = common.brute_force(stored, queries)
    assert bench_scale.misses(answer, queries, places, near) == 0
    without = (answer[0][1:], answer[1][1:], answer[2][1:])
    assert bench_scale.misses(without, queries, places, near) == 1
    wrong = answer[2].copy()
    wrong[0] += 1
    assert bench_scale.misses((answer[0], answer[1], wrong), queries, places, near) == len(places)


@pytest.mark.slow
def test_odd_inputs_come_to_what_is_said_of_them() -> None:
    done = run_tool("odd_inputs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(" 0 otherwise than expected")


@pytest.mark.slow
def test_bench_jobs_gives_every_way_on_both_corpora_and_the_plain_job_beside_it() -> None:
    found = result_of("bench_jobs", "--n", 500)
    names = ["500 documents of 12 words", "10 documents of 600 words"]
    ways = ("1 thread", "2 threads", "2 workers")
    assert titles(found) == [f"{name}{which}" for name in names for which in ("", ", from end to end")]
    for table in found["tables"][1::2]:
        assert [(row[""], row["by"]) for row in table["rows"]] == [*product(("jsonl", "zst"), ways)]
        assert all(row["MB/s"] > 0 and row["fixed s"] > 0 for row in table["rows"])
    for table in found["tables"][::2]:
        assert [row[""] for row in table["rows"]][:2] == ["dedup --dropped", "without digests"]
        assert table["rows"][0]["to plain"] == 1
        assert all(row["CPU s"] > 0 for row in table["rows"])


@pytest.mark.slow
def test_bench_minhash_jobs_measures_each_way_that_is_there_and_the_pairs() -> None:
    found = result_of("bench_minhash_jobs", "--n", 200, "--rounds", 1)
    ways, pairs = found["tables"]
    assert [row[""] for row in ways["rows"]][:2] == ["fpstore", "fpstore --confirm"]
    assert all(row["documents/CPU s"] > 0 for row in ways["rows"])
    assert ways["rows"][1]["CPU of fpstore --confirm"] == 1
    (row,) = pairs["rows"]
    assert 0 < row["found of them"] <= row["alike"]


@pytest.mark.slow
def test_bench_cluster_compares_tasks_with_one_search() -> None:
    found = result_of("bench_cluster", "--queries", 3000, "--tasks", 3)
    (row,) = rows_of(found, "3,000 queries, 3 tasks")
    assert row["of one, here"] == pytest.approx(row["tasks here"] / row["probe_many"])
    assert [row["way"] for row in rows_of(found, "memory")] == ["tasks", "one"]
    assert len(found["bars"]) == 2
