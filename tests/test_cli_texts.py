"""`fpstore recipe` and `fpstore learn-idf`, and the options for texts of other commands."""

import json
from pathlib import Path

import pytest
from helpers import FINGERPRINTING
from outcome import Command

import fpstore
from fpstore.text import DEFAULT_RECIPE, Recipe, recipes
from fpstore.text.model import read_model

LONG = " ".join(f"word{number}" for number in range(400))
TEXTS = (f"{LONG} one", f"{LONG} two", f"three {LONG}")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": row, "text": text}) + "\n" for row, text in enumerate(TEXTS)))
    return path


def recipe_in(store: Path) -> Recipe:
    with fpstore.open(store) as opened:
        assert opened.recipe is not None
        return opened.recipe


def test_recipe_prints_names_and_records(command: Command) -> None:
    outcome = command("recipe")
    assert [line.split("\t")[0] for line in outcome.lines] == list(recipes())
    assert "exact\ttokens=whole shingle=1" in outcome.lines
    for name, preset in recipes().items():
        record = json.loads(command("recipe", name).out)
        assert record.pop("format") == "fpstore.recipe/1"
        assert Recipe.from_json(record) == preset
    assert command("recipe", "nothing").err.startswith(
        "fpstore: recipe: found 'nothing', expected one of text-1, words-4, "
    )


@pytest.mark.parametrize("name", FINGERPRINTING)
def test_a_store_keeps_the_recipe_that_it_was_built_by(
    command: Command, corpus: Path, tmp_path: Path, name: str
) -> None:
    store = tmp_path / "s.fpstore"
    assert command("build", store, corpus, "--recipe", name, "--k", "0").status == 0
    assert recipe_in(store) == recipes()[name]
    outcome = command("probe", store, "--text", TEXTS[1], "-k", "0")
    expected = f"{recipes()[name].fingerprint(TEXTS[1]):016x}"
    assert {tuple(line.split("\t")[:2]) for line in outcome.lines} == {(expected, expected)}
    assert name == "zh" or outcome.err == ""


def test_a_recipe_can_be_a_file(command: Command, corpus: Path, tmp_path: Path) -> None:
    mine = Recipe("mine", shingle=2, weights="capped", hash="sha256")
    (tmp_path / "mine.json").write_text(json.dumps(mine.to_json()))
    assert (
        command("create", tmp_path / "s.fpstore", "--recipe", tmp_path / "mine.json", "--id-type", "none").status == 0
    )
    assert recipe_in(tmp_path / "s.fpstore") == mine
    outcome = command("fingerprint", corpus, "--recipe", tmp_path / "mine.json", "--threads", "2")
    assert [line.split("\t")[0] for line in outcome.lines] == [f"{mine.fingerprint(text):016x}" for text in TEXTS]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "found '{path}', expected one of text-1, words-4, "),
        ("{", "{path}: found no JSON"),
        ("[]", "{path}: recipe: found list, expected an object"),
        (
            json.dumps(DEFAULT_RECIPE.to_json() | {"shingle": 0}),
            r"{path}: recipe shingle: found 0, expected 1..64 tokens",
        ),
        (
            json.dumps(DEFAULT_RECIPE.to_json() | {"version": 1}),
            "recipe version: found 1, expected 2; made by an older fpstore; build again",
        ),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(
    command: Command, corpus: Path, tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "mine.json"
    if content is not None:
        path.write_text(content)
    outcome = command("fingerprint", corpus, "--recipe", path)
    assert outcome.status == (1 if "version" in message else 2)
    assert message.format(path=path) in outcome.err


def test_fingerprints_that_come_ready_can_have_a_recipe(command: Command, corpus: Path, tmp_path: Path) -> None:
    lines = command("fingerprint", corpus).lines
    (tmp_path / "a.hex").write_text("".join(f"{line.partition(chr(9))[0]}\n" for line in lines))
    assert command("build", tmp_path / "s.fpstore", tmp_path / "a.hex", "--recipe", "text-1").status == 0
    assert recipe_in(tmp_path / "s.fpstore") == DEFAULT_RECIPE
    equal = [line for line in lines if line[:16] == lines[0][:16]]
    assert len(command("probe", tmp_path / "s.fpstore", "--text", TEXTS[0], "--k", "0").lines) == len(equal)


def test_idf_learns_a_model_that_a_recipe_pins(command: Command, corpus: Path, tmp_path: Path) -> None:
    model_path, store = tmp_path / "m.idf", tmp_path / "s.fpstore"
    outcome = command("learn-idf", corpus, "-o", model_path, "--recipe", "simhash-1")
    model = read_model(model_path)
    assert outcome.status == 0
    assert outcome.err == f"{model_path}: 3 documents, 399 shingles\n{model_path}: checksum {model.checksum}\n"
    assert command("build", store, corpus, "--recipe", "simhash-1", "--idf", model_path).status == 0
    recipe = recipe_in(store)
    assert (recipe.name, recipe.weights, recipe.idf) == ("simhash-1", "idf", model.checksum)
    expected = recipe.with_model(model).fingerprint(TEXTS[2])
    probe = command("probe", store, "--text", TEXTS[2], "--idf", model_path, "--k", "0")
    assert probe.lines[0].split("\t")[0] == f"{expected:016x}"
    added = tmp_path / "more.jsonl"
    added.write_text(json.dumps({"id": 9, "text": TEXTS[2]}))
    assert command("add", store, added, "--id-column", "id", "--idf", model_path).status == 0
    assert len(command("probe", store, f"{expected:016x}", "--k", "0").lines) == len(probe.lines) + 1
    assert command("remove", store, "--input", added, "--idf", model_path).status == 0
    assert command("probe", store, f"{expected:016x}", "--k", "0").lines == []


def test_a_recipe_with_a_model_is_refused_without_it_or_with_another(
    command: Command, corpus: Path, tmp_path: Path
) -> None:
    model_path, other, store = tmp_path / "m.idf", tmp_path / "other.idf", tmp_path / "s.fpstore"
    command("learn-idf", corpus, "-o", model_path)
    twice = tmp_path / "twice.jsonl"
    twice.write_bytes(2 * corpus.read_bytes())
    command("learn-idf", twice, "-o", other)
    command("create", store, "--recipe", "simhash-1", "--idf", model_path, "--id-type", "none")
    checksum = read_model(model_path).checksum
    for arguments in (("add", store, corpus), ("probe", store, "--text", "x"), ("remove", store, "--input", corpus)):
        outcome = command(*arguments)
        assert outcome.status == 2
        assert f"its weights are idf, expected --idf and the model of checksum {checksum}" in outcome.err
        outcome = command(*arguments, "--idf", other)
        assert outcome.status == 2
        assert f"expected {checksum}, as the recipe has" in outcome.err
    # What comes ready needs no recipe, so no model either.
    (tmp_path / "a.hex").write_text("0000000000000005\n")
    assert command("add", store, tmp_path / "a.hex").status == 0
    (tmp_path / "bare.json").write_text(json.dumps(recipes()["simhash-1"].to_json() | {"weights": "idf"}))
    outcome = command("fingerprint", corpus, "--recipe", tmp_path / "bare.json")
    assert "recipe simhash-1: its weights are idf, expected --idf and a model" in outcome.err
    assert command("fingerprint", corpus, "--idf", corpus).status == 1
    assert "expected simhash, such as simhash-1 has" in command("fingerprint", corpus, "--idf", model_path).err
    assert "--idf goes with --recipe" in command("create", tmp_path / "t.fpstore", "--idf", model_path).err


def test_a_model_replaces_no_file_without_force_and_is_whole_or_not_there(
    command: Command, corpus: Path, tmp_path: Path
) -> None:
    path = tmp_path / "m.idf"
    path.write_text("mine")
    assert command("learn-idf", corpus, "-o", path).status == 2
    assert path.read_text() == "mine"
    assert command("learn-idf", corpus, "-o", path, "--force").status == 0
    assert read_model(path).documents == 3
    corpus.write_text(corpus.read_text() + "{\n")
    assert command("learn-idf", corpus, "-o", tmp_path / "n.idf").status == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["corpus.jsonl", "m.idf"]
    outcome = command("learn-idf", corpus, "-o", tmp_path / "n.idf", "--skip-bad")
    assert outcome.err.startswith("fpstore: passed over: 1 bad line\n")


def test_pages_are_read_as_their_text(command: Command, tmp_path: Path) -> None:
    page = f"<nav>menu</nav><p>{LONG}"
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 5, "page": {"body": page}}) + "\n")
    (tmp_path / "b.html").write_text(page)
    expected = f"{DEFAULT_RECIPE.fingerprint(LONG):016x}"
    options = ("--text-column", "page.body", "--html")
    assert command("fingerprint", tmp_path / "a.jsonl", *options).out == f"{expected}\t{tmp_path / 'a.jsonl'}:1\n"
    assert command("fingerprint", tmp_path / "b.html").out == f"{expected}\t{tmp_path / 'b.html'}\n"
    store = tmp_path / "s.fpstore"
    assert command("build", store, tmp_path / "a.jsonl", "--id-column", "id", *options).status == 0
    assert command("probe", store, "--input", tmp_path / "b.html").out == f"{expected}\t{expected}\t0\t5\n"


def test_short_texts_are_warned_of_and_long_ones_are_not(command: Command, corpus: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.jsonl"
    short.write_text('{"id": 1, "text": "one two three"}\n{"id": 2, "text": "four words of text"}\n')
    warning = "fpstore: warning: 2 of 2 texts have fewer than 35 tokens, too few for recipe text-1 and k = 3"
    store = tmp_path / "s.fpstore"
    assert command("fingerprint", corpus).err == ""
    assert command("fingerprint", short).err.startswith(warning)
    assert "k = 6 finds more of such texts" in command("fingerprint", short).err
    assert "warning" not in command("build", store, corpus).err
    assert command("build", store, short, "--id-column", "id", "--force").err.startswith(warning)
    assert command("add", store, short, "--id-column", "id").err.startswith(warning)
    assert command("probe", store, "--input", short).err.startswith(warning)
    assert command("build", store, short, "--recipe", "exact", "--k", "0", "--force").err.count("\n") == 1


def test_the_name_of_a_file_cannot_write_lines_of_its_own(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "docs\n\x1b[31m"
    folder.mkdir()
    (folder / "a\tb\\c\x85.txt").write_text(LONG)
    (line,) = command("fingerprint", folder).lines
    assert line.split("\t")[1:] == [f"{tmp_path}/docs\\n\\x1b[31m/a\\tb\\\\c\\u0085.txt"]
    store = folder / "s.fpstore"
    for arguments in (("build", store, folder), ("verify", store), ("compact", store), ("stats", store)):
        outcome = command(*arguments)
        assert outcome.status == 0
        assert "\x1b" not in outcome.out + outcome.err
        assert arguments[0] == "build" or "docs\\n\\x1b[31m" in outcome.out + outcome.err


def test_what_was_passed_over_is_said_once_at_the_end(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "one"}\nwrong\n{"text": 5}\n')
    (folder / "b.html").write_bytes(b"<meta charset=utf-8><p>" + b"word " * 100 + b"\xff")
    (folder / ".hidden").touch()
    (folder / "_SUCCESS").touch()
    (folder / "c.txt").write_bytes(b"\0")
    passed_over = "fpstore: passed over: 1 hidden file, 1 marker of Spark, 2 bad lines, 1 file without text"
    again = "fpstore: read all the same: 1 page with damaged characters"
    for arguments in (
        ("build", tmp_path / "s.fpstore", folder, "--skip-bad"),
        ("fingerprint", folder, "--skip-bad"),
        ("dedup", folder, "-o", tmp_path / "kept.jsonl", "--skip-bad"),
        ("learn-idf", folder, "-o", tmp_path / "model", "--skip-bad"),
    ):
        outcome = command(*arguments)
        assert outcome.status == 0
        assert outcome.err.splitlines()[:2] == [passed_over, again], arguments


def test_a_folder_that_cannot_be_read_in_one_way_is_the_command_lines_fault(command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("one")
    outcome = command("build", tmp_path / "s.fpstore", tmp_path / "in")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--format text" in outcome.err
    assert command("build", tmp_path / "s.fpstore", tmp_path / "in", "--format", "text").status == 0


PAGE = "<html><body><p>A <b>page</b> of some words that are shown, and no others</p></body></html>"
NOTED = "fpstore: read all the same: {} with tags of HTML, which stay without --html\n"


@pytest.mark.parametrize("html", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        "build new.fpstore in.jsonl",
        "add s.fpstore in.jsonl",
        "add s.fpstore in.csv --text-column text --if-new",
        "probe s.fpstore --input in.jsonl",
        "remove s.fpstore --input in.jsonl",
        "fingerprint in.jsonl",
        "learn-idf in.jsonl -o new.idf",
        "dedup in.jsonl -o new.jsonl",
        "dedup in.csv -o new.jsonl --text-column text --store s.fpstore",
        "cluster in.jsonl",
        "document-pairs in.jsonl",
    ],
)
def test_texts_with_tags_are_never_read_without_a_word(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, html: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.html").write_text(PAGE)
    texts = [PAGE, "a text without any", PAGE.replace("some", "other")]
    Path("in.jsonl").write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)))
    Path("in.csv").write_text("id,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(texts)))
    assert command("build", "s.fpstore", "a.html").status == 0
    outcome = command(*line.split(), *(["--html"] if html else []))
    assert outcome.status == 0
    assert (NOTED.format("2 texts") in outcome.err) == (not html)


def test_a_typed_text_can_be_html(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE)
    assert command("build", tmp_path / "s.fpstore", tmp_path / "a.html").status == 0
    outcome = command("probe", tmp_path / "s.fpstore", "--text", PAGE, "--html", "-k", "0")
    assert (outcome.status, len(outcome.lines), outcome.err) == (0, 1, "")
    outcome = command("probe", tmp_path / "s.fpstore", "--text", PAGE, "-k", "0")
    assert (outcome.status, outcome.out, outcome.err.startswith(NOTED.format("1 text"))) == (0, "", True)


@pytest.mark.parametrize(("option", "documents"), [("--input-header", 1), ("--no-input-header", 2)])
def test_every_command_of_tables_takes_the_word_for_the_header(
    command: Command, tmp_path: Path, option: str, documents: int
) -> None:
    (tmp_path / "a.csv").write_text("1,a text of some words\n2,another one with others\n")
    column = ("--text-column", "1")
    for name in ("dedup", "cluster", "document-pairs", "fingerprint", "learn-idf", "build"):
        store = (tmp_path / f"{option}.fpstore",) if name == "build" else ()
        output = () if name in ("fingerprint", "build") else ("-o", tmp_path / f"{name}{option}")
        given = (name, *store, tmp_path / "a.csv", *column, *output)
        outcome = command(*given)
        assert outcome.status == 1
        assert "expected header (--input-header or --no-input-header) to say" in outcome.err
        outcome = command(*given, option)
        assert outcome.status == 0, outcome.err
        said = len(outcome.lines) if name == "fingerprint" else outcome.err
        assert said == documents if name == "fingerprint" else f" {documents} " in str(said)
    for given in (("add", "--if-new"), ("probe", "--input"), ("remove", "--input")):
        name, more = given
        column = (*column[:2], *(("--ids", "from:9") if name == "add" else ()))
        inputs = (more, tmp_path / "a.csv") if more == "--input" else (tmp_path / "a.csv",)
        outcome = command(name, tmp_path / f"{option}.fpstore", *inputs, *column)
        assert "expected header (--input-header or --no-input-header) to say" in outcome.err
        assert command(name, tmp_path / f"{option}.fpstore", *inputs, *column, option).status == 0


def test_the_word_for_the_header_goes_with_what_is_read(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n0\n")
    assert command("create", tmp_path / "s.fpstore").status == 0
    for given in (("probe", "ff"), ("remove", "--id", "1")):
        outcome = command(given[0], tmp_path / "s.fpstore", *given[1:], "--no-input-header")
        assert (outcome.status, "--no-input-header" in outcome.err or "--input-header" in outcome.err) == (2, True)
    assert command("remove", tmp_path / "s.fpstore", "--id-input", tmp_path / "a.csv", "--input-header").status == 0


@pytest.mark.parametrize("name", ["text-1", "web-en", "exact", "simhash-1"])
def test_texts_without_tokens_go_by_equality_in_every_command(command: Command, tmp_path: Path, name: str) -> None:
    blank = ["\t", "", " ", "\t", "\n"] if name == "exact" else ["!", "?", "...", "!", ""]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in blank))
    built, kept = tmp_path / "built.fpstore", tmp_path / "kept.fpstore"
    assert command("build", built, tmp_path / "in.jsonl", "--recipe", name).status == 0
    outcome = command("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "out", "--store", kept, "--recipe", name)
    assert "5 documents, kept 4, dropped 1" in outcome.err
    names = [f"{tmp_path / 'in.jsonl'}:{line}" for line in range(1, 12)]
    for store, same, ids in ((built, {0, 3}, range(11)), (kept, {names[0]}, names)):
        found = {type(ids[0])(line.split("\t")[3]) for line in command("probe", store, "--text", blank[0]).lines}
        assert found == same
        with fpstore.open(store, "w") as opened:
            assert {match.id for match in opened.probe_text(blank[0])} == same
            taken = opened.add_texts_if_new([*blank, "  "], ids=ids[5:])
        assert taken.stored.tolist() == [False] * 5 + [True]
