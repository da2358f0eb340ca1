"""Compares dedup, cluster and document-pairs with plain Python, on random small corpora of every format.

    python tools/check_documents.py [--rounds 1000] [--seed 0]

A round makes a corpus in one format, or in two, and has the real command work on it: dedup that keeps the first, the
longest, or by a field, with a k and --confirm that are drawn or by default, with --tag or without, twice into one store
or into none; cluster by leaders, confirmed or not, centers or components; pairs. For one document 64 near ones are
looked at, or one or two. The results are written in a form that is drawn too, read with other packages
than ours, and compared with what tools/documents_reference.py decides: every kept document with all its columns, every
reason, every cluster, every number that the command says. Prints how many decisions were compared, and each difference.
Exit status 1 for any.
"""

import argparse
import contextlib
import csv
import gzip
import io
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import patch

import documents_reference as plain
import pyarrow.parquet as pq
import zstandard
from arguments import parse_count, parse_whole
from documents_corpora import WHOLE, Input, cell_of, make_input
from documents_reference import Document, Dropped, Seen

from fpstore.cli import main as fpstore
from fpstore.jobs import corpus as corpora
from fpstore.jobs import kept as kept_documents
from fpstore.jobs import packing, runs
from fpstore.jobs.topics import MOST_CLUSTERS
from fpstore.query import leaders
from fpstore.text import Recipe, recipes

FORMATS = ("jsonl", "csv", "tsv", "parquet", *WHOLE)
MOST_SHOWN = 20
MEMORY = Path("/dev/shm")
RECIPES = (Recipe("words-1", shingle=1), recipes()["words-4"], recipes()["multilingual"])


class Differs(Exception):
    """A command did, or said, something else than the reference."""


# --- Results ---


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read() if path.suffix == ".zst" else data


def rows_in(path: Path, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows of a result with these columns, whatever its form, as texts."""
    if path.suffix == ".parquet":
        records = pq.read_table(path).to_pylist()
    else:
        text, kind = unpacked(path).decode(), path.suffixes[0] if path.suffixes else ".tsv"
        if kind == ".tsv":
            return [tuple(line.split("\t")) for line in text.splitlines()]
        records = (
            list(map(json.loads, text.splitlines())) if kind == ".jsonl" else list(csv.DictReader(io.StringIO(text)))
        )
    told = [tuple(record[name] for name in columns) for record in records]
    return [tuple(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) for row in told]


def expect_kept(path: Path, inputs: list[Input], kept: list[list[int]]) -> None:
    """The kept documents of each input are in the result, with all their columns."""
    if path.suffix == ".parquet":
        _expect_parquet(path, inputs[0], kept[0], inputs, kept)
        return
    data, kind = unpacked(path), path.suffixes[0] if path.suffixes else ".jsonl"
    if kind == ".jsonl":
        found = data.splitlines(keepends=True)
        expected = [(source, index) for source, own in zip(inputs, kept, strict=True) for index in own]
        equal("kept documents", len(found), len(expected))
        for line, (source, index) in zip(found, expected, strict=True):
            if source.format == "jsonl":
                equal("a kept line", line, source.lines[index])
            else:
                equal("a kept document", json.loads(line), _in_json(source.rows[index]))
        return
    if f".{inputs[0].format}" == kind:
        lines = [source.lines[index] for source, own in zip(inputs, kept, strict=True) for index in own]
        equal("kept lines", data, inputs[0].header + b"".join(lines))
        return
    records = [_in_json(source.rows[index]) for source, own in zip(inputs, kept, strict=True) for index in own]
    if inputs[0].format == "jsonl":
        names = list(dict.fromkeys(name for record in records for name in record))
    else:
        names = inputs[0].columns
    table = list(csv.reader(io.StringIO(data.decode(), newline="")))
    equal(
        "kept cells",
        table,
        [names] * bool(names) + [[cell_of(record.get(name)) for name in names] for record in records],
    )


def _expect_parquet(path: Path, first: Input, _: list[int], inputs: list[Input], kept: list[list[int]]) -> None:
    table = pq.read_table(path)
    records = [source.rows[index] for source, own in zip(inputs, kept, strict=True) for index in own]
    names = first.columns or list(dict.fromkeys(name for record in records for name in record))
    equal("columns", table.column_names, names)
    equal("kept rows", table.to_pylist(), [{name: record.get(name) for name in names} for record in records])
    if first.format == "parquet":
        equal("the schema", table.schema, first.schema)
    elif first.format != "jsonl":
        equal("types", {str(kind) for kind in table.schema.types}, {"string"})


def expect_added(path: Path, inputs: list[Input], added: list[dict[str, Any]]) -> None:
    """All documents are in the result with all their columns, and behind these the fields that were added."""
    rows = [row for source in inputs for row in source.rows]
    kind = next((suffix for suffix in path.suffixes if suffix not in (".gz", ".zst")), ".jsonl")
    names = inputs[0].columns or list(dict.fromkeys(name for row in rows for name in row))
    names = [*names, *(added[0] if added else ())]
    if kind == ".parquet":
        expected = [{name: (row | more).get(name) for name in names} for row, more in zip(rows, added, strict=True)]
        equal("tagged rows", pq.read_table(path).to_pylist(), expected)
        return
    told = [_in_json(row) | more for row, more in zip(rows, added, strict=True)]
    text = unpacked(path).decode()
    if kind == ".jsonl":
        found = [json.loads(line) for line in text.splitlines()]
        equal("tagged documents", [list(row.items()) for row in found], [list(row.items()) for row in told])
        for line, own in zip(text.splitlines(), (line for source in inputs for line in source.lines), strict=False):
            if inputs[0].format == "jsonl" and len(inputs) == 1:
                equal("the beginning of a line", line.startswith(own.decode().rstrip()[:-1].rstrip()), True)
        return
    table = (
        [line.split("\t") for line in text.splitlines()]
        if kind == ".tsv"
        else list(csv.reader(io.StringIO(text, newline="")))
    )
    if told:
        equal("tagged cells", table, [names, *([cell_of(row.get(name)) for name in names] for row in told)])


def _in_json(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in row.items()}


def equal(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Differs(f"{what}: found {found!r:.400}, expected {expected!r:.400}")


# --- Rounds ---


class Round:
    """One corpus, or two, and all that is done with it; decisions: how many documents and pairs were compared."""

    def __init__(self, seed: str, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.recipe = self.rng.choice(RECIPES)
        self.distance = self.rng.choice((0, 1, 3, 6, 10, 16))
        # Whether neither k nor --confirm is said.
        self.by_default = self.rng.random() < 0.2
        self.looked_at = self.rng.choice((1, 2, plain.LOOKED_AT))
        self.texts: list[str] = []
        self.decisions = 0
        self.drawn: Counter[str] = Counter()
        self.by_id = False
        (folder / "recipe.json").write_text(json.dumps(dict(self.recipe.to_json())))

    def inputs(self, name: str) -> list[Input]:
        """One or two inputs, mostly of one format."""
        formats = self.rng.choices(FORMATS, k=1)
        if self.rng.random() < 0.5:
            formats.append(formats[0] if self.rng.random() < 0.6 else self.rng.choice(FORMATS))
        made = [
            make_input(self.rng, self.folder / f"{name}{i}", format, self.texts, self.recipe)
            for i, format in enumerate(formats)
        ]
        # Whole documents have no column, and do not go with --text-column; folders of pages are told by --format.
        kinds = {"html" if source.format == "html" else source.format in WHOLE for source in made}
        made = made if len(kinds) == 1 else made[:1]
        if any(source.bad for source in made) and not any(source.rows or source.documents for source in made):
            self.expect_refused(made)
            return self.inputs(f"{name}-")
        return made

    def expect_refused(self, inputs: list[Input]) -> None:
        """Of inputs of which all is bad nothing is made, with --skip-bad either."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = fpstore(["document-pairs", *map(str, self.options(inputs)), "-o", str(self.folder / "none")])
        if status != 1 or "as all that was found is bad" not in said.getvalue():
            raise Differs(f"status {status}, expected 1, as all of the inputs is bad: {said.getvalue()}")
        self.drawn.update(["all bad"])

    def suffix(self, inputs: list[Input] | None = None) -> str:
        """Of a result; of kept documents one that can hold these inputs."""
        kinds = ["", ".jsonl", ".csv", ".tsv", ".parquet"]
        if inputs is not None:
            formats = {"whole" if source.format in WHOLE else source.format for source in inputs}
            if formats != {"tsv"}:
                kinds.remove(".tsv")
            if len(formats) > 1:
                kinds = ["", ".jsonl"]
        kind = self.rng.choice(kinds)
        return kind + (self.rng.choice(("", ".gz", ".zst")) if kind not in ("", ".parquet") else "")

    def run(self, *arguments: object) -> str:
        """What the command says; it ends well."""
        said = io.StringIO()
        with (
            contextlib.redirect_stderr(said),
            patch.object(corpora, "BATCH_DOCUMENTS", self.rng.choice((1, 3, 7, 8192))),
            patch.object(corpora, "COMMIT_DOCUMENTS", self.rng.choice((1, 10, 1 << 17))),
            patch.object(leaders, "MOST_LOOKED_AT", self.looked_at),
            patch.object(kept_documents, "MOST_LOOKED_AT", self.looked_at),
        ):
            status = fpstore([str(each) for each in arguments])
        if status:
            raise Differs(f"status {status}: {said.getvalue()}")
        return next(line for line in said.getvalue().splitlines() if ", passed over " in line)

    def k(self, *, confirms: bool) -> int:
        """What k is, in a job that by default confirms matches, or in one that cannot."""
        if not self.by_default:
            return self.distance
        return plain.DISTANCE if confirms else plain.UNCONFIRMED_DISTANCE

    def confirm(self) -> tuple[list[object], plain.Alike | None]:
        """The option that is drawn, and how it decides; None where nothing is confirmed."""
        name, least = self.rng.choice((None, None, "jaccard", "cosine")), self.rng.choice((0.2, 0.5, 0.8))
        typed: list[object] = ["--confirm", f"{name}>={least}" if name else "none"]
        if self.by_default:
            typed, (name, least) = [], plain.CONFIRM
        self.drawn.update([f"confirm {name}"])

        def alike(one: str, other: str) -> tuple[float, bool]:
            found = plain.measure(str(name), self.recipe, one, other)
            return found, found >= least

        return typed, alike if name else None

    def options(self, inputs: list[Input]) -> list[object]:
        named = {source.format for source in inputs} - set(WHOLE)
        options: list[object] = ["--recipe", self.folder / "recipe.json", "--skip-bad"]
        options += [] if self.by_default else ["--k", self.distance]
        options += ["--text-column", "text"] if named else []
        formats = {source.format for source in inputs}
        options += ["--format", "html"] if formats == {"html"} else []
        options += ["--id-column", "id"] if self.by_id else []
        return [source.path for source in inputs] + options

    def all_of_it(self) -> None:
        self.check_dedup()
        self.check_clusters()

    def check_dedup(self) -> None:
        into_store = self.rng.random() < 0.4
        tags = self.rng.random() < 0.4
        confirm, alike = self.confirm()
        seen = Seen()
        for turn in range(1 + into_store):
            inputs = self.inputs(f"d{turn}")
            documents = self.documents(inputs)
            keep, order = self.order(inputs, documents)
            kept = self.folder / f"kept{turn}{self.suffix(inputs)}"
            dropped = self.folder / f"dropped{turn}{self.suffix()}"
            self._draw(inputs, kept, keep, "store" if into_store else "alone", "tag" if tags else "no tag")
            arguments: list[object] = ["dedup", *self.options(inputs), "-o", kept, "--dropped", dropped]
            arguments += ["--keep", keep] + ["--tag"] * tags + ["--summary", self.folder / "summary.json"]
            arguments += confirm
            arguments += ["--store", self.folder / "s.fpstore"] if into_store else []
            said = self.run(*arguments)
            refused_before, cut_before = seen.refused, seen.cut_short
            k = self.k(confirms=True)
            verdicts = plain.dedup(documents, k, self.recipe, seen, order=order, alike=alike, looked_at=self.looked_at)
            self.decisions += len(verdicts)
            by_input: list[list[int]] = []
            start = 0
            for source in inputs:
                own = verdicts[start : start + len(source.documents)]
                by_input.append([index for index, verdict in enumerate(own) if verdict is None])
                start += len(own)
            if tags:
                expect_added(kept, inputs, [_tags(verdict, alike is not None) for verdict in verdicts])
            else:
                expect_kept(kept, inputs, by_input)
            columns = ("name", "kept", "distance") + (("measure",) if alike else ())
            told = [
                _told(document.name, verdict) for document, verdict in zip(documents, verdicts, strict=True) if verdict
            ]
            equal("dropped documents", rows_in(dropped, columns), told)
            counts = f"{len(documents)} document{'s' * (len(documents) != 1)}, kept {len(documents) - len(told)}, "
            counts += f"dropped {len(told)}" + f", refused matches {seen.refused - refused_before}" * (
                alike is not None
            )
            counts += f", passed over {sum(source.bad for source in inputs)}"
            equal("what is said", said.splitlines()[-1].partition(" (")[0], f"{kept}: {counts}")
            cut_short = seen.cut_short - cut_before
            self.expect_summary(inputs, {"documents": len(documents), "dropped": len(told), "cut_short": cut_short})

    def documents(self, inputs: list[Input]) -> list[Document]:
        """All of them, called what the job is to call them."""
        self.by_id = self.rng.random() < 0.3 and not {source.format for source in inputs} & set(WHOLE)
        rows = [row for source in inputs for row in source.rows]
        found = [document for source in inputs for document in source.documents]
        if not self.by_id:
            return found
        return [Document(str(row["id"]), document.text) for row, document in zip(rows, found, strict=True)]

    def order(self, inputs: list[Input], documents: list[Document]) -> tuple[str, list[int]]:
        """What --keep is to say, and the order in which documents are decided then."""
        ways = ["first", "first", "longest"]
        if not {source.format for source in inputs} & set(WHOLE):
            ways += ["max:score", "min:score", "max:day", "min:day"]
        keep = self.rng.choice(ways)
        by, _, name = keep.partition(":")
        if by == "first":
            return keep, list(range(len(documents)))
        values: list[Any] = [len(document.text) for document in documents]
        if name:
            found = [row.get(name) for source in inputs for row in source.rows]
            values = [float(value) if name == "score" and value not in (None, "") else value for value in found]
            values = [value.isoformat() if isinstance(value, date) else value or None for value in values]
        return keep, plain.ordered(values, largest=by != "min")

    def expect_summary(self, inputs: list[Input], counts: dict[str, int]) -> None:
        record = json.loads((self.folder / "summary.json").read_text())
        equal("the summary's format", record["format"], "fpstore.summary/1")
        equal("the summary", {name: record[name] for name in counts}, counts)
        equal("what was passed over", sum(record["skipped"].values()), sum(source.bad for source in inputs))

    def expect_sizes(self, clusters: list[int]) -> None:
        record = json.loads((self.folder / "summary.json").read_text())
        found = {(row["least"], row["most"]): (row["clusters"], row["documents"]) for row in record["sizes"]}
        sizes = Counter(clusters)
        expected: dict[tuple[int, int], tuple[int, int]] = {}
        for size in sizes.values():
            most = 1 << (size - 1).bit_length()
            count, documents = expected.get((most // 2 + 1 if most > 1 else 1, most), (0, 0))
            expected[most // 2 + 1 if most > 1 else 1, most] = (count + 1, documents + size)
        equal("sizes", found, expected)
        largest = sorted((-size, cluster) for cluster, size in sizes.items() if size > 1)[:10]
        told = [(-row["documents"], row["cluster"]) for row in record["largest"]]
        equal("the largest clusters", told, largest)

    def check_clusters(self) -> None:
        inputs = self.inputs("c")
        documents = self.documents(inputs)
        keys = [plain.fingerprint(self.recipe, document.text) for document in documents]
        for method in ("", "--update-center", "--components"):
            annotates = self.rng.random() < 0.4
            out = self.folder / f"clusters{method}{self.suffix(inputs if annotates else None)}"
            topics = self.folder / f"topics{method}{self.suffix()}"
            self._draw(inputs, out, f"cluster {method}", "annotate" if annotates else "no annotate")
            options: list[object] = ["-o", out, *[method] * bool(method), *["--annotate"] * annotates]
            options += ["--topics", topics, "--summary", self.folder / "summary.json"]
            counts = {"documents": len(documents)}
            if method:
                decide = plain.centers if method == "--update-center" else plain.components
                expected = decide(keys, self.k(confirms=False))
            else:
                confirm, alike = self.confirm()
                options += confirm
                k = self.k(confirms=True)
                expected, seen = plain.leaders(documents, k, self.recipe, alike, self.looked_at)
                counts |= {"refused_matches": seen.refused, "cut_short": seen.cut_short}
            self.run("cluster", *self.options(inputs), *options)
            if annotates:
                added = [{"cluster": cluster, "cluster_distance": apart} for cluster, apart in expected]
                expect_added(out, inputs, added)
            else:
                rows = zip(documents, expected, strict=True)
                told = [(str(cluster), document.name, str(apart)) for document, (cluster, apart) in rows]
                equal(f"cluster {method}", rows_in(out, ("cluster", "name", "distance")), told)
            clusters = [cluster for cluster, _ in expected]
            found_topics = plain.topics(clusters, [document.text for document in documents], MOST_CLUSTERS)
            told_topics = [tuple(map(str, row)) for row in found_topics]
            equal("topics", rows_in(topics, ("cluster", "size", "words")), told_topics)
            self.expect_summary(inputs, counts | {"clusters": len(set(clusters))})
            self.expect_sizes(clusters)
            self.decisions += len(keys)
        out = self.folder / f"pairs{self.suffix()}"
        self._draw(inputs, out, "pairs")
        self.run("document-pairs", *self.options(inputs), "-o", out)
        expected_pairs = plain.pairs(documents, keys, self.k(confirms=False))
        found = rows_in(out, ("first", "second", "distance"))
        equal("pairs", sorted(found), sorted((one, other, str(apart)) for one, other, apart in expected_pairs))
        self.decisions += len(expected_pairs)

    def _draw(self, inputs: list[Input], result: Path, *others: str) -> None:
        self.drawn.update({source.format for source in inputs})
        self.drawn.update(["".join(result.suffixes) or "no suffix", *others])


def _tags(verdict: Dropped | None, measured: bool) -> dict[str, Any]:
    """The fields that --tag adds."""
    if verdict is None:
        tags: dict[str, Any] = {"kept": True, "duplicate_of": None, "distance": None}
        return tags | ({"measure": None} if measured else {})
    tags = {"kept": False, "duplicate_of": verdict.kept, "distance": verdict.distance}
    return tags | ({"measure": round(verdict.measure, 4)} if verdict.measure is not None else {})


def _told(name: str, verdict: Dropped) -> tuple[str, ...]:
    measured = () if verdict.measure is None else (f"{verdict.measure:.4f}",)
    return (name, verdict.kept, str(verdict.distance), *measured)


def rounds(count: int, seed: int) -> Iterator[tuple[Round, str | None]]:
    """So many rounds, and what differed in each."""
    for number in range(count):
        # In memory where there is such a place: nothing here is about what a disk keeps.
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            done = Round(f"{seed}/{number}", Path(folder))
            found = None
            try:
                done.all_of_it()
            except Differs as error:
                found = f"round {seed}/{number}: {error}"
            yield done, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=parse_count, default=1000)
    parser.add_argument("--seed", type=parse_whole, default=0)
    arguments = parser.parse_args()
    decisions, differences, drawn = 0, 0, Counter[str]()
    with patch.object(packing, "GROUP_ROWS", 4), patch.object(runs, "BATCH_DOCUMENTS", 5):
        for done, found in rounds(arguments.rounds, arguments.seed):
            decisions += done.decisions
            drawn += done.drawn
            if found is not None:
                differences += 1
                if differences <= MOST_SHOWN:
                    print(found)
    print("drawn:", ", ".join(f"{name.strip()} {count}" for name, count in sorted(drawn.items())))
    print(f"{arguments.rounds} rounds, {decisions} decisions, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
