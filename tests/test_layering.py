"""The folder is the diagram: imports run from later modules to earlier ones, and no module is a maze."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fpstore"

# Each may import those before it; what a fingerprint meets comes in the order in which it meets it. A folder is one
# place, and has an order of its own below.
CORE = (
    "platforms",
    "errors",
    "closing",
    "types",
    "progress",
    "origin",
    "arrays",
    "awaited",
    "threads",
    "nursery",
    "workers",
    "forks",
    "checks",
    "disk",
    "file_locks",
    "_native",
    "_interpreter",
    "_codec",
    "ledger",
    "notes",
    "later",
    "_source",
    "_view",
    "_watch",
    "_sort",
    "_merge",
    "merging",
    "huffman",
    "format",
    "fingerprints",
    "_names",
    "_names_view",
    "_names_pending",
    "_probe",
    "_codes",
    "_scan",
    "_pending",
    "_tail",
    "_following",
    "_reaches",
    "_answers",
    "_single",
    "_single_codes",
    "_singly",
    "_front",
    "_similar",
    "_pairs",
    "_turns",
    "_band_index",
    "_key_index",
    "plans",
    "segment",
    "building",
    "names",
    "sketches",
    "query",
    "codes",
    "living",
    "creation",
    "documents",
    "recovered",
    "recovery",
    "inspection",
    "base",
    "store",
    "making",
)
FOLDERS = {
    "plans": ("permutation", "proof", "plan", "families", "considered", "planner", "wide", "reach", "choice"),
    "segment": (
        "entry",
        "files",
        "beside",
        "table",
        "listing",
        "ids",
        "reader",
        "stored",
        "writer",
        "fields",
        "pages",
        "fences",
        "verify",
        "remnant",
        "wreck",
        "salvage",
        "slots",
        "showing",
        "crowding",
        "buckets",
        "spikes",
        "layouts",
        "report",
        "stats",
    ),
    "building": ("rooms", "runs", "spill", "permuted", "sources", "options", "rows"),
    "names": ("column", "layout", "writer", "reader", "salvage", "merging", "pending", "rows"),
    "sketches": ("bands", "kept", "memory", "layout", "writer", "reader", "pending", "salvage", "spool"),
    "query": (
        "tables",
        "matches",
        "similar",
        "nearest",
        "additions",
        "key_memory",
        "equals",
        "leaders",
        "similar_leaders",
        "pairs",
        "id_pairs",
        "batch",
        "scans",
        "ways",
    ),
    "codes": ("layout", "sorting", "writer", "rows", "reader", "pending", "verify", "salvage", "showing"),
    "living": (
        "steps",
        "changes",
        "state",
        "header",
        "locks",
        "remains",
        "environment",
        "records",
        "catalog",
        "removals",
        "live",
        "merge",
        "naming",
        "mending",
        "sweep",
        "census",
        "modes",
        "together",
        "warming",
        "waiting",
        "snapshot",
        "wide_pairs",
        "wide",
        "radius",
        "memory",
        "named",
        "sketched",
        "similar",
        "similar_pairs",
        "crowd",
        "stats",
        "verified",
        "opening",
        "following",
        "reader",
        "sizes",
        "due",
        "singly",
        "held",
        "lost",
        "withdrawal",
        "renewal",
        "unsure",
        "beside",
        "writer",
        "documents",
    ),
}
# Of the wings the core knows only this: the text of a query becomes a fingerprint by the store's own recipe, and a
# store that lies elsewhere is opened and copied as any other.
OF_WINGS = {"base": {"text", "remote"}, "making": {"text", "remote"}}
# The wings stand beside the core and know of it only this.
WINGS = {
    # Of query and living, what decides which text is a duplicate of which, and rows in memory to decide it by.
    # fingerprints: as numbers, or as words where they are wide.
    "text": {
        "_interpreter",
        "_native",
        "errors",
        "fingerprints",
        "forks",
        "living",
        "nursery",
        "query",
        "threads",
        "types",
        "workers",
    },
    # What a store of another kind is made of, as the one of fingerprints is. _names: as of jobs.
    "minhash": {
        "_names",
        "arrays",
        "base",
        "creation",
        "documents",
        "errors",
        "format",
        "living",
        "making",
        "merging",
        "names",
        "plans",
        "progress",
        "query",
        "sketches",
        "store",
        "text",
        "threads",
        "types",
    },
    # Opening a store elsewhere is making a folder of this machine that looks like it, and opening that.
    "remote": {
        "_codec",
        "_source",
        "_view",
        "arrays",
        "base",
        "disk",
        "errors",
        "file_locks",
        "format",
        "inputs",
        "living",
        "progress",
        "segment",
        "text",
    },
    "adapters": {"", "errors", "types", "checks", "arrays", "minhash"},
    # origin: by which recipe fingerprints were made, which stores and files must tell in one way. _codec: its checksum.
    "inputs": {
        "_codec",
        "_interpreter",
        "closing",
        "errors",
        "origin",
        "threads",
        "workers",
        "types",
        "text",
        "_native",
    },
    # Of query, the rule by which something is near an earlier one: jobs and add_if_new must not decide it apart.
    # ledger, later, notes: what a store and its jobs must both know. _names: the hash by which a store knows names.
    # fingerprints: as for text. cluster: who does tasks, and how these hand over what they make; _codec: its checksum.
    "jobs": {
        "",
        "_codec",
        "_interpreter",
        "arrays",
        "awaited",
        "closing",
        "cluster",
        "disk",
        "errors",
        "file_locks",
        "fingerprints",
        "origin",
        "threads",
        "workers",
        "types",
        "progress",
        "query",
        "ledger",
        "later",
        "minhash",
        "notes",
        "text",
        "inputs",
        "_native",
        "_names",
    },
    # The engine's own search and build, cut: shares of them, their rows in order, and names for handles. text: of
    # frames of texts.
    "cluster": {
        "",
        "_codec",
        "arrays",
        "awaited",
        "building",
        "checks",
        "codes",
        "creation",
        "closing",
        "disk",
        "errors",
        "inputs",
        # A job over a store asks it for the pairs that it joins.
        "jobs",
        "fingerprints",
        "format",
        "living",
        "making",
        "merging",
        # A store of signatures is of a kind of its own, and its pairs are told in buckets.
        "minhash",
        # Of the processes that do tasks, what they need before they begin.
        "nursery",
        # By which recipe the fingerprints of a list of stores are.
        "origin",
        "plans",
        "progress",
        "query",
        "segment",
        "store",
        "text",
        "threads",
        "types",
        "workers",
    },
    # cluster: a list of stores, which is asked as one.
    "serve": {"", "cluster", "fingerprints", "origin", "types", "text", "inputs", "minhash"},
    # inspection: what `fpstore inspect` shows is no part of the public surface. platforms: how many threads all are.
    # workers: what reads texts here, and in no job, shares HTML out as jobs do.
    "cli": {
        "",
        "platforms",
        "errors",
        "fingerprints",
        "origin",
        "threads",
        "workers",
        "types",
        "text",
        "inputs",
        "jobs",
        "minhash",
        "cluster",
        "serve",
        "inspection",
    },
}

MAX_LINES = 500
MODULES = sorted(path for suffix in ("py", "pyx") for path in PACKAGE.rglob(f"*.{suffix}"))
SCRIPTS = sorted((ROOT / "tools").glob("*.py"))
IN_CYTHON = re.compile(r"^[ \t]*(?:from\s+fpstore(?:\.([\w.]+))?\s+c?import|c?import\s+fpstore(?:\.([\w.]+))?)", re.M)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def layer_of(path: Path) -> str:
    """The name in CORE or WINGS that a file belongs to; "" for the package itself."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.partition(".")[0]


def place_of(path: Path) -> str:
    """The module's name within its folder, where that has an order of its own; "" for the folder itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[1] if len(parts) == 2 and parts[1] != "__init__" else ""


def imported(path: Path) -> set[tuple[str, str]]:
    """What a file imports of the package: (layer, module in it or ""); ("", "") is the public surface."""
    source = path.read_text()
    if path.suffix == ".pyx":
        names = {f"fpstore.{first or second or ''}" for first, second in IN_CYTHON.findall(source)}
    else:
        names = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name_of(path)}: a relative import hides where it leads"
                # `from fpstore import checks` names a module, `from fpstore import Store` the public surface.
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
    own = (name.split(".")[1:] for name in names if name.partition(".")[0] == "fpstore")
    return {(parts[0], (*parts, "")[1]) if parts and parts[0] in {*CORE, *WINGS} else ("", "") for parts in own}


# A class whose makers come after it, because they make it: Plan.named asks the families.
MADE_LATER = {("plans", "plan"): {"families"}}


def imported_layers(path: Path) -> set[str]:
    return {layer for layer, _ in imported(path)}


def allowed(layer: str) -> set[str]:
    if layer in CORE:
        return set(CORE[: CORE.index(layer) + (layer in FOLDERS)]) | OF_WINGS.get(layer, set())
    return WINGS[layer] | {layer}


def test_every_module_has_a_place_in_the_order() -> None:
    found = {layer_of(path) for path in MODULES} - {"", "__main__"}
    assert found == {*CORE, *WINGS}
    for folder, order in FOLDERS.items():
        assert {place_of(path) for path in MODULES if layer_of(path) == folder} - {""} == {*order}


@pytest.mark.parametrize("path", [p for p in MODULES if layer_of(p) not in ("", "__main__")], ids=name_of)
def test_imports_run_from_later_to_earlier(path: Path) -> None:
    assert imported_layers(path) <= allowed(layer_of(path))


@pytest.mark.parametrize("path", [p for p in MODULES if layer_of(p) in FOLDERS], ids=name_of)
def test_imports_in_a_folder_run_from_later_to_earlier(path: Path) -> None:
    order = FOLDERS[layer_of(path)]
    before = order[: order.index(place_of(path))] if place_of(path) else ()
    late = MADE_LATER.get((layer_of(path), place_of(path)), set())
    assert {module for layer, module in imported(path) if layer == layer_of(path)} <= {*before, *late}


def test_a_build_enters_building_by_one_door() -> None:
    # creation makes a Build and has it write; the living store, which has rows at hand, writes these.
    taken: dict[str, set[str]] = {}
    for path in (path for path in MODULES if path.suffix == ".py" and layer_of(path) != "building"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("fpstore.building"):
                taken.setdefault(layer_of(path), set()).update(alias.name for alias in node.names)
    # Files of names are sorted by what sorts the rows.
    sorters = {"KeySorter", "PairSorter"}
    assert taken == {
        # A build by tasks sorts and writes by the same code, one table at a time.
        "cluster": {"BuildOptions", "MIN_MEMORY", "OTHER_MEMORY", "SortedPairs", "sort_rows", "write_table"},
        "creation": {"Build", "Written"},
        # What they are of wide codes, sorted and told of as any rows.
        "codes": {"BuildOptions", "OTHER_MEMORY", "PairSorter", "MIN_MEMORY_BYTES", "Write", "Written"}
        | {"Source", "write_segment"},
        "documents": {"Build"},
        "living": {"write_rows", "write_stream", *sorters, "MIN_MEMORY_BYTES"},
        "names": sorters,
        "sketches": {"PairSorter"},
    }


def test_importers_are_found_in_python_and_in_cython() -> None:
    # Otherwise the tests above would hold for a rule that reads nothing.
    assert ("errors", "PlanError") in imported(PACKAGE / "plans" / "plan.py")
    assert ("plans", "plan") in imported(PACKAGE / "plans" / "planner.py")
    assert "_view" in imported_layers(PACKAGE / "_probe.pyx")
    assert imported_layers(PACKAGE / "cli" / "plan.py") == {"", "cli", "text"}


@pytest.mark.parametrize("path", MODULES + SCRIPTS, ids=name_of)
def test_no_module_is_over_500_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


# A handler of the service notes its signals, and raises nothing.
NOTES_SIGNALS = PACKAGE / "serve" / "writing.py"
LOCKED_IN_PYTHON = re.compile(r"\bthreading\.(Event|Condition|\w*Semaphore|Barrier)\(|\bqueue import .*\bQueue\b")


@pytest.mark.parametrize("path", [path for path in MODULES if path != NOTES_SIGNALS], ids=name_of)
def test_no_module_waits_by_a_lock_that_a_ctrl_c_leaves_locked(path: Path) -> None:
    """`fpstore/awaited.py` says why."""
    assert not LOCKED_IN_PYTHON.search(path.read_text())


@pytest.mark.parametrize("path", [*MODULES, *SCRIPTS, *sorted(Path(__file__).parent.glob("*.py"))], ids=name_of)
def test_every_module_opens_with_a_docstring(path: Path) -> None:
    if path.suffix == ".pyx":
        code = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        assert code[0].startswith('"""')
    else:
        assert ast.get_docstring(ast.parse(path.read_text()))
