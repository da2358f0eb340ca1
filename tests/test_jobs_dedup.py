"""`fpstore.jobs.dedup`: which documents are kept, what is written, and how it goes on after an interruption."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fpstore.jobs import dedup
from fpstore.jobs.corpus import fingerprints_of
from fpstore.text import DEFAULT

# Few words, so that many texts are near each other.
words = st.sampled_from(["a", "b", "c", "dd", "eee", "fox", "dog"])
texts = st.lists(words, max_size=6).map(" ".join)


def write_jsonl(path: Path, documents: Iterable[str]) -> Path:
    path.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(documents)))
    return path


def first_come(fingerprints: list[int], k: int, known: list[int] = []) -> list[tuple[int, int] | None]:  # noqa: B006
    """For each fingerprint None where it is kept, else the number of the nearest kept one, and the distance.

    known: fingerprints of documents kept before, numbered from 0 on.
    """
    kept = list(enumerate(known))
    verdicts: list[tuple[int, int] | None] = []
    for fingerprint in fingerprints:
        near = [((fingerprint ^ other).bit_count(), number) for number, other in kept]
        near = [pair for pair in near if pair[0] <= k]
        if near:
            distance, number = min(near)
            verdicts.append((number, distance))
        else:
            verdicts.append(None)
            kept.append((len(kept), fingerprint))
    return verdicts


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


@given(st.lists(texts, max_size=30), st.integers(0, 8))
def test_kept_are_those_that_are_near_none_before(tmp_path_factory: Any, documents: list[str], k: int) -> None:
    folder = tmp_path_factory.mktemp("dedup")
    source = write_jsonl(folder / "in.jsonl", documents)
    found = dedup([source], folder / "kept", dropped=folder / "dropped", k=k)
    verdicts = first_come(fingerprints_of(documents, DEFAULT, 1).tolist(), k)
    lines = lines_of(source)
    numbers = [i for i, verdict in enumerate(verdicts) if verdict is None]
    assert lines_of(folder / "kept") == [lines[i] for i in numbers]
    assert lines_of(folder / "dropped") == [
        f"{source}:{i + 1}\t{source}:{numbers[verdict[0]] + 1}\t{verdict[1]}"
        for i, verdict in enumerate(verdicts)
        if verdict is not None
    ]
    assert (found.documents, found.kept) == (len(documents), len(numbers))
    assert sorted(path.name for path in folder.iterdir()) == ["dropped", "in.jsonl", "kept"]
