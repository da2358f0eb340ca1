"""The bytes of a segment of format version 2, pinned: another byte for the same input is another format.

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
    ("gap", "row", "paper-4", 0): "e3a5d24866162ceea0837c3c7518ad74fb590569bef86ed63d09e179e84eb846",
    ("xor", "row", "paper-4", 0): "4867518d0b7967b44c01e936b4feb439c85ffa304ac5181ae7ffdd86132a8b25",
    ("rice", "row", "paper-4", 0): "a439789b1670a9ddac4c840a948cc622f98dc4f7304b51dd24092041b6573454",
    ("raw", "row", "paper-4", 0): "8b29d26821c54b2d54a496c84b5f54e0dd695da4fdf930dd6941e73abfbf8446",
    ("gap", None, "flips-2:1,1", 0): "63852c77e472e541cac8e3629d8b92e34e4bf7b70d15dd5b87a528b91acd7b34",
    ("gap", None, "flips-2:1,1", 1024): "ea6d24ab311ac29d20f64420fc1c40aa268285e01c2699417ae179ccd96aad63",
    ("xor", "many", "paper-4", 200): "4e5cf8f67c6be124ef38fa9500d1be85059cee2ed47aedb22826a42858c94114",
    ("gap", "many", "flips-3:1,0,0", 0): "f80830aa047e1c40f12bfd0ef73a8f2acc8fac4efb2c31ac34e7a70e31712bb6",
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
