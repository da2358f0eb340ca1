"""The library of kernels: what it asks the processor for, that it refuses to compute wrongly, who declares it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import kernels

from fpstore import _native
from fpstore._codec import LAYOUT

ROOT = Path(__file__).parent.parent
MODULES = sorted(path.relative_to(ROOT).with_suffix("") for path in (ROOT / "fpstore").rglob("_*.pyx"))
# One joins lists of tokens, the other chooses among radii, without any kernel.
WITH_KERNELS = [".".join(path.parts) for path in MODULES if path.name not in ("_joined", "_reaches")]
PARTS = re.findall(r'\{"(\w+)", \w+_answer,', (kernels.NATIVE / "known_answer.c").read_text())
# What a flag turns on besides, which no kernel uses by itself and no processor with the flag is without.
IMPLIED = {"XSAVE", "CRC32", "EVEX512"}


def child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FPSTORE_")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=plain | environment, check=False)


def macros(compiler: str, flags: list[str]) -> set[str]:
    command = [compiler, *flags, "-dM", "-E", "-x", "c", os.devnull]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name.replace("_", "") for name in re.findall(r"#define __([A-Z0-9_]+)__ 1\n", said)}


def feature_macro(feature: str) -> str:
    return feature.replace(".", "").upper()


def test_the_list_that_is_compiled_for_is_the_list_that_is_asked_for() -> None:
    if os.uname().machine == "aarch64":
        assert {"portable": (), "fast": (kernels.arm64_feature(),), "wide": ()} == _native.FEATURES
        return
    assert {
        "portable": (),
        "fast": tuple(kernels.features("FAST")),
        "wide": tuple(kernels.features("WIDE")),
    } == _native.FEATURES
    assert {"lzcnt", "bmi2", "popcnt", "sse4.2", "avx2"} <= {*_native.FEATURES["fast"]}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("ending", ["fast", "wide"])
def test_the_compiler_uses_no_instruction_set_that_is_not_asked_for(compiler: str, ending: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    if kernels.machine_of([compiler]) != "x86_64":
        pytest.skip("another kind of processor")
    flags = kernels.flags_of(Path(f"any_{ending}.c"), "x86_64")
    assert flags is not None
    asked = [*_native.FEATURES["fast"], *(_native.FEATURES["wide"] if ending == "wide" else ())]
    turned_on = {name for name in macros(compiler, flags) - macros(compiler, []) if not name.endswith("MATH")}
    assert turned_on - IMPLIED == {feature_macro(feature) for feature in asked}


def test_a_file_of_another_kind_of_processor_is_not_compiled() -> None:
    compiled = {source.stem: flags for source, flags in kernels.sources("aarch64").items()}
    assert "search_portable" in compiled
    assert not any(stem.endswith(("_fast", "_wide")) for stem in compiled)
    assert compiled["crc32c_arm64"] == ["-march=armv8-a+crc"]
    assert not any(source.stem.endswith("_arm64") for source in kernels.sources("x86_64"))


@pytest.mark.parametrize("module", WITH_KERNELS)
def test_no_module_is_imported_where_a_kernel_computes_something_wrong(module: str) -> None:
    done = child(f"import {module}", FPSTORE_WRONG_ANSWER="codec")
    assert done.returncode == 1
    assert re.search(r"\nImportError: the kernels for the \w+ instructions compute .* \(codec\)", done.stderr)
    assert "FPSTORE_PORTABLE=1" in done.stderr


@pytest.mark.parametrize("part", [*PARTS, "text"])
def test_each_part_of_the_kernels_is_asked_for_its_answer(part: str) -> None:
    done = child("import fpstore.text._simhash", FPSTORE_WRONG_ANSWER=part)
    assert f"something wrong here ({part})" in done.stderr


def test_there_are_parts() -> None:
    assert PARTS == [
        "checksum",
        "hash",
        "permutation",
        "sort",
        "merge",
        "codec",
        "search",
        "scan",
        "join",
        "pending",
        "signature",
        "turns",
        "blocks",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "expected"), [("FPSTORE_PORTABLE", {"portable"}), ("FPSTORE_NARROW", {"portable", "fast"})]
)
def test_the_environment_leaves_instruction_sets_out(setting: str, expected: set[str]) -> None:
    code = "import fpstore.text._simhash; from fpstore._native import INSTRUCTION_SET; print(INSTRUCTION_SET)"
    assert child(code, **{setting: "1"}).stdout.strip() in expected
    assert child(code, **{setting: "0"}).stdout.strip() == child(code).stdout.strip()


def test_all_numbers_of_the_layout_are_held_against_the_format() -> None:
    header = (kernels.NATIVE / "layout.h").read_text()
    numbers = dict(re.findall(r"#define (\w+) (\d+)", header))
    for enumerated in re.findall(r"enum \{(.*?)\}", header, re.DOTALL):
        numbers |= dict(re.findall(r"(\w+) = (\d+)", enumerated))
    assert {name: int(value) for name, value in numbers.items()} == LAYOUT


def test_one_file_declares_what_the_kernels_are() -> None:
    headers = {path.name for path in kernels.NATIVE.glob("*.h")}
    for path in (path for suffix in ("py", "pyi", "pyx", "pxd") for path in (ROOT / "fpstore").rglob(f"*.{suffix}")):
        declared = set(re.findall(r'cdef extern from "([^"]+)"', path.read_text()))
        assert path.name == "_native.pxd" or not declared & headers, path


def test_every_kernel_is_made_for_the_set_that_its_name_says() -> None:
    for source in kernels.NATIVE.glob("*_*.c"):
        ending = source.stem.rpartition("_")[2]
        if ending in ("portable", "fast", "wide"):
            assert f'#include "{ending}.h"' in source.read_text(), source
