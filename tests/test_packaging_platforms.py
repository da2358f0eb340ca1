"""Where fpstore runs is said in words: by the import, by the install, by the pages and to PyPI."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pages import ROOT
from test_layering import PACKAGE

from fpstore.platforms import SUPPORTED, refusal

LINUX = ("linux", (1 << 63) - 1, "little")
REFUSED = {
    "Windows": ("win32", (1 << 63) - 1, "little"),
    "macOS": ("darwin", (1 << 63) - 1, "little"),
    "FreeBSD": ("freebsd14", (1 << 63) - 1, "little"),
    "Cygwin": ("cygwin", (1 << 63) - 1, "little"),
    "a browser": ("emscripten", (1 << 31) - 1, "little"),
    "32-bit Linux": ("linux", (1 << 31) - 1, "little"),
    "big-endian Linux": ("linux", (1 << 63) - 1, "big"),
}
# What other systems do not have, or have otherwise, and who asks for it. Each is a reason for the refusal; who uses one
# more adds it here, who wants another system starts here.
LINUX_ALONE = {
    r"F_OFD_": {"file_locks.py", "living/locks.py"},
    r"memfd_create": {"living/environment.py"},
    r"os\.sendfile": {"living/environment.py"},
    r"/proc/": {"disk.py", "inputs/sources.py", "living/environment.py"},
    r"getauxval": {"native/platform.c"},
    r"mremap|MAP_POPULATE": {"native/large.c", "native/view.c"},
    r"sched_getaffinity": {"platforms.py"},
    r"pidfd_|SOCK_SEQPACKET": {"nursery.py"},
    r"fallocate\(": {"_view.pyx"},
    r"pwritev2": {"jobs/_appending.pyx"},
    r"posix_fadvise": {"disk.py"},
    r"posix_fallocate|copy_file_range|epoll|inotify|eventfd|O_TMPFILE|O_PATH|prctl|splice": set(),
}


def pretended(platform: tuple[str, int, str], code: str) -> subprocess.CompletedProcess[str]:
    """What code does where Python says that it runs on that platform; what setup.py needs is imported before."""
    system, largest, order = platform
    lines = [
        "import runpy, setuptools, setuptools.command.build_ext, setuptools.errors, subprocess, sysconfig, sys",
        f"sys.platform, sys.maxsize, sys.byteorder = {system!r}, {largest}, {order!r}",
        code,
    ]
    return subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True)


def test_only_64_bit_little_endian_linux_is_not_refused() -> None:
    assert refusal(*LINUX) is None
    assert refusal(sys.platform, sys.maxsize, sys.byteorder) is None
    for name, platform in REFUSED.items():
        why = refusal(*platform)
        assert why is not None, name
        assert f"expected {SUPPORTED}" in why
        assert f"found {platform[0]}, {64 if platform[1] >> 62 else 32} bits, {platform[2]}-endian" in why


@pytest.mark.slow
@pytest.mark.parametrize("platform", REFUSED.values(), ids=REFUSED)
def test_an_import_says_what_is_supported(platform: tuple[str, int, str]) -> None:
    modules = ["fpstore", "fpstore.text", "fpstore.cli", "fpstore.jobs", "fpstore._codec"]
    asked = "\n".join(f"try: import {name}\nexcept ImportError as error: print(error)" for name in modules)
    done = pretended(platform, asked)
    assert done.stdout.splitlines() == [refusal(*platform)] * len(modules), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("platform", REFUSED.values(), ids=REFUSED)
def test_an_install_says_what_is_supported(platform: tuple[str, int, str]) -> None:
    done = pretended(platform, "sys.argv = ['setup.py', 'egg_info']; runpy.run_path('setup.py', run_name='__main__')")
    assert done.returncode == 1
    assert done.stderr == f"setup.py: {refusal(*platform)}\n"


def test_the_project_names_the_platform_that_is_supported() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    systems = [each for each in classifiers if each.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    begins, _, limits = (ROOT / "README.md").read_text().partition("\n## Limits\n")
    assert SUPPORTED in " ".join(begins.split("\n## ")[0].split())
    assert SUPPORTED in " ".join(limits.split())


@pytest.mark.parametrize("pattern", LINUX_ALONE)
def test_what_only_linux_has_is_asked_for_where_it_is_listed(pattern: str) -> None:
    written = {path for path in sources() if re.search(pattern, path.read_text())}
    assert {path.relative_to(PACKAGE).as_posix() for path in written} == LINUX_ALONE[pattern]


def sources() -> list[Path]:
    """Ours alone, without what Cython wrote."""
    suffixes = {".py", ".pyx", ".pxd", ".h", ".c"}
    found = [path for path in PACKAGE.rglob("*") if path.suffix in suffixes]
    return [path for path in found if path.suffix != ".c" or path.parent.name == "native"]
