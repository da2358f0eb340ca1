"""The public surface, as types: what it promises of all that exists today, by hand.

mypy compares the package with it, as `make lint` runs over tests, and tests/test_surface.py the names, the order and
the kinds of the arguments. Where it does not say what comes back, that is to be decided.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self, overload

import numpy as np
import numpy.typing as npt

import fpstore
import fpstore.cluster
import fpstore.minhash
import fpstore.text
from fpstore import (
    Additions,
    IdPairs,
    Match,
    Matches,
    OnProgress,
    Pairs,
    Plan,
    Progress,
    Report,
    Rows,
    Sharing,
    Spike,
    Spikes,
    Stats,
    Store,
    TablePlan,
    Verified,
    jobs,
)
from fpstore.text import DEFAULT_RECIPE, Recipe, Shingle

AnyPath = str | PathLike[str]
Memory = str | int
Values = object
Texts = Iterable[str | bytes]
Codec = Literal["gap", "xor", "rice", "raw"]
Layout = Literal["slots", "blocks"]
Durability = Literal["commit", "batch"]
Mode = Literal["r", "w"]
IdType = Literal["uint64", "string", "bytes"]
Column = npt.NDArray[Any]
Signatures = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]


class Build(Protocol):
    def __call__(
        self,
        path: AnyPath,
        fingerprints: Values,
        *,
        ids: Values = "row",
        id_type: IdType = "uint64",
        bits: int | None = None,
        max_distance: int | None = None,
        plan: str | Plan = "balanced",
        max_bytes: float | None = None,
        codec: Codec | None = None,
        layout: Layout = "slots",
        block_bytes: int | None = None,
        recipe: Recipe | str | None = None,
        shuffle: int | None = None,
        memory: Memory = "2GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
        force: bool = False,
        mode: int | None = None,
    ) -> Store: ...


class Create(Protocol):
    def __call__(
        self,
        path: AnyPath,
        *,
        exist_ok: bool = False,
        id_type: IdType | None = "uint64",
        bits: int | None = None,
        max_distance: int | None = None,
        plan: str | Plan = "balanced",
        max_bytes: float | None = None,
        codec: Codec | None = None,
        layout: Layout = "slots",
        block_bytes: int | None = None,
        recipe: Recipe | str | None = None,
        shuffle: int | None = None,
        force: bool = False,
        durability: Durability = "commit",
        mode: int | None = None,
    ) -> Store: ...


class Open(Protocol):
    def __call__(
        self,
        path: AnyPath,
        mode: Mode = "r",
        *,
        durability: Durability = "commit",
        signed: bool = False,
        warm: bool = False,
        cache: AnyPath | None = None,
        cache_bytes: str | int | None = None,
    ) -> Store: ...


class Recover(Protocol):
    def __call__(self, path: AnyPath, new: AnyPath, *, progress: OnProgress | None = None) -> fpstore.Recovered: ...


class Predict(Protocol):
    def __call__(
        self,
        *,
        n: int | None = None,
        max_distance: int | None = None,
        bits: int | None = None,
        like: AnyPath | None = None,
        layout: Layout = "slots",
    ) -> list[fpstore.Prediction]: ...


Paths = jobs.Inputs | Iterable[AnyPath | Iterable[Mapping[str, Any]]]


class Dedup(Protocol):
    def __call__(
        self,
        inputs: Paths,
        output: AnyPath,
        *,
        dropped: AnyPath | None = None,
        keep: str = "first",
        tag: bool = False,
        shards: bool = False,
        store: AnyPath | None = None,
        recipe: Recipe | None = None,
        max_distance: int | None = None,
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        confirm: str | None = "default",
        force: bool = False,
        threads: int | None = None,
        workers: int | None = None,
        engine: str | None = None,
        address: str | None = None,
        folder: AnyPath | None = None,
        world_size: int | None = None,
        progress: OnProgress | None = None,
    ) -> jobs.DedupSummary: ...


class Cluster(Protocol):
    def __call__(
        self,
        inputs: Paths,
        output: AnyPath,
        *,
        store: AnyPath | None = None,
        max_distance: int | None = None,
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        confirm: str | None = "default",
        update_center: bool = False,
        annotate: bool = False,
        topics: AnyPath | None = None,
        recipe: Recipe | None = None,
        force: bool = False,
        threads: int | None = None,
        workers: int | None = None,
        engine: str | None = None,
        address: str | None = None,
        folder: AnyPath | None = None,
        progress: OnProgress | None = None,
    ) -> jobs.ClusterSummary: ...


class Components(Protocol):
    def __call__(
        self,
        inputs: Paths,
        output: AnyPath,
        *,
        max_distance: int | None = None,
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        annotate: bool = False,
        topics: AnyPath | None = None,
        recipe: Recipe = DEFAULT_RECIPE,
        force: bool = False,
        threads: int | None = None,
        workers: int | None = None,
        engine: str | None = None,
        address: str | None = None,
        folder: AnyPath | None = None,
        memory: Memory = "1GiB",
        progress: OnProgress | None = None,
    ) -> jobs.ClusterSummary: ...


class DocumentPairs(Protocol):
    def __call__(
        self,
        inputs: Paths,
        output: AnyPath,
        *,
        max_distance: int | None = None,
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        recipe: Recipe = DEFAULT_RECIPE,
        force: bool = False,
        threads: int | None = None,
        workers: int | None = None,
        engine: str | None = None,
        address: str | None = None,
        folder: AnyPath | None = None,
        memory: Memory = "1GiB",
        progress: OnProgress | None = None,
    ) -> jobs.PairsSummary: ...


class ClusterStore(Protocol):
    def __call__(
        self,
        store: AnyPath,
        output: AnyPath,
        *,
        max_distance: int | None = None,
        min_similarity: float | None = None,
        update_center: bool = False,
        components: bool = False,
        memory: Memory = "1GiB",
        threads: int | None = None,
        force: bool = False,
        progress: OnProgress | None = None,
    ) -> jobs.ClusterSummary: ...


class ClusterPairs(Protocol):
    def __call__(
        self,
        store: AnyPath,
        *,
        max_distance: int | None = None,
        of: Literal["fingerprints"] = "fingerprints",
        memory: str | int = "1GiB",
        engine: str = "local",
        address: str | None = None,
        workers: int | None = None,
        tasks: int | None = None,
        folder: AnyPath | None = None,
        world_size: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[fpstore.Pairs]: ...


class ClusterPairsRank(Protocol):
    def __call__(
        self,
        store: AnyPath,
        *,
        rank: int,
        world_size: int,
        folder: AnyPath,
        max_distance: int | None = None,
        of: Literal["fingerprints", "ids"] = "fingerprints",
        memory: str | int = "1GiB",
        tasks: int | None = None,
    ) -> int: ...


class ClusterSimilarPairs(Protocol):
    def __call__(
        self,
        store: AnyPath,
        *,
        min_similarity: float | None = None,
        memory: str | int = "1GiB",
        engine: str = "local",
        address: str | None = None,
        workers: int | None = None,
        tasks: int | None = None,
        folder: AnyPath | None = None,
        world_size: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[fpstore.minhash.SimilarPairs]: ...


class ClusterSimilarPairsRank(Protocol):
    def __call__(
        self,
        store: AnyPath,
        *,
        rank: int,
        world_size: int,
        folder: AnyPath,
        min_similarity: float | None = None,
        memory: str | int = "1GiB",
        tasks: int | None = None,
    ) -> int: ...


class ClusterFingerprint(Protocol):
    def __call__(
        self,
        inputs: Paths,
        *,
        recipe: Recipe | None = None,
        threads: int | None = None,
        engine: str = "local",
        address: str | None = None,
        workers: int | None = None,
        folder: AnyPath | None = None,
        progress: OnProgress | None = None,
    ) -> fpstore.cluster.Fingerprinted: ...


class MeasureRank(Protocol):
    def __call__(
        self,
        inputs: Paths,
        *,
        folder: AnyPath,
        rank: int,
        world_size: int,
        job: Literal["dedup", "cluster", "components", "document-pairs", "fingerprint"] = "dedup",
        recipe: Recipe | None = None,
        store: AnyPath | None = None,
        max_distance: int | None = None,
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        confirm: str | None = "default",
        update_center: bool = False,
        keep: str = "first",
        shards: bool = False,
        output: AnyPath | None = None,
    ) -> int: ...


class ClusterProbe(Protocol):
    def __call__(
        self,
        store: AnyPath,
        fingerprints: Values,
        *,
        max_distance: int | None = None,
        engine: str = "local",
        address: str | None = None,
        workers: int | None = None,
        tasks: int | None = None,
        folder: AnyPath | None = None,
        world_size: int | None = None,
        progress: OnProgress | None = None,
    ) -> fpstore.cluster.Answer: ...


class ClusterProbeRank(Protocol):
    def __call__(
        self,
        store: AnyPath,
        fingerprints: Values,
        *,
        rank: int,
        world_size: int,
        folder: AnyPath,
        max_distance: int | None = None,
        tasks: int | None = None,
    ) -> int: ...


class AComparison(Protocol):
    @property
    def recipe(self) -> Recipe: ...
    @property
    def first(self) -> Any: ...
    @property
    def second(self) -> Any: ...
    @property
    def distance(self) -> Any: ...
    @property
    def max_distance(self) -> int | None: ...
    @property
    def bands(self) -> int | None: ...
    @property
    def rows_per_band(self) -> int | None: ...
    @property
    def min_similarity(self) -> float | None: ...
    @property
    def similarity(self) -> float | None: ...
    @property
    def shared_bands(self) -> int | None: ...
    @property
    def near(self) -> bool: ...
    @property
    def jaccard(self) -> float: ...
    @property
    def cosine(self) -> float: ...
    @property
    def first_tokens(self) -> int: ...
    @property
    def second_tokens(self) -> int: ...
    @property
    def first_count(self) -> int: ...
    @property
    def second_count(self) -> int: ...
    @property
    def common_count(self) -> int: ...
    @property
    def only_first_count(self) -> int: ...
    @property
    def only_second_count(self) -> int: ...
    @property
    def only_first(self) -> tuple[Shingle, ...]: ...
    @property
    def only_second(self) -> tuple[Shingle, ...]: ...
    def to_json(self) -> dict[str, Any]: ...


class Compare(Protocol):
    def __call__(
        self,
        a: str | bytes,
        b: str | bytes,
        recipe: Recipe = DEFAULT_RECIPE,
        *,
        max_distance: int | None = None,
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        shown: int = 20,
    ) -> AComparison: ...


class Fingerprint(Protocol):
    def __call__(self, text: str | bytes, recipe: Recipe = DEFAULT_RECIPE) -> int: ...


class FingerprintMany(Protocol):
    def __call__(
        self, texts: Texts, recipe: Recipe = DEFAULT_RECIPE, *, threads: int | None = None
    ) -> npt.NDArray[np.uint64]: ...


class SomeDeduplicated(Protocol):
    @property
    def kept(self) -> npt.NDArray[np.int64]: ...
    @property
    def duplicate_of(self) -> npt.NDArray[np.int64]: ...
    @property
    def distance(self) -> npt.NDArray[np.uint16]: ...
    @property
    def similarity(self) -> npt.NDArray[np.float32] | None: ...


class DedupTexts(Protocol):
    def __call__(
        self,
        texts: Texts,
        *,
        recipe: Recipe = DEFAULT_RECIPE,
        max_distance: int | None = None,
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        keep: Literal["first", "longest"] = "first",
        confirm: str | None = "default",
        threads: int | None = None,
    ) -> SomeDeduplicated: ...


class Sign(Protocol):
    def __call__(self, texts: Texts, recipe: Recipe, *, threads: int | None = None) -> Signatures: ...


class Similarity(Protocol):
    def __call__(self, a: npt.ArrayLike, b: npt.ArrayLike) -> float | npt.NDArray[np.float64]: ...


class LearnIdf(Protocol):
    def __call__(self, texts: Texts, recipe: Recipe) -> fpstore.text.IdfModel: ...


class LoadRecipe(Protocol):
    def __call__(self, name_or_file: AnyPath, *, idf: AnyPath | None = None) -> Recipe: ...


class Recipes(Protocol):
    def __call__(self) -> dict[str, Recipe]: ...


class SomeSpikes(Protocol):
    @property
    def fingerprint_count(self) -> int: ...
    @property
    def row_count(self) -> int: ...
    @property
    def shared_row_count(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def largest(self) -> tuple[Spike, ...]: ...
    @property
    def sharing(self) -> tuple[Sharing, ...]: ...
    def to_json(self) -> dict[str, Any]: ...


class SomeStats(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def max_distance(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def codec(self) -> str: ...
    @property
    def id_type(self) -> str | None: ...
    @property
    def recipe(self) -> dict[str, Any] | None: ...
    @property
    def minhash(self) -> dict[str, float] | None: ...
    @property
    def fingerprint_count(self) -> int | None: ...
    @property
    def pending_count(self) -> int: ...
    @property
    def removal_count(self) -> int: ...
    @property
    def segment_count(self) -> int: ...
    @property
    def spikes(self) -> SomeSpikes | None: ...
    @property
    def has_writer(self) -> bool: ...
    @property
    def writer_pid(self) -> int | None: ...
    @property
    def written_at(self) -> datetime: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def segments_bytes(self) -> int: ...
    @property
    def catalog_bytes(self) -> int: ...
    @property
    def names_bytes(self) -> int: ...
    @property
    def sketches_bytes(self) -> int: ...
    @property
    def jobs_bytes(self) -> int: ...
    @property
    def aside_bytes(self) -> int: ...
    @property
    def other_bytes(self) -> int: ...
    def to_json(self) -> dict[str, Any]: ...


class AStore(Protocol):
    path: Path
    mode: Mode

    @property
    def id_type(self) -> IdType | None: ...
    @property
    def recipe(self) -> Recipe | None: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def kind(self) -> Literal["hamming"]: ...
    @property
    def bits(self) -> int: ...
    @property
    def max_distance(self) -> int: ...
    @property
    def plan(self) -> Plan: ...
    def __enter__(self) -> Self: ...
    def __reduce__(self) -> str | tuple[Any, ...]: ...
    def __repr__(self) -> str: ...
    def __bool__(self) -> bool: ...
    def close(self, *, wait: bool = False) -> None: ...
    def wait(self) -> None: ...
    def sync(self) -> None: ...
    def compact(self, *, progress: OnProgress | None = None) -> None: ...
    def copy(self, path: AnyPath, *, progress: OnProgress | None = None, mode: int | None = None) -> None: ...
    def verify(self, *, progress: OnProgress | None = None) -> Verified: ...
    def stats(self, *, largest_slots: int = 0, spikes: int = 0, progress: OnProgress | None = None) -> Stats: ...
    def report(self, *, progress: OnProgress | None = None) -> Report: ...
    def max_id(self) -> int | None: ...
    def fingerprint(self, text: str | bytes) -> int: ...
    def fingerprint_many(self, texts: Texts, *, threads: int | None = None) -> Column: ...
    def probe(self, fingerprint: int | bytes, *, max_distance: int | None = None) -> Matches: ...
    def probe_many(
        self, fingerprints: Values, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches: ...
    def probe_text(self, text: str | bytes, *, max_distance: int | None = None) -> Matches: ...
    def nearest(self, fingerprint: int | bytes, count: int = 1, *, max_distance: int | None = None) -> Matches: ...
    def nearest_many(
        self, fingerprints: Values, count: int = 1, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches: ...
    def contains_near(self, fingerprint: int | bytes, *, max_distance: int | None = None) -> bool: ...
    @overload
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Literal["fingerprints"] = "fingerprints",
        memory: Memory = "1GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[Pairs]: ...
    @overload
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Literal["ids"],
        memory: Memory = "1GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[IdPairs]: ...
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Literal["fingerprints", "ids"] = "fingerprints",
        memory: Memory = "1GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[Pairs] | Iterator[IdPairs]: ...
    def count_pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Literal["fingerprints", "ids"] = "fingerprints",
        memory: Memory = "1GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
    ) -> int: ...
    def count(self, of: Literal["fingerprints", "rows"] = "fingerprints") -> int: ...
    def rows(self, *, batch: int = 65_536) -> Iterator[Rows]: ...
    def lookup(self, ids: Values) -> Rows: ...
    def add(self, fingerprints: Values, *, ids: Values = None) -> object: ...
    def add_if_new(self, fingerprints: Values, *, ids: Values = None, max_distance: int | None = None) -> Additions: ...
    def add_texts(self, texts: Texts, *, ids: Values = None) -> object: ...
    def add_texts_if_new(self, texts: Texts, *, ids: Values = None, max_distance: int | None = None) -> Additions: ...
    def upsert(self, fingerprints: Values, *, ids: Values) -> None: ...
    def remove(self, *, ids: Values = None, fingerprints: Values = None) -> object: ...


class ATable(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any) -> Any: ...
    def _repr_html_(self) -> str: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def to_arrow(self) -> Any: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    @property
    def schema(self) -> Any: ...


class SomeMatches(ATable, Protocol):
    method: str

    @property
    def query(self) -> npt.NDArray[np.int64]: ...
    @property
    def fingerprint(self) -> Column: ...
    @property
    def distance(self) -> npt.NDArray[np.uint16]: ...
    @property
    def id(self) -> Column | None: ...
    def __iter__(self) -> Iterator[Match]: ...


class SomeRows(ATable, Protocol):
    @property
    def fingerprint(self) -> Column: ...
    @property
    def id(self) -> Column | None: ...
    def __iter__(self) -> Iterator[fpstore.Row]: ...


class SomePairs(ATable, Protocol):
    @property
    def first(self) -> Column: ...
    @property
    def second(self) -> Column: ...
    @property
    def distance(self) -> npt.NDArray[np.uint16]: ...
    def __iter__(self) -> Iterator[fpstore.Pair]: ...


class SomeIdPairs(ATable, Protocol):
    @property
    def first_id(self) -> Column: ...
    @property
    def second_id(self) -> Column: ...
    @property
    def distance(self) -> npt.NDArray[np.uint16]: ...
    def __iter__(self) -> Iterator[fpstore.IdPair]: ...


class SomeAdditions(ATable, Protocol):
    @property
    def stored(self) -> Column: ...
    @property
    def match_fingerprint(self) -> Column: ...
    @property
    def match_distance(self) -> npt.NDArray[np.uint16]: ...
    @property
    def match_id(self) -> Column | None: ...
    def __iter__(self) -> Iterator[fpstore.Addition]: ...


class APlan(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def max_distance(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def tables(self) -> tuple[TablePlan, ...]: ...
    @property
    def bands(self) -> tuple[int, ...]: ...
    @classmethod
    def named(cls, name: str, *, max_distance: int = 3, bits: int = 64) -> Plan: ...
    def prove(self) -> None: ...
    def missed(self) -> int | None: ...
    def to_json(self) -> dict[str, Any]: ...
    @classmethod
    def from_json(cls, value: object) -> Plan: ...


class Record(Protocol):
    """What report, verify, recover and, several of them, predict return."""

    def to_json(self) -> dict[str, Any]: ...


class AnError(Protocol):
    path: AnyPath | None


class Damaged(AnError, Protocol):
    where: str
    found: str
    expected: str


class OfAVersion(AnError, Protocol):
    found: int
    supported: int


class Locked(AnError, Protocol):
    pid: int | None


class AProgress(NamedTuple):
    phase: str
    done: int
    total: int | None
    unit: str


FUNCTIONS: dict[str, type[Any]] = {
    "build": Build,
    "create": Create,
    "open": Open,
    "predict": Predict,
    "recover": Recover,
}
TEXT_FUNCTIONS: dict[str, type[Any]] = {
    "compare": Compare,
    "dedup": DedupTexts,
    "fingerprint": Fingerprint,
    "fingerprint_many": FingerprintMany,
    "learn_idf": LearnIdf,
    "load_recipe": LoadRecipe,
    "recipes": Recipes,
}
MINHASH_FUNCTIONS: dict[str, type[Any]] = {
    "sign": Sign,
    "similarity": Similarity,
}
CLASSES: dict[str, type[Any]] = {
    "Store": AStore,
    "Matches": SomeMatches,
    "Rows": SomeRows,
    "Pairs": SomePairs,
    "IdPairs": SomeIdPairs,
    "Additions": SomeAdditions,
}
ERRORS = {
    "CorruptStore": fpstore.Error,
    "NotAStore": fpstore.Error,
    "UnsupportedVersion": fpstore.Error,
    "StoreLocked": fpstore.Error,
    "StoreChanged": fpstore.Error,
    "JobError": fpstore.Error,
    "PlanError": ValueError,
    "RecipeError": ValueError,
    "WrongKind": ValueError,
    "ReadOnly": ValueError,
    "StoreClosed": ValueError,
    "BadInput": ValueError,
}
RECORDS = {
    "Progress": AProgress._fields,
    "Match": ("query", "fingerprint", "distance", "id"),
    "Row": ("fingerprint", "id"),
    "Pair": ("first", "second", "distance"),
    "IdPair": ("first_id", "second_id", "distance"),
    "Addition": ("stored", "match"),
}

JOBS = {
    "dedup": Dedup,
    "cluster": Cluster,
    "components": Components,
    "document_pairs": DocumentPairs,
    "cluster_store": ClusterStore,
    "measure_rank": MeasureRank,
}

CLUSTER: dict[str, type] = {
    "fingerprint": ClusterFingerprint,
    "pairs": ClusterPairs,
    "pairs_rank": ClusterPairsRank,
    "probe": ClusterProbe,
    "probe_rank": ClusterProbeRank,
    "similar_pairs": ClusterSimilarPairs,
    "similar_pairs_rank": ClusterSimilarPairsRank,
}

# What mypy compares.
cluster_fingerprint: ClusterFingerprint = fpstore.cluster.fingerprint
cluster_pairs: ClusterPairs = fpstore.cluster.pairs
cluster_similar_pairs: ClusterSimilarPairs = fpstore.cluster.similar_pairs
cluster_similar_pairs_rank: ClusterSimilarPairsRank = fpstore.cluster.similar_pairs_rank
cluster_pairs_rank: ClusterPairsRank = fpstore.cluster.pairs_rank
measure_rank: MeasureRank = jobs.measure_rank
cluster_probe: ClusterProbe = fpstore.cluster.probe
cluster_probe_rank: ClusterProbeRank = fpstore.cluster.probe_rank
dedup: Dedup = jobs.dedup
cluster: Cluster = jobs.cluster
components: Components = jobs.components
document_pairs: DocumentPairs = jobs.document_pairs
cluster_store: ClusterStore = jobs.cluster_store
build: Build = fpstore.build
create: Create = fpstore.create
open_: Open = fpstore.open
recover: Recover = fpstore.recover
predict: Predict = fpstore.predict
store: Callable[[Store], AStore] = lambda store: store  # noqa: E731
matches: Callable[[Matches], SomeMatches] = lambda table: table  # noqa: E731
rows: Callable[[Rows], SomeRows] = lambda table: table  # noqa: E731
pairs: Callable[[Pairs], SomePairs] = lambda table: table  # noqa: E731
id_pairs: Callable[[IdPairs], SomeIdPairs] = lambda table: table  # noqa: E731
additions: Callable[[Additions], SomeAdditions] = lambda table: table  # noqa: E731
plan: Callable[[Plan], APlan] = lambda plan: plan  # noqa: E731
compare: Compare = fpstore.text.compare
dedup_texts: DedupTexts = fpstore.text.dedup
stats: Callable[[Stats], SomeStats] = lambda record: record  # noqa: E731
spikes: Callable[[Spikes], SomeSpikes] = lambda record: record  # noqa: E731
report: Callable[[Report], Record] = lambda record: record  # noqa: E731
verified: Callable[[Verified], Record] = lambda record: record  # noqa: E731
recovered: Callable[[fpstore.Recovered], Record] = lambda record: record  # noqa: E731
prediction: Callable[[fpstore.Prediction], Record] = lambda record: record  # noqa: E731
damaged: Callable[[fpstore.CorruptStore], Damaged] = lambda error: error  # noqa: E731
of_a_version: Callable[[fpstore.UnsupportedVersion], OfAVersion] = lambda error: error  # noqa: E731
locked: Callable[[fpstore.StoreLocked], Locked] = lambda error: error  # noqa: E731
told: Callable[[Progress], tuple[str, int, int | None, str]] = lambda progress: progress  # noqa: E731
fingerprint: Fingerprint = fpstore.text.fingerprint
fingerprint_many: FingerprintMany = fpstore.text.fingerprint_many
learn_idf: LearnIdf = fpstore.text.learn_idf
load_recipe: LoadRecipe = fpstore.text.load_recipe
recipes: Recipes = fpstore.text.recipes
sign: Sign = fpstore.minhash.sign
similarity: Similarity = fpstore.minhash.similarity
