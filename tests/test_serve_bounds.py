"""How large an answer may be: it is counted in bytes, as names are long, and never made whole where it is too large."""

import tracemalloc
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import ARROW, Client, Response, with_app
from test_serve_lines import asked

import fpstore
from fpstore import TooManyMatches
from fpstore.living import named
from fpstore.living.sizes import LivingSizes
from fpstore.serve import lines
from fpstore.serve.limits import Limits
from fpstore.serve.lines import adding, probing
from fpstore.types import IdType

MIB = 1 << 20
LONG = 60_000
ROWS = 20


def name(number: int, id_type: str, size: int = LONG, filler: str = "x") -> Any:
    text = f"{number:04d}".ljust(size, filler)
    return text if id_type == "string" else text.encode()


@pytest.fixture(params=["string", "bytes"])
def fat(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, IdType]:
    """One fingerprint with ROWS long names, and one name with ROWS fingerprints far from each other."""
    id_type: IdType = request.param
    keys = [10] * ROWS + [0xFF << (i + 8) for i in range(0, 40, 2)]
    names = [name(i, id_type) for i in range(ROWS)] + [name(999, id_type)] * ROWS
    fpstore.build(tmp_path / "s", keys, ids=names, id_type=id_type).close()
    return tmp_path / "s", id_type


def ask(store: Path, path: str, body: dict[str, Any], limits: Limits, form: str) -> Response:
    def asking(client: Client) -> Awaitable[Response]:
        return client.ask(path, body, headers={"accept": form})

    return with_app(store, asking, limits=limits)


def asked_of(path: str, id_type: str, times: int) -> dict[str, Any]:
    """What is answered by `times` as many names as there are long ones."""
    if path == "/lookup":
        return {"ids": [name(999, "string")]}
    if path == "/probe":
        return {"fingerprints": ["a"] * times}
    return {"fingerprints": ["a"] * times * ROWS, "ids": [str(number) for number in range(times * ROWS)]}


@pytest.mark.parametrize("form", ["application/json", ARROW])
@pytest.mark.parametrize("path", ["/probe", "/lookup", "/add_if_new"])
def test_an_answer_over_its_bytes_is_refused_before_it_is_made(fat: tuple[Path, IdType], path: str, form: str) -> None:
    store, id_type = fat
    limits = Limits(answer_bytes=ROWS * LONG + 10_000)
    assert ask(store, path, asked_of(path, id_type, 1), limits, form).status == 200
    small = replace(limits, answer_bytes=ROWS * LONG - 1)
    tracemalloc.start()
    try:
        for found in (
            ask(store, path, asked_of(path, id_type, 1), small, form),
            ask(store, path, asked_of(path, id_type, 1 if path == "/lookup" else 60), small, form),
        ):
            assert found.error[:2] == (422, "TooManyMatches")
            assert f"expected at most {small.answer_bytes} in one answer; ask for less at once" in found.error[2]
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB  # of 72 MB
    finally:
        tracemalloc.stop()
    with fpstore.open(store) as opened:
        assert opened.count("rows") == 2 * ROWS  # what was refused was not added


@pytest.mark.parametrize("form", ["application/json", ARROW])
@pytest.mark.parametrize("path", ["/probe", "/lookup", "/add_if_new"])
def test_what_names_become_as_they_are_written_counts(tmp_path: Path, path: str, form: str) -> None:
    long = name(999, "string", filler="\x01")
    fpstore.build(tmp_path / "s", [10, 0xFF << 40], ids=[long, long], id_type="string").close()
    body = {"/lookup": {"ids": [long]}, "/probe": {"fingerprints": ["a", "a"]}}.get(path)
    body = body or {"fingerprints": ["a", "a"], "ids": ["1", "2"]}
    limits = Limits(answer_bytes=4 * LONG)
    found = ask(tmp_path / "s", path, body, limits, form)
    if form == ARROW:
        assert found.status == 200
    else:
        assert found.error[:2] == (422, "TooManyMatches")
        assert found.error[2].startswith(f"answer: found more than {4 * LONG} bytes, expected at most {4 * LONG}")
        assert ("; the rows were added" in found.error[2]) == (path == "/add_if_new")
    assert ask(tmp_path / "s", path, body, Limits(answer_bytes=14 * LONG), form).status == 200


def test_a_table_over_its_bytes_is_refused(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [5] * 100).close()
    found = ask(tmp_path / "s", "/probe", {"fingerprints": ["5"]}, Limits(answer_bytes=1000), ARROW)
    assert found.error == (
        422,
        "TooManyMatches",
        "answer: found more than 1000 bytes, expected at most 1000; ask for less at once",
    )


def test_lines_are_bounded_in_bytes_too(fat: tuple[Path, IdType], monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = fat
    monkeypatch.setattr(lines, "MAX_ANSWER_BYTES", 5 * LONG)
    with fpstore.open(store, "w") as opened:
        many, one, few = asked(probing(opened, 0), "a", "ff00", "5")
        assert many["error"]["type"] == "TooManyMatches"
        assert [len(answer["matches"]) for answer in (one, few)] == [1, 0]
        near = asked(adding(opened, 0, None), *({"fingerprint": "a", "id": str(i)} for i in range(ROWS)))
        assert [answer["match_id"] for answer in near] == [name(0, "string")] * ROWS
        monkeypatch.setattr(lines, "MAX_ANSWER_BYTES", LONG + 10)
        (over,) = asked(probing(opened, 0), "ff00")
        assert over["error"]["message"].startswith(f"answer: found more than {LONG + 10} bytes")


def bytes_of(names: Any, rows: Any = slice(None)) -> int:
    return sum(len(each) for each in names[rows])


@pytest.mark.parametrize("at_once", [1, 3, 1000])
@pytest.mark.parametrize("piece_rows", [5, 1000])
def test_the_bytes_of_names_are_counted_exactly(
    tmp_path: Path, at_once: int, piece_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named, "NAMES_AT_ONCE", at_once)
    monkeypatch.setattr(named, "MAX_NAME_BYTES", 40)
    rng = np.random.default_rng(3)
    names = [f"{i}" * int(rng.integers(1, 9)) for i in range(30)]
    keys = rng.integers(0, 12, 30).astype(np.uint64) * np.uint64(0x0101010101010101)
    path = tmp_path / "s"
    fpstore.create(path, id_type="string").close()
    sizes = replace(LivingSizes(), piece_rows=piece_rows)
    with fpstore.Store(path, "w", "commit", sizes) as store:
        store.add(keys[:10], ids=names[:10])
        store._flush()
        store.add(keys[10:15], ids=names[10:15])
        before = [row for rows in store.rows() for row in rows]
        # Rows are near what is stored, in a segment and in the log, and near earlier ones of them.
        with fpstore.create(tmp_path / "t", id_type="string") as twin:
            twin.add(keys[:15], ids=names[:15])
            expected = twin.add_if_new(keys[15:], ids=names[15:], max_distance=0)
            assert 0 < expected.stored.sum() < 15
        total = bytes_of(expected.match_id, ~expected.stored)
        store.max_name_bytes = total - 1
        with pytest.raises(TooManyMatches, match=f"names: found more than {total - 1} bytes, expected at most"):
            store.add_if_new(keys[15:], ids=names[15:], max_distance=0)
        assert [row for rows in store.rows() for row in rows] == before
        store.max_name_bytes = total
        assert [*store.add_if_new(keys[15:], ids=names[15:], max_distance=0)] == [*expected]
        for probed in (lambda: store.probe_many(keys, max_distance=0), lambda: store.lookup(names)):
            store.max_name_bytes = None
            whole = probed()
            store.max_name_bytes = bytes_of(whole.id)
            assert probed() == whole
            store.max_name_bytes -= 1
            with pytest.raises(TooManyMatches, match="names: found more than"):
                probed()
