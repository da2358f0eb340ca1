"""A store in a bucket, by a server of S3 on this machine: the rows, and how much is read of it.

Builds a store of 10^7 fingerprints (or --keys), copies it to s3://, and probes it for 1,000, half of them near stored
ones, from an empty cache. Rows are those of the store here, and all that is read after the opening is at most 3 times
the bytes of those pages among it that hold blocks: each page once, as a probe reads no block that it does not decode.
Needs s3fs and moto[server], which takes some 10 ms a request; --here reads the same by local://, without a server.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from arguments import parse_count

import fpstore
from fpstore.format import PAGE_BYTES
from fpstore.remote.mirror import Mirror
from fpstore.remote.objects import Range
from fpstore.types import Keys

MOST_TIMES = 3.0


def block_bytes(store: fpstore.Store, ranges: list[Range]) -> int:
    """Of ranges of its one segment the bytes of pages that hold blocks, each page once."""
    payloads = [region for region in store._segments[0].regions() if region.name == "payload"]
    pages = {page for one in ranges for page in range(one.first // PAGE_BYTES, -(-one.end // PAGE_BYTES))}
    first_and_end = [(each.offset // PAGE_BYTES, -(-(each.offset + each.bytes) // PAGE_BYTES)) for each in payloads]
    return PAGE_BYTES * sum(any(first <= page < end for first, end in first_and_end) for page in pages)


def main() -> int:
    """Check; 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=parse_count, default=10_000_000)
    parser.add_argument("--queries", type=parse_count, default=1_000)
    parser.add_argument("--here", action="store_true")
    options = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "us-east-1"}
    server = None if options.here else served()
    rng = np.random.default_rng(19)
    keys = rng.integers(0, 1 << 64, options.keys, dtype=np.uint64)
    near = rng.choice(keys, options.queries // 2) ^ (
        np.uint64(1) << rng.integers(0, 64, options.queries // 2, np.uint64)
    )
    asked = np.concatenate([near, rng.integers(0, 1 << 64, options.queries - len(near), dtype=np.uint64)])
    try:
        with tempfile.TemporaryDirectory(prefix="fpstore-") as folder:
            url = f"local://{folder}/there" if server is None else "s3://fpstore-check/store"
            return checked(Path(folder), url, keys, asked)
    finally:
        if server is not None:
            server.stop()


def served() -> Any:
    """A server of S3 with an empty bucket, to which the environment leads from now on."""
    import s3fs
    from moto.s3.models import FakeKey
    from moto.server import ThreadedMotoServer

    def held(key: Any) -> bytes:
        if "held" not in vars(key):
            key.held = read(key)
        return bytes(key.held)

    # Or all of an object is read for each range of it: 40 ms for a segment of 10^7 keys.
    read = FakeKey.value.fget
    FakeKey.value = property(held, FakeKey.value.fset)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
    s3fs.S3FileSystem().mkdir("fpstore-check")
    return server


def checked(folder: Path, url: str, keys: Keys, asked: Keys) -> int:
    """The check itself: of a store that is copied to url."""
    with fpstore.build(folder / "here", keys, ids=None) as here:
        begun = time.monotonic()
        here.copy(url)
        print(f"copied {sum(each.file_bytes for each in here._segments):,} bytes in {time.monotonic() - begun:.1f} s")
    with fpstore.open(folder / "here") as here:
        expected = here.probe_many(asked)
    with fpstore.open(url, cache=folder / "cache") as there:
        mirror = there._mirror
        assert isinstance(mirror, Mirror)
        objects = mirror.objects
        requests, at_opening = objects.requests, objects.bytes_read
        read_ranges: list[Range] = []
        read_many = objects.read_many

        def noted(ranges: Sequence[Range]) -> list[bytes | Exception]:
            read_ranges.extend(ranges)
            return read_many(ranges)

        objects.read_many = noted  # type: ignore[method-assign]
        begun = time.monotonic()
        found = there.probe_many(asked)
        seconds = time.monotonic() - begun
        requests, read = objects.requests - requests, objects.bytes_read - at_opening
        blocks = block_bytes(there, read_ranges)
    same = len(found) == len(expected) and all(
        np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("query", "fingerprint", "distance")
    )
    times = read / blocks
    print(f"opening: {at_opening:,} bytes; {len(asked):,} queries: {len(found):,} rows, {requests:,} ranges, {read:,}")
    print(f"bytes in {seconds:.1f} s, {times:.2f} times the {blocks:,} bytes of the pages with blocks")
    print("rows: the same" if same else "rows: DIFFERENT")
    return 0 if same and times <= MOST_TIMES else 1


if __name__ == "__main__":
    sys.exit(main())
