"""Reads the project's pages for tests/test_docs.py: their blocks, what shows what these claim, and their sentences.

A block is a paragraph, an item of a list or a table. What shows it stands in a comment in it or after it:

    <!-- shown by tests/test_probe.py::test_no_queries_have_no_matches, tools/bench_probe.py -->
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent

COMMENT = re.compile(r"<!--(.*?)-->", re.S)
CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s")
# What makes a sentence one that can be wrong: a number, or a word that allows no exception.
CLAIM = re.compile(
    r"\d|\b(?:always|never|every|everything|everywhere|any|each|no|all|none|nothing|nobody|only|exactly|cannot"
    r"|at most|at least|once|twice|half|third"
    r"|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|million|billion)\b",
    re.I,
)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*`\[A-Z0-9]|fpstore)")


@dataclass
class Block:
    """text: without comments; shown_by: what the comments name, as written."""

    page: str
    line: int
    section: str
    text: str
    shown_by: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def claims(self) -> bool:
        """Whether it says something that can be wrong; the text of a link is for the page that it leads to."""
        return CLAIM.search(LINK.sub("", CODE.sub("", ITEM.sub("", self.text, count=1)))) is not None

    def sentences(self) -> Iterator[str]:
        cells = self.text.split("|") if self.text.startswith("|") else [self.text]
        for cell in cells:
            # Any of these may begin a sentence.
            prose = LINK.sub(lambda link: link[1].capitalize(), CODE.sub("Code", cell))
            yield from SENTENCE_END.split(" ".join(prose.split()))


def word_count(sentence: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def blocks(page: str) -> list[Block]:
    """Those of a page in order; headings and code have none."""
    found: list[Block] = []
    for line, section, text in _chunks((ROOT / page).read_text()):
        named = [name.strip() for comment in COMMENT.findall(text) for name in _names(comment, f"{page}:{line}")]
        text = COMMENT.sub("", text).strip()
        if text:
            found.append(Block(page, line, section, text, named))
        else:
            found[-1].shown_by += named
    return found


def code_blocks(page: str, section: str) -> list[str]:
    """The code of a section of a page."""
    return [code for where, code in all_code(page) if where == section]


def all_code(page: str) -> list[tuple[str, str]]:
    """Every block of code of a page, with the section that it is in."""
    sections = re.split(r"^## (.*)\n", "## \n" + (ROOT / page).read_text(), flags=re.M)[1:]
    found = zip(sections[::2], sections[1::2], strict=True)
    return [(name, code) for name, text in found for code in re.findall(r"^```\w*\n(.*?)^```$", text, re.S | re.M)]


def _names(comment: str, where: str) -> list[str]:
    words = " ".join(comment.split())
    assert words.startswith("shown by "), f"{where}: a comment says {words!r}, expected 'shown by TEST or TOOL, ...'"
    return words.removeprefix("shown by ").split(",")


def _chunks(text: str) -> Iterator[tuple[int, str, str]]:
    section, start, in_code = "", 0, False
    chunk: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        heading = line.startswith("#") and not in_code
        ends = in_code or fence or heading or not line.strip() or ITEM.match(line)
        if ends and chunk:
            yield start, section, "\n".join(chunk)
            chunk = []
        if fence:
            in_code = not in_code
        elif heading:
            section = line.lstrip("# ")
        elif not in_code and line.strip():
            chunk, start = [*chunk, line], start if chunk else number
