"""What the pages say is bound to what shows it, the files they name are there, and their sentences are short."""

import ast
import re
import struct
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from pages import ROOT, Block, blocks, code_blocks, word_count
from test_layering import CORE, FOLDERS, MODULES, PACKAGE, WINGS

import fpstore
from fpstore import _names, minhash
from fpstore import format as layout
from fpstore._codec import crc32c
from fpstore.building import spill
from fpstore.cli import add as cli_add
from fpstore.inputs import compressed
from fpstore.inputs import text as documents
from fpstore.living import catalog as catalogs
from fpstore.living import changes, environment, merge, removals
from fpstore.living.sizes import LivingSizes
from fpstore.living.state import RECORD_VERSION, decode, encode
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.segment import reader
from fpstore.serve import limits
from fpstore.text import cleaning, idf, model, saturation, scripts, short

DESIGN = "docs/design.md"
FORMAT = "docs/format.md"
COMMANDS, PYTHON, LIMITS = "docs/command-line.md", "docs/python.md", "docs/limits.md"
# Every claim of these is shown by a test or by a tool that prints it.
BOUND = (
    "README.md",
    DESIGN,
    FORMAT,
    "docs/reliability.md",
    "docs/operations.md",
    "docs/compatibility.md",
    COMMANDS,
    PYTHON,
    LIMITS,
    "docs/concurrency.md",
    "docs/images.md",
    "docs/cluster.md",
    "docs/pdq.md",
    "docs/faiss.md",
    "docs/json.md",
)
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
MAX_WORDS = 40
SIZES = LivingSizes()
NAMES = dict(enumerate(["none", "one", "two", "three", "four", "five", "six", "seven", "eight"]))
SOURCES = ("fpstore", "tests", "tools")
SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".h", ".c"}


@cache
def names_in(file: str) -> frozenset[str]:
    """The tests of a file, and the classes of tests that it makes by assignment."""
    nodes = list(ast.walk(ast.parse((ROOT / file).read_text())))
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    assigned = [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    classes = {target.id for target in assigned if isinstance(target, ast.Name) and target.id.startswith("Test")}
    return frozenset(functions | classes)


def fault_of(name: str) -> str | None:
    """Why nothing is shown by what is named so; None if something is."""
    file, _, test = name.partition("::")
    if not (ROOT / file).is_file():
        return f"there is no {file}"
    if not file.startswith("tests/"):
        return None if not test and (file.startswith("tools/") or file == ".ci/run") else f"{name} is no tool"
    if test in names_in(file):
        return None
    others = [path.name for path in (ROOT / "tests").glob("test_*.py") if test in names_in(f"tests/{path.name}")]
    return f"{file} has no {test}" + f" (it is in {', '.join(others)})" * bool(others)


@pytest.mark.parametrize("page", PAGES)
def test_what_shows_a_claim_is_there(page: str) -> None:
    faults = [f"{block.where}: {fault}" for block in blocks(page) for fault in map(fault_of, block.shown_by) if fault]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("page", BOUND)
def test_every_claim_is_shown_by_a_test_or_a_tool(page: str) -> None:
    claims = [block for block in blocks(page) if block.claims]
    bare = [f"{block.where}: {block.text:.100}" for block in claims if not block.shown_by]
    assert not bare, "\n".join(bare)


def test_a_name_that_shows_nothing_is_told() -> None:
    assert fault_of("tests/test_probe.py::test_no_queries_have_no_matches") is None
    assert fault_of("tools/bench_probe.py") is None
    assert fault_of("tools/bench_nothing.py") == "there is no tools/bench_nothing.py"
    assert fault_of("fpstore/store.py") == "fpstore/store.py is no tool"
    assert fault_of("tests/test_probe.py") == "tests/test_probe.py has no "
    moved = "tests/test_store.py has no test_streaming_is_exact (it is in test_batch.py)"
    assert fault_of("tests/test_store.py::test_streaming_is_exact") == moved


def test_a_claim_is_told_from_what_is_none() -> None:
    def claims(text: str) -> bool:
        return Block("x.md", 1, "", text).claims

    assert claims("It takes 3 ms.")
    assert claims("- It is never wrong.")
    assert not claims("It is `never` wrong.")
    assert not claims("1. It tends to be [right](https://example.org/3).")


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_is_over_40_words(page: str) -> None:
    long = [
        f"{block.where}: {word_count(sentence)} words: {sentence}"
        for block in blocks(page)
        for sentence in block.sentences()
        if word_count(sentence) > MAX_WORDS
    ]
    assert not long, "\n".join(long)


# --- The map ---


def test_the_map_of_the_rooms_is_that_of_the_code() -> None:
    (table,) = [block for block in blocks(DESIGN) if block.text.startswith("| place | rooms |")]
    core: list[str] = []
    folders: dict[str, tuple[str, ...]] = {}
    wings: list[str] = []
    for row in table.text.splitlines()[2:]:
        place, rooms = (re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:3])
        if any(room.endswith("/") for room in rooms):
            wings += [room.rstrip("/") for room in rooms]
        elif place and place != ["fpstore/"]:
            name = place[0].rstrip("/")
            core += [] if name in folders else [name]
            folders[name] = (*folders.get(name, ()), *rooms)
        else:
            core += rooms
    assert core == list(CORE)
    assert folders == FOLDERS
    assert wings == list(WINGS)


def test_where_to_begin_names_rooms_that_are_there() -> None:
    (table,) = [block for block in blocks(DESIGN) if block.text.startswith("| to change | begin in |")]
    rows = table.text.splitlines()[2:]
    assert rows
    for row in rows:
        for cell in row.split("|")[2:4]:
            for named in re.findall(r"`([^`]+)`", cell):
                if re.fullmatch(r"[a-z_]+", named) and (PACKAGE / f"{named}.py").exists():
                    continue
                if "/" in named:
                    here = [PACKAGE / named, PACKAGE / f"{named}.py", ROOT / named, ROOT / f"{named}.py"]
                    assert any(path.exists() for path in here), named
                else:  # what a room has: in the room named before it
                    room = re.findall(r"`([a-z_/]+)`", cell)[0]
                    assert re.search(rf"\b{named}\b", (PACKAGE / f"{room}.py").read_text()), named


def test_a_package_that_is_somebodys_secret_is_imported_there_alone() -> None:
    for package, keeper in (("lmdb", "living/environment.py"), ("click", "cli/")):
        named = re.compile(rf"^\s*(?:import|from) {package}\b", re.M)
        importers = {path.relative_to(PACKAGE).as_posix() for path in MODULES if named.search(path.read_text())}
        assert importers, package
        assert {path for path in importers if not path.startswith(keeper)} == set(), package


def test_the_pictures_name_rooms_that_are_there() -> None:
    rooms = {f"{folder}/{room}" for folder, order in FOLDERS.items() for room in order} | {*CORE}
    for section in ("A query", "An addition", "A merge"):
        drawn = "\n".join(code_blocks(DESIGN, section))
        named = set(re.findall(r"(?<![\w/.])(?:[a-z]+/[a-z]+|_[a-z]+)\b", drawn))
        assert named, section
        assert named <= rooms, section


def test_files_and_folders_that_the_pages_name_are_there() -> None:
    names = {path.relative_to(ROOT).as_posix() for folder in SOURCES for path in (ROOT / folder).rglob("*")}
    for page in PAGES:
        spans = re.findall(r"`([\w./-]+)`", (ROOT / page).read_text())
        files = {name for name in spans if re.search(r"\w\.(?:pyx?|pxd|h|c)$", name)}
        missing = {name for name in files if not any(f"/{each}".endswith(f"/{name}") for each in names)}
        assert not missing, page


def test_pages_and_headings_that_are_referred_to_are_there() -> None:
    files = [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    for path in [*files, *(ROOT / page for page in PAGES)]:
        text = path.read_text()
        linked = {path.parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text) if path.suffix == ".md"}
        named = {ROOT / "docs" / name for name in re.findall(r"\bdocs/([\w-]+\.md)", text)}
        assert not {each for each in linked | named if not each.exists()}, path


def test_one_rule_for_ties_is_told_everywhere() -> None:
    told = 0
    for path in [*MODULES, *(ROOT / page for page in PAGES)]:
        text = " ".join(path.read_text().split())
        for after in re.split(r"\bof several at one distance\b", text, flags=re.I)[1:]:
            assert re.search(r"\b(?:least fingerprint|lesser value in the first)\b", after[:80]), f"{path}: {after:.80}"
            told += 1
    assert told >= 4


# --- Numbers ---

NUMBERS = (
    (DESIGN, "Every page of {:,} bytes has a CRC-32C", layout.PAGE_BYTES),
    (DESIGN, "canonical Huffman code of at most {} bits", layout.MAX_CODE_BITS),
    (DESIGN, "A block has at most {} keys", layout.MAX_BLOCK_KEYS),
    (DESIGN, "slices of {:,} rows", SIZES.piece_rows),
    (DESIGN, "more than {} segments", 2 * SIZES.small_segments),
    (DESIGN, "Up to {} runs are merged each time they are read", spill.MOST_RUNS[1]),
    (DESIGN, "until a {} of it is left", {16: "sixteenth"}[spill.LEAST_PART]),
    (DESIGN, "in up to {} runs, but nothing", spill.MOST_RUNS[2]),
    (DESIGN, "From {:,} rows on the log becomes a segment", SIZES.flush_rows),
    (DESIGN, "at {} that, additions wait", {2: "twice"}[SIZES.max_pending_rows // SIZES.flush_rows]),
    (DESIGN, "Segments of fewer than {:,} keys are small", SIZES.small_rows),
    (DESIGN, "merged when there are {}, or", NAMES[SIZES.small_segments]),
    (DESIGN, "more than {} as large as it", {(2, 3): "one and a half times"}[SIZES.growth, SIZES.growth_over]),
    (DESIGN, "in its index (`held`), up to {:,}", SIZES.held_rows),
    (DESIGN, "merge of {:,} keys and ids at most", merge.HELD_NUMBERS),
    (DESIGN, "Segments of {:,} keys or more have traces", reader.LEAST_TRACED_KEYS),
    (DESIGN, "those of all together take no more than {} MiB", SIZES.traced_bytes >> 20),
    (DESIGN, "a store with names the log becomes a segment at {:,} rows", SIZES.named_flush_rows),
    (DESIGN, "wait in memory, up to {:,} rows", SIZES.deferred_rows),
    (DESIGN, "each at least {} times the next", NAMES[removals.RUN_RATIO]),
    (DESIGN, "nests deeper than {} elements", cleaning.MAX_DEPTH),
    (DESIGN, "in at most 2^{} places", idf.MAX_SHINGLES.bit_length() - 1),
    (DESIGN, "weights in units of 2^-{}", model.UNIT.bit_length() - 1),
    (DESIGN, "a small body or answer ({} KiB)", limits.SMALL_BYTES >> 10),
    (DESIGN, "take one of {} places", limits.LARGE_AT_ONCE),
    (DESIGN, "at most {} KiB of a request's head", limits.HEAD_BYTES >> 10),
    (DESIGN, "at {} MiB of names, too, and at twice that", SIZES.flush_name_bytes >> 20),
    (DESIGN, "each block of {:,} names", _names.BLOCK_NAMES),
    (FORMAT, "A name is 0 to {:,} bytes", _names.MAX_NAME_BYTES),
    (FORMAT, "**A block** has {:,} names", _names.BLOCK_NAMES),
    (FORMAT, "brings it to {:,} bytes", _names.BLOCK_BYTES),
    (FORMAT, "one for every started {} names", _names.LINE_NAMES),
    (PYTHON, "up to {} KiB each", _names.MAX_NAME_BYTES >> 10),
    (COMMANDS, "batches of {:,} rows", cli_add.BATCH_ROWS),
    ("README.md", "more than {} bytes per fingerprint", planner.SPEED_BYTES_PER_KEY),
    (LIMITS, "up to {:,} rows as a rule", SIZES.flush_rows),
    (LIMITS, "{} that and one batch", {2: "twice"}[SIZES.max_pending_rows // SIZES.flush_rows]),
    (LIMITS, "in a batch {:,} rows at most", SIZES.batch_rows),
    (LIMITS, "The writer holds {:,} rows more at most", SIZES.held_rows),
    (LIMITS, "with names {:,} rows", SIZES.named_flush_rows),
    (LIMITS, "one for {} fingerprints", SIZES.keys_per_removal),
    (LIMITS, "if these are {:,} removals or more", SIZES.min_removals),
    (LIMITS, "and at {:,} in any case", SIZES.max_removals),
    (LIMITS, "A line of input has at most {} MiB", compressed.MAX_LINE_BYTES >> 20),
    (LIMITS, "a document {} MiB", documents.MAX_DOCUMENT_BYTES >> 20),
    (LIMITS, "a page {} MiB", cleaning.MAX_HTML_BYTES >> 20),
    (COMMANDS, "at most one character in {}", cleaning.MAX_DAMAGED),
    (LIMITS, "nested deeper than {} elements", cleaning.MAX_DEPTH),
    ("docs/choosing-a-recipe.md", "among its first {:,} characters", cleaning.LOOKED_AT_CHARACTERS),
    ("docs/choosing-a-recipe.md", "Of texts beyond {:,} characters", saturation.LOOKED_AT_CHARACTERS),
    ("docs/choosing-a-recipe.md", "with a Jaccard similarity of {} or more", saturation.NEAR),
    ("docs/choosing-a-recipe.md", "and they are {} or one in ten of all", short.LEAST_DROPPED),
    ("docs/choosing-a-recipe.md", "of the first {:,} texts each", scripts.FIRST_TEXTS),
    ("docs/choosing-a-recipe.md", "then one in {0}, which stands for {0}", scripts.STEP),
    (FORMAT, "a slot of at most {} keys", layout.MAX_BLOCK_KEYS),
    (FORMAT, "whose code is at most {:,} bits", layout.MAX_BLOCK_BITS),
    (FORMAT, "cut into blocks of {} ", layout.MAX_BLOCK_KEYS),
    (FORMAT, "For each group of {} slots", layout.GROUP_SLOTS),
    (FORMAT, "limited to {} bits", layout.MAX_CODE_BITS),
    (FORMAT, "For `q < {}`", layout.MAX_RICE_QUOTIENT),
    (FORMAT, "puts a catalog of {} MiB or more", catalogs.MIN_COMPACTED_BYTES >> 20),
    (FORMAT, "of which three {}s are free", {4: "quarter"}[catalogs.MOSTLY_FREE]),
    (FORMAT, "({:,} bytes at first", environment.MAP_BYTES),
    (FORMAT, "at most {:,} bytes of columns", 8 * changes.RECORD_WORDS),
    (FORMAT, "for every started {} bits of the groups", layout.SAMPLE_BITS),
)


@pytest.mark.parametrize(("page", "text", "number"), NUMBERS)
def test_the_numbers_of_the_pages_are_those_of_the_code(page: str, text: str, number: int | str) -> None:
    assert text.format(number) in " ".join((ROOT / page).read_text().split())


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    printed = (ROOT / "docs/benchmarks.md").read_text().partition("\nuniform 10,000,000: 10,000 queries within 3")[2]
    for plan in planner.AIMS:
        row = re.search(rf"^  {plan} \([^)]*\) +(.*)$", printed, re.M)
        call = re.search(rf"^  probe, plan {plan} +([\d.]+) ", printed, re.M)
        assert row
        assert call
        bytes_per_key, _, _, _, _, _, _, batch, ratio, *_ = map(float, row[1].split())
        wanted = f"{bytes_per_key:.1f} file {batch:.1f} FAISS / {ratio:.1f} {float(call[1]):.1f}"
        (cells,) = re.findall(rf"^\| fpstore `{plan}`, \d+ tables \|(.*)$", (ROOT / "README.md").read_text(), re.M)
        assert " ".join(re.sub(r"[*|()]", " ", cells).split()) == wanted


# --- What the pages show as it is on the disk ---


def test_the_catalogs_record_in_the_format_page_reads_back() -> None:
    (text,) = [block for block in code_blocks(FORMAT, "5. The catalog") if block.startswith("{")]
    record = "".join(text.splitlines()).encode()
    state = decode(struct.pack("<I", crc32c(b"\x05state\x05state" + record)) + record, 1)
    assert encode(state, 1)[4:] == record
    plan = Plan.from_json(state.settings.plan)
    plan.prove()
    assert plan == plans.named("flips-2:1,1", 3)


def test_a_store_has_the_files_of_the_format_page(tmp_path: Path) -> None:
    page = (ROOT / FORMAT).read_text()
    tree = page.partition("web.fpstore/\n")[2].partition("```")[0]
    path = tmp_path / "web.fpstore"
    fpstore.build(path, [1, 2, 3], ids=["a", "b", "c"], id_type="string").close()
    with fpstore.open(path, "w") as store:
        store.add([4], ids=["d"])
        found = {path.name for path in (tmp_path / "web.fpstore").rglob("*") if path.is_file()}
    with minhash.build(tmp_path / "signatures", [[1] * 128] * 3) as signed:
        found |= {path.name for path in signed.path.rglob("*.fpsketch")}
    assert found == set(re.findall(r"^ +([\w.-]+[^/\s])(?:\s|$)", tree, re.M))


def test_the_history_of_the_format_ends_with_the_versions_of_the_code() -> None:
    rows = [row.split("|") for block in blocks(FORMAT) for row in block.text.splitlines() if row.startswith("| 0.")]
    assert [[int(cell) for cell in row[2:4]] for row in rows][-1] == [layout.VERSION, RECORD_VERSION]


def test_public_modules_say_what_is_public() -> None:
    public = ("fpstore", "fpstore.text", "fpstore.minhash", "fpstore.adapters", "fpstore.inputs", "fpstore.jobs")
    for name in (*public, "fpstore.cluster"):
        module = import_module(name)
        assert all(hasattr(module, each) for each in module.__all__), name
        assert f"`{name}`" in (ROOT / DESIGN).read_text()
    # A package of this name would be what `fpstore.build` means once it was imported.
    assert not (ROOT / "fpstore" / "build").exists()
    assert callable(fpstore.build)
