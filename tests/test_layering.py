"""The folder is the diagram: imports run from later modules to earlier ones, and no module is a maze."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fpstore"

# Each may import those before it. What a fingerprint meets comes in the order in which it meets it.
CORE = (
    "errors",
    "types",
    "arrays",
    "threads",
    "forks",
    "_codec",
    "_view",
    "_sort",
    "_merge",
    "permutation",
    "plan",
    "planner",
    "huffman",
    "format",
    "table",
    "_probe",
    "_pending",
    "_pairs",
    "segment",
    "pairs",
    "batch",
    "verify",
    "crowding",
    "report",
    "changes",
    "state",
    "environment",
    "catalog",
    "spill",
    "permuted",
    "removals",
    "merge",
    "matches",
    "additions",
    "builder",
    "snapshot",
    "copying",
    "writer",
    "store",
)
# The wings stand beside the core and know of it only this.
WINGS = {
    "text": {"errors", "types"},
    "inputs": {"errors", "types", "text"},
    "jobs": {"", "errors", "types", "text", "inputs"},
    "cli": {"", "errors", "types", "planner", "text", "inputs", "jobs"},
}

MOST_LINES = 500
MODULES = sorted(path for suffix in ("py", "pyx") for path in PACKAGE.rglob(f"*.{suffix}"))
SCRIPTS = sorted((ROOT / "tools").glob("*.py"))
IN_CYTHON = re.compile(r"^[ \t]*(?:from\s+fpstore(?:\.([\w.]+))?\s+c?import|c?import\s+fpstore(?:\.([\w.]+))?)", re.M)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def layer_of(path: Path) -> str:
    """The name in CORE or WINGS that a file belongs to; "" for the package itself."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.partition(".")[0]


def imported_layers(path: Path) -> set[str]:
    """The layers that a file imports; "" is the public surface."""
    source = path.read_text()
    if path.suffix == ".pyx":
        return {(first or second or "").partition(".")[0] for first, second in IN_CYTHON.findall(source)}
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: a relative import hides where it leads"
            for alias in node.names:
                # `from fpstore import plan` names a module, `from fpstore import Store` the public surface.
                layer = alias.name if node.module == "fpstore" and alias.name in (*CORE, *WINGS) else ""
                names.add(f"{node.module}.{layer}" if layer else str(node.module))
    own = (name for name in names if name.partition(".")[0] == "fpstore")
    return {[*name.split("."), ""][1] for name in own}


def allowed(layer: str) -> set[str]:
    if layer in CORE:
        return set(CORE[: CORE.index(layer)])
    return WINGS[layer] | {layer}


def test_every_module_has_a_place_in_the_order() -> None:
    found = {layer_of(path) for path in MODULES} - {"", "__main__"}
    assert found <= {*CORE, *WINGS}


@pytest.mark.parametrize("path", [p for p in MODULES if layer_of(p) not in ("", "__main__")], ids=name_of)
def test_imports_run_from_later_to_earlier(path: Path) -> None:
    assert imported_layers(path) <= allowed(layer_of(path))


def test_importers_are_found_in_python_and_in_cython() -> None:
    # Otherwise the test above would hold for a rule that reads nothing.
    assert "errors" in imported_layers(PACKAGE / "plan.py")
    assert "_view" in imported_layers(PACKAGE / "_probe.pyx")
    assert imported_layers(PACKAGE / "cli" / "plan.py") == {"", "cli", "planner"}


@pytest.mark.parametrize("path", MODULES + SCRIPTS, ids=name_of)
def test_no_module_is_over_500_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", [*MODULES, *SCRIPTS, *sorted(Path(__file__).parent.glob("*.py"))], ids=name_of)
def test_every_module_opens_with_a_docstring(path: Path) -> None:
    if path.suffix == ".pyx":
        code = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        assert code[0].startswith('"""')
    else:
        assert ast.get_docstring(ast.parse(path.read_text()))
