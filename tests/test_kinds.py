"""Every command with a store, or a recipe, of each kind: it does what it says of that kind, or says which it is for."""

import json
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from outcome import Command
from serving import ARROW, Client, Response, with_app

import fpstore
from fpstore import cli, minhash
from fpstore.cli.values import decimal_size
from fpstore.inputs import read
from fpstore.minhash.making import bands_for
from fpstore.serve.kinds import kind_of
from fpstore.serve.lines import adding, answer_lines, probing
from fpstore.text import DEFAULT_RECIPE, recipes
from fpstore.text.short import short_below
from fpstore.types import IdType

PRESET = recipes()["minhash-128"]
RECIPES = {"hamming": "text-1", "minhash": "minhash-128"}
WORDS = [" ".join(f"w{i}x{j}" for j in range(30)) for i in range(4)]
NEAR = WORDS[0] + " and more"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store of each kind, with and without ids, and texts."""
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(WORDS)))
    Path("near.jsonl").write_text(json.dumps({"id": 7, "text": NEAR}) + "\n")
    Path("ids.txt").write_text("id\n1\n")
    Path("some.hex").write_text("0000000000000005\n")
    kinds: list[tuple[IdType | None, str]] = [("uint64", ""), ("string", "-names"), (None, "-bare")]
    for id_type, name in kinds:
        ids = {"uint64": range(4), "string": list("abcd"), None: None}[id_type]
        with fpstore.create(f"hamming{name}", recipe=DEFAULT_RECIPE, id_type=id_type) as bits:
            bits.add_texts(WORDS, ids=ids)
        # Keys of 37 bits, as a build chooses them, where fingerprints have a multiple of 8.
        with minhash.create(f"minhash{name}", recipe=PRESET, id_type=id_type, bits=37) as signed:
            signed.add_texts(WORDS, ids=ids)
    return tmp_path


class Row(NamedTuple):
    """A command line, in which KIND is that of the store; what it says where it is not for that kind."""

    arguments: str
    hamming: str = ""
    minhash: str = ""


NO_BITS = "goes with fingerprints: found signatures"
NO_SIGNATURES = "goes with signatures (a recipe of sketch minhash): found fingerprints"
NO_TEXTS = "expected texts"
MAKES_NONE = "makes signatures and no fingerprints"
TABLE = [
    Row("build new in.jsonl --recipe RECIPE"),
    Row("build new in.jsonl --recipe RECIPE -k 3", minhash=NO_BITS),
    Row("build new in.jsonl --recipe RECIPE --plan size", minhash=NO_BITS),
    Row("build new in.jsonl --recipe RECIPE --codec xor", minhash=NO_BITS),
    Row("build new in.jsonl --recipe RECIPE --shuffle 5", minhash=NO_BITS),
    Row("build new in.jsonl --recipe RECIPE --max-bytes 99", minhash=NO_BITS),
    Row("build new in.jsonl --recipe RECIPE --bands 4", hamming=NO_SIGNATURES),
    Row("build new in.jsonl --recipe RECIPE --rows-per-band 4", hamming=NO_SIGNATURES),
    Row("build new in.jsonl --recipe RECIPE --min-similarity 0.7", hamming=NO_SIGNATURES),
    Row("build new in.jsonl --recipe RECIPE --no-keep-signatures", hamming=NO_SIGNATURES),
    Row("build new some.hex --recipe RECIPE", minhash=NO_TEXTS),
    Row("create new --recipe RECIPE"),
    Row("create new --recipe RECIPE --id-type string --exist-ok"),
    Row("create new --recipe RECIPE --id-type none"),
    Row("create new --recipe RECIPE -k 3", minhash=NO_BITS),
    Row("create new --recipe RECIPE --bands 4 --rows-per-band 4", hamming=NO_SIGNATURES),
    Row("add KIND near.jsonl --id-column id"),
    Row("add KIND near.jsonl --upsert"),
    Row("add KIND near.jsonl --if-new --header"),
    Row("add KIND near.jsonl --if-new -k 3", minhash=NO_BITS),
    Row("add KIND near.jsonl --if-new --min-similarity 0.8", hamming=NO_SIGNATURES),
    Row("add KIND some.hex --ids from:9", minhash=NO_TEXTS),
    Row("add KIND some.hex --ids from:9 --fingerprint-column 0", hamming="found column 0", minhash=NO_BITS),
    Row("remove KIND --id 1"),
    Row("remove KIND --id-input ids.txt --format csv"),
    Row(
        "remove KIND 5", minhash="found a FINGERPRINT or --input, expected --id or --id-input: the store has signatures"
    ),
    Row("remove KIND --input some.hex", minhash="found a FINGERPRINT or --input, expected --id or --id-input"),
    Row("remove KIND 5 --id 1 --pairs", minhash="found a FINGERPRINT or --input, expected --id or --id-input"),
    Row("remove KIND --input in.jsonl --html", minhash=NO_BITS),
    Row("probe KIND --text words --header"),
    Row("probe KIND --input near.jsonl"),
    Row("probe KIND --input near.jsonl --unbuffered"),
    Row("probe KIND --text words -k 2", minhash=NO_BITS),
    Row("probe KIND --text words --min-similarity 0.5", hamming=NO_SIGNATURES),
    Row("probe KIND 5", minhash="found a FINGERPRINT, expected --text or --input with texts: the store has signatures"),
    Row("probe KIND --input some.hex", minhash=NO_TEXTS),
    Row("nearest KIND --text words", minhash="found signatures, expected fingerprints: nearest goes by their distance"),
    Row("lookup KIND 1 --header"),
    Row("lookup KIND --input ids.txt --format csv"),
    Row("pairs KIND --header"),
    Row("pairs KIND --count"),
    Row("pairs KIND -k 2", minhash=NO_BITS),
    Row("pairs KIND --of ids", minhash=NO_BITS),
    Row("pairs KIND --min-similarity 0.5", hamming=NO_SIGNATURES),
    Row("document-pairs in.jsonl --recipe RECIPE"),
    Row("document-pairs in.jsonl --recipe RECIPE -k 2", minhash=NO_BITS),
    Row("document-pairs in.jsonl --recipe RECIPE --min-similarity 0.5", hamming=NO_SIGNATURES),
    Row("dedup in.jsonl -o kept.jsonl --recipe RECIPE"),
    Row("dedup in.jsonl -o kept.jsonl --store KIND"),
    Row("dedup in.jsonl -o kept.jsonl --store KIND -k 2", minhash=NO_BITS),
    Row("dedup in.jsonl -o kept.jsonl --store KIND --bands 16", hamming=NO_SIGNATURES),
    Row("cluster in.jsonl --recipe RECIPE"),
    Row("cluster in.jsonl --recipe RECIPE --components"),
    Row("cluster in.jsonl --recipe RECIPE --update-center", minhash=NO_BITS),
    Row("cluster KIND"),
    Row("cluster KIND --min-similarity 0.5", hamming=NO_SIGNATURES),
    Row("cluster KIND --components"),
    Row("cluster KIND --components -k 3", minhash=NO_BITS),
    Row("cluster KIND --update-center", minhash=NO_BITS),
    Row("cluster KIND --components --min-similarity 0.5", hamming=NO_SIGNATURES),
    Row("fingerprint in.jsonl --recipe RECIPE", minhash=MAKES_NONE),
    Row("compare --text one --text two --recipe RECIPE"),
    Row("compare --text one --text two --recipe RECIPE -k 3", minhash=NO_BITS),
    Row("compare --text one --text two --recipe RECIPE --bands 4", hamming=NO_SIGNATURES),
    Row("compare --text one --text two --recipe RECIPE --min-similarity 0.5", hamming=NO_SIGNATURES),
    Row("recipe RECIPE"),
    Row("learn-idf in.jsonl -o model --recipe RECIPE", minhash=MAKES_NONE),
    Row("compact KIND"),
    Row("copy KIND copied"),
    Row("recover KIND recovered"),
    Row("export KIND out.csv"),
    Row("export KIND out.jsonl"),
    Row("export KIND out.parquet"),
    Row("export KIND - --format jsonl"),
    Row("export KIND out.hex", minhash="format hex holds fingerprints: expected csv, jsonl, parquet for signatures"),
    Row("export KIND out.npy --no-ids", minhash=NO_BITS),
    Row("serve KIND --socket s.sock --timeout 0", hamming="timeout", minhash="timeout"),
    Row("plan --like KIND --n 1e6", minhash="found a store of kind minhash, expected hamming"),
    Row("report KIND"),
    Row("stats KIND"),
    Row("inspect KIND"),
    Row("verify KIND"),
]


def test_the_table_has_every_command() -> None:
    assert {row.arguments.split()[0] for row in TABLE} == set(cli.SUBCOMMANDS)


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.arguments.replace(" ", "_"))
@pytest.mark.usefixtures("here")
def test_a_command_takes_a_kind_or_says_which_it_takes(command: Command, row: Row, kind: str) -> None:
    arguments = row.arguments.replace("KIND", kind).replace("RECIPE", RECIPES[kind]).split()
    outcome = command(*arguments)
    refused = getattr(row, kind)
    if refused:
        assert (outcome.status, refused in outcome.err) == (2, True), outcome
        assert outcome.err.count("\n") == 1
    else:
        assert (outcome.status, "Traceback" in outcome.err) == (0, False), outcome


# --- What they print of signatures ---


@pytest.mark.usefixtures("here")
def test_what_is_found_is_told_in_columns_and_in_json(command: Command) -> None:
    (found,) = command("probe", "minhash", "--text", NEAR).lines
    query, name, similarity, bands = found.split("\t")
    assert (query, name) == ("0", "0")
    assert 0.7 < float(similarity) < 1 <= int(bands) <= 16
    header, line = command("probe", "minhash-names", "--input", "near.jsonl", "--header").lines
    assert header.split("\t") == ["query", "id", "similarity", "shared_bands"]
    assert line.split("\t") == ["0", "a", similarity, bands]
    (told,) = command("probe", "minhash", "--text", NEAR, "--json").lines
    expected = {"query": 0, "id": "0", "similarity": float(similarity), "shared_bands": int(bands)}
    assert json.loads(told) == {"format": "fpstore.probe/1", **expected}
    assert command("probe", "minhash", "--text", NEAR, "--min-similarity", "1").out == ""
    (bare,) = command("probe", "minhash-bare", "--text", NEAR).lines
    assert bare.split("\t") == ["0", "-", "-", bands]
    (bare,) = command("probe", "minhash-bare", "--text", NEAR, "--json").lines
    assert json.loads(bare) | {"id": 1, "similarity": 1} == json.loads(told) | {"id": 1, "similarity": 1}
    assert json.loads(bare)["id"] is json.loads(bare)["similarity"] is None
    both = command("probe", "minhash", "--text", NEAR, "--input", "in.jsonl").lines
    assert [each.split("\t")[:2] for each in both] == [["0", "0"], *([str(i + 1), str(i)] for i in range(4))]


@pytest.mark.usefixtures("here")
def test_a_text_without_a_token_and_with_tags_is_told(command: Command) -> None:
    assert (
        "--text has no token for recipe minhash-128: it is near its equals only"
        in command("probe", "minhash", "--text", "...").err
    )
    page = f"<p>{NEAR}</p>"
    assert "read all the same" in command("probe", "minhash", "--text", page).err
    assert (
        command("probe", "minhash", "--text", page, "--html").lines == command("probe", "minhash", "--text", NEAR).lines
    )
    Path("empty.jsonl").write_text("")
    assert "holds nothing, so nothing was asked for" in command("probe", "minhash", "--input", "empty.jsonl").err
    assert "nothing to ask for" in command("probe", "minhash").err


@pytest.mark.parametrize(
    ("line", "least"),
    [
        ("build new few.jsonl --recipe minhash-128", 16),
        ("build new few.jsonl --recipe minhash-128 --bands 32 --rows-per-band 4", 7),
        ("build new few.jsonl --recipe minhash-128 --min-similarity 0.5", 9),
        ("add minhash few.jsonl --ids from:9", 16),
        ("add minhash few.jsonl --ids from:9 --if-new", 16),
        ("probe minhash --input few.jsonl", 16),
        ("dedup few.jsonl -o kept --recipe minhash-128", 16),
    ],
)
@pytest.mark.usefixtures("here")
def test_short_texts_and_those_without_a_token_are_told_by_whoever_signs_them(
    command: Command, line: str, least: int
) -> None:
    """A text of one token less than this is short, and one of this many is not."""
    recipe, bands, rows = PRESET, 16, 8
    if "--bands" in line:
        bands, rows = 32, 4
    elif "--min-similarity 0.5" in line:
        bands, rows = bands_for(recipe.values, 0.5)
    assert least == short_below(recipe, cut=(bands, rows))
    texts = [" ".join(f"x{i}y{j}" for j in range(count)) for i, count in enumerate([least - 1] * 3 + [least]) if count]
    Path("few.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, "..."]))
    told = command(*line.split()).err
    near = f"recipe minhash-128 and {bands} bands of {rows} values"
    assert f"3 of 5 texts have fewer than {least} tokens, too few for {near}" in told
    assert "1 of 5 texts have no token for recipe minhash-128" in told


@pytest.mark.usefixtures("here")
def test_what_is_not_new_is_told_with_what_it_is_near(command: Command) -> None:
    outcome = command("add", "minhash", "near.jsonl", "in.jsonl", "--if-new", "--header")
    header, first, *others = outcome.lines
    assert header.split("\t") == ["id", "match_id", "match_similarity", "match_shared_bands"]
    assert first.split("\t")[:2] == ["7", "0"]
    assert [line.split("\t") for line in others] == [[str(i), str(i), "1.0000", "16"] for i in range(4)]
    assert "added 0 of 5 rows" in outcome.err
    told = json.loads(command("add", "minhash-bare", "near.jsonl", "--if-new", "--json").out)
    named = {"id": None, "match_id": None, "match_similarity": None}
    assert told == {"format": "fpstore.add/1", **named, "match_shared_bands": int(first.split("\t")[3])}
    assert "added 1 of 1 row" in command("add", "minhash", "near.jsonl", "--if-new", "--min-similarity", "1").err
    with minhash.open("minhash") as store:
        assert store.count() == 5


@pytest.mark.usefixtures("here")
def test_pairs_look_ups_removals_and_rows(command: Command) -> None:
    command("add", "minhash", "near.jsonl", "--id-column", "id")
    header, line = command("pairs", "minhash", "--header").lines
    assert header.split("\t") == ["first_id", "second_id", "similarity", "shared_bands"]
    assert line.split("\t")[:2] == ["0", "7"]
    told = json.loads(command("pairs", "minhash", "--json").out)
    assert [told[name] for name in ("first_id", "second_id")] == ["0", "7"]
    assert command("pairs", "minhash", "--count").out == "1\n"
    assert json.loads(command("pairs", "minhash", "--count", "--json").out)["pair_count"] == 1
    assert command("pairs", "minhash", "--min-similarity", "1").out == ""
    header, line = command("lookup", "minhash", "7", "99", "--header").lines
    assert header.split("\t") == ["id", "sketch"]
    with minhash.open("minhash") as store:
        (kept,) = store.lookup([7])
        assert kept.sketch is not None
        assert line.split("\t") == ["7", kept.sketch.hex()]
    told = json.loads(command("lookup", "minhash-names", "b", "--json").out)
    assert (told["format"], told["id"], len(told["sketch"])) == ("fpstore.lookup/1", "b", 64)
    assert command("export", "minhash", "out.csv").status == 0
    lines = Path("out.csv").read_text().splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("id,sketch", f"7,{kept.sketch.hex()}", 6)
    command("add", "minhash-names", "in.jsonl", "--id-column", "text")
    assert [json.loads(line)["id"] for line in command("export", "minhash-names", "-", "--format", "jsonl").lines]
    command("export", "minhash-names", "out.parquet")
    assert pq.read_table("out.parquet").schema.names == ["id", "sketch"]
    command("export", "minhash-names", "names.csv")
    assert len(Path("names.csv").read_text().splitlines()) == 9
    command("export", "minhash", "signed.parquet", "--signed")
    assert pq.read_table("signed.parquet").schema.field("id").type == pa.int64()
    assert command("export", "minhash-bare", "bare.csv").status == 2
    assert "removed 2 rows, for 3 ids" in command("remove", "minhash", *["--id", "7", "--id", "0", "--id", "99"]).err
    with minhash.open("minhash") as store:
        assert store.count() == 3


@pytest.mark.usefixtures("here")
def test_stores_are_made_as_they_are_asked_for(command: Command) -> None:
    made = json.loads(command("create", "a", "--recipe", "minhash-128", "--bands", "5", "--json").out)
    assert {name: made[name] for name in ("is_empty", "bands", "rows_per_band", "values", "id_type")} == {
        "is_empty": True,
        "bands": 5,
        "rows_per_band": 8,
        "values": 128,
        "id_type": "uint64",
    }
    again = ["--recipe", "minhash-128", "--bands", "5", "--exist-ok"]
    assert "a: empty, with ids, 5 bands of 8 values" in command("create", "a", *again).err
    command("add", "a", "in.jsonl", "--id-column", "id")
    assert "a: there already" in command("create", "a", *again).err
    outcome = command("create", "a", "--recipe", "minhash-128", "--exist-ok")
    assert (outcome.status, "bands: found 5, expected 16" in outcome.err) == (2, True)
    outcome = command("create", "b", *["--recipe", "minhash-128", "--bands", "5", "--min-similarity", "0.5"])
    assert (outcome.status, "expected one of the two ways" in outcome.err) == (2, True)
    asked = "--recipe minhash-128 --min-similarity 0.5 --bits 40 --id-type string --id-column id"
    built = json.loads(command("build", "c", "in.jsonl", *asked.split(), "--json").out)
    assert (built["format"], built["document_count"], built["row_count"]) == ("fpstore.build/1", 4, 4)
    with minhash.open("c") as store:
        assert (store.bands, store.rows_per_band) != (16, 8)
        assert (store._settings.bits, store.id_type, store.recipe) == (40, "string", PRESET)
    assert "holds 4 documents" in command("build", "d", "in.jsonl", *["--recipe", "minhash-128", "--ids", "none"]).err
    with minhash.open("d") as store:
        assert (store.id_type, store.count()) == (None, 4)
    Path("empty.jsonl").write_text("")
    assert "holds nothing" in command("build", "e", "empty.jsonl", "--recipe", "minhash-128").err


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.usefixtures("here")
def test_a_build_tells_the_bytes_of_all_its_files(command: Command, kind: str) -> None:
    outcome = command(
        "build", "new", "in.jsonl", *["--recipe", RECIPES[kind], "--id-type", "string", "--id-column", "id"]
    )
    files = [*Path("new", "segments").iterdir()]
    assert len(files) == {"hamming": 2, "minhash": 3}[kind]
    size = sum(file.stat().st_size for file in [*files, Path("new", "catalog.mdb")])
    assert outcome.err.splitlines()[-1].endswith(f", {decimal_size(size)}")


@pytest.mark.usefixtures("here")
def test_signatures_of_texts_are_read_as_batches() -> None:
    with closing(read(["in.jsonl"], recipe=PRESET, batch=3)) as reader:
        batches = [*reader]
    assert [batch.fingerprints.shape for batch in batches] == [(3, 128), (1, 128)]
    assert (np.concatenate([batch.fingerprints for batch in batches]) == PRESET.sign_many(WORDS)).all()
    with pytest.raises(fpstore.RecipeError, match=r"some.hex: found fingerprints \(format hex\), expected texts"):
        read(["some.hex"], recipe=PRESET)


# --- Lines, and the service ---


def answered(ask: Any, store: Any, *lines: str) -> Iterator[Any]:
    parts = iter([*(line.encode() + b"\n" for line in lines), b""])
    found: list[str] = []
    answer_lines(lambda size: next(parts), found.append, lambda: None, store.recipe, ask, kind_of(store))
    return map(json.loads, found)


@pytest.mark.usefixtures("here")
def test_lines_are_answered_of_signatures() -> None:
    with minhash.open("minhash-names", "w") as store:
        asked = json.dumps({"text": NEAR, "id": "q"})
        first, wrong, bare = answered(probing(store, None), store, asked, "00000000000000ff", '{"fingerprint": "ff"}')
        (match,) = store.probe_text(NEAR)
        similarity = round(match.similarity, 4)
        told = {"id": "a", "similarity": similarity, "shared_bands": match.shared_bands}
        assert first == {"format": "fpstore.probe-line/1", "line": 0, "query_id": "q", "matches": [told]}
        for answer in (wrong, bare):
            assert "found some, expected texts: the store has signatures" in answer["error"]["message"]
        assert next(answered(probing(store, 1.0), store, asked))["matches"] == []
        known, new = answered(adding(store, None, None), store, asked, json.dumps({"text": "quite new", "id": "e"}))
        named = {f"match_{name}": value for name, value in told.items()}
        assert known == {"format": "fpstore.add-line/1", "line": 0, "id": "q", "stored": False, **named}
        nothing = dict.fromkeys(named)
        assert new == {"format": "fpstore.add-line/1", "line": 1, "id": "e", "stored": True, **nothing}
        with pytest.raises(ValueError, match="min_similarity: found 2"):
            probing(store, 2.0)
        with pytest.raises(ValueError, match="min_similarity: found -1"):
            adding(store, -1.0, None)
    with minhash.open("minhash-bare") as store:
        (found,) = answered(probing(store, None), store, json.dumps({"text": NEAR}))
        assert found["matches"][0] | {"shared_bands": 0} == {"id": None, "similarity": None, "shared_bands": 0}


@pytest.mark.usefixtures("here")
def test_a_service_answers_of_signatures() -> None:
    async def work(client: Client) -> None:
        def one(found: Response, name: str) -> Any:
            assert found.status == 200, found.body
            (each,) = found.json[name]
            return each

        assert (await client.ask("/healthz")).json["status"] == "ok"
        assert (await client.ask("/stats")).json["minhash"]["bands"] == 16
        match = one(await client.ask("/probe", {"texts": [NEAR]}), "matches")
        assert (match["query"], match["id"]) == (0, "0")
        assert 0.7 < match["similarity"] < 1
        assert (await client.ask("/probe", {"texts": [NEAR]}, query="min_similarity=1.0")).json["matches"] == []
        found = await client.ask("/probe", {"texts": [NEAR]}, headers={"accept": ARROW})
        assert pa.ipc.open_stream(BytesIO(found.body)).read_all().schema.names[1:3] == ["id", "similarity"]
        addition = one(await client.ask("/add_if_new", {"texts": [NEAR], "ids": ["9"]}), "additions")
        assert (addition["stored"], addition["match_id"]) == (False, "0")
        assert (await client.ask("/add", {"texts": ["one two three"], "ids": ["9"]})).json["row_count"] == 1
        assert (await client.ask("/upsert", {"texts": ["four five six"], "ids": ["9"]})).status == 200
        assert len(one(await client.ask("/lookup", {"ids": ["9"]}), "rows")["sketch"]) == 64
        assert (await client.ask("/remove", {"ids": ["9"]})).json["asked_count"] == 1
        assert (await client.ask("/lookup", {"ids": ["9"]})).json["rows"] == []
        for path, body, query, told in (
            ("/probe", {}, "", "body: found no rows, expected texts"),
            ("/probe", {"fingerprints": ["ff"]}, "", "found some, expected texts: the store has signatures"),
            ("/remove", {"fingerprints": ["ff"]}, "", "found some, expected texts: the store has signatures"),
            ("/probe", {"texts": ["a"]}, "max_distance=3", "found 'max_distance', expected min_similarity"),
            (
                "/nearest",
                {"texts": ["a"]},
                "count=3",
                "nearest: found a store of signatures, expected fingerprints",
            ),
            ("/probe", {"texts": ["a"]}, "min_similarity=2", "found '2', expected a number from 0 to 1"),
            ("/probe", {"texts": ["a"]}, "min_similarity=0&min_similarity=1", "min_similarity: found it twice"),
            ("/probe", {"texts": ["a"]}, "min_similarity=1.5", "min_similarity: found 1.5"),
            ("/remove", {"texts": ["a"]}, "", "found texts, expected ids: signatures are removed by these"),
            ("/remove", {"texts": ["a"], "ids": ["1"]}, "", "found texts, expected ids"),
        ):
            status, _, message = (await client.ask(path, body, query=query)).error
            assert (status, told in message) == (400, True), message

    with_app(Path("minhash"), work)


@pytest.mark.usefixtures("here")
def test_a_service_of_signatures_opens_its_store_anew() -> None:
    async def work(client: Client) -> None:
        Path("minhash").rename("away")
        assert (await client.ask("/probe", {"texts": [NEAR]})).status == 503
        Path("away").rename("minhash")
        assert len((await client.ask("/probe", {"texts": [NEAR]})).json["matches"]) == 1
        assert (await client.ask("/add", {"texts": [NEAR], "ids": ["8"]})).status == 200

    with_app(Path("minhash"), work)


@pytest.mark.usefixtures("here")
def test_sizes_are_those_of_all_that_a_store_consists_of(command: Command) -> None:
    """Of the segment, the names and the sketches beside it, and the catalog."""
    for name in ("minhash", "minhash-names", "hamming", "hamming-names"):
        outcome = command("compact", name)
        files = [path for path in Path(name).rglob("*") if path.is_file()]
        size = decimal_size(sum(path.stat().st_size for path in files))
        assert f"now 1 segment, {size}" in outcome.err
        assert f", {size}" in command("copy", name, f"{name}-copy").err


# What is said of a store of signatures has no fingerprints: it has documents, and keys of bands.
TOLD = (
    "stats minhash --spikes 3", "stats minhash-names --spikes 3", "stats minhash-bare --spikes 3", "report minhash",
    "report minhash-bare", "verify minhash", "verify minhash-bare", "inspect minhash", "inspect minhash 1",
    "inspect minhash 1 0", "inspect minhash 1 0 0", "inspect minhash-names 1 0 0", "compact minhash", "copy minhash a",
    "recover minhash b", "recover minhash-bare c", "lookup minhash 1", "remove minhash --id 1", "export minhash d.csv",
    "remove minhash-bare --id 1", "pairs minhash --count", "add minhash near.jsonl --id-column id",
)  # fmt: skip


@pytest.mark.usefixtures("here")
def test_nothing_that_is_told_of_signatures_speaks_of_fingerprints(command: Command) -> None:
    for name in ("minhash", "minhash-names", "minhash-bare"):
        command("compact", name)
    for line in TOLD:
        words = line.split()
        if words[0] == "inspect" and len(words) > 2:
            (segment,) = Path(words[1], "segments").glob("*.fpseg")
            words[2] = segment.name
        outcome = command(*words)
        assert "fingerprint" not in outcome.out + outcome.err, line
    (segment,) = Path("minhash-bare", "segments").glob("*.fpseg")
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    for line in ("verify minhash-bare", "recover minhash-bare mended", "inspect minhash-bare", "compact minhash-bare"):
        outcome = command(*line.split())
        assert outcome.status
        assert "fingerprint" not in outcome.out + outcome.err, line


@pytest.mark.parametrize("id_type", ["uint64", "string"])
@pytest.mark.parametrize("keeps", ["--keep-signatures", "--no-keep-signatures"])
def test_as_many_documents_are_said_to_be_removed_as_there_were(
    command: Command, tmp_path: Path, id_type: str, keeps: str
) -> None:
    """Ids that are asked for twice, are not there, or came with two texts, are each counted once."""
    store, texts, asked = tmp_path / "own", tmp_path / "texts.jsonl", tmp_path / "asked.txt"
    words = [" ".join(f"{word}{number}" for word in ("a", "b", "c", "d", "e")) for number in range(4)]
    lines = (f'{{"id": {id}, "text": "{text}"}}\n' for id, text in zip([1, 2, 2, 3], words, strict=True))
    texts.write_text("".join(lines))
    asked.write_text("2\n3\n2\n9\n")
    assert command("create", store, "--recipe", "minhash-128", "--id-type", id_type, keeps).status == 0
    assert command("add", store, texts).status == 0
    with fpstore.minhash.open(store) as opened:
        before = opened.count()
    done = command("remove", store, "--id-input", asked, "--format", "csv", "--no-input-header")
    with fpstore.minhash.open(store) as opened:
        assert (before, opened.count()) == (3, 1)
    rows = 3 if keeps == "--keep-signatures" else 2
    assert (done.status, done.err) == (0, f"{store}: removed {rows} rows, for 4 ids\n")
    assert command("remove", store, "--id", "1", "--id", "1").err.endswith("removed 1 row, for 2 ids\n")
    assert command("remove", store, "--id", "1").err.endswith("removed 0 rows, for 1 id\n")


@pytest.mark.usefixtures("here")
def test_of_signatures_without_ids_nothing_is_removed(command: Command) -> None:
    for asked in (("--id", "1"), ("00ff",), ("--input", "some.hex")):
        outcome = command("remove", "minhash-bare", *asked)
        assert outcome.status == 2
        told = (
            "found no ids, so a key that several documents share is there once, and to remove one would hide the others"
        )
        assert f"minhash-bare: {told}: expected a store with ids" in outcome.err
    made = command("create", "small", "--recipe", "minhash-128", "--no-keep-signatures")
    assert made.status == 0, made
    Path("text.jsonl").write_text('{"id": 5, "text": "a text of some words that is there for now"}\n')
    assert command("add", "small", "text.jsonl").status == 0
    assert command("remove", "small", "--id", 5).status == 0
    with minhash.open("small") as store:
        assert store.count() == 0


@pytest.mark.usefixtures("here")
def test_a_slot_of_signatures_shows_bands(command: Command) -> None:
    command("compact", "minhash")
    (segment,) = Path("minhash", "segments").glob("*.fpseg")
    seen = json.loads(command("inspect", "minhash", segment.name, 0, 0, "--all", "--json").out)
    with minhash.open("minhash") as store:
        banding = store._minhash.banding(store._settings.bits)
        found = {(int(key["key"], 16), key["band"]) for key in seen["keys"]}
        assert found
        assert all(banding.of(np.array([key], dtype=np.uint64)).tolist() == [band] for key, band in found)
    assert seen["entry"]["sketches"].keys() == {"file_bytes", "crc"}
