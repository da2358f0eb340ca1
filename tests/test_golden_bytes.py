"""The bytes of a segment of format version 3, pinned: another byte for the same input is another format.

Where one of these fails, stores that people have may no longer open, or open and mean something else: raise
`format.VERSION`, and say in docs/format.md and CHANGELOG.md what changed.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fpstore
from fpstore.format import CODECS
from fpstore.types import Codec


def mixed(count: int) -> np.ndarray:
    """Keys without structure that need no random generator of anybody's: the finaliser of splitmix64 of 1..count."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def crowded() -> np.ndarray:
    """Keys of which half share their top bits, so that there is a slot of many blocks."""
    keys = mixed(20_000)
    keys[::2] >>= np.uint64(24)
    return keys


GOLDEN = {
    ("gap", "row", "paper-4", 0): "a5b4b270c0972e6ee595d0dbb51b7558d46c0e1ab55e221b3fc5c41c6dd6b6d6",
    ("xor", "row", "paper-4", 0): "38143e7bb1b83b10efaa471d07bac45f25b58ec3bedf539beb6bc68e542e0841",
    ("rice", "row", "paper-4", 0): "0a292b35f55b99d3fbd279db86053b97cf3f6ba9f7032646973414651fc51723",
    ("raw", "row", "paper-4", 0): "ecc4d3d77321f384bccaaeb075603cdc9456c9c245c2329b78f0aa11fd6eed8d",
    ("gap", None, "flips-2:1,1", 0): "17249d72371d97cd847c9d86d96644a5ddcd1c33871d6e1490f6f1f5cc2235e5",
    ("gap", None, "flips-2:1,1", 1024): "09d1de17937286b4591e8432443e7c1a09402a1ae1f33e4297f53cb361898907",
    ("xor", "many", "paper-4", 200): "370bd41676dde8ab55f6c709267f47cdcb4af4452fd066d74fbd80a206abd8b0",
    ("raw", "row", "paper-4", 64): "315bdaad9026f8874f5118d77a3b6c831be1846ccd1c110798c2d2632f9e5301",
    ("rice", None, "flips-3:1,0,0", 4096): "1a2069e457b471cb53c459346de02722b3ded6ff6fd5b7a572c410d2c11f9f42",
    ("gap", "many", "flips-3:1,0,0", 0): "29450fd1aa565e2c594883582fdf462242b2f043925d90c56748c9b749237ed9",
}


def test_every_codec_is_pinned() -> None:
    assert {codec for codec, _, _, _ in GOLDEN} == set(CODECS)


@pytest.mark.parametrize(("codec", "ids", "plan", "block_bytes"), GOLDEN)
def test_a_segment_has_the_bytes_of_its_format_version(
    codec: Codec, ids: str | None, plan: str, block_bytes: int, tmp_path: Path
) -> None:
    keys = crowded()
    if ids == "many":  # several of them to a fingerprint
        keys[1::4] = keys[::4]
    column = mixed(len(keys)) >> np.uint64(20) if ids == "many" else ids
    blocks: dict[str, Any] = {"layout": "blocks", "block_bytes": block_bytes} if block_bytes else {}
    fpstore.build(tmp_path / "s.fpstore", keys, ids=column, plan=plan, codec=codec, **blocks).close()
    (segment,) = (tmp_path / "s.fpstore" / "segments").iterdir()
    assert hashlib.sha256(segment.read_bytes()).hexdigest() == GOLDEN[codec, ids, plan, block_bytes]
