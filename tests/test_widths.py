"""Every command, and everything that a store does, with fingerprints of every width: the same questions and answers.

A command or a name that is new fails here until it has its line, so none is of one width by oversight.
"""

import base64
import json
import pickle
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_model import connected, leader_follower, lines_of
from outcome import Command

import fpstore
from fpstore import jobs, minhash
from fpstore.adapters.imagehash import ImageIndex
from fpstore.cli import SUBCOMMANDS
from fpstore.cluster import Shards
from fpstore.text import recipes

WIDTHS = (16, 32, 64, 128, 256)
BITS = pytest.mark.parametrize("bits", WIDTHS)
K, COUNT = 3, 40
TEXTS = [f"{word} lorem ipsum dolor sit amet {word}" for word in ("one", "two", "three", "four")]


class Case:
    """Fingerprints of a width, of which some are near each other, in a file of each kind, and what is to be found."""

    def __init__(self, folder: Path, bits: int) -> None:
        self.folder, self.bits, self.digits = folder, bits, bits // 4
        rng = np.random.default_rng(bits)
        some = {int.from_bytes(rng.bytes(bits // 8), "big") for _ in range(COUNT // 2)}
        keys = [*some, *(key ^ 1 << at % bits for at, key in enumerate(some))]
        self.keys = sorted({*keys, 0, (1 << bits) - 1})
        self.rows = list(zip(self.keys, range(5, 5 + len(self.keys)), strict=True))
        self.hex = folder / "in.hex"
        self.hex.write_text("".join(f"{self.show(key)}\t{id}\n" for key, id in self.rows))
        self.texts = folder / "texts.jsonl"
        self.texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
        self.query = self.keys[7] ^ 2

    def show(self, key: int) -> str:
        return f"{key:0{self.digits}x}"

    def near(self, query: int, k: int = K) -> list[tuple[int, int, int]]:
        found = [((key ^ query).bit_count(), key, id) for key, id in self.rows]
        return sorted(row for row in found if row[0] <= k)

    def pairs(self) -> list[tuple[int, int, int]]:
        return [
            (one, other, (one ^ other).bit_count())
            for at, one in enumerate(self.keys)
            for other in self.keys[at + 1 :]
            if (one ^ other).bit_count() <= K
        ]

    def matches(self, query: int, found: list[tuple[int, int, int]]) -> list[str]:
        return [f"{self.show(query)}\t{self.show(key)}\t{distance}\t{id}" for distance, key, id in found]

    def array(self) -> Any:
        if self.bits <= 64:
            return np.array(self.keys, dtype=np.uint64)
        width = self.bits // 8
        data = np.frombuffer(b"".join(key.to_bytes(width, "big") for key in self.keys), dtype=">u8")
        return data.astype(np.uint64).reshape(-1, self.bits // 64)


@pytest.fixture
def case(tmp_path: Path, bits: int) -> Case:
    return Case(tmp_path, bits)


# Of a command: arguments, and the lines that it prints, in any order; or what these hold, or None, whatever it says.
Asked = list[tuple[str, list[str] | str | None]]


def walk_of(case: Case) -> dict[str, Asked]:
    """What is asked of each command.

    {s}: the store of the case, {h} its file, {t} texts, {r} a recipe, {f} its folder.
    """
    show, bits, query = case.show, case.bits, case.query
    near, nearest = case.matches(query, case.near(query)), case.matches(query, case.near(query, bits)[:2])
    pairs = [f"{show(one)}\t{show(other)}\t{distance}" for one, other, distance in case.pairs()]
    ids = dict(case.rows)
    of_ids = ["\t".join(map(str, [*sorted([ids[one], ids[other]]), distance])) for one, other, distance in case.pairs()]
    every = [line for key in case.keys for line in case.matches(key, case.near(key))]
    own, rows = f"{show(query)}", [f"{show(key)}\t{id}" for key, id in case.rows]
    recipe = "--recipe {r}"
    walk: dict[str, Asked] = {
        "build": [
            (f"build {{f}}/a {{h}} --bits {bits} -k {K}", []),
            (f"build {{f}}/b {{h}} --bits {bits} -k {K} --plan size --shuffle 7", []),
            (f"build {{f}}/c {{h}} --bits {bits} -k {K} --workers 1", []),
            *([(f"build {{f}}/d {{h}} --bits {bits} -k {K} --layout blocks", [])] if bits <= 64 else []),
        ],
        "create": [(f"create {{f}}/e --bits {bits} -k {K} --id-type string", [])],
        "add": [
            ("add {s} {h}", []),
            ("add {s} {h} --if-new", None),
            ("add {s} {h} --upsert", []),
        ],
        "probe": [
            (f"probe {{s}} {own} -k {K}", near),
            (f"probe {{s}} --input {{h}} -k {K} --workers 2", every),
            (f"probe {{s}} --decimal {query} -k {K}", near),
            (f"probe {{s}} --input {{h}} -k {K}", every),
            (f"probe {{s}} {own} --json", show(case.keys[7])),
        ],
        "nearest": [(f"nearest {{s}} {own} --count 2", nearest)],
        "lookup": [("lookup {s} 5", [f"5\t{show(case.keys[0])}"])],
        "pairs": [
            (f"pairs {{s}} -k {K}", pairs),
            (f"pairs {{s}} -k {K} --of ids --threads 2", of_ids),
            (f"pairs {{s}} -k {K} --count", [str(len(pairs))]),
            (f"pairs {{s}} -k {K} --workers 1", pairs),
        ],
        "cluster": [
            (f"cluster {{s}} -k {K} -o {{f}}/leaders", None),
            (f"cluster {{s}} -k {K} -o {{f}}/centers --update-center", None),
            (f"cluster {{s}} -k {K} -o {{f}}/components --components", None),
        ],
        "export": [
            ("export {s} - --format hex", rows),
            *((f"export {{s}} {{f}}/o.{suffix}", []) for suffix in ("csv", "jsonl", "hex")),
            ("export {s} {f}/o.npy --no-ids", []),
        ],
        "stats": [("stats {s}", f"of {bits} bits"), ("stats {s} --spikes 2 --json", f'"bits": {bits}')],
        "report": [("report {s}", "part"), ("report {s} --json", "fpstore.report/1")],
        "inspect": [("inspect {s}", None)],
        "verify": [("verify {s}", "sound")],
        "copy": [("copy {s} {f}/copied", "")],
        "recover": [("recover {s} {f}/recovered", None)],
        "compact": [("compact {s}", "")],
        "remove": [
            (f"remove {{s}} {show(case.keys[0])}", []),
            ("remove {s} --id 6", []),
            (f"remove {{s}} --pairs {show(case.keys[2])} --id 7", []),
        ],
        "plan": [(f"plan --n 1e4 -k {K} --bits {bits}", "balanced")],
    }
    if bits >= 64:
        walk |= {
            "fingerprint": [(f"fingerprint {{t}} {recipe}", None)],
            "compare": [("compare --text a --text b " + recipe, None)],
            "recipe": [(f"recipe text-1 --bits {bits}", f'"bits": {bits}' if bits > 64 else "")],
            "dedup": [(f"dedup {{t}} -o {{f}}/kept.jsonl {recipe} --store {{f}}/kept", None)],
            "document-pairs": [(f"document-pairs {{t}} -o {{f}}/pairs.tsv {recipe}", None)],
            "learn-idf": [(f"learn-idf {{t}} -o {{f}}/idf {recipe}", None)],
        }
        walk["cluster"] += [
            (f"cluster {{t}} -o {{f}}/of-texts{at} {recipe} {more}", None)
            for at, more in enumerate(("", "--update-center", "--components"))
        ]
        walk["build"].append((f"build {{f}}/texts {{t}} {recipe}", []))
        walk["probe"].append(("probe {f}/texts --text x", None))
        walk["nearest"].append(("nearest {f}/texts --text x", None))
    return walk


# What is asked of a running program, and has tests of its own with every width.
ELSEWHERE = {"serve"}
OF_TEXTS = {"fingerprint", "compare", "recipe", "dedup", "document-pairs", "learn-idf"}


@pytest.mark.slow
@BITS
def test_every_command_answers_whatever_the_width(case: Case, command: Command) -> None:
    walk = walk_of(case)
    assert {*walk} | ELSEWHERE | (OF_TEXTS if case.bits < 64 else set()) == {*SUBCOMMANDS}
    store = case.folder / "s"
    fpstore.create(store, bits=case.bits, max_distance=K).close()
    recipe = replace(recipes()["text-1"], name=f"text-1-{case.bits}", bits=case.bits) if case.bits >= 64 else None
    if recipe is not None:
        (case.folder / "r.json").write_text(json.dumps(recipe.to_json()))
    names = {"{s}": store, "{h}": case.hex, "{f}": case.folder, "{t}": case.texts, "{r}": case.folder / "r.json"}
    wrong = []
    for name in ["add", *(each for each in walk if each not in ("add", "remove")), "remove"]:
        for text, expected in walk[name]:
            arguments = text.split()
            for mark, place in names.items():
                arguments = [argument.replace(mark, str(place)) for argument in arguments]
            outcome = command(*arguments)
            found = outcome.out.splitlines()
            is_right = (
                sorted(found) == sorted(expected)
                if isinstance(expected, list)
                else expected is None or expected in outcome.out
            )
            if outcome.status != 0 or not is_right:
                wrong.append(
                    (text, outcome.status, outcome.err[-300:], found[:3], expected[:3] if expected else expected)
                )
    assert not wrong


# --- Widths between ---


@pytest.mark.parametrize("bits", [bits for bits in range(72, 256, 8) if bits != 128])
def test_a_width_between_is_refused_with_what_it_is_kept_as_and_found_so(tmp_path: Path, bits: int) -> None:
    kept = 128 if bits < 128 else 256
    for make in (
        lambda: fpstore.create(tmp_path / "s", bits=bits),
        lambda: fpstore.build(tmp_path / "s", [1], bits=bits),
        lambda: fpstore.predict(n=1, bits=bits),
    ):
        with pytest.raises(ValueError, match=f"{bits} bits are kept as {kept}, with zeros below them"):
            make()
    rng = np.random.default_rng(bits)
    some = [int.from_bytes(rng.bytes(bits // 8), "big") for _ in range(30)]
    keys = sorted({*some, *(key ^ 1 << at % bits for at, key in enumerate(some)), 0, (1 << bits) - 1})
    keys = [key << kept - bits for key in keys]
    with fpstore.build(tmp_path / "s", keys, bits=kept, max_distance=K) as store:
        for query in [each << kept - bits for each in (*some, *(key ^ 7 for key in some))]:
            near = sorted(((key ^ query).bit_count(), key) for key in keys)
            assert [(row.distance, row.fingerprint) for row in store.probe(query)] == [
                each for each in near if each[0] <= K
            ]
            assert [(row.distance, row.fingerprint) for row in store.nearest(query, 3)] == near[:3]


@pytest.mark.parametrize("bits", [72, 144])
def test_zeros_below_leave_the_tables_of_use(tmp_path: Path, bits: int) -> None:
    kept, rng = 128 if bits < 128 else 256, np.random.default_rng(1)
    keys = [int.from_bytes(rng.bytes(bits // 8), "big") for _ in range(20_000)]
    methods = []
    for name, shift in (("below", kept - bits), ("above", 0)):
        codes = [key << shift for key in keys]
        with fpstore.build(tmp_path / name, codes, bits=kept, max_distance=5, plan="speed") as store:
            methods.append(store.probe_many(codes[:20]).method)
    # Above, two bands of six have one slot for all; of 72 bits the levels of the others cost less than all codes.
    assert methods == ["probe", {72: "probe", 144: "scan"}[bits]]
    with ImageIndex(bits=bits) as images:
        images.add_all((f"{key:0{bits // 4}x}", str(at)) for at, key in enumerate(keys[:9]))
        assert [tuple(each) for each in images.query(f"{keys[3] ^ 5:0{bits // 4}x}")] == [(2, "3")]
        assert images.fingerprint(f"{keys[3]:0{bits // 4}x}") == keys[3] << kept - bits


# --- Signatures, whose rows are of bands ---


def test_stats_verify_and_copy_of_signatures_count_documents(tmp_path: Path, command: Command) -> None:
    signatures = np.random.default_rng(1).integers(0, 1 << 32, (5, 128), dtype=np.uint32).astype(np.uint64)
    store = tmp_path / "m"
    minhash.build(store, signatures[:3], ids=[7, 8, 9]).close()
    with minhash.open(store, "w") as living:
        living.add(signatures[3:], ids=[10, 11])
        stats, verified = command("stats", store).out, command("verify", store).out
    assert "  pending       2 documents in no segment yet\n" in stats
    assert "    3 documents, ids of " in stats
    assert "checked 48 band keys in 1 table of 1 segment and 3 documents, 2 pending documents: " in verified
    assert command("copy", store, tmp_path / "n").err.startswith(f"{tmp_path / 'n'}: at most 5 documents, ")
    told = json.loads(command("copy", store, tmp_path / "o", "--json").out)
    assert (told["row_count"], told["is_exact"]) == (5, False)


# --- What a store does ---

Does = Callable[[Case, fpstore.Store], object]


def tuples(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found]


def expected_matches(case: Case, query: int, k: int = K, index: int = 0) -> list[tuple[int, int, int, int]]:
    return [(index, key, distance, id) for distance, key, id in case.near(query, k)]


def then(change: Callable[..., object], *given: Any, **named: Any) -> bool:
    """Make a change, whatever it returns."""
    change(*given, **named)
    return True


# By name: what it gives, and what that has to be.
DOES: dict[str, tuple[Does, Does]] = {
    "bits": (lambda case, store: store.bits, lambda case, store: case.bits),
    "max_distance": (lambda case, store: store.max_distance, lambda case, store: K),
    "plan": (lambda case, store: store.plan.bits, lambda case, store: case.bits),
    "probe": (
        lambda case, store: tuples(store.probe(case.query)),
        lambda case, store: expected_matches(case, case.query),
    ),
    "probe_many": (
        lambda case, store: tuples(store.probe_many(case.array(), threads=2)),
        lambda case, store: [row for at, key in enumerate(case.keys) for row in expected_matches(case, key, K, at)],
    ),
    "nearest": (
        lambda case, store: tuples(store.nearest(case.query, 3)),
        lambda case, store: expected_matches(case, case.query, case.bits)[:3],
    ),
    "nearest_many": (
        lambda case, store: tuples(store.nearest_many(case.array(), 2)),
        lambda case, store: [
            row for at, key in enumerate(case.keys) for row in expected_matches(case, key, case.bits, at)[:2]
        ],
    ),
    "contains_near": (
        lambda case, store: [store.contains_near(key, max_distance=0) for key in (case.keys[0], case.query)],
        lambda case, store: [True, case.query in case.keys],
    ),
    "pairs": (
        lambda case, store: sorted(tuple(pair) for some in store.pairs(threads=2) for pair in some),
        lambda case, store: case.pairs(),
    ),
    "count_pairs": (lambda case, store: store.count_pairs(of="ids"), lambda case, store: len(case.pairs())),
    "count": (lambda case, store: store.count("rows"), lambda case, store: len(case.rows)),
    "rows": (
        lambda case, store: sorted(tuple(row) for some in store.rows(batch=7) for row in some),
        lambda case, store: case.rows,
    ),
    "lookup": (
        lambda case, store: tuples(store.lookup([case.rows[3][1]])),
        lambda case, store: [case.rows[3]],
    ),
    "max_id": (lambda case, store: store.max_id(), lambda case, store: max(id for _, id in case.rows)),
    "verify": (
        lambda case, store: store.verify().id_count + store.verify().pending_id_count,
        lambda case, store: len(case.rows),
    ),
    "stats": (lambda case, store: store.stats(largest_slots=2).bits, lambda case, store: case.bits),
    "report": (lambda case, store: store.report().keys, lambda case, store: len(case.keys)),
}
WRITES: dict[str, tuple[Does, Does]] = {
    "add": (lambda case, store: store.add([case.query], ids=[90]), lambda case, store: store.add([], ids=[])),
    "add_if_new": (
        lambda case, store: [bool(each) for each in store.add_if_new(case.array()[:3], ids=[91, 92, 93]).stored],
        lambda case, store: [False] * 3,
    ),
    "upsert": (
        lambda case, store: (then(store.upsert, [case.keys[1]], ids=[90]), tuples(store.lookup([90])))[1],
        lambda case, store: [(case.keys[1], 90)],
    ),
    "remove": (
        lambda case, store: (
            then(store.remove, fingerprints=[case.keys[2]]),
            then(store.remove, ids=[90]),
            store.contains_near(case.keys[2], max_distance=0),
            tuples(store.lookup([90])),
        )[2:],
        lambda case, store: (False, []),
    ),
    "compact": (lambda case, store: store.compact(), lambda case, store: None),
    "sync": (lambda case, store: store.sync(), lambda case, store: None),
    "wait": (lambda case, store: store.wait(), lambda case, store: None),
    "copy": (
        lambda case, store: store.copy(case.folder / "copied"),
        lambda case, store: fpstore.open(case.folder / "copied").close(),
    ),
}
# Of texts, by a recipe, which the commands above have; of every store.
OTHERS = {"fingerprint", "fingerprint_many", "probe_text", "add_texts", "add_texts_if_new", "close"}
ABOUT = {"path", "identity", "layout", "mode", "kind", "id_type", "recipe", "codec", "max_matches", "max_name_bytes"}


@BITS
def test_a_store_does_all_of_it_whatever_the_width(case: Case) -> None:
    names = {name for name in dir(fpstore.Store) if not name.startswith("_")}
    assert names - {*DOES} - {*WRITES} - OTHERS - ABOUT == set()
    ids = [id for _, id in case.rows]
    fpstore.build(case.folder / "s", case.array(), ids=ids, bits=case.bits, max_distance=K).close()
    with fpstore.create(case.folder / "w", bits=case.bits, max_distance=K) as living:
        living.add(case.array()[::2], ids=ids[::2])
        living.compact()
        living.add([key for key in case.keys[1::2]], ids=ids[1::2])  # noqa: C416
        with fpstore.open(case.folder / "s") as built, pickle.loads(pickle.dumps(built)) as again:
            for name, (does, expected) in DOES.items():
                for store in (built, living, again):
                    if (store, name) != (living, "report"):
                        assert does(case, store) == expected(case, store), (name, store)
        for name, (does, expected) in WRITES.items():
            assert name == "add" or does(case, living) == expected(case, living), name
            if name == "add":
                does(case, living)
                assert (0, case.query, 0, 90) in tuples(living.probe(case.query, max_distance=0))


@BITS
def test_values_of_every_form_are_the_same_fingerprints(case: Case, command: Command) -> None:
    width, shown = case.bits // 8, [case.show(key) for key in case.keys]
    octets = [key.to_bytes(width, "big") for key in case.keys]
    given: dict[str, Any] = {"integers": case.keys, "array": case.array(), "signed": case.array().view(np.int64)}
    if case.bits > 64:
        given |= {"bytes": octets, "rows": np.frombuffer(b"".join(octets), np.uint8).reshape(-1, width)}
        given |= {"void": np.array(octets, dtype=f"V{width}")}
    elif case.bits < 64:
        del given["signed"]
    forms = {"hex.csv": shown, "decimal.csv": [str(key) for key in case.keys]}
    options = {"decimal.csv": ("--fingerprint-format", "decimal"), "base64.csv": ("--fingerprint-format", "base64")}
    forms["base64.csv"] = [base64.b64encode(each).decode() for each in octets]
    if case.bits == 128:
        forms["uuid.csv"] = [str(uuid.UUID(each)) for each in shown]
    for name, values in given.items():
        with fpstore.build(case.folder / name, values, bits=case.bits, max_distance=K) as store:
            assert sorted(row.fingerprint for some in store.rows() for row in some) == case.keys, name
    for name, texts in forms.items():
        (case.folder / name).write_text("".join(f"{each}\n" for each in ("fingerprint", *texts)))
        made = command(
            "build", case.folder / f"{name}.s", case.folder / name, "--bits", case.bits, *options.get(name, ())
        )
        assert made.status == 0, (name, made.err)
        assert sorted(command("export", case.folder / f"{name}.s", "-", "--format", "hex", "--no-ids").lines) == shown


@BITS
def test_jobs_and_lists_take_stores_of_every_width(case: Case) -> None:
    fpstore.build(case.folder / "a", case.array()[:25], bits=case.bits, max_distance=K).close()
    fpstore.build(case.folder / "b", case.array()[20:], bits=case.bits, max_distance=K).close()
    Shards.write(case.folder / "l.shards.json", [case.folder / "a", case.folder / "b"])
    with Shards(case.folder / "l.shards.json") as both:
        found = {(row.fingerprint, row.distance) for row in both.probe(case.query)}
        assert found == {(key, distance) for distance, key, _ in case.near(case.query)}
    keys = case.keys[:25]
    for more, expected in (
        ({}, leader_follower(keys, K)),
        ({"update_center": True}, leader_follower(keys, K, update_center=True)),
        ({"components": True}, connected(keys, K)),
    ):
        given: dict[str, Any] = more
        jobs.cluster_store(case.folder / "a", case.folder / "out", force=True, **given)
        rows = [line.split("\t") for line in lines_of(case.folder / "out")]
        assert [(int(row[0]), int(row[3])) for row in rows] == expected
