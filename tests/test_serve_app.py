"""The service, without a network: what each path answers, in JSON and in Arrow, and what it refuses."""

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from outcome import Command
from serving import ARROW, JSON, Client, Response, with_app

import fpstore
from fpstore import CorruptStore, Store, StoreChanged
from fpstore.origin import metadata_of
from fpstore.serve import app as apps
from fpstore.serve import arrow, failures
from fpstore.serve import service as services
from fpstore.serve.failures import Refused, body_of, status_of
from fpstore.serve.limits import LARGE_AT_ONCE, Limits
from fpstore.serve.pages import ENDPOINTS
from fpstore.text import Recipe, recipes

BASE = 0x9F3A5C0012AB44DE
FIRST = f"{BASE:016x}"
RECIPE = recipes()["multilingual"]
TOKEN = b"a-token-of-some-length"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s.fpstore", [BASE, BASE ^ 0b11, 5], ids=[10, 9, 2**64 - 1]).close()
    return tmp_path / "s.fpstore"


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same store, for requests that change nothing."""
    path = tmp_path_factory.mktemp("app") / "s.fpstore"
    fpstore.build(path, [BASE, BASE ^ 0b11, 5], ids=[10, 9, 2**64 - 1]).close()
    return path


def ask(store: Path, path: str, body: Any = None, *, options: dict[str, Any] | None = None, **request: Any) -> Response:
    """What one request comes to."""

    def asking(client: Client) -> Awaitable[Response]:
        return client.ask(path, body, **request)

    return with_app(store, asking, **(options or {}))


def stream_of(table: Any, **options: Any) -> bytes:
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_in(response: Response) -> Any:
    assert response.headers["content-type"] == ARROW
    return pa.ipc.open_stream(response.body).read_all()


# --- What each path answers ---


def test_a_probe_tells_all_that_is_near_each_query(unchanged: Path) -> None:
    found = ask(unchanged, "/probe", {"fingerprints": [FIRST, "0xff00ff00", "5"]})
    assert (found.status, found.headers["content-type"]) == (200, JSON)
    assert found.json == {
        "format": "fpstore.matches/1",
        "query_count": 3,
        "matches": [
            {"query": 0, "fingerprint": FIRST, "distance": 0, "id": "10"},
            {"query": 0, "fingerprint": f"{BASE ^ 3:016x}", "distance": 2, "id": "9"},
            {"query": 2, "fingerprint": f"{5:016x}", "distance": 0, "id": str(2**64 - 1)},
        ],
    }
    nearer = ask(unchanged, "/probe", {"fingerprints": [FIRST]}, query="max_distance=1")
    assert [match["id"] for match in nearer.json["matches"]] == ["10"]
    assert ask(unchanged, "/probe", {"fingerprints": []}).json["matches"] == []


def test_the_nearest_of_each_query_are_told_however_far(unchanged: Path) -> None:
    asked = {"fingerprints": ["7", FIRST]}
    (five, same) = ask(unchanged, "/nearest", asked).json["matches"]
    assert five == {"query": 0, "fingerprint": f"{5:016x}", "distance": 1, "id": str(2**64 - 1)}
    assert same == {"query": 1, "fingerprint": FIRST, "distance": 0, "id": "10"}
    found = ask(unchanged, "/nearest", asked, query="count=2")
    assert (found.json["format"], found.json["query_count"]) == ("fpstore.matches/1", 2)
    far = (BASE ^ 7).bit_count()
    assert [(match["query"], match["distance"]) for match in found.json["matches"]] == [
        (0, 1),
        (0, min(far, (BASE ^ 7 ^ 0b11).bit_count())),
        (1, 0),
        (1, 2),
    ]
    within = ask(unchanged, "/nearest", asked, query="count=3&max_distance=2", headers={"accept": ARROW})
    with fpstore.open(unchanged) as opened:
        assert table_in(within).equals(opened.nearest_many([7, BASE], 3, max_distance=2).to_arrow())
    assert ask(unchanged, "/nearest", {"fingerprints": []}).json["matches"] == []


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("count=0", "count: found '0', expected a whole number, 1 or more"),
        ("count=-1", "count: found '-1', expected a whole number, 1 or more"),
        ("count=2&count=3", "count: found it twice, expected it once"),
        ("count=1000000000000", "count: found '1000000000000', expected a whole number, 1 or more"),
        ("max_distance=x", "max_distance: found 'x', expected a whole number"),
        ("k=3", "parameter: found 'k', expected max_distance or count"),
        ("max_distance=65", "max_distance: found 65, expected an integer from 0 to 64"),
    ],
)
def test_a_wrong_parameter_of_nearest_is_told(unchanged: Path, query: str, told: str) -> None:
    status, _, message = ask(unchanged, "/nearest", {"fingerprints": ["5"]}, query=query).error
    assert (status, told in message) == (400, True), message


def test_a_request_for_the_nearest_is_bounded(unchanged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(matches=6)
    many = ask(unchanged, "/nearest", {"fingerprints": ["5", "6"]}, query="count=4", options={"limits": limits})
    told = "count: found 4, expected at most 3 of 2 fingerprints, as an answer has at most 6 matches"
    assert many.error == (422, "TooManyMatches", told)
    assert (
        ask(unchanged, "/nearest", {"fingerprints": ["5"]}, query="count=6", options={"limits": limits}).status == 200
    )
    monkeypatch.setattr(services, "HELD_AT_ONCE", 19)  # of two fingerprints three, and three rows of each
    assert ask(unchanged, "/nearest", {"fingerprints": ["5", "6"]}, query="count=3").status == 200
    many = ask(unchanged, "/nearest", {"fingerprints": ["5", "6"]}, query="count=4")
    assert many.error[2].startswith("count: found 4, expected at most 3 of 2 fingerprints, as so many rows of so many")
    monkeypatch.setattr(services, "COMPARED_AT_ONCE", 60)
    monkeypatch.setattr(services, "LEAST_QUERIES", 2)
    assert len(ask(unchanged, "/nearest", {"fingerprints": ["5"] * 20}).json["matches"]) == 20
    refused = ask(unchanged, "/nearest", {"fingerprints": ["5"] * 21})
    assert refused.error[:2] == (413, "TooManyQueries")
    assert refused.error[2].startswith("body: found 21 rows, expected at most 20: each takes as long as 3 words of 64")
    monkeypatch.setattr(services, "COMPARED_AT_ONCE", 1)
    assert ask(unchanged, "/nearest", {"fingerprints": ["5"] * 2}).status == 200


KEYS = np.random.default_rng(7).integers(0, 1 << 63, 60_000, dtype=np.uint64)
ALL_READ = [
    ("tables", "/nearest", "max_distance=3", 0),
    ("tables", "/probe", "", 0),
    ("tables", "/nearest", "max_distance=64", 60_000),
    ("tables", "/nearest", "", 60_000),
    ("scan", "/nearest", "max_distance=3", 60_000),
    ("scan", "/probe", "", 60_000),
    ("waiting", "/probe", "", 0),
    ("waiting", "/nearest", "max_distance=3", 0),
    ("waiting", "/nearest", "", 600_000),
    ("wide", "/nearest", "max_distance=256", 4000),
    ("wide waiting", "/nearest", "", 4000),
    ("wide waiting", "/probe", "", 4000),
]


@pytest.fixture(scope="module")
def held_in_any_way(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores whose rows are looked up, read, in no segment yet, and of several words."""
    folder = tmp_path_factory.mktemp("held")
    codes = KEYS[:4000].reshape(1000, 4)
    fpstore.build(folder / "tables", KEYS).close()
    fpstore.build(folder / "scan", KEYS, plan="scan").close()
    fpstore.build(folder / "wide", codes, bits=256).close()
    for name, bits, rows in (("waiting", 64, KEYS), ("wide waiting", 256, codes)):
        with fpstore.create(folder / name, bits=bits, id_type=None) as store:
            store.add(rows)
    return folder


@pytest.mark.parametrize(("name", "path", "query", "read"), ALL_READ, ids=[" ".join(case[:3]) for case in ALL_READ])
def test_what_is_read_for_each_query_is_bounded_wherever_it_is(
    held_in_any_way: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str, query: str, read: int
) -> None:
    monkeypatch.setattr(services, "LEAST_QUERIES", 2)
    monkeypatch.setattr(services, "COMPARED_AT_ONCE", 100 * read)

    def answered(count: int) -> Response:
        digits = "5".zfill(64 if "wide" in name else 16)
        return ask(held_in_any_way / name, path, {"fingerprints": [digits] * count}, query=query)

    assert answered(100).status == 200
    refused = answered(101)
    if not read:
        assert refused.status == 200
        return
    told = f"body: found 101 rows, expected at most 100: each takes as long as {read} words of 64 bits that are read"
    assert (refused.error[:2], refused.error[2].startswith(told)) == ((413, "TooManyQueries"), True), refused.error
    if name in ("tables", "waiting"):
        assert refused.error[2].endswith("; fewer with max_distance=3 or less")


@pytest.mark.parametrize(("name", "read"), [("scan", 60_000), ("wide waiting", 4000), ("waiting", 0), ("tables", 0)])
def test_what_is_read_for_each_row_that_is_added_if_it_is_new_is_bounded(
    held_in_any_way: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, read: int
) -> None:
    with fpstore.open(held_in_any_way / name) as opened:
        opened.copy(tmp_path / "s")
    words = 4 if "wide" in name else 1
    each = read + 50 * words  # half of the rows are there, of all that a row is compared with
    monkeypatch.setattr(services, "LEAST_QUERIES", 2)
    monkeypatch.setattr(services, "COMPARED_AT_ONCE", 100 * each)

    def answered(count: int) -> Response:
        rows: dict[str, Any] = {"fingerprints": ["5".zfill(16 * words)] * count}
        if name in ("scan", "tables"):
            rows["ids"] = ["1"] * count
        return ask(tmp_path / "s", "/add_if_new", rows)

    assert answered(100).status == 200
    refused = answered(102)
    if not read:
        assert refused.status == 200
        return
    more = each + 2 * words  # one was stored, and one more is half of these
    told = f"body: found 102 rows, expected at most 99: each takes as long as {more} words of 64 bits that are read"
    assert (refused.error[:2], refused.error[2].startswith(told)) == ((413, "TooManyQueries"), True), refused.error


def test_an_addition_tells_what_became_of_each_row_and_is_found_by_the_next_probe(store: Path) -> None:
    async def work(client: Client) -> tuple[Response, Response]:
        rows = {"fingerprints": [f"{BASE ^ 4:x}", "ff00ff00ff", "ff00ff00fe"], "ids": ["20", 21, "22"]}
        added = await client.ask("/add_if_new", rows)
        return added, await client.ask("/probe", {"fingerprints": ["ff00ff00ff"]})

    added, probed = with_app(store, work)
    near = {"stored": False, "match_fingerprint": FIRST, "match_distance": 1, "match_id": "10"}
    within = {"stored": False, "match_fingerprint": "000000ff00ff00ff", "match_distance": 1, "match_id": "21"}
    new = {"stored": True, "match_fingerprint": None, "match_distance": None, "match_id": None}
    assert added.json == {"format": "fpstore.additions/1", "stored_count": 1, "additions": [near, new, within]}
    assert [match["id"] for match in probed.json["matches"]] == ["21"]
    with fpstore.open(store) as opened:
        assert opened.count("rows") == 4


def test_additions_and_removals_come_to_what_the_store_does(store: Path) -> None:
    async def work(client: Client) -> list[Response]:
        return [
            await client.ask("/add", {"fingerprints": ["7", "7", "8"], "ids": ["1", "2", "3"]}),
            await client.ask("/remove", {"fingerprints": ["7"], "ids": ["1"]}),
            await client.ask("/remove", {"ids": ["10"]}),
            await client.ask("/remove", {"fingerprints": ["5", "6"]}),
        ]

    found = with_app(store, work)
    # Of a removal nobody has counted the rows that were there, so that is not said.
    told = [{name: value for name, value in each.json.items() if name != "format"} for each in found]
    assert told == [{"row_count": 3}, {"asked_count": 1}, {"asked_count": 1}, {"asked_count": 2}]
    with fpstore.open(store) as opened:
        rows = sorted((row.fingerprint, row.id) for batch in opened.rows() for row in batch)
    assert rows == [(7, 2), (8, 3), (BASE ^ 3, 9)]


def test_rows_are_looked_up_by_id_and_replaced(store: Path) -> None:
    async def work(client: Client) -> list[Response]:
        replaced = await client.ask("/upsert", {"fingerprints": ["7", "8", "9"], "ids": ["10", "10", "11"]})
        assert replaced.json == {"format": "fpstore.changed/1", "row_count": 2}  # the last of 10, and 11
        asked = {"ids": [9, "10", "11", "12"]}
        return [
            await client.ask("/lookup", asked),
            await client.ask("/lookup", asked, headers={"accept": ARROW}),
            await client.ask("/lookup", {"fingerprints": ["5"]}),
            await client.ask("/lookup", {"ids": []}),
        ]

    found, table, refused, none = with_app(store, work)
    rows = [(BASE ^ 0b11, 9), (8, 10), (9, 11)]
    assert found.json == {
        "format": "fpstore.rows/1",
        "rows": [{"fingerprint": f"{key:016x}", "id": str(number)} for key, number in rows],
    }
    assert table_in(table).to_pylist() == [{"fingerprint": key, "id": number} for key, number in rows]
    assert refused.error == (400, "BadInput", "body: found a field 'fingerprints', expected ids")
    assert none.json["rows"] == []


def test_a_store_without_ids_is_asked_without(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [5], ids=None).close()
    found = ask(tmp_path / "s", "/add_if_new", {"fingerprints": ["5", "ff00"]}).json
    assert [(each["stored"], each["match_id"]) for each in found["additions"]] == [(False, None), (True, None)]
    assert ask(tmp_path / "s", "/probe", {"fingerprints": ["ff00"]}).json["matches"][0]["id"] is None
    refused = ask(tmp_path / "s", "/add", {"fingerprints": ["5"], "ids": ["1"]})
    assert refused.error == (400, "BadInput", "ids: found some, expected none: the store has no ids")


def test_texts_are_asked_by_the_recipe_of_the_store(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", recipe=RECIPE).close()

    async def work(client: Client) -> list[Response]:
        added = await client.ask("/add_if_new", {"texts": ["a text of some words", "another one"], "ids": ["1", "2"]})
        return [added, await client.ask("/probe", {"texts": ["a text of some words"]}, query="max_distance=0")]

    added, found = with_app(tmp_path / "s", work)
    assert added.json["stored_count"] == 2
    (match,) = found.json["matches"]
    assert (match["fingerprint"], match["id"]) == (f"{RECIPE.fingerprint('a text of some words'):016x}", "1")


def test_wide_fingerprints_are_served_and_none_that_was_cut(tmp_path: Path) -> None:
    store = tmp_path / "wide.fpstore"
    near = [1 << 250, (1 << 250) | 0b11, 0x1FF << 100]
    fpstore.build(store, near, ids=[1, 2, 3], bits=256, max_distance=5).close()
    written = [f"{value:064x}" for value in near]
    found = ask(store, "/probe", {"fingerprints": written[:1]}).json["matches"]
    assert found == [
        {"query": 0, "fingerprint": written[0], "distance": 0, "id": "1"},
        {"query": 0, "fingerprint": written[1], "distance": 2, "id": "2"},
    ]
    assert ask(store, "/probe", {"fingerprints": [f"0x{near[2]:x}"]}).json["matches"][0]["id"] == "3"
    few = ask(store, "/nearest", {"fingerprints": [f"{(1 << 200) - 1:064x}"]}, query="count=2").json["matches"]
    assert [(match["fingerprint"], match["distance"]) for match in few] == [(written[2], 191), (written[1], 199)]
    for cut in (written[0][:-1], "5", written[0][:16]):
        for path, body in (("/probe", {}), ("/add", {"ids": ["9"]}), ("/add_if_new", {"ids": ["9"]})):
            refused = ask(store, path, {"fingerprints": [cut], **body})
            assert refused.status == 400
            assert "expected 64 hexadecimal digits (256 bits), or 0x and up to 64" in refused.json["error"]["message"]
    cut_column = stream_of(pa.table({"fingerprints": [written[0][:-1]]}))
    assert ask(store, "/probe", cut_column).status == 400
    with fpstore.open(store) as opened:
        assert opened.count() == 3


def test_stats_and_health_tell_of_the_store(unchanged: Path, command: Command) -> None:
    stats = ask(unchanged, "/stats").json
    assert (stats["format"], stats["fingerprint_count"], stats["id_type"]) == ("fpstore.stats/1", 3, "uint64")
    printed = json.loads(command("stats", unchanged, "--json").out)
    assert (stats.keys(), stats["format"]) == (printed.keys(), printed["format"])
    assert ask(unchanged, "/healthz").json == {"format": "fpstore.health/1", "status": "ok"}
    assert ask(unchanged, "/healthz", method="HEAD").status == 200


def test_every_path_is_described(unchanged: Path) -> None:
    described = ask(unchanged, "/openapi.json").json
    assert described["openapi"] == "3.1.0"
    assert {*described["paths"]} == {f"/{name}" for name in ENDPOINTS if name}
    for name, endpoint in ENDPOINTS.items():
        if not name:
            continue
        operation = described["paths"][f"/{name}"][endpoint.method.lower()]
        assert {"200", "400", "401", "413", "503"} <= {*operation["responses"]}
        if endpoint.method == "POST":
            body = operation["requestBody"]["content"][JSON]
            assert {*body["example"]} <= {*body["schema"]["properties"]} == {*endpoint.fields}
    page = ask(unchanged, "/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert all(f"{endpoint.method} /{name}" in page.body.decode() for name, endpoint in ENDPOINTS.items())
    assert b"<script" not in page.body
    assert b"http://" not in page.body


def test_the_examples_of_the_description_are_what_is_answered(store: Path) -> None:
    with fpstore.open(store, "w") as opened:
        opened.remove(ids=[9, 10])
        opened.add([BASE], ids=[17])

    async def work(client: Client) -> None:
        for name in ("healthz", "probe", "nearest", "lookup", "add_if_new", "upsert", "remove", "add"):
            endpoint = ENDPOINTS[name]
            found = await client.ask(f"/{name}", endpoint.body.encode() or None)
            assert found.json == json.loads(endpoint.answer), name

    with_app(store, work)


# --- Arrow ---


@pytest.mark.parametrize("kind", ["uint64", "int64", "binary", "fixed", "string", "large_string"])
def test_arrow_goes_in_and_comes_out(store: Path, kind: str) -> None:
    keys = np.array([BASE, 5, 0xFF00FF00FF], dtype=np.uint64)
    big_endian = [int(key).to_bytes(8, "big") for key in keys]
    hexadecimal = [f"{key:016x}" for key in keys.tolist()]
    column = {
        "uint64": pa.array(keys),
        "int64": pa.array(keys.view(np.int64)),
        "binary": pa.array(big_endian, pa.binary()),
        "fixed": pa.array(big_endian, pa.binary(8)),
        "string": pa.array(hexadecimal),
        "large_string": pa.array(hexadecimal, pa.large_string()),
    }[kind]

    async def work(client: Client) -> tuple[Response, Response]:
        headers = {"content-type": ARROW}
        body = stream_of(pa.table({"fingerprints": column}))
        probed = await client.ask("/probe", body, headers=headers, query="max_distance=0")
        rows = stream_of(pa.table({"fingerprints": column, "ids": pa.array([1, 2, 3], pa.uint64())}))
        return probed, await client.ask("/add_if_new", rows, headers=headers)

    probed, added = with_app(store, work)
    with fpstore.open(store) as opened:
        assert table_in(probed).equals(opened.probe_many(keys[:2], max_distance=0).to_arrow())
    assert table_in(added).column("stored").to_pylist() == [False, False, True]
    assert table_in(added).column("match_id").to_pylist() == [10, 2**64 - 1, None]


def test_who_accepts_another_form_gets_it(unchanged: Path) -> None:
    body = stream_of(pa.table({"fingerprints": [FIRST]}))
    told = ask(unchanged, "/probe", body, headers={"content-type": ARROW, "accept": JSON})
    assert told.json["query_count"] == 1
    table = table_in(
        ask(unchanged, "/probe", {"fingerprints": [FIRST]}, headers={"accept": f"text/html, {ARROW};q=0.5"})
    )
    assert table.num_rows == 2
    assert ask(unchanged, "/probe", {"fingerprints": [FIRST]}, headers={"accept": "*/*"}).json["query_count"] == 1


@pytest.mark.parametrize(
    ("accept", "of_json", "of_arrow"),
    [
        (f"{ARROW};q=0", JSON, JSON),
        (f"{JSON};q=0", ARROW, ARROW),
        (f"{ARROW};q=0.1, {JSON}", JSON, JSON),
        (f"{JSON};q=0.1, {ARROW};q=0.25", ARROW, ARROW),
        (f"{ARROW};q=0.5;x=y, */*;q=0.9", JSON, JSON),
        (f"{ARROW} ; Q = 0.5, application/*;q=0.4", ARROW, ARROW),
        (f"{JSON}, {ARROW}", JSON, ARROW),
        (f"{ARROW};q=0, {JSON};q=0", JSON, ARROW),
        ("text/html", JSON, ARROW),
        ("*/*;q=0.1, text/html", JSON, ARROW),
        (f"{ARROW};q=what, {JSON};q=0.9", ARROW, ARROW),
        ("", JSON, ARROW),
    ],
)
def test_of_two_forms_the_one_that_is_accepted_most(unchanged: Path, accept: str, of_json: str, of_arrow: str) -> None:
    async def work(client: Client) -> None:
        for own, body, expected in (
            (JSON, json.dumps(ROWS).encode(), of_json),
            (ARROW, stream_of(pa.table(ROWS)), of_arrow),
        ):
            named = {"content-type": own, "accept": accept}
            found = await client.ask("/probe", body, headers=named)
            assert (found.status, found.headers["content-type"]) == (200, expected)
            first, _, second = accept.partition(", ")
            if second:  # which may stand in two lines
                found = await client.ask("/probe", body, headers={**named, "accept": first}, again=[("accept", second)])
                assert found.headers["content-type"] == expected

    with_app(unchanged, work)


def test_texts_come_as_a_column_too(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", recipe=RECIPE).close()
    body = stream_of(pa.table({"texts": ["a text"], "ids": ["77"]}))
    assert table_in(ask(tmp_path / "s", "/add_if_new", body, headers={"content-type": ARROW}))[
        "stored"
    ].to_pylist() == [True]


@pytest.mark.parametrize("path", ["/probe", "/add", "/add_if_new", "/upsert", "/remove"])
def test_a_column_that_says_another_recipe_is_refused(tmp_path: Path, path: str) -> None:
    fpstore.create(tmp_path / "s", recipe=RECIPE).close()

    def sent(recipe: Recipe) -> Response:
        field = pa.field("fingerprints", pa.uint64(), metadata=metadata_of(recipe.to_json()))
        fields = [field] if path == "/probe" else [field, pa.field("ids", pa.uint64())]
        table = pa.table([pa.array([BASE], pa.uint64())] * len(fields), schema=pa.schema(fields))
        return ask(tmp_path / "s", path, stream_of(table), headers={"content-type": ARROW})

    status, kind, message = sent(recipes()["pypi-simhash"]).error
    assert (status, kind) == (422, "RecipeError")
    assert message.startswith(
        f"column fingerprints: found fingerprints by recipe pypi-simhash, expected those by {RECIPE.name}, as"
    )
    assert sent(RECIPE).status == 200


def bad_streams() -> dict[str, tuple[bytes, str]]:
    good = pa.table({"fingerprints": pa.array(range(1000), pa.uint64())})
    whole = stream_of(good)
    values = {
        "nothing": (b"", "body: found no stream of Arrow ("),
        "JSON": (b'{"fingerprints": ["5"]}', "body: found no stream of Arrow ("),
        "half": (whole[: len(whole) // 2], "body: found no stream of Arrow ("),
        "another column": (stream_of(pa.table({"x": [1]})), "body: found a column 'x', expected fingerprints, texts"),
        "no column": (stream_of(pa.table({})), "body: found no rows, expected fingerprints or texts"),
        "floats": (stream_of(pa.table({"fingerprints": [1.5]})), "column fingerprints: found type double, expected"),
        "lists": (stream_of(pa.table({"fingerprints": [[1]]})), "column fingerprints: found type list<"),
        "a dictionary": (
            stream_of(pa.table({"fingerprints": pa.array(["1"]).dictionary_encode()})),
            "column fingerprints: found type dictionary<",
        ),
        "nulls": (
            stream_of(pa.table({"fingerprints": pa.array([1, None])})),
            "column fingerprints: found 1 nulls, expected none",
        ),
        "3 bytes": (stream_of(pa.table({"fingerprints": [b"abc"]})), "fingerprints, item 0: found b'abc', expected"),
        "narrow": (
            stream_of(pa.table({"fingerprints": pa.array([-1], pa.int8())})),
            "fingerprints, item 0: found -1, expected integers of 64 bits",
        ),
        "twice": (
            stream_of(pa.Table.from_arrays([pa.array(["1"])] * 2, ["texts"] * 2)),
            "body: found columns texts, texts, expected each once",
        ),
    }
    behind = {"another stream": whole, "rubbish": b"abc", "an end": whole[-8:], "zeros": bytes(8)}
    for kind, more in behind.items():
        values[f"{kind} behind it"] = (whole + more, f"body: found {len(more)} bytes behind the stream, expected its")
    for codec in ("lz4", "zstd"):
        packed = stream_of(good, options=pa.ipc.IpcWriteOptions(compression=codec))
        values[codec] = (packed, "body: found compressed buffers, expected plain ones")
    return values


@pytest.mark.parametrize("kind", bad_streams())
def test_a_stream_that_cannot_be_taken_is_refused(unchanged: Path, kind: str) -> None:
    body, told = bad_streams()[kind]
    status, name, message = ask(unchanged, "/probe", body, headers={"content-type": ARROW}).error
    assert (status, name) == (400, "BadInput")
    assert message.startswith(told), message


@pytest.mark.slow
def test_a_stream_with_any_byte_changed_is_read_or_refused(store: Path) -> None:
    whole = stream_of(pa.table({"fingerprints": pa.array(range(20), pa.uint64()), "texts": ["abc"] * 20}))
    fields = ("fingerprints", "texts")
    outcomes = set()
    for place in range(len(whole)):
        for bit in (1, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= bit
            try:
                columns = arrow.columns_of(bytes(damaged), fields, 1000)
                outcomes.add(max((len(column) for column in columns.values()), default=0) <= 20)
            except fpstore.BadInput:
                outcomes.add(False)
    assert outcomes == {True, False}


def test_what_says_how_a_batch_is_packed_is_read_within_its_bytes() -> None:
    class Message:
        type = "x"

        def __init__(self, data: bytes) -> None:
            self.metadata = pa.py_buffer(data)

    for data in (b"", b"\x04\0\0\0", b"\x04\0\0\0\xff\xff\xff\x7f", b"\x04\0\0\0\0\0\0\x80"):
        with pytest.raises(fpstore.BadInput, match="found a message of Arrow that is cut short, expected whole ones"):
            arrow._expect_plain(Message(data))
    schema = pa.ipc.MessageReader.open_stream(stream_of(pa.table({"a": [1]}))).read_next_message()
    with pytest.raises(fpstore.BadInput, match="found a message of type schema, expected record batches"):
        arrow._expect_plain(schema)


# --- What is refused ---

ROWS = {"fingerprints": ["5"]}
REFUSED: dict[str, tuple[dict[str, Any], tuple[int, str, str]]] = {
    "a path above": ({"path": "/../stats"}, (404, "NotFound", "path: found '/../stats', expected one of those that /")),
    "a path within": ({"path": "/stats/../stats"}, (404, "NotFound", "path: found '/stats/../stats'")),
    "two slashes": ({"path": "//stats"}, (404, "NotFound", "path: found '//stats'")),
    "no slash": ({"path": "*"}, (404, "NotFound", "path: found '*'")),
    "another case": ({"path": "/Stats"}, (404, "NotFound", "path: found '/Stats'")),
    "a method": ({"path": "/probe"}, (405, "MethodNotAllowed", "method: found GET, expected POST")),
    "another method": ({"path": "/stats", "body": ROWS}, (405, "MethodNotAllowed", "method: found POST, expected GET")),
    "no type": (
        {"path": "/probe", "body": ROWS, "headers": {"content-type": ""}},
        (415, "UnsupportedMediaType", f"content-type: found '', expected {JSON} or {ARROW}"),
    ),
    "a form": (
        {"path": "/probe", "body": ROWS, "headers": {"content-type": "application/x-www-form-urlencoded"}},
        (415, "UnsupportedMediaType", "content-type: found 'application/x-www-form-urlencoded'"),
    ),
    "packed": (
        {"path": "/probe", "body": ROWS, "headers": {"content-encoding": "gzip"}},
        (415, "UnsupportedMediaType", "content-encoding: found b'gzip', expected none"),
    ),
    "no length": (
        {"path": "/probe", "body": ROWS, "headers": {"content-length": ""}},
        (411, "LengthRequired", "body: found none, expected a Content-Length, or chunks"),
    ),
    "a field twice": (
        {"path": "/probe", "body": b'{"fingerprints": ["1"], "fingerprints": ["2"]}'},
        (400, "BadInput", "body: found no JSON (found 'fingerprints' twice in an object"),
    ),
    "no JSON": ({"path": "/probe", "body": b"{"}, (400, "BadInput", "body: found no JSON (")),
    "deep JSON": ({"path": "/probe", "body": b"[" * 100_000}, (400, "BadInput", "body: found no JSON (maximum recurs")),
    "a list": (
        {"path": "/probe", "body": ["5"]},
        (400, "BadInput", "body: found ['5'], expected an object with fingerprints, texts"),
    ),
    "a field": (
        {"path": "/probe", "body": {"fingerprint": "5"}},
        (400, "BadInput", "body: found a field 'fingerprint', expected fingerprints, texts"),
    ),
    "no list": (
        {"path": "/probe", "body": {"fingerprints": "5"}},
        (400, "BadInput", "fingerprints: found '5', expected a list"),
    ),
    "nothing": (
        {"path": "/probe", "body": {}},
        (400, "BadInput", "body: found no rows, expected fingerprints or texts"),
    ),
    "ids to probe": (
        {"path": "/probe", "body": {"fingerprints": ["5"], "ids": ["1"]}},
        (400, "BadInput", "body: found a field 'ids', expected fingerprints, texts"),
    ),
    "both": (
        {"path": "/probe", "body": {"fingerprints": ["5"], "texts": ["a"]}},
        (400, "BadInput", "body: found fingerprints and texts, expected one of them"),
    ),
    "a number": (
        {"path": "/probe", "body": {"fingerprints": ["5", 5]}},
        (400, "BadInput", "fingerprints, item 1: found 5, expected 1 to 16 hexadecimal digits (64 bits)"),
    ),
    "too many digits": (
        {"path": "/probe", "body": {"fingerprints": ["5" * 17]}},
        (400, "BadInput", f"fingerprints, item 0: found '{'5' * 17}', expected 1 to 16 hexadecimal digits (64 bits)"),
    ),
    "no text": (
        {"path": "/probe", "body": {"texts": [1]}},
        (422, "RecipeError", ""),
    ),
    "fewer ids": (
        {"path": "/add", "body": {"fingerprints": ["5", "6"], "ids": ["1"]}},
        (400, "BadInput", "body: found 2 fingerprints, 1 ids, expected one for each"),
    ),
    "no ids": (
        {"path": "/add", "body": ROWS},
        (400, "BadInput", "ids: found none, expected one for each row"),
    ),
    "only ids": (
        {"path": "/add_if_new", "body": {"ids": ["1"]}},
        (400, "BadInput", "body: found ids alone, expected fingerprints or texts, too"),
    ),
    "an id alone to replace": (
        {"path": "/upsert", "body": {"fingerprints": ["5"]}},
        (400, "BadInput", "ids: found none, expected one for each row"),
    ),
    "a bad id": (
        {"path": "/add", "body": {"fingerprints": ["5"], "ids": ["x"]}},
        (400, "BadInput", "ids, item 0: found 'x', expected a decimal number"),
    ),
    "a distance twice": (
        {"path": "/probe", "body": ROWS, "query": "max_distance=2&max_distance=3"},
        (400, "ValueError", "max_distance: found it twice, expected it once"),
    ),
    **{
        f"{name} twice": (
            {"path": "/probe", "body": ROWS, "headers": {name: value}, "again": [(name, value)]},
            (400, "BadRequest", f"{name}: found it 2 times, expected it once"),
        )
        for name, value in {
            "authorization": "Bearer x",
            "host": "localhost",
            "content-type": JSON,
            "content-encoding": "identity",
            "content-length": "10",
            "transfer-encoding": "chunked",
        }.items()
    },
    "two lengths": (
        {"path": "/probe", "body": ROWS, "headers": {"transfer-encoding": "chunked"}},
        (400, "BadRequest", "body: found a Content-Length and a Transfer-Encoding, expected one of them"),
    ),
    "a rounded id": (
        {"path": "/remove", "body": {"ids": ["1", 2**53 + 1]}},
        (400, "BadInput", "ids, item 1: found the number 9007199254740993, expected a string, as many programs round"),
    ),
    "a distance": (
        {"path": "/probe", "body": ROWS, "query": "max_distance=4"},
        (422, "PlanError", "max_distance: found 4, expected at most 3"),
    ),
    "a distance of an addition": (
        {"path": "/add_if_new", "body": {"fingerprints": ["5"], "ids": ["1"]}, "query": "max_distance=4"},
        (422, "PlanError", "max_distance: found 4, expected at most 3"),
    ),
    "no distance": (
        {"path": "/probe", "body": ROWS, "query": "max_distance=-1"},
        (400, "ValueError", "max_distance: found '-1', expected a whole number"),
    ),
    "an empty distance": (
        {"path": "/probe", "body": ROWS, "query": "max_distance="},
        (400, "ValueError", "max_distance: found '', expected a whole number"),
    ),
    "a parameter": (
        {"path": "/probe", "body": ROWS, "query": "k=1"},
        (400, "ValueError", "parameter: found 'k', expected max_distance"),
    ),
    "a distance of a removal": (
        {"path": "/remove", "body": ROWS, "query": "max_distance=1"},
        (400, "ValueError", "parameter: found 'max_distance', expected none"),
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_wrong_with_a_request_is_said(unchanged: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "LINGER_SECONDS", 0.01)
    request, (status, name, message) = REFUSED[kind]
    found = ask(unchanged, **request)
    assert found.error[:2] == (status, name)
    assert found.error[2].startswith(message) or message in found.error[2]
    if status == 405:
        assert found.headers["allow"] == ("POST" if request["path"] == "/probe" else "GET")
    with fpstore.open(unchanged) as opened:
        assert opened.count("rows") == 3


def test_limits_are_kept(unchanged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "LINGER_SECONDS", 0.01)
    limits = Limits(body_bytes=100, queries=4, matches=3)

    async def work(client: Client) -> None:
        assert (await client.ask("/probe", {"fingerprints": ["5"] * 3})).json["query_count"] == 3
        many = await client.ask("/probe", {"fingerprints": ["6"] * 5})
        assert many.error == (413, "TooManyQueries", "body: found 5 rows, expected at most 4")
        matches = await client.ask("/probe", {"fingerprints": [FIRST, FIRST]})
        assert matches.error[:2] == (422, "TooManyMatches")
        assert "expected at most 3 in one answer" in matches.error[2]
        long = await client.ask("/probe", b" " * 101)
        assert long.error == (413, "BodyTooLarge", "body: found 101 bytes, expected at most 100")
        assert long.headers["connection"] == "close"
        assert (await client.ask("/probe", parts=[b" " * 50] * 2)).status == 400
        chunked = await client.ask("/probe", parts=[b" " * 50] * 1000)
        assert chunked.error == (413, "BodyTooLarge", "body: found more, expected at most 100 bytes")
        rows = stream_of(pa.table({"fingerprints": ["5"] * 5}))
        assert (await client.ask("/probe", rows, headers={"content-type": ARROW})).status == 413

    with_app(unchanged, work, limits=limits)


@pytest.mark.parametrize("name", ["body_bytes", "queries", "matches", "answer_bytes", "seconds", "connections"])
def test_a_limit_is_at_least_one(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: found 0, expected 1 or more"):
        Limits(**{name: 0})


def test_a_body_that_is_refused_is_not_held(unchanged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "LINGER_SECONDS", 0.01)
    read: list[int] = []

    async def before(part: int) -> None:
        read.append(part)

    async def work(client: Client) -> None:
        announced = {"content-length": str(1 << 30), "expect": "100-continue"}
        refused = await client.ask("/probe", b"{", headers=announced, before_part=before)
        assert refused.error[:2] == (413, "BodyTooLarge")
        assert read == []  # not even asked for

    with_app(unchanged, work)


def test_of_a_body_that_is_refused_no_more_than_so_much_is_thrown_away(
    unchanged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "LINGER_BYTES", 1000)
    read: list[int] = []

    async def before(part: int) -> None:
        read.append(part)

    async def work(client: Client) -> None:
        refused = await client.ask("/probe", parts=[b" " * 100] * 50, before_part=before)
        assert refused.error[:2] == (413, "BodyTooLarge")
        assert len(read) == 3 + 10

    with_app(unchanged, work, limits=Limits(body_bytes=200))


def test_a_service_for_reading_changes_nothing(store: Path) -> None:
    with fpstore.open(store, "w"):  # beside whoever writes
        options = {"writes": False}
        assert ask(store, "/probe", ROWS, options=options).json["query_count"] == 1
        for path, rows in (("/add", {"fingerprints": ["7"], "ids": ["1"]}), ("/remove", {"ids": ["1"]})):
            status, name, message = ask(store, path, rows, options=options).error
            assert (status, name) == (403, "ReadOnly")
            assert "found it served for reading, expected a service that writes" in message


# --- Who may ask ---


def test_a_whole_address_is_the_path_in_it(unchanged: Path) -> None:
    async def work(client: Client) -> None:
        for address in ("http://localhost/stats", "https://x:80/stats", "HTTP://[::1]:1/stats"):
            assert (await client.ask(address)).json["format"] == "fpstore.stats/1"
        assert (await client.ask("http://localhost")).headers["content-type"].startswith("text/html")
        assert (await client.ask("http://localhost/probe", ROWS)).json["query_count"] == 1
        assert (await client.ask("http://localhost/probe")).headers["allow"] == "POST"
        for address in ("ftp://localhost/stats", "http:/stats", "http://localhost//stats", "http://x/http://y/stats"):
            assert (await client.ask(address)).status == 404

    with_app(unchanged, work)


def test_only_who_shows_the_token_is_answered(unchanged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "LINGER_SECONDS", 0.01)

    async def work(client: Client) -> None:
        right = f"Bearer {TOKEN.decode()}"
        for shown in (right, right.replace("Bearer", "bearer"), right.replace(" ", "  ")):
            assert (await client.ask("/stats", headers={"authorization": shown})).status == 200
        for shown in ("", TOKEN.decode(), f"Basic {TOKEN.decode()}", right[:-1], f"{right}x", "Bearer", "Bearer \xff"):
            refused = await client.ask("/stats", headers={"authorization": shown})
            assert refused.error == (401, "Unauthorized", "authorization: found no right token, expected Bearer TOKEN")
            assert refused.headers["www-authenticate"] == "Bearer"
            assert (await client.ask("/nosuch", headers={"authorization": shown})).status == 401
            assert (await client.ask("/remove", {"ids": ["9"]}, headers={"authorization": shown})).status == 401
        assert (await client.ask("/healthz")).status == 200
        assert (await client.ask("/stats", headers={"authorization": right, "host": "example.org"})).status == 200

    with_app(unchanged, work, token=TOKEN)
    with fpstore.open(unchanged) as opened:
        assert opened.count() == 3


def test_without_a_token_a_port_is_for_requests_that_name_this_machine(unchanged: Path) -> None:
    async def work(client: Client) -> None:
        for host in ("localhost", "LOCALHOST:3778", "127.0.0.1:3778", "[::1]:3778", "[::1]"):
            assert (await client.ask("/stats", headers={"host": host})).status == 200
        for host in ("example.org", "example.org:3778", "localhost.example.org", "127.0.0.1.example.org:80", ""):
            told = (403, "Forbidden", f"host: found {host!r}, expected localhost or 127.0.0.1 or ::1")
            for path in ("/stats", "/healthz"):
                assert (await client.ask(path, headers={"host": host})).error == told
            # A whole address has its own host, which counts.
            assert (await client.ask(f"http://{host}/stats")).error == told
            assert (await client.ask("http://localhost/stats", headers={"host": host})).status == 200

    with_app(unchanged, work, only_local=True)


# --- Clients that are slow, or leave ---


@pytest.mark.slow
def test_a_body_that_does_not_come_is_waited_for_no_longer_than_said(store: Path) -> None:
    async def stall(part: int) -> None:
        if part:
            await asyncio.sleep(3600)

    async def work(client: Client) -> Response:
        return await client.ask("/probe", parts=[b'{"fingerprints": [', b"]}"], before_part=stall)

    found = with_app(store, work, limits=Limits(seconds=1))
    assert found.error == (408, "RequestTimeout", "body: found 18 bytes in 1 s, expected all of it")


@pytest.mark.slow
def test_large_bodies_wait_for_a_place_and_small_ones_do_not(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "LARGE_AT_ONCE", 2)
    monkeypatch.setattr(apps, "LINGER_SECONDS", 0.01)
    body = json.dumps({"fingerprints": ["5"] * 20_000}).encode()
    most = waiting = 0

    async def before(part: int) -> None:
        nonlocal most, waiting
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0.01)
        waiting -= 1

    async def work(client: Client) -> None:
        large = [asyncio.create_task(client.ask("/probe", body, before_part=before)) for _ in range(6)]
        assert (await client.ask("/probe", ROWS)).status == 200
        assert [each.status for each in await asyncio.gather(*large)] == [200] * 6
        assert most == 2
        client.app._limits = Limits(seconds=1)
        taken = [asyncio.create_task(client.app._large.acquire()) for _ in range(2)]
        await asyncio.gather(*taken)
        busy = await client.ask("/probe", body)
        assert busy.error[:2] == (503, "Busy")
        assert busy.headers["retry-after"] == "1"
        assert (await client.ask("/probe", ROWS)).status == 200
        client.app._large.release()
        assert (await client.ask("/probe", body)).status == 200

    with_app(store, work)


def test_a_client_that_leaves_costs_nothing(unchanged: Path) -> None:
    async def work(client: Client) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        length = [(b"content-type", JSON.encode()), (b"content-length", b"100000")]
        scope = {"type": "http", "method": "POST", "path": "/probe", "query_string": b"", "headers": length}
        await client.app(scope, receive, send)
        assert client.app._large._value == LARGE_AT_ONCE
        with pytest.raises(ValueError, match="scope: found type 'websocket', expected http"):
            await client.app({"type": "websocket"}, receive, send)

    with_app(unchanged, work)


@pytest.mark.slow
def test_an_answer_that_is_not_taken_is_cut(store: Path) -> None:
    async def work(client: Client) -> None:
        aborted = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await aborted.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            await asyncio.sleep(3600)

        scope = {"type": "http", "method": "GET", "path": "/stats", "query_string": b"", "headers": []}
        await client.app({**scope, apps.ABORT: aborted.set}, receive, send)
        assert aborted.is_set()

    with_app(store, work, limits=Limits(seconds=1))


# --- What goes wrong inside ---


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*arguments: object, **options: object) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (StoreChanged("another one", path="s"), 503, "StoreChanged"),
        (OSError(28, "No space left on device"), 503, "OSError"),
        (MemoryError(), 503, "MemoryError"),
        (CorruptStore("page 3", 1, 2, path="s"), 500, "CorruptStore"),
        (KeyError("secret"), 500, "InternalError"),
    ],
)
def test_what_goes_wrong_with_the_store_is_said_and_the_service_goes_on(
    unchanged: Path,
    error: Exception,
    status: int,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def work(client: Client) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "probe_many", failing(error))
            patch.setattr(Store, "contains_near", failing(error))
            patch.setattr(Store, "add_if_new", failing(error))
            for path, body in (
                ("/probe", ROWS),
                ("/healthz", None),
                ("/add_if_new", {"fingerprints": ["5"], "ids": ["1"]}),
            ):
                found = await client.ask(path, body)
                assert found.error[:2] == (status, kind)
                assert "secret" not in found.error[2]
                assert ("retry-after" in found.headers) == (status == 503)
        assert (await client.ask("/probe", ROWS)).status == 200

    with_app(unchanged, work)
    said = capsys.readouterr().err
    assert said.count("fpstore: ") == (3 if status == 500 else 0)
    assert ("KeyError: 'secret'" in said) == (kind == "InternalError")


def test_every_error_has_a_status() -> None:
    statuses = {
        "CorruptStore": 500,
        "NotAStore": 500,
        "UnsupportedVersion": 500,
        "JobError": 500,
        "Error": 500,
        "StoreLocked": 503,
        "StoreChanged": 503,
        "StoreClosed": 503,
        "TooManyMatches": 422,
        "PlanError": 422,
        "RecipeError": 422,
        "WrongKind": 422,
        "ReadOnly": 403,
        "BadInput": 400,
    }
    kinds = {name: getattr(fpstore, name) for name in fpstore.__all__}
    parts = dict.fromkeys(("CorruptStore", "UnsupportedVersion"), ("told", 1, 2))
    found = {
        name: status_of(kind(*parts.get(name, ("told",))))
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, Warning)
    }
    assert found == statuses
    assert status_of(Refused(418, "Teapot", "told")) == 418
    assert json.loads(body_of(Refused(418, "Teapot", "told")))["error"] == {"type": "Teapot", "message": "told"}
    assert failures.status_of(TypeError("x")) == 400


def test_threads_answer_while_others_wait(unchanged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()
    probe_many = Store.probe_many

    def waiting(self: Store, keys: Any, **options: Any) -> Any:
        if len(keys) == 2:
            entered.set()
            leave.wait(60)
        return probe_many(self, keys, **options)

    monkeypatch.setattr(Store, "probe_many", waiting)

    async def work(client: Client) -> None:
        slow = asyncio.create_task(client.ask("/probe", {"fingerprints": ["5", "5"]}))
        await asyncio.to_thread(entered.wait, 60)
        assert (await client.ask("/probe", ROWS)).status == 200
        leave.set()
        assert (await slow).status == 200

    with_app(unchanged, work)


def test_without_pyarrow_the_extra_is_named(unchanged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = ask(unchanged, "/probe", b"x", headers={"content-type": ARROW})
    assert found.error == (415, "ImportError", "Arrow needs pyarrow: pip install 'fpstore[arrow]'")
