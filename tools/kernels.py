"""With which flags each C kernel (fpstore/native/*.c) is compiled: for setup.py, the fuzzer and the tests in C."""

import os
import re
import subprocess
from itertools import takewhile
from pathlib import Path

NATIVE = Path(__file__).parent.parent / "fpstore" / "native"
FLAGS = [
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    "-Wall",
    "-Wno-unused-function",
    "-Werror=implicit-function-declaration",
]


def features(instruction_set: str) -> list[str]:
    """What the kernels of a set, FAST or WIDE, are compiled for: the list by which the processor is asked, too."""
    header = (NATIVE / "instruction_sets.h").read_text()
    (listed,) = re.findall(rf"#define {instruction_set}_FEATURES\(FEATURE\)((?:.*\\\n)*.*)", header)
    return re.findall(r'FEATURE\("([^"]+)"', listed)


def arm64_feature() -> str:
    """What the kernels for 64-bit ARM are compiled for."""
    (feature,) = re.findall(r'#define ARM64_FEATURE "(\w+)"', (NATIVE / "instruction_sets.h").read_text())
    return str(feature)


def asked(compiler: list[str], question: str) -> str:
    """What a compiler, given as a command with or without flags, says of itself; "" where it does not know."""
    command = [*takewhile(lambda word: not word.startswith("-"), compiler), question]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # there is no such program
        return ""


def machine_of(compiler: list[str]) -> str:
    """The kind of processor that a compiler compiles for, x86_64 or aarch64 or another."""
    machine = asked(compiler, "-dumpmachine") or os.uname().machine
    return machine.partition("-")[0].replace("arm64", "aarch64")


def flags_of(source: Path, machine: str) -> list[str] | None:
    """The flags for the processor that the ending of a kernel's name asks for; None where it is of another kind."""
    fast = [f"-m{feature}" for feature in features("FAST")]
    wanted = {
        "fast": ("x86_64", fast),
        "wide": ("x86_64", fast + [f"-m{feature}" for feature in features("WIDE")]),
        "arm64": ("aarch64", [f"-march=armv8-a+{arm64_feature()}"]),
    }
    kind, flags = wanted.get(source.stem.rpartition("_")[2], (machine, []))
    return flags if kind == machine else None


def sources(machine: str, native: Path = NATIVE) -> dict[Path, list[str]]:
    """Every file to compile for this kind of machine, and its flags; first what takes longest."""
    found = {source: flags_of(source, machine) for source in sorted(native.glob("*.c"))}
    ordered = sorted(found.items(), key=lambda item: item[1] or [], reverse=True)
    return {source: flags for source, flags in ordered if flags is not None}
