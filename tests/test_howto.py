"""What the how-to pages tell to type does what they say."""

import io
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import all_code
from test_adapters_faiss import flat, some
from test_adapters_imagehash import image

import fpstore
from fpstore.adapters.imagehash import ImageIndex

PAGES = ("docs/images.md", "docs/pdq.md", "docs/faiss.md")


def code_of(page: str) -> list[str]:
    return [code for _, code in all_code(page)]


def ran(code: str, **known: Any) -> str:
    """What a block of Python prints."""
    said = io.StringIO()
    with redirect_stdout(said):
        exec(code, known)
    return said.getvalue()


def typed(code: str) -> list[str]:
    """What each line of a block of commands prints."""
    said = []
    for line in code.splitlines():
        command = re.sub(r"^\$ fpstore ", "", line).split()
        said.append(
            subprocess.run([sys.executable, "-m", "fpstore", *command], capture_output=True, text=True, check=True)
        )
    return [each.stdout for each in said]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_block_of_code_is_run_by_a_test() -> None:
    assert [len(code_of(page)) for page in PAGES] == [3, 3, 1]


class Opened:
    """Pillow and imagehash, as much as the page asks for: an image is its name, a hash what the name says."""

    def __init__(self, hash_of: Callable[[str], int]) -> None:
        self.hash_of = hash_of

    def open(self, name: str) -> str:
        return name

    def phash(self, name: str) -> Any:
        return image(self.hash_of(name))


def test_photos_are_found_as_the_page_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {"a.jpg": 0, "b.jpg": 3, "c.jpg": 2**64 - 1, "d.jpg": 2**64 - 2, "e.jpg": 2**32 - 1, "upload.jpg": 1}
    stand_in: Any = Opened(hashes.__getitem__)
    pillow: Any = type(sys)("PIL")
    pillow.Image = stand_in
    monkeypatch.setitem(sys.modules, "imagehash", stand_in)
    monkeypatch.setitem(sys.modules, "PIL", pillow)
    photos, large, _ = code_of("docs/images.md")
    said = ran(photos, photos=["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"])
    nearest = "[Found(distance=1, name='a.jpg')]"
    alike = ["alike: ['a.jpg', 'b.jpg']", "alike: ['d.jpg', 'c.jpg']"]
    assert said.splitlines() == ["1 a.jpg", "1 b.jpg", nearest, *alike]
    with ImageIndex.open("photos.fpstore") as index:
        assert {*index} == {"b.jpg", "c.jpg", "d.jpg", "e.jpg"}
    known: dict[str, Any] = {"ImageIndex": ImageIndex, "hashes_with_numbers": [(image(5, 256), 7)]}
    exec(large, known)
    with known["index"] as index:
        assert index.query(image(4, 256))[0].name == 7


def test_hashes_of_a_program_are_read_as_the_page_tells() -> None:
    hashes = {"one.jpg": 0x936C6C936C6C939C, "two.jpg": 0x936C6C936C6C939F, "far.jpg": 5}
    rows = "".join(f"{name},{own:016x}\n" for name, own in hashes.items())
    Path("hashes.csv").write_text("path,phash\n" + rows)
    (code,) = code_of("docs/images.md")[2:]
    _, pairs, nearest, report = typed(code)
    assert pairs.split() == ["one.jpg", "two.jpg", "2"]
    assert [line.split()[-1] for line in nearest.splitlines()] == ["one.jpg", "two.jpg", "far.jpg"]
    assert "payload" in report


def test_pdq_hashes_match_as_the_page_tells() -> None:
    pytest.importorskip(
        "threatexchange.signal_type.pdq.signal", reason="threatexchange: installed by make test-clients"
    )
    hash = "f8f8f0cee0f4a84f06370a22038f63f0b36e2ed596621e1d33e6b39c4e9c9b22"
    near = "f8f8f0cee0f4a84f06370a22038f63f0b36e2ed596621e1d33e6b39c4e9c9b2d"
    index, signal, _ = code_of("docs/pdq.md")
    known: dict[str, Any] = {"entries": [(near, {"case": 2}), (hash, {"case": 1})]}
    said = io.StringIO()
    with redirect_stdout(said):
        exec(f"{index}\n{signal}", known)
    assert said.getvalue() == "0 {'case': 1}\n4 {'case': 2}\n"
    assert [match.metadata for match in known["again"].query(near)] == [{"case": 2}, {"case": 1}]
    assert known["Signal"].get_index_cls() is known["PDQIndex"]


def test_pdq_hashes_are_read_by_the_commands() -> None:
    (code,) = code_of("docs/pdq.md")[2:]
    hash = code.split()[-1]
    Path("hashes.hex").write_text(f"{'0' * 64}\n{hash}\n")
    assert typed(code)[1].split() == [hash, hash, "0", "1"]


def test_an_index_of_faiss_is_read_as_the_page_tells() -> None:
    codes = some(64, 9)
    Path("codes.index").write_bytes(flat(codes))
    (code,) = code_of("docs/faiss.md")
    assert ran(code) == "9 64\n"
    with fpstore.open("codes.fpstore") as store:
        (rows,) = store.rows()
        back = np.asarray(rows.fingerprint).astype(">u8").view("uint8").reshape(-1, 8)
        assert np.array_equal(back, codes[np.argsort(codes.view(">u8")[:, 0])])
    assert struct.unpack(">Q", codes[0].tobytes())[0] in rows.fingerprint
