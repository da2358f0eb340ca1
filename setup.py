"""Builds the compiled core; everything else about the package is in pyproject.toml.

No machine-specific flag is used: the C kernels under fpstore/native are compiled for several
instruction sets in one file each and choose at run time, so a wheel runs on any machine of its
architecture. CFLAGS and LDFLAGS from the environment are honoured, and FPSTORE_OPTIMIZE takes the place of -O3, which
would override a level among CFLAGS (see `make asan`).
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
}
OPTIMIZE = os.environ.get("FPSTORE_OPTIMIZE", "-O3")
HEADERS = [str(path) for path in sorted(Path("fpstore/native").glob("*.h"))]


def extension(name: str) -> Extension:
    """One compiled module, built from the .pyx of the same name."""
    return Extension(
        name,
        [name.replace(".", "/") + ".pyx"],
        include_dirs=["fpstore/native"],
        depends=HEADERS,
        extra_compile_args=[OPTIMIZE, "-fno-strict-aliasing", "-fvisibility=hidden", "-Wno-unused-function"],
    )


names = [".".join(path.with_suffix("").parts) for path in sorted(Path("fpstore").rglob("*.pyx"))]
setup(ext_modules=cythonize([extension(name) for name in names], compiler_directives=DIRECTIVES))
