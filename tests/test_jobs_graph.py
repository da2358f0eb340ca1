"""`fpstore.jobs.components` and `document_pairs`: all the pairs of near documents, and what they connect."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import connected, corpora, fingerprints, lines_of, write_jsonl

from fpstore.jobs import components, document_pairs
from fpstore.jobs.near import components_of

TempFactory = pytest.TempPathFactory


@pytest.mark.slow
@given(corpora, st.integers(0, 8))
@settings(max_examples=30)
def test_components_are_those_of_the_graph_of_near_documents(
    tmp_path_factory: TempFactory, documents: list[str], k: int
) -> None:
    folder = tmp_path_factory.mktemp("components")
    source = write_jsonl(folder / "in.jsonl", documents)
    found = components([source], folder / "out", max_distance=k)
    expected = connected(fingerprints(documents), k)
    lines = [f"{number}\t{source}:{i + 1}\t{distance}" for i, (number, distance) in enumerate(expected)]
    assert lines_of(folder / "out") == lines
    assert (found.documents, found.results) == (len(documents), len({number for number, _ in expected}))
    assert sorted(path.name for path in folder.iterdir()) == [".out.done", "in.jsonl", "out"]


@pytest.mark.slow
@given(corpora, st.integers(0, 8))
@settings(max_examples=30)
def test_pairs_are_those_within_k_equal_documents_too(
    tmp_path_factory: TempFactory, documents: list[str], k: int
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    source = write_jsonl(folder / "in.jsonl", documents)
    found = document_pairs([source], folder / "out", max_distance=k)
    keys = fingerprints(documents)
    distances = {(i, j): (keys[i] ^ keys[j]).bit_count() for i, j in combinations(range(len(keys)), 2)}
    expected = [f"{source}:{i + 1}\t{source}:{j + 1}\t{d}" for (i, j), d in distances.items() if d <= k]
    assert sorted(lines_of(folder / "out")) == sorted(expected)
    assert found.results == len(expected)


@pytest.mark.slow
@given(
    st.integers(1, 40).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
        )
    )
)
def test_edges_in_any_order_connect_the_same(graph: tuple[int, list[list[tuple[int, int]]]]) -> None:
    count, batches = graph
    arrays = [np.array(batch, dtype=np.int64).reshape(-1, 2) for batch in batches]
    found = components_of(count, ((edges[:, 0], edges[:, 1], edges[:, 0]) for edges in arrays))
    least = list(range(count))
    for _ in range(count):
        for one, other in (edge for batch in batches for edge in batch):
            least[one] = least[other] = min(least[one], least[other])
    assert found.tolist() == least


def test_a_long_chain_is_one_component(tmp_path: Path) -> None:
    count = 100_000
    numbers = np.random.default_rng(1).permutation(count)
    edges = (numbers[:-1], numbers[1:], numbers[1:])
    assert not components_of(count, iter([edges])).any()
