"""Stores that are swapped, rolled back, merged, linked and torn under who has them open: nothing acknowledged is lost.

    python tools/check_identity.py [--match REGEX] [--every N [--first I]] [--processes 2] [--dir DIR] [--keep] [--list]
                                    [--id-type uint64|string|bytes|none|minhash] [--plant path|links|sweep]

Every damage of the table in tools/identity_damage.py is done to a store that nobody, a reader or the writer has open.
Then that one goes on with it, or another process opens the path anew, or both. Afterwards:

- each row that was acknowledged, of any store there was, can still be had: from where its store's catalog lies now, or
  with the right catalog put back; the bytes of its segments are somewhere in the folders;
- nothing that is no part of the store at that path was touched: content, mode and time of each other file;
- who holds a store that is not at its path any more is told so, and changes nothing, by closing it neither;
- what could not be right is an error that names the cause and a file; no internal error, no hang, no dead process;
- what is right, is done.

One line for each finding, with the command that plays that case alone, and each hundred cases how many were played, so
that a run which is cut short says how far it came. Exit status 1 if there is any finding. --plant: a
mistake that has to be found: nobody looks where the path leads, links are followed, what is not ours is removed.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arguments import parse_count, parse_folder, parse_pattern, parse_whole
from id_types import ID_TYPES, SIGNED
from identity_damage import DAMAGES, beside_damages, job_damages, may_mount, unmount_all
from identity_judge import Case, Play
from identity_play import CHANGES, NEWCOMERS, READS, calls
from identity_shelf import Shelf
from identity_stores import Rows, World, make_template, serves_jobs

from fpstore import disk
from fpstore.living import sweep
from fpstore.living.catalog import Catalog
from fpstore.living.state import NAMED
from fpstore.types import IdType


def all_cases(id_type: IdType | None) -> Iterator[Case]:
    """The product of the table, for stores with such ids."""
    damages = [*DAMAGES, *(beside_damages("fpnames", "names") if id_type in NAMED else ())]
    damages += beside_damages("fpsketch", "sketches") if id_type == SIGNED else ()
    newcomers, reads, changes = (calls(table, id_type) for table in (NEWCOMERS, READS, CHANGES))
    for damage in damages:
        for new in newcomers:
            yield Case(damage, "nobody", "", new)
            yield Case(damage, "a reader", "rows", new)
            yield Case(damage, "the writer", "add", new)
        for held in reads:
            yield Case(damage, "a reader", held, "")
        for held in (*changes, "close", "rows", "open to read", "open and add"):
            yield Case(damage, "the writer", held, "")
        if serves_jobs(id_type):
            for new in newcomers:
                yield Case(damage, "a job that was killed", "", new)
    for damage in job_damages(id_type) if serves_jobs(id_type) else ():
        for new in newcomers:
            yield Case(damage, "a job that was killed", "", new)
    for damage in DAMAGES[:20]:
        for holder, held in (("a reader by a relative path", "rows"), ("the writer by a relative path", "add")):
            yield Case(damage, holder, held, "")


def play(case: Case, world: World, template: Path, models: dict[str, Rows], shelf: Shelf) -> list[str]:
    """Play one case in a folder of its own; what was found."""
    shutil.copytree(template, world.stores)
    try:
        return Play(case, world, shelf, models).play()
    except Exception as error:
        return [f"the harness failed: {type(error).__name__}: {error} {traceback.format_exc()[-600:]}"]
    finally:
        if case.damage.needs_mounts:
            unmount_all(world)


# --- All of them ---


def _remove_all(catalog: Catalog, names: Sequence[str]) -> None:
    for name in names:
        catalog.segments.unlink(name)


def plant(mistake: str) -> None:
    """Put a mistake into the store, for this process and those that it forks."""
    if mistake == "path":
        Catalog.expect_here = lambda *_, **__: None  # type: ignore[method-assign]
    elif mistake == "links":
        disk._FILE_FLAGS &= ~os.O_NOFOLLOW
        disk._FOLDER_FLAGS &= ~os.O_NOFOLLOW
    elif mistake == "sweep":
        sweep._set_aside = _remove_all


# After so many cases a line says how far it is.
TOLD_EACH = 100
PLANTS = ("path", "links", "sweep")


def chosen_cases(arguments: argparse.Namespace) -> list[Case]:
    cases = [case for case in all_cases(id_type_of(arguments)) if re.search(arguments.match, case.name)]
    return cases[arguments.first :: arguments.every]


def id_type_of(arguments: argparse.Namespace) -> IdType | None:
    return None if arguments.id_type == "none" else arguments.id_type


def work(number: int, arguments: argparse.Namespace, cases: list[Case], folder: Path, out: int) -> None:
    """The share of one process; a line for each case."""
    own = folder / str(number)
    own.mkdir()
    mounts = may_mount()
    plant(arguments.plant)
    template = folder / "template"
    with Catalog.open(template / "live") as catalog:
        identity = catalog.state().identity[:16]
    models = {name: frozenset(map(tuple, rows)) for name, rows in json.loads((folder / "models").read_text()).items()}
    id_type = id_type_of(arguments)
    (own / "scratch").mkdir()
    shelf = Shelf(own / "scratch")
    for index in range(number, len(cases), arguments.processes):
        case = cases[index]
        record: dict[str, Any] = {"name": case.name}
        if case.damage.needs_mounts and not mounts:
            record["skipped"] = "no right to mount"
        else:
            place = own / f"case-{index}"
            place.mkdir()
            began = time.monotonic()
            record["findings"] = play(case, World(place, identity, id_type), template, models, shelf)
            record["seconds"] = time.monotonic() - began
            if not (arguments.keep and record["findings"]):
                shutil.rmtree(place, ignore_errors=True)
            else:
                record["folder"] = str(place)
        os.write(out, json.dumps(record).encode() + b"\n")


def run(arguments: argparse.Namespace, folder: Path) -> int:
    cases = chosen_cases(arguments)
    if arguments.list:
        print("\n".join(case.name for case in cases))
        return 0
    models = make_template(folder / "template", id_type_of(arguments))
    (folder / "models").write_text(json.dumps({name: [*rows] for name, rows in models.items()}))
    hear, say = os.pipe()
    for number in range(arguments.processes):
        if not os.fork():
            os.close(hear)
            status = 1
            try:
                work(number, arguments, cases, folder, say)
                status = 0
            finally:
                if status:
                    traceback.print_exc()
                os._exit(status)
    os.close(say)
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    with os.fdopen(hear) as lines:
        for line in lines:
            record = json.loads(line)
            if reason := record.get("skipped"):
                skipped[reason] += 1
                continue
            counts["cases"] += 1
            for finding in record["findings"]:
                counts["findings"] += 1
                kinds[re.sub(r"\S*/\S*|\d+", "", finding)[:70]] += 1
                print(
                    f"FOUND {finding}\n      python {sys.argv[0]} --id-type {arguments.id_type} "
                    + f"--match '^{re.escape(record['name'])}$'"
                    + f"  {record.get('folder', '')}",
                    flush=True,
                )
            if counts["cases"] % TOLD_EACH == 0:
                print(f"{counts['cases']} of {len(cases)} cases so far, {counts['findings']} findings", flush=True)
    lost = 0
    for _ in range(arguments.processes):
        lost += os.wait()[1] != 0
    for reason, count in skipped.items():
        print(f"{count} cases left out: {reason}")
    if arguments.kinds:
        for kind, count in kinds.most_common():
            print(f"{count:6} {kind}")
    damages = len({case.damage.name for case in cases})
    print(
        f"{counts['cases']} cases of {damages} damages, {counts['findings']} findings" + ", a process died" * bool(lost)
    )
    expected = len(cases) - sum(skipped.values())
    return int(bool(counts["findings"]) or lost > 0 or counts["cases"] != expected)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--match", type=parse_pattern, default="", help="only the cases whose names match this regular expression"
    )
    parser.add_argument(
        "--id-type",
        choices=[*ID_TYPES, "none", SIGNED],
        default="uint64",
        help="what the ids of the stores are; minhash: stores of signatures",
    )
    parser.add_argument("--every", type=parse_count, default=1, help="only every so many of them")
    parser.add_argument(
        "--first", type=parse_whole, default=0, help="from this one on; with --every N, 0 to N - 1 play all"
    )
    parser.add_argument("--processes", type=parse_count, default=2, help="how many at once; default 2")
    parser.add_argument("--dir", type=parse_folder, help="where the stores go; default: temporary")
    parser.add_argument("--keep", action="store_true", help="leave the folders of findings there")
    parser.add_argument("--plant", choices=PLANTS, default="", help="a mistake that has to be found")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--kinds", action="store_true", help="count the findings by what they say, too")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fpstore-identity-", dir=arguments.dir))
    try:
        return run(arguments, folder)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
