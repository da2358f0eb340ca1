"""What is done to the files of a store under tools/check_identity.py: the table of damages.

Each is what a person, a deploy, a backup or a stranger does with cp, mv, ln and mount.
"""

import ctypes
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from identity_stores import World

from fpstore.living.state import NAMED
from fpstore.types import IdType

_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_MNT_DETACH, _CLONE_NEWNS = 2, 1 << 17


@dataclass(frozen=True)
class Damage:
    """name: what is done. before: done before anybody opens the store, where it is about how the store lies.

    says: the errors one of which who opens the store anew must get, where that is known. rewrites: bytes are changed
    under who has them open, whose answers may then be wrong (docs/reliability.md). traps: something stands where the
    store is about to make a file, so that changes may be refused. needs_mounts: skipped without.
    """

    name: str
    do: Callable[[World], None]
    before: Callable[[World], None] | None = None
    says: tuple[str, ...] = ()
    rewrites: bool = False
    traps: bool = False
    needs_mounts: bool = False


def shell(name: str, command: str, *, before: str = "", says: str = "", rewrites: bool = False) -> Damage:
    """A damage that is a command line."""

    def prepare(world: World) -> None:
        world.run(before)

    traps = re.search(r"live/aside|IDENTITY|mdb.new", command) is not None
    return Damage(
        name, lambda world: world.run(command), prepare if before else None, tuple(says.split()), rewrites, traps
    )


FOREIGN = "cp other/segments/00000002.fpseg live/segments/00000099.fpseg; "

# --- The folder as a whole ---

FOLDERS = [
    shell("nothing", "true"),
    shell("swapped with another store", "mv live x; mv other live; mv x other"),
    shell("swapped with an older copy", "mv live x; mv older live; mv x older"),
    shell("swapped with a newer copy", "mv live x; mv newer live; mv x newer"),
    shell("replaced by another store, a deploy", "mv live gone; mv other live"),
    shell("replaced by a copy of another store", "mv live gone; cp -a other live"),
    shell("replaced by a clone of itself", "mv live gone; cp -a gone live"),
    shell("replaced by a clone of itself made of hard links", "mv live gone; cp -al gone live"),
    shell("replaced by an older copy", "mv live gone; cp -a older live"),
    shell("replaced by a newer copy", "mv live gone; cp -a newer live"),
    shell("replaced and put back", "mv live gone; mv other live; mv live other; mv gone live"),
    shell("removed", "rm -r live", says="FileNotFoundError"),
    shell("removed and restored", "cp -a live x; rm -r live; mv x live"),
    shell("removed and restored older", "rm -r live; cp -a older live"),
    shell("renamed", "mv live gone", says="FileNotFoundError"),
    shell("renamed, and a link in its place", "mv live gone; ln -s gone live"),
    shell("renamed, and a link to another store in its place", "mv live gone; ln -s other live"),
    shell("renamed, and a link to itself in its place", "mv live gone; ln -s live live"),
    shell("renamed, and a link to nothing in its place", "mv live gone; ln -s x live", says="FileNotFoundError"),
    shell("renamed, and a link to the victim's folder in its place", "mv live gone; ln -s victim live"),
    shell("renamed, and an empty folder in its place", "mv live gone; mkdir live", says="NotAStore"),
    shell("renamed, and a file in its place", "mv live gone; echo x > live", says="NotAStore"),
    shell("renamed, and a pipe in its place", "mv live gone; mkfifo live", says="NotAStore"),
    shell("renamed, and the victim's file in its place", "mv live gone; ln victim/notes.txt live", says="NotAStore"),
    shell("the parent renamed", "cd ..; mv stores gone-stores", says="FileNotFoundError"),
    shell("the parent swapped", "cd ..; cp -a stores x; rm -r x/live; cp -a x/other x/live; mv stores y; mv x stores"),
    shell("the parent swapped with an equal one", "cd ..; cp -a stores x; mv stores y; mv x stores"),
    shell("through a link that is re-pointed", "ln -sfn other live", before="mv live real; ln -s real live"),
    shell("through a link re-pointed to an older copy", "ln -sfn older live", before="mv live real; ln -s real live"),
    shell(
        "through a link re-pointed to a copy", "cp -a real x; ln -sfn x live", before="mv live real; ln -s real live"
    ),
    shell("through a link that is removed", "rm live", before="mv live real; ln -s real live"),
    shell("through a link, its aim renamed", "mv real x", before="mv live real; ln -s real live"),
    shell("through a link that stays", "true", before="mv live real; ln -s real live"),
    shell("a backup of hard links beside it", "cp -al live gone"),
    shell("hard links to its segments elsewhere", "mkdir gone; cp -al live/segments gone/segments"),
    shell("mode 0750", "chmod 0750 live"),
    # --- Merges of two folders ---
    shell("cp -r of another store into it", "cp -r other/. live/", rewrites=True),
    shell("cp -r of an older copy into it", "cp -r older/. live/", rewrites=True),
    shell("cp -r of a newer copy into it", "cp -r newer/. live/", rewrites=True),
    shell("cp -rn of another store into it", "cp -rn other/. live/"),
    shell("cp -rn of a newer copy into it", "cp -rn newer/. live/"),
    shell("cp -r --remove-destination of another store into it", "cp -r --remove-destination other/. live/"),
    shell("cp -r of it into another store", "cp -r live/. other/; mv live gone; mv other live"),
    shell("mv of all of another store into it", "mv other/* live/ || true"),
    shell("mv of all of an older copy into it", "mv older/* live/ || true"),
    shell("mv of another store's segments into it", "mv other/segments/* live/segments/"),
    shell("mv -n of a newer copy's segments into it", "mv -n newer/segments/* live/segments/"),
    shell("cp -r of another store into it, as a folder", "cp -r other live/"),
    shell("mirrored from another store", "find live -mindepth 1 -delete; cp -r other/. live/"),
    shell("mirrored from an older copy", "find live -mindepth 1 -delete; cp -r older/. live/"),
    shell("its content removed", "find live -mindepth 1 -delete", says="NotAStore"),
    shell("its content moved elsewhere", "mkdir gone; mv live/* gone/", says="NotAStore"),
    # --- Partial restores ---
    shell("the catalog and the segments of an older copy", "cp -r older/. x; rm -r live/*; mv x/* live/"),
    shell("segments of an older copy, exactly", "rm -r live/segments; cp -a older/segments live/segments"),
    shell("segments of a newer copy, exactly", "rm -r live/segments; cp -a newer/segments live/segments"),
    shell("segments of another store, exactly", "rm -r live/segments; cp -a other/segments live/segments"),
    shell(
        "catalogs of two stores swapped", "mv live/catalog.mdb x; mv other/catalog.mdb live/; mv x other/catalog.mdb"
    ),
    shell("segments of two stores swapped", "mv live/segments x; mv other/segments live/; mv x other/segments"),
    shell("catalog and lock of an older copy", "cp older/catalog.mdb older/writer.lock live/", rewrites=True),
    shell("all segments removed", "rm live/segments/*", says="CorruptStore"),
    shell(
        "the last two segments swapped",
        "cd live/segments; mv 00000003.fpseg x; mv 00000004.fpseg 00000003.fpseg; mv x 00000004.fpseg",
        says="CorruptStore",
    ),
    # --- What is not its own, within it ---
    shell("a segment of another store beside its own", "cp other/segments/00000002.fpseg live/segments/00000099.fpseg"),
    shell(
        "the victim's segment linked in beside its own",
        "ln -s ../../victim/00000009.fpseg live/segments/00000099.fpseg",
    ),
    shell("the victim's segment hard-linked beside its own", "ln victim/00000009.fpseg live/segments/00000099.fpseg"),
    shell("a folder with the name of a segment", "mkdir live/segments/00000099.fpseg"),
    shell("a pipe with the name of a segment", "mkfifo live/segments/00000099.fpseg"),
    shell("files of other names", "echo x > live/segments/README; echo x > live/README; mkdir live/backup"),
    shell(
        "a foreign segment, and aside is a link to the victim's folder",
        FOREIGN + "ln -s ../victim live/aside",
    ),
    shell(
        "a foreign segment, and aside is a file",
        FOREIGN + "echo x > live/aside",
    ),
    shell(
        "a foreign segment, and aside is a pipe",
        FOREIGN + "mkfifo live/aside",
    ),
    shell(
        "a foreign segment, and aside has that name",
        FOREIGN + "mkdir live/aside; echo x > live/aside/00000099.fpseg",
    ),
    shell(
        "a foreign segment, and aside has links of that name",
        FOREIGN + "mkdir live/aside; "
        "for n in 00000099.fpseg 00000099.fpseg.1; do ln -s ../../victim/notes.txt live/aside/$n; done",
    ),
    shell("a foreign lock file of LMDB, a link", "ln -s ../victim/notes.txt live/catalog.mdb-lock"),
    shell("a link where a new catalog is made", "ln -s ../victim/notes.txt live/catalog.mdb.new"),
    shell("a hard link where a new catalog is made", "ln victim/notes.txt live/catalog.mdb.new"),
    shell("a folder where a new catalog is made", "mkdir live/catalog.mdb.new"),
]


def _in_the_way(what: str, suffix: str) -> list[Damage]:
    """Things of every kind that stand where the next files of a kind are made."""
    names = " ".join(f"0000000{number}.{suffix}" for number in range(5, 10))
    found = []
    for kind, make in {
        "a link": "ln -s ../../victim/notes.txt",
        "a link to a folder": "ln -s ../../victim",
        "a hard link": "ln victim/notes.txt",
        "a file of another store": f"cp other/segments/00000001.{suffix}",
        "a folder": "mkdir",
        "a pipe": "mkfifo",
    }.items():
        here, anew = (f"for n in {names}; do {make} live/segments/$n{end}; done" for end in ("", ".IDENTITY.new"))
        found.append(shell(f"{kind} where the next {what} get their names", here))
        found.append(shell(f"{kind} where the next {what} are written", anew))
    return found


FOLDERS += _in_the_way("segments", "fpseg")

# --- Each file of the store ---

FILES = ("catalog.mdb", "writer.lock", "segments/00000001.fpseg", "segments/00000003.fpseg")
# What a job under way has there: the record of what it has stored, and its note.
OF_JOBS = ("jobs/names", "jobs/index", "jobs/settings.json", "jobs/unfinished.json")
IN_WAYS = {
    "missing": "rm live/FILE",
    "empty": ": > live/FILE",
    "empty, anew": "rm live/FILE; : > live/FILE",
    "cut": "truncate -s $(($(stat -c %s live/FILE) / 20)) live/FILE",
    "a link to the victim's": "rm live/FILE; ln -s $PWD/victim/notes.txt live/FILE",
    "a hard link of the victim's": "rm live/FILE; ln victim/notes.txt live/FILE",
    "moved away, and a link to it": "mv live/FILE gone-file; ln -s $PWD/gone-file live/FILE",
    "a link to that of another store": "rm live/FILE; ln -s $PWD/other/FILE live/FILE",
    "a hard link of that of another store": "rm live/FILE; ln other/FILE live/FILE",
    "of another store": "cp other/FILE x; mv x live/FILE",
    "of another store, in place": "cp other/FILE live/FILE",
    "of an older moment": "cp older/FILE x; mv x live/FILE",
    "of an older moment, in place": "cp older/FILE live/FILE",
    "of a newer moment": "cp newer/FILE x; mv x live/FILE",
    "of a newer moment, in place": "cp newer/FILE live/FILE",
    "the same, copied": "cp live/FILE x; mv x live/FILE",
    "the same, in place": "cp live/FILE x; cp x live/FILE; rm x",
    "a folder": "rm live/FILE; mkdir live/FILE",
    "a pipe": "rm live/FILE; mkfifo live/FILE",
    "a link to itself": "rm live/FILE; ln -s $(basename FILE) live/FILE",
    "of zeros": "dd if=/dev/zero of=live/FILE bs=4096 count=1 conv=notrunc",
}
_ABSENT = {
    "jobs/unfinished.json": {"older", "newer"},
    "jobs/names": {"older", "newer"},
    "jobs/index": {"older", "newer"},
    "segments/00000003.fpseg": {"other", "older", "newer"},
    "segments/00000001.fpseg": {"newer"},
    "segments/00000003.fpnames": {"other", "older", "newer"},
    "segments/00000001.fpnames": {"newer"},
    "segments/00000003.fpsketch": {"other", "older", "newer"},
    "segments/00000001.fpsketch": {"newer"},
}


def _file_damages(files: tuple[str, ...], absent: dict[str, set[str]] = _ABSENT) -> list[Damage]:
    """Everything of IN_WAYS, done to each file. absent: which stores have no such file to take in its place."""
    found = []
    for file in files:
        for way, command in IN_WAYS.items():
            if any(f"{name}/FILE" in command for name in absent.get(file, ())):
                continue
            if file.startswith("jobs/"):
                command = command.replace("other/", "noted/")
            rewrites = "in place" in way or way in ("empty", "cut", "of zeros")
            found.append(shell(f"{file} {way}", command.replace("FILE", file), rewrites=rewrites))
    return found


SEGMENTS = [
    shell(
        "segments a link to the victim's",
        "mv live/segments gone; ln -s ../victim/segments live/segments",
        says="CorruptStore",
    ),
    shell(
        "segments a link to another store's",
        "mv live/segments gone; ln -s ../other/segments live/segments",
        says="CorruptStore",
    ),
    shell(
        "segments a link to an older copy's",
        "mv live/segments gone; ln -s ../older/segments live/segments",
        says="CorruptStore",
    ),
    shell(
        "segments moved away, and a link to them",
        "mv live/segments gone; ln -s ../gone live/segments",
        says="CorruptStore",
    ),
    shell("segments missing", "mv live/segments gone", says="CorruptStore"),
    shell("segments a file", "mv live/segments gone; echo x > live/segments", says="CorruptStore"),
    shell("segments a pipe", "mv live/segments gone; mkfifo live/segments", says="CorruptStore"),
    shell("segments copied", "mv live/segments gone; cp -a gone live/segments"),
]


# --- Mounts and sockets ---

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: Path, target: Path, flags: int) -> None:
    if _libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


def may_mount() -> bool:
    """Whether this process can mount things that nobody else sees; from then on it does."""
    try:
        if _libc.unshare(_CLONE_NEWNS):
            return False
        _mount(Path("/"), Path("/"), _MS_REC | _MS_PRIVATE)
    except OSError:
        return False
    return True


def unmount_all(world: World) -> None:
    """Undo the mounts of a case."""
    for path in (world.live, world.live / "catalog.mdb", world.live / "segments", world.gone):
        while not _libc.umount2(os.fsencode(path), _MNT_DETACH):
            pass


def _read_only(world: World) -> None:
    _mount(world.live, world.live, _MS_BIND)
    _mount(world.live, world.live, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def _twice(world: World) -> None:
    world.gone.mkdir()
    _mount(world.live, world.gone, _MS_BIND)


def _socket(world: World) -> None:
    (world.live / "writer.lock").unlink()
    here = os.getcwd()
    os.chdir(world.live)  # its path must be short
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind("writer.lock")
    finally:
        os.chdir(here)


def _bind(name: str, source: str, target: str) -> Damage:
    def do(world: World) -> None:
        _mount(world.stores / source, world.stores / target, _MS_BIND)

    return Damage(name, do, needs_mounts=True)


MOUNTS = [
    _bind("another store mounted over it", "other", "live"),
    _bind("an older copy mounted over it", "older", "live"),
    _bind("itself mounted over it", "live", "live"),
    _bind("the victim's folder mounted over it", "victim", "live"),
    _bind("the segments of another store mounted over its own", "other/segments", "live/segments"),
    _bind("the catalog of an older copy mounted over its own", "older/catalog.mdb", "live/catalog.mdb"),
    Damage("a read-only mount", _read_only, needs_mounts=True),
    Damage("mounted a second time elsewhere", _twice, needs_mounts=True),
    Damage("writer.lock a socket", _socket),
]

DAMAGES = [*FOLDERS, *SEGMENTS, *_file_damages(FILES), *MOUNTS]


def beside_damages(suffix: str, what: str) -> list[Damage]:
    """What can be done to the files of a suffix, which hold what is said, beside their segments."""
    return [
        *_file_damages(tuple(f"segments/0000000{number}.{suffix}" for number in (1, 3))),
        *_in_the_way(f"files of {what}", suffix),
        shell(
            f"{what} of another store beside its own",
            f"cp other/segments/00000002.{suffix} live/segments/00000099.{suffix}",
        ),
        shell(
            f"the victim's {what} linked in beside its own",
            f"ln -s ../../victim/segments/00000007.{suffix} live/segments/00000099.{suffix}",
        ),
        shell(f"a folder called as a file of {what}", f"mkdir live/segments/00000099.{suffix}"),
        shell(f"a pipe called as a file of {what}", f"mkfifo live/segments/00000099.{suffix}"),
        shell(
            f"{what} of another store, and aside has that name",
            f"cp other/segments/00000002.{suffix} live/segments/00000099.{suffix}; "
            f"mkdir live/aside; echo x > live/aside/00000099.{suffix}",
        ),
        shell(f"a segment without its {what} beside its own", FOREIGN),
        shell(f"all files of {what} removed", f"rm live/segments/*.{suffix}", says="CorruptStore"),
        shell(
            f"all files of {what} those of another store",
            f"rm live/segments/*.{suffix}; cp other/segments/*.{suffix} live/segments/",
            says="CorruptStore",
        ),
        shell(
            f"the {what} of two segments swapped",
            f"cd live/segments; mv 00000003.{suffix} x; mv 00000004.{suffix} 00000003.{suffix}; mv x 00000004.{suffix}",
            says="CorruptStore",
        ),
        shell(
            f"a segment in the place of its {what}",
            f"cp live/segments/00000001.fpseg x; mv x live/segments/00000001.{suffix}",
            says="CorruptStore",
        ),
        shell(
            f"{what} in the place of their segment",
            f"cp live/segments/00000001.{suffix} x; mv x live/segments/00000001.fpseg",
            says="CorruptStore",
        ),
        shell(
            f"all files of {what} moved elsewhere",
            f"mkdir gone; mv live/segments/*.{suffix} gone/",
            says="CorruptStore",
        ),
        shell(f"all segments but no {what} removed", "rm live/segments/*.fpseg", says="CorruptStore"),
        shell(
            f"{what} of a newer copy, exactly",
            f"rm live/segments/*.{suffix}; cp -a newer/segments/*.{suffix} live/segments/",
        ),
        shell(
            f"{what} of an older copy, exactly",
            f"rm live/segments/*.{suffix}; cp -a older/segments/*.{suffix} live/segments/",
        ),
    ]


_JOB_FOLDERS = [
    *(
        shell(f"{name} {way}", command.replace("FILE", name))
        for name in ("jobs",)
        for way, command in {
            "missing": "mv live/FILE gone",
            "a link to the victim's folder": "mv live/FILE gone; ln -s ../victim live/FILE",
            "a link to another store's": "mv live/FILE gone; ln -s ../other/FILE live/FILE",
            "moved away, and a link to it": "mv live/FILE gone; ln -s ../gone live/FILE",
            "of another store": "mv live/FILE gone; cp -a other/FILE live/ || true",
            "of an older moment": "mv live/FILE gone; cp -a older/FILE live/ || true",
            "a file": "mv live/FILE gone; echo x > live/FILE",
            "a pipe": "mv live/FILE gone; mkfifo live/FILE",
            "empty": "rm live/FILE/*",
        }.items()
    ),
    shell("the folder of the job removed", "rm -r ../kept.jsonl.job"),
    shell(
        "the folder of the job a link to the victim's",
        "mv ../kept.jsonl.job ..x; ln -s stores/victim ../kept.jsonl.job",
    ),
    shell("the results of the job are links to the victim's", "ln -s stores/victim/notes.txt ../kept.jsonl"),
    shell("a row added by hand to the documents", 'echo \'{"text": "one more"}\' >> ../documents.jsonl'),
]


def job_damages(id_type: IdType | None) -> list[Damage]:
    """What is done to what a job under way has in a store with such ids."""
    # Nothing of a job that is done is left in a store of names.
    lacking = {"jobs/settings.json": {"older", "newer"}} if id_type in NAMED else {}
    return [*_file_damages(OF_JOBS, _ABSENT | lacking), *_JOB_FOLDERS]
