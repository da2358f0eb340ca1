"""A store that was away for a moment is served on, by all parts of a service; one that was replaced by none."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from serving import Client, with_app

import fpstore
from fpstore import StoreChanged, StoreClosed, StoreLocked
from fpstore.living import reader
from fpstore.serve.held import Held

ROWS = {"fingerprints": ["5"]}
ASKED: dict[str, tuple[str, Any]] = {
    "read": ("/probe", ROWS),
    "health": ("/healthz", None),
    "write": ("/add", {"fingerprints": ["ff00"], "ids": ["1"]}),
}
WHO = [each for size in range(4) for each in itertools.combinations(ASKED, size)]


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LOOK_SECONDS", 0)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s", [5], ids=[10]).close()
    return tmp_path / "s"


async def statuses(client: Client, names: Any) -> list[int]:
    return [(await client.ask(*ASKED[name])).status for name in names]


@pytest.mark.parametrize("who", WHO, ids="-".join)
def test_a_store_that_was_away_is_served_on_whoever_asked_meanwhile(store: Path, who: tuple[str, ...]) -> None:
    away = store.with_name("away")

    async def work(client: Client) -> None:
        for number in range(3):
            assert await statuses(client, ASKED) == [200] * 3
            store.rename(away)
            assert await statuses(client, who) == [503] * len(who)
            away.rename(store)
            added = {"fingerprints": [f"ff0000{number}"], "ids": [str(100 + number)]}
            assert (await client.ask("/add", added)).json["row_count"] == 1
            found = await client.ask("/probe", {"fingerprints": [f"ff0000{number}"]}, query="max_distance=0")
            assert [match["id"] for match in found.json["matches"]] == [str(100 + number)]

    with_app(store, work)
    with fpstore.open(store) as opened:
        assert opened.count("rows") == 1 + 1 + 3


@pytest.mark.parametrize("who", WHO, ids="-".join)
@pytest.mark.parametrize("other", ["another", "copied", "none"])
def test_what_came_in_its_place_is_not_served_and_not_written_to(store: Path, who: tuple[str, ...], other: str) -> None:
    away = store.with_name("away")

    async def work(client: Client) -> None:
        assert await statuses(client, ASKED) == [200] * 3
        store.rename(away)
        assert await statuses(client, who) == [503] * len(who)
        if other == "another":
            fpstore.build(store, [5], ids=[10]).close()
        elif other == "copied":
            with fpstore.open(away) as opened:
                opened.copy(store)
        for _ in range(2):
            for name, asked in ASKED.items():
                status, kind, told = (await client.ask(*asked)).error
                assert (status, kind) == (503, "StoreChanged"), name
                there = "nothing" if other == "none" else "another folder"
                assert f"found {there}, expected the folder that was opened there" in told

    with_app(store, work)
    if other != "none":
        with fpstore.open(store) as opened:
            assert opened.count("rows") == (1 if other == "another" else 2)


def test_another_store_in_the_same_folder_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.open(store) as opened:
        held = Held(opened)
        monkeypatch.setattr(held, "_identity", "0" * 32)
        with pytest.raises(StoreChanged, match="found another store, expected the one that was opened there"):
            held.ask(failing_once())
        held.close()
        with pytest.raises(StoreClosed):
            held.ask(lambda store: store.count())


def failing_once() -> Any:
    failures = iter([StoreChanged("told before")])

    def work(store: fpstore.Store) -> int:
        for error in failures:
            raise error
        return store.count()

    return work


def test_a_place_that_another_writer_took_is_asked_for_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = fpstore.open(store, "w")
    held = Held(opened)
    open_it = fpstore.open

    def locked(*arguments: Any) -> Any:
        raise StoreLocked("another writer was quicker")

    monkeypatch.setattr(fpstore, "open", locked)
    for _ in range(2):
        with pytest.raises(StoreLocked, match="another writer was quicker"):
            held.ask(failing_once())
    monkeypatch.setattr(fpstore, "open", open_it)
    assert held.ask(lambda store: store.count()) == 1
    held.close()
    assert asyncio.run(asyncio.to_thread(lambda: fpstore.open(store, "w").close())) is None
