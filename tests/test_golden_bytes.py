"""The bytes of a segment of format version 1, pinned: another byte for the same input is another format.

Where one of these fails, stores that people have may no longer open, or open and mean something else: raise
`format.VERSION`, and say in docs/format.md and CHANGELOG.md what changed.
"""

import hashlib
from pathlib import Path

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
    ("gap", "row", "paper-4"): "28c30e9e097fd3c6685dfc2b8afb3b187b3aa7a68fcabf4db608f4d468dd8fbd",
    ("xor", "row", "paper-4"): "d84e1ddb9c1bf241ce3cd348763ed3e7df76c24610cff66802e82e0f5d317870",
    ("rice", "row", "paper-4"): "87cfa26996b1c3a2f9bdb83f734f79ab74a6715a959a0419cf632f794c8c5108",
    ("raw", "row", "paper-4"): "69235333b9dd4082b9c874ef3d60d53b8e7bf87e5f3ad890c39d2518a8c7ecb1",
    ("gap", None, "flips-2:1,1"): "794e3f95ce66578fbd6d9a2ae69bdaae72a28aa99192469ef9046157bc560ea2",
    ("gap", "many", "flips-3:1,0,0"): "d20feabe592e8d3ec9db0d4c8ca28c2c0aae05231fec063a9d72883c978cde01",
}


def test_every_codec_is_pinned() -> None:
    assert {codec for codec, _, _ in GOLDEN} == set(CODECS)


@pytest.mark.parametrize(("codec", "ids", "plan"), GOLDEN)
def test_a_segment_has_the_bytes_of_its_format_version(
    codec: Codec, ids: str | None, plan: str, tmp_path: Path
) -> None:
    keys = crowded()
    if ids == "many":  # several of them to a fingerprint
        keys[1::4] = keys[::4]
    column = mixed(len(keys)) >> np.uint64(20) if ids == "many" else ids
    fpstore.build(tmp_path / "s.fpstore", keys, ids=column, plan=plan, codec=codec).close()
    (segment,) = (tmp_path / "s.fpstore" / "segments").iterdir()
    assert hashlib.sha256(segment.read_bytes()).hexdigest() == GOLDEN[codec, ids, plan]
