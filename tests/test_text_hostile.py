"""Documents that somebody made to do harm: right answers or named errors, in bounded memory."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from helpers import FINGERPRINTING

from fpstore.inputs import BadInput, documents, read
from fpstore.inputs import compressed as compressed_inputs
from fpstore.inputs import text as text_inputs
from fpstore.text import Recipe, fingerprint, recipes

EVERY = pytest.mark.parametrize("recipe", [recipes()[name] for name in FINGERPRINTING], ids=FINGERPRINTING)


@EVERY
@pytest.mark.parametrize("text", ["", b"", "word", "中", "\0", b"\xff", b"\xf0\x9f", "\0" * 1000, b"\xc3" * 1000])
def test_next_to_nothing_has_a_fingerprint(recipe: Recipe, text: str | bytes) -> None:
    as_text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    assert recipe.fingerprint(text) == recipe.fingerprint(as_text)
    assert len(recipe.features(text).hashes) <= 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FINGERPRINTING if name != "zh"])
def test_one_line_of_many_megabytes_is_read(name: str) -> None:
    recipe = recipes()[name]
    word = recipe.fingerprint("x" * 4_000_000)
    assert recipe.fingerprint(b"x" * 4_000_000) == word
    assert isinstance(recipe.fingerprint("many words " * 400_000), int)


def test_a_long_line_of_chinese_is_read() -> None:
    assert recipes()["zh"].measure_many(["我来到北京清华大学" * 50_000])[1].tolist() == [4 * 50_000]


def test_nul_bytes_and_controls_are_between_words() -> None:
    assert fingerprint("a\0b\x1fc\x7fd") == fingerprint("a b c d") == fingerprint(b"a\0b\x1fc\x7fd")
    characters = recipes()["multilingual"]
    assert characters.fingerprint("\0one\0\0two\x1f") == characters.fingerprint("one two")


def run_bounded(script: str, extra_bytes: int) -> subprocess.CompletedProcess[str]:
    """Run script with `limit()`, which lets it take extra_bytes of address space more than it has."""
    prelude = f"""
import resource
def limit():
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + {extra_bytes}, resource.RLIM_INFINITY))
"""
    return subprocess.run([sys.executable, "-c", prelude + script], capture_output=True, text=True, check=False)


BOMBS = {"gz": lambda data: gzip.compress(data, 9), "zst": lambda data: zstandard.compress(data, 19)}


@pytest.mark.parametrize("suffix", BOMBS)
@pytest.mark.parametrize("format", ["text", "html", "jsonl", "csv"])
def test_a_bomb_for_memory_is_named(tmp_path: Path, suffix: str, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_inputs, "MAX_DOCUMENT_BYTES", 1 << 20)
    monkeypatch.setattr(compressed_inputs, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / f"bomb.{suffix}"
    path.write_bytes(BOMBS[suffix](b"x" * (8 << 20)))
    assert path.stat().st_size < 10_000
    column: dict[str, Any] = {"csv": {"text_column": 0, "header": False}}.get(format, {})
    with pytest.raises(BadInput, match=rf"bomb\.{suffix}.*: found more than 1048576 bytes"):
        list(documents([path], format=format, **column))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", BOMBS)
def test_a_bomb_takes_bounded_memory(tmp_path: Path, suffix: str) -> None:
    """256 MiB of one character, in a process that may take 96 MiB, and documents at most 16."""
    path = tmp_path / f"bomb.{suffix}"
    if suffix == "gz":
        with gzip.open(path, "wb", 6) as file:
            for _ in range(1 << 8):
                file.write(b"x" * (1 << 20))
    else:
        path.write_bytes(zstandard.ZstdCompressor(level=3).compress(b"x" * (1 << 28)))
    script = f"""
import gzip, zstandard
from fpstore.inputs import documents, text
text.MAX_DOCUMENT_BYTES = 16 << 20
limit()
found = documents([{str(path)!r}], format="text", skip_bad=True, is_part=True)
print(len(list(found)), sum(found.skipped.values()))
"""
    run = run_bounded(script, 96 << 20)
    assert run.stdout == "0 1\n", run.stderr[-2000:]


@pytest.mark.slow
def test_many_equal_documents_take_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "equal.jsonl"
    line = json.dumps({"text": "the very same text of more than four words"}) + "\n"
    with path.open("w") as file:
        file.writelines([line] * 300_000)
    expected = fingerprint("the very same text of more than four words")
    script = f"""
import fpstore
from fpstore.inputs import read
from fpstore.text.idf import Learner
limit()
count = 0
for batch in read([{str(path)!r}], batch=1 << 14):
    assert set(batch.fingerprints.tolist()) == {{{expected}}}
    count += len(batch.fingerprints)
print(count)
"""
    run = run_bounded(script, 128 << 20)
    assert run.stdout == "300000\n", run.stderr[-2000:]


def test_deep_json_is_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text":' * 50_000 + "1" + "}" * 50_000 + '\n{"text": "one two three four"}\n')
    reader = read([path], text_column=".".join(["text"] * 50), skip_bad=True)
    with pytest.raises(BadInput, match="read 0 of 2"):
        list(reader)
    assert reader.skipped == {"bad line": 2}


@EVERY
def test_random_bytes_have_the_same_fingerprint_every_time(recipe: Recipe) -> None:
    source = np.random.default_rng(3)
    texts = [source.bytes(int(size)) for size in source.integers(0, 3000, 50)]
    once = recipe.fingerprint_many(texts)
    assert recipe.fingerprint_many(texts[::-1], threads=2)[::-1].tolist() == once.tolist()
    assert [recipe.fingerprint(text) for text in texts] == once.tolist()
