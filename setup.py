"""Builds the compiled core; everything else about the package is in pyproject.toml.

The C kernels (fpstore/native/*.c) are compiled once each and put into one static library, which every compiled module
is linked with. What a file's name ends in says for which processor it is compiled (tools/kernels.py); the library
chooses at run time, so a wheel runs on any machine of its architecture. What Cython's memory views are made of is in a
module of its own, fpstore._cyutility, which Cython writes: in each module that has such views it was most of the code.

Honoured from the environment: CC, CFLAGS, LDFLAGS, and FPSTORE_OPTIMIZE, the level of optimisation. That of the
kernels is -O3. What Cython writes is most of the compiling and little of the work, and gets -O1, which takes 0.64 of
the time of -O2; but for what a single search goes through (CALLED), which takes 2 to 7 % longer then, and for the
modules that loop over keys themselves (LOOPING), of which group_pairs of _sort takes twice as long at -O2. Names and
lines for a debugger cost a quarter of the compiling, and are made where CFLAGS has -g. Headers of the system that many
files begin with are read once (HEADERS): those of AVX are half of what most of its kernels take. Objects are kept in
build/native, a folder for each compiler and level, and made again where what they are made of has changed, so that a
line of a kernel costs the compiling of its file, and another level that of what it is not the level of. Compiles on all
cores.

Ends in words, and makes nothing, on a platform that is not supported (fpstore/platforms.py), where a source is missing,
and where there is no compiler: a wheel without the compiled core would install, and fail at its first use.
"""

import hashlib
import os
import runpy
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

sys.path.insert(0, str(Path(__file__).parent / "tools"))

import kernels

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "emit_code_comments": False,  # the sources again, a tenth of what is written and read
}
KERNEL_LEVEL, CALLED_LEVEL, MODULE_LEVEL = (
    (os.environ.get("FPSTORE_OPTIMIZE") or level).split() for level in ("-O3", "-O2", "-O1")
)
LOOPING = {"fpstore._sort", "fpstore._probe", "fpstore._names"}  # modules that are compiled as kernels are
# What a call of a microsecond goes through, and what takes a row at a time.
CALLED = {
    "fpstore._single",
    "fpstore._single_codes",
    "fpstore._singly",
    "fpstore._front",
    "fpstore._following",
    "fpstore._tail",
    "fpstore._watch",
    "fpstore._view",
    "fpstore._names_view",
    "fpstore._pending",
    "fpstore._names_pending",
}
# After the flags of Python's own compiling, which have -g.
FLAGS = [*kernels.FLAGS, *([] if "-g" in os.environ.get("CFLAGS", "").split() else ["-g0"])]
SOURCES = (".pyx", ".pyi")  # of a compiled module: its code, and its types
SHARED = "fpstore._cyutility"  # what Cython writes for all modules
# What the files of a kind begin with.
AVX, PYTHON = "#include <immintrin.h>\n", "#define PY_SSIZE_T_CLEAN\n#include <Python.h>\n"
HEADERS = {"fast": AVX, "wide": AVX, "modules": PYTHON}
# Modules that have it of their own: a single search, of a microsecond, takes 2 to 3 % less.
OWN = {"fpstore._single", "fpstore._single_codes"}
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_fresh(made: Path, dependencies: Path) -> bool:
    """Whether a file is newer than all that its compiler, or linker, noted that it was made of."""
    try:
        noted = dependencies.read_text().replace("\\\n", " ").partition(": ")[2].split()
        return made.stat().st_mtime_ns > max(os.stat(name).st_mtime_ns for name in noted)
    except (OSError, ValueError):
        return False


def run(command: list[str]) -> None:
    """Run a compiler, which says itself what is wrong. Raises CompileError, which setuptools ends with in one line."""
    if subprocess.run(command, check=False).returncode:
        raise CompileError(f"failed: {' '.join(command)}")


@dataclass(frozen=True)
class Job:
    """A source to compile: at which level of optimisation, with which flags besides, and of which kind it is."""

    source: Path
    level: list[str]
    flags: list[str]
    kind: str


class BuildNative(build_ext):
    """The library of kernels first, then the modules, linked with it."""

    def build_extensions(self) -> None:
        """Compile everything at once, then link. Raises CompileError where there is no compiler, or it fails."""
        compiler = self.compiler.compiler_so
        if not kernels.asked(compiler, "-dumpmachine"):
            raise CompileError(f"compiler: found no answer of {compiler[0]!r}, expected gcc or clang (CC says which)")
        make_c([extension.name for extension in self.extensions])
        found = kernels.sources(kernels.machine_of(self.compiler.compiler_so), Path("fpstore/native"))
        jobs = [Job(source, KERNEL_LEVEL, flags, source.stem.rpartition("_")[2]) for source, flags in found.items()]
        modules = [Job(source_of(each.name, ".c"), *level_of(each.name)) for each in self.extensions]
        # A header is read once for all that are compiled in one way.
        ways = {(job.kind, *job.level): job for job in jobs + modules if job.kind in HEADERS}
        # The longest first, so that none is left for one core when the others are done: modules by size, then kernels.
        order = sorted(modules, key=lambda job: -job.source.stat().st_size) + jobs
        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(self.read_once, ways.values()))
            made = dict(zip([job.source for job in order], pool.map(self.compiled, order), strict=True))
            library = self.archived([made[job.source] for job in jobs])
            objects = [made[job.source] for job in modules]
            list(pool.map(partial(self.linked, library), self.extensions, objects))

    @cache  # noqa: B019 (a command lives as long as the process)
    def folder_of(self, *level: str) -> Path:
        """Where that lies which this compiler makes at a level of optimisation."""
        compiler = self.compiler.compiler_so
        linking = (*self.compiler.linker_so, sysconfig.get_config_var("EXT_SUFFIX"), sys.version)
        key = (*compiler, kernels.asked(compiler, "--version"), *level, *FLAGS, *linking)
        folder = Path("build/native", hashlib.sha256(" ".join(key).encode()).hexdigest()[:16])
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def make(self, what: list[str], flags: list[str], made: Path, notes: Path) -> None:
        """Have the compiler make a file, and note what of; under its name is a whole one, whoever is killed when."""
        includes = [f"-I{folder}" for folder in ("fpstore/native", *self.compiler.include_dirs)]
        part = made.with_name(f"part-{made.name}")
        written = ["-MMD", "-MF", str(notes), "-MT", str(made), "-o", str(part)]
        run([*self.compiler.compiler_so, *includes, *FLAGS, *flags, *what, *written])
        part.replace(made)

    def read_once(self, job: Job) -> None:
        """Have the compiler keep what it makes of the header of a kind. It reads the header itself where it cannot."""
        header = self.folder_of(*job.level) / f"{job.kind}.h"
        kept = header.with_suffix(".h.gch")
        notes = header.with_suffix(".d")
        if self.force or not is_fresh(kept, notes):
            header.write_text(HEADERS[job.kind])
            self.make(["-x", "c-header", str(header)], [*job.level, *job.flags], kept, notes)

    def compiled(self, job: Job) -> Path:
        """The object of a source."""
        folder = self.folder_of(*job.level)
        made = folder / (".".join(job.source.with_suffix("").parts) + ".o")
        notes = made.with_suffix(".d")
        if self.force or not is_fresh(made, notes):
            first = ["-include", str(folder / f"{job.kind}.h")] if job.kind in HEADERS else []
            self.make([*first, "-c", str(job.source)], [*job.level, *job.flags], made, notes)
        return made

    def archived(self, objects: list[Path]) -> Path:
        """The library of these objects."""
        library = self.folder_of(*KERNEL_LEVEL) / "libfpstore.a"
        notes = library.with_suffix(".d")
        parts = f"{library}: {' '.join(map(str, objects))}"
        if not (notes.exists() and notes.read_text() == parts and is_fresh(library, notes)):
            library.unlink(missing_ok=True)
            archiver = kernels.asked(self.compiler.compiler_so, "-print-prog-name=ar") or "ar"
            run([archiver, "rcs", str(library), *map(str, objects)])
            notes.write_text(parts)
        return library

    def linked(self, library: Path, extension: Extension, made: Path) -> None:
        """Make the module of an extension from its own object and what it uses of the library."""
        target = Path(self.get_ext_fullpath(extension.name))
        # One for a module, whatever it was made of before: at another level it has the same name.
        notes = Path("build/native", f"{extension.name}{sysconfig.get_config_var('EXT_SUFFIX')}.link")
        parts = f"{target}: {made} {library}"
        if self.force or not (notes.exists() and notes.read_text() == parts and is_fresh(target, notes)):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)  # else one newer than its objects stays, though it was made of others
            self.compiler.link_shared_object([str(made), str(library)], str(target), target_lang="c")
            notes.write_text(parts)


def source_of(name: str, suffix: str) -> Path:
    """The file of a module: what Cython reads (.pyx), what it writes (.c), or what a type checker reads (.pyi)."""
    return Path(name.replace(".", "/") + suffix)


def level_of(name: str) -> tuple[list[str], list[str], str]:
    """With which level a module is compiled, with no flags of its own, and of which kind it is, if of one."""
    if name in LOOPING:
        return KERNEL_LEVEL, [], ""
    return (CALLED_LEVEL, [], "") if name in CALLED else (MODULE_LEVEL, [], "modules")


def compiled_modules() -> list[str]:
    """The names of the compiled modules, SHARED first; the others have a source and a stub. Exits if one has not."""
    found = {suffix: {path.with_suffix("") for path in Path("fpstore").rglob(f"_[!_]*{suffix}")} for suffix in SOURCES}
    sources, stubs = found.values()
    if not sources or sources != stubs:
        missing = [f"{path}.pyx" for path in stubs - sources] + [f"{path}.pyi" for path in sources - stubs]
        sys.exit(f"setup.py: the sources are not whole: found no {', '.join(sorted(missing)) or 'fpstore/*.pyx'}")
    return [SHARED, *(".".join(path.parts) for path in sorted(sources))]


def extensions(names: list[str]) -> list[Extension]:
    """These modules, as setuptools and Cython are told of them."""
    return [Extension(name, [str(source_of(name, ".c" if name == SHARED else ".pyx"))]) for name in names]


def is_written(name: str, version: str) -> bool:
    """Whether this version of Cython has written the C of a module since what it may be made of has changed."""
    written = source_of(name, ".c")
    made_of = [*Path("fpstore").rglob("*.pxd"), *([] if name == SHARED else [source_of(name, ".pyx")])]
    if not written.exists() or written.stat().st_mtime_ns <= max(path.stat().st_mtime_ns for path in made_of):
        return False
    with written.open() as file:
        return file.readline().strip() == f"/* Generated by Cython {version} */"


def make_c(names: list[str]) -> None:
    """Have Cython write the C of these modules, where their sources are newer, or another version wrote it.

    Cython itself would write all of it again where it was installed later, as an environment of pip's always is.
    """
    # Not sooner: what only collects the sources (an sdist) does without Cython.
    from Cython import __version__ as version
    from Cython.Build import cythonize

    names = [name for name in names if not is_written(name, version)]
    told = {"compiler_directives": DIRECTIVES, "nthreads": CORES, "force": True}
    cythonize(extensions([name for name in names if name in OWN]), **told)
    cythonize(extensions([name for name in names if name not in OWN]), shared_utility_qualified_name=SHARED, **told)


def main() -> None:
    """Run setuptools."""
    try:
        runpy.run_path("fpstore/platforms.py")["expect_supported"]()
    except ImportError as error:
        sys.exit(f"setup.py: {error}")
    setup(ext_modules=extensions(compiled_modules()), cmdclass={"build_ext": BuildNative})


# Cython's helpers may begin by importing the file that was run.
if __name__ == "__main__":
    main()
