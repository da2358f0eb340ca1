"""What is said of a mistake."""

from dataclasses import dataclass

# What has to be compiled again.
COMPILED = (".c", ".h", ".pyx", ".pxd")


@dataclass(frozen=True)
class Mutant:
    """A mistake: in file, new in place of old. why: what comes of it. tests: each of them fails with it.

    old stands once in file, whatever white space the two are written with. at_import: the known answers of the kernels
    notice, before any test.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    at_import: bool = False

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled core has to be made again."""
        return self.file.endswith(COMPILED)
