"""Services of stores whose ids are names: what each path takes and answers, in JSON and in Arrow, and the coprocess."""

import json
from collections.abc import Awaitable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome import Command
from serving import ARROW, Client, Response, with_app

import fpstore
from fpstore.inputs.cells import parse_names
from fpstore.serve import lines
from fpstore.serve.limits import Limits
from fpstore.serve.pages import openapi, page

BASE = 0x9F3A5C0012AB44DE
FIRST = f"{BASE:016x}"
NAMES = ["http://e.org/é?a=1,2", 'q"uote\n\t\\', "", "10"]
BYTES = ["http://e.org/é".encode(), b"\xff\x00\\", b"", b"10"]
KEYS = [BASE, BASE ^ 0b11, 5, BASE]
BOTH = pytest.mark.parametrize(("id_type", "ids"), [("string", NAMES), ("bytes", BYTES)], ids=["string", "bytes"])


def written(name: Any) -> str:
    """An id as JSON has it."""
    return name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")


def made(path: Path, id_type: Any, ids: list[Any]) -> Path:
    fpstore.build(path, KEYS, ids=ids, id_type=id_type).close()
    return path


def ask(store: Path, path: str, body: Any = None, **request: Any) -> Response:
    def asking(client: Client) -> Awaitable[Response]:
        return client.ask(path, body, **request)

    return with_app(store, asking)


def stream_of(id_type: str, **columns: Any) -> bytes:
    kinds = {"ids": pa.string() if id_type == "string" else pa.binary(), "fingerprints": pa.uint64()}
    table = pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def rows_in(response: Response) -> list[dict[str, Any]]:
    assert (response.status, response.headers["content-type"]) == (200, ARROW)
    found: list[dict[str, Any]] = pa.ipc.open_stream(response.body).read_all().to_pylist()
    return found


def rows_of(store: Path) -> set[tuple[int, Any]]:
    with fpstore.open(store) as opened:
        return {(row.fingerprint, row.id) for rows in opened.rows() for row in rows}


# --- Each path ---


@BOTH
def test_every_path_takes_and_tells_names_in_json(tmp_path: Path, id_type: str, ids: list[Any]) -> None:
    store, called = made(tmp_path / "s", id_type, ids), [written(name) for name in ids]

    async def work(client: Client) -> dict[str, Any]:
        rows = {"fingerprints": [f"{BASE ^ 4:x}", "ff00ff00ff", "ff00ff00fe"], "ids": ["near", called[1] + "1", "new"]}
        found = {
            "probe": await client.ask("/probe", {"fingerprints": [FIRST]}),
            "lookup": await client.ask("/lookup", {"ids": [called[1], "no", 10]}),
            "add_if_new": await client.ask("/add_if_new", rows),
            "add": await client.ask("/add", {"fingerprints": ["7", "8"], "ids": ["seven", called[2]]}),
            "upsert": await client.ask("/upsert", {"fingerprints": ["9"], "ids": [called[0]]}),
            "remove": await client.ask("/remove", {"fingerprints": ["5"], "ids": [called[2]]}),
            "remove ids": await client.ask("/remove", {"ids": [called[1]]}),
            "stats": await client.ask("/stats"),
        }
        assert {name: response.status for name, response in found.items()} == dict.fromkeys(found, 200)
        return {name: response.json for name, response in found.items()}

    found = with_app(store, work)
    near = sorted([ids[0], ids[3]])
    expected = [(0, FIRST, written(name)) for name in near] + [(2, f"{BASE ^ 3:016x}", called[1])]
    assert [(each["distance"], each["fingerprint"], each["id"]) for each in found["probe"]["matches"]] == expected
    assert sorted((row["id"], row["fingerprint"]) for row in found["lookup"]["rows"]) == sorted(
        [(called[1], f"{BASE ^ 3:016x}"), (called[3], FIRST)]
    )
    additions = found["add_if_new"]["additions"]
    assert [(each["stored"], each["match_id"]) for each in additions] == [
        (False, written(near[0])),
        (True, None),
        (False, called[1] + "1"),
    ]
    assert found["stats"]["id_type"] == id_type

    def back(name: str) -> str | bytes:
        return name if id_type == "string" else name.encode("utf-8", "surrogateescape")

    expected_rows = {(0xFF00FF00FF, called[1] + "1"), (7, "seven"), (8, called[2]), (9, called[0]), (BASE, called[3])}
    assert rows_of(store) == {(key, back(name)) for key, name in expected_rows}


@BOTH
def test_every_path_takes_and_tells_names_in_arrow(tmp_path: Path, id_type: str, ids: list[Any]) -> None:
    store = made(tmp_path / "s", id_type, ids)
    new: Any = "new" if id_type == "string" else b"\xfe"

    async def work(client: Client) -> list[Response]:
        def sent(path: str, **columns: Any) -> Awaitable[Response]:
            return client.ask(path, stream_of(id_type, **columns), headers={"content-type": ARROW})

        return [
            await sent("/probe", fingerprints=[BASE]),
            await sent("/lookup", ids=ids[:2]),
            await sent("/add_if_new", fingerprints=[BASE ^ 4, 0xFF00FF00FF], ids=[new, new]),
            await sent("/add", fingerprints=[7], ids=ids[:1]),
            await sent("/upsert", fingerprints=[8], ids=[ids[2]]),
            await sent("/remove", fingerprints=[BASE], ids=ids[:1]),
        ]

    probed, found, added, *changed = with_app(store, work)
    near = sorted([ids[0], ids[3]])
    assert [row["id"] for row in rows_in(probed)] == [*near, ids[1]]
    assert sorted((row["id"], row["fingerprint"]) for row in rows_in(found)) == sorted(
        [(ids[0], BASE), (ids[1], BASE ^ 3)]
    )
    assert [(row["stored"], row["match_id"]) for row in rows_in(added)] == [(False, near[0]), (True, None)]
    assert [list(each.json.values())[1:] for each in changed] == [[1], [1], [1]]
    expected = {(BASE ^ 3, ids[1]), (BASE, ids[3]), (0xFF00FF00FF, new), (7, ids[0]), (8, ids[2])}
    assert rows_of(store) == expected


@BOTH
def test_what_is_no_name_is_refused(tmp_path: Path, id_type: str, ids: list[Any]) -> None:
    store = made(tmp_path / "s", id_type, ids)
    before = rows_of(store)
    # Only of bytes a half of a pair can stand for something, and only some of them.
    wrong: list[Any] = ["\ud800", None, 1.5, True, ["a"], "é" * 32769, *(["\udcff"] if id_type == "string" else [])]
    for name in wrong:
        for path in ("/add", "/add_if_new", "/upsert", "/remove", "/lookup"):
            body: dict[str, Any] = {"ids": ["fine", name]}
            if path in ("/add", "/add_if_new", "/upsert"):
                body["fingerprints"] = ["7", "8"]
            status, kind, message = ask(store, path, body).error
            assert (status, kind) == (400, "BadInput"), (name, path)
            assert message.startswith("ids, item 1: found "), (name, path)
    assert rows_of(store) == before


@given(st.lists(st.binary(max_size=8), max_size=8))
def test_any_bytes_go_through_json_and_back(names: list[bytes]) -> None:
    sent = json.loads(json.dumps([written(name) for name in names]))
    found, bad = parse_names(sent, False)
    assert (found.tolist(), bad) == (names, {})


def test_the_descriptions_say_how_names_are_written() -> None:
    described = json.loads(openapi(Limits()))
    for path in ("/add", "/add_if_new", "/upsert", "/remove", "/lookup"):
        (content,) = [
            body["schema"]
            for body in described["paths"][path]["post"]["requestBody"]["content"].values()
            if "schema" in body
        ]
        ids = content["properties"]["ids"]
        assert ids["items"] == {"type": "string"}
        assert "In a store whose ids are strings any of up to 64 KiB" in ids["description"]
        assert r"\udc80 to \udcff" in ids["description"]
    assert page(Limits())


# --- The coprocess ---


@BOTH
def test_a_coprocess_takes_and_tells_names(tmp_path: Path, id_type: str, ids: list[Any]) -> None:
    store = made(tmp_path / "s", id_type, ids)

    def asked(ask: lines.Ask, *typed: Any) -> list[Any]:
        found: list[str] = []
        read = BytesIO("".join(f"{json.dumps(line)}\n" for line in typed).encode()).read
        lines.answer_lines(read, found.append, lambda: None, None, ask)
        return [json.loads(line) for line in "".join(found).splitlines()]

    called = [written(name) for name in ids]
    with fpstore.open(store, "w") as opened:
        (probed,) = asked(lines.probing(opened, None), {"fingerprint": FIRST, "id": "the question's own"})
        assert probed["query_id"] == "the question's own"
        assert [each["id"] for each in probed["matches"]] == [*map(written, sorted([ids[0], ids[3]])), called[1]]
        new, known, wrong = asked(
            lines.adding(opened, None, None),
            {"fingerprint": "ff00ff00ff", "id": called[1] + "new"},
            {"fingerprint": "ff00ff00fe", "id": "other"},
            {"fingerprint": "ff", "id": "\ud800"},
        )
    assert (new["id"], new["stored"]) == (called[1] + "new", True)
    assert (known["id"], known["stored"], known["match_id"]) == ("other", False, called[1] + "new")
    assert wrong["error"]["message"].startswith("id: found ")


def test_lines_of_the_command_have_names(command: Command, tmp_path: Path) -> None:
    store = made(tmp_path / "s", "string", NAMES)
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"fingerprint": "ff00ff00ff", "id": "http://new"}) + "\n")
    found = command("add", store, source, "--if-new", "--unbuffered")
    assert found.status == 0, found.err
    assert json.loads(found.out)["id"] == "http://new"
