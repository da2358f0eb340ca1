"""A list of stores is served as one store of all their rows, and nobody changes it."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from living import writer_of
from outcome import Command
from serving import ARROW, Client, Response, serving, with_app
from test_cluster_shards import KEYS, listed

import fpstore
from fpstore.cluster import Shards
from fpstore.living import reader
from fpstore.serve import service as services
from fpstore.serve.limits import Limits

QUERIES = [f"{key:x}" for key in (KEYS[::29] ^ np.uint64(1 << 40)).tolist()]


@pytest.fixture(scope="module", params=[True, False], ids=["ids", "bare"])
def unchanged(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Path, Path, bool]:
    """A list of three stores that overlap, one store of all their rows, and whether these have ids."""
    return *listed(tmp_path_factory.mktemp("lists"), request.param, 3, 60), request.param


def ask(store: Path, path: str, body: Any = None, limits: Limits | None = None, **request: Any) -> Response:
    def asking(client: Client) -> Awaitable[Response]:
        return client.ask(path, body, **request)

    return with_app(store, asking, limits=limits, writes=False)


@pytest.mark.parametrize("form", ["application/json", ARROW])
@pytest.mark.parametrize(
    ("path", "query"),
    [("/probe", ""), ("/probe", "max_distance=1"), ("/nearest", "count=5"), ("/nearest", "count=3&max_distance=9")],
)
def test_what_is_asked_of_a_list_is_answered_as_of_one_store(
    unchanged: tuple[Path, Path, bool], path: str, query: str, form: str
) -> None:
    many, one, _ = unchanged
    found, expected = (
        ask(each, path, {"fingerprints": QUERIES}, query=query, headers={"accept": form}) for each in (many, one)
    )
    assert (found.status, found.body) == (200, expected.body)
    assert len(found.body) > 1000


def test_ids_of_a_list_are_looked_up_as_of_one_store(unchanged: tuple[Path, Path, bool], command: Command) -> None:
    many, one, with_ids = unchanged
    found, expected = (ask(each, "/lookup", {"ids": ["7", "400", "9999999"]}) for each in (many, one))
    told, whole = (command("lookup", each, "7", "400", "9999999") for each in (many, one))
    if with_ids:
        assert (found.status, found.body) == (200, expected.body)
        assert len(found.json["rows"]) == 3
        assert told == whole
        assert len(told.lines) == 3
    else:
        assert (found.status, expected.status) == (400, 400)
        assert "found some, expected none: the store has no ids" in found.error[2]
        assert told.status == 2


def test_the_recipe_of_a_list_stands_in_its_answers_and_makes_texts_fingerprints(tmp_path: Path) -> None:
    from fpstore.text import recipes

    recipe = recipes()["multilingual"]
    texts = [f"a text about {number} that is long enough to have shingles" for number in range(4)]
    keys = recipe.fingerprint_many(texts)
    for name, own in (("all", slice(None)), ("0", slice(2)), ("1", slice(2, None))):
        fpstore.build(tmp_path / name, keys[own], ids=[*range(4)][own], recipe=recipe).close()
    Shards.write(tmp_path / "a.shards.json", [tmp_path / "0", tmp_path / "1"])
    for headers in ({}, {"accept": ARROW}):
        found, expected = (
            ask(tmp_path / name, "/probe", {"texts": texts}, headers=headers) for name in ("a.shards.json", "all")
        )
        assert (found.status, found.body) == (200, expected.body)


def test_a_list_tells_what_each_of_its_stores_holds_and_whether_all_answer(tmp_path: Path) -> None:
    many, _ = listed(tmp_path, True, 2, 0)
    found = ask(many, "/stats")
    assert found.json["format"] == "fpstore.list-stats/1"
    with Shards(many) as opened:
        assert [each["identity"] for each in found.json["stores"]] == list(opened.identity)
    assert all("written_at" in each for each in found.json["stores"])
    assert ask(many, "/healthz").json["status"] == "ok"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/add", {"fingerprints": ["5"], "ids": ["1"]}),
        ("/add_if_new", {"fingerprints": ["5"], "ids": ["1"]}),
        ("/upsert", {"fingerprints": ["5"], "ids": ["1"]}),
        ("/remove", {"ids": ["1"]}),
    ],
)
def test_a_list_is_changed_by_nobody(unchanged: tuple[Path, Path, bool], path: str, body: dict[str, Any]) -> None:
    many, _, with_ids = unchanged
    if not with_ids:
        body = {"fingerprints": ["5"]}
    told = "found a list of stores, which is only asked, expected one store; serve the store that is to change"
    assert ask(many, path, body).error == (403, "ReadOnly", f"{many}: {told}")


def test_the_rows_of_all_stores_of_a_list_count_together(tmp_path: Path) -> None:
    for number in range(3):
        fpstore.build(tmp_path / f"{number}", [5] * 10, ids=range(number * 7, number * 7 + 10)).close()
    Shards.write(tmp_path / "a.shards.json", [tmp_path / f"{number}" for number in range(3)])
    for path, body in (("/probe", {"fingerprints": ["5"]}), ("/lookup", {"ids": [str(one) for one in range(30)]})):
        # 30 rows in all, of which 6 are in two stores.
        assert ask(tmp_path / "a.shards.json", path, body, Limits(matches=24)).status == 200
        refused = ask(tmp_path / "a.shards.json", path, body, Limits(matches=23))
        assert refused.error[:2] == (422, "TooManyMatches")
        assert "found more than 23" in refused.error[2]


def test_what_all_stores_of_a_list_read_for_a_request_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, reach in enumerate((3, 4)):
        keys = np.random.default_rng(number).integers(0, 1 << 63, 30_000, dtype=np.uint64)
        fpstore.build(tmp_path / f"{number}", keys, max_distance=reach, ids=None).close()
    Shards.write(tmp_path / "a.shards.json", [tmp_path / "0", tmp_path / "1"])
    monkeypatch.setattr(services, "LEAST_QUERIES", 2)
    monkeypatch.setattr(services, "COMPARED_AT_ONCE", 100 * 60_000)
    assert ask(tmp_path / "a.shards.json", "/nearest", {"fingerprints": ["5"] * 100}).status == 200
    refused = ask(tmp_path / "a.shards.json", "/nearest", {"fingerprints": ["5"] * 101})
    assert refused.error[:2] == (413, "TooManyQueries")
    told = "each takes as long as 60000 words of 64 bits that are read; fewer with max_distance=3 or less"
    assert refused.error[2].endswith(told)
    far = ask(tmp_path / "a.shards.json", "/probe", {"fingerprints": ["5"]}, query="max_distance=4")
    assert far.error == (422, "PlanError", "max_distance: found 4, expected at most 3, that of the store's plan")


def test_a_list_one_of_whose_stores_was_away_is_served_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LOOK_SECONDS", 0)
    many, _ = listed(tmp_path, True, 2, 0)
    second, away = tmp_path / "1.fpstore", tmp_path / "away"
    asked = ("/probe", {"fingerprints": [f"{KEYS[-1]:x}"]})

    async def work(client: Client) -> None:
        before = await client.ask(*asked)
        assert before.json["matches"]
        second.rename(away)
        for path in (asked, ("/healthz",)):
            status, kind, told = (await client.ask(*path)).error
            assert (status, kind) == (503, "StoreChanged")
            assert f"{second}: found nothing, expected the folder that was opened there; put it back" in told
        away.rename(second)
        assert (await client.ask(*asked)).body == before.body
        # A writer beside it is followed, as of one store; the list of before is not that of the stores any more.
        with writer_of(second) as store:
            store.add([5], ids=[1 << 40])
        assert (await client.ask("/lookup", {"ids": [str(1 << 40)]})).json["rows"] != []
        second.rename(away)
        assert (await client.ask(*asked)).status == 503
        away.rename(second)
        status, kind, told = (await client.ask(*asked)).error
        assert (status, kind) == (503, "StoreChanged")
        assert "as listed: write the list anew" in told

    with_app(many, work, writes=False)


def test_a_list_that_was_written_anew_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LOOK_SECONDS", 0)
    many, whole = listed(tmp_path, True, 2, 0)
    second, away = tmp_path / "1.fpstore", tmp_path / "away"

    async def work(client: Client) -> None:
        second.rename(away)
        assert (await client.ask("/healthz")).status == 503
        away.rename(second)
        Shards.write(many, [whole])
        status, _, told = (await client.ask("/healthz")).error
        assert (status, told) == (503, f"{many}: found a list of other stores, expected the one that was opened there")

    with_app(many, work, writes=False)


@pytest.mark.slow
def test_the_command_serves_a_list(tmp_path: Path) -> None:
    many, one = listed(tmp_path, True, 2, 0)
    with serving(many, "--port", 0) as served, served.client() as client:
        found = client.post("/probe", json={"fingerprints": QUERIES})
        refused = client.post("/add", json={"fingerprints": ["5"], "ids": ["1"]})
        with writer_of(tmp_path / "0.fpstore"):  # which the service is not
            assert client.get("/healthz").status_code == 200
    assert found.json() == ask(one, "/probe", {"fingerprints": QUERIES}).json
    assert refused.status_code == 403
