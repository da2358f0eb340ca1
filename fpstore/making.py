"""How a caller comes by a store: built from fingerprints, made empty, or opened."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from fpstore.arrays import as_integer, as_mode
from fpstore.base import _BaseStore
from fpstore.creation import build_store, codec_of, create_store
from fpstore.disk import MIRROR_NAME, folder_mode
from fpstore.errors import PathLike, RecipeError
from fpstore.format import KEY_BITS, WIDE_BITS
from fpstore.living.state import ID_TYPES
from fpstore.living.stats import Stats
from fpstore.origin import RECIPE_BITS, Origin, bits_of
from fpstore.plans import planner
from fpstore.plans.choice import PlanChoice, block_bytes_asked, expect_bits, plan_asked
from fpstore.plans.plan import Plan
from fpstore.plans.planner import Prediction
from fpstore.plans.wide import choices_wide
from fpstore.progress import OnProgress, told
from fpstore.store import Store
from fpstore.threads import thread_count
from fpstore.types import Codec, Durability, IdType, Kind, Layout, Mode, expect_flags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpstore.text import Recipe

DEFAULT_DISTANCE = 3
MODES: tuple[Mode, ...] = get_args(Mode)
DURABILITIES: tuple[Durability, ...] = get_args(Durability)

_Store = TypeVar("_Store", bound=_BaseStore)


def build(
    path: PathLike,
    fingerprints: object,
    *,
    ids: object = "row",
    id_type: IdType = "uint64",
    bits: int | None = None,
    max_distance: int | None = None,
    plan: str | Plan = "balanced",
    max_bytes: float | None = None,
    codec: Codec | None = None,
    layout: Layout = "slots",
    block_bytes: int | None = None,
    recipe: "Recipe | str | None" = None,
    shuffle: int | None = None,
    memory: str | int = "2GiB",
    threads: int | None = None,
    progress: OnProgress | None = None,
    force: bool = False,
    mode: int | None = None,
) -> Store:
    """Build a store at path and open it for reading.

    fingerprints: uint64[n] (or anything that numpy or Arrow can hand over as such), or a stream: an iterator of
    such arrays or of pairs of arrays, fingerprints and ids. ids: uint64[n]; "row", the index in the input, unless that
    is a stream of pairs; None, a store without ids.
    bits: of a fingerprint, a multiple of 8 from 16 to 64: numbers below 2^bits, bytes of bits / 8. Or 128 or 256:
    uint64[n, bits / 64], the most significant word first, or bytes; these are kept as they are, codec "raw". None:
    those that the recipe makes, or 64. max_distance: the largest Hamming distance that the store must answer, the
    paper's k; None: 3 for each 64 bits of the recipe, or 3. plan: "size", "balanced",
    "speed", a plan's name, or a Plan. max_bytes: the fastest plan that takes no more bytes per fingerprint, in place of
    plan. codec: "gap", the default up to 64 bits, "xor", "rice", "raw". layout: "slots", a table is cut by the top bits
    of its keys; "blocks", by bytes, as in the paper: block_bytes, 64 to 4,096, or 1,024 where none are said. memory:
    the budget; more keys than it holds are sorted through spill files beside the store. progress: called with a
    Progress, now and then. recipe: how text became the fingerprints, a Recipe or the name of one, kept with the store;
    None: as a column of Arrow's says that it was made, if one does. force: replace a store that is there. shuffle: a
    secret number that shuffles the plan's bits, so that nobody can aim at a prefix; a plan for a stream is then that of
    10^7. mode: whom its files are for, whatever the umask, such as 0o640; 0o600 by default. It is the mode of the
    store's folder, where who may read may also enter, and holds for all that is ever made in it.
    Raises ValueError, TypeError, PlanError, RecipeError; FileExistsError; the operating system's errors.
    """
    expect_flags(force=force)
    record, width = recipe_record(recipe, bits)
    build_store(
        Path(path),
        fingerprints,
        ids,
        max_distance=distance_of(max_distance, record),
        bits=width,
        plan=plan_asked(plan, max_bytes),
        codec=codec,
        block_bytes=block_bytes_asked(layout, block_bytes),
        memory=memory,
        threads=thread_count(threads),
        progress=told(progress),
        origin=Origin(record, "recipe", partial(_expect_recipe, bits=width)),
        force=force,
        shuffle=shuffle,
        mode=as_mode(mode),
        id_type=_expect_id_type(id_type),
    )
    return open(path)


def create(
    path: PathLike,
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
    recipe: "Recipe | str | None" = None,
    shuffle: int | None = None,
    force: bool = False,
    durability: Durability = "commit",
    mode: int | None = None,
) -> Store:
    """Make an empty store at path, and open it for writing.

    id_type: "uint64", or None for fingerprints without ids. plan: as for build; size, balanced and speed are those of
    10^7 fingerprints, as nobody knows yet how many there will be. All else is as for build.
    exist_ok: a store that is there is opened, and keeps its rows, where it has the id_type, bits, max_distance, codec
    and layout of this call, the recipe and mode if any are given, and the plan if one is named or shuffled: what plans
    are chosen by, such as "balanced", is asked of no store. Else ValueError, which names each with what was found and
    what was expected.
    force: a store that is there is replaced by the empty one. durability: as for open.
    Raises ValueError, TypeError, PlanError, RecipeError; FileExistsError; the operating system's errors.
    """
    expect_flags(exist_ok=exist_ok, force=force)
    wanted = None if id_type is None else _expect_id_type(id_type, "None or ")
    if exist_ok and force:
        raise ValueError("exist_ok and force: found both, expected one of the two")
    if durability not in DURABILITIES:
        raise ValueError(f'durability: found {durability!r}, expected "commit" or "batch"')
    in_blocks = block_bytes_asked(layout, block_bytes)
    record, width = recipe_record(recipe, bits)
    asked = distance_of(max_distance, record)
    choice = PlanChoice(asked, plan_asked(plan, max_bytes), width, in_blocks).shuffled(shuffle)
    coded, file_mode = codec_of(codec, width), as_mode(mode)
    try:
        create_store(Path(path), choice=choice, id_type=wanted, codec=coded, recipe=record, mode=file_mode, force=force)
    except FileExistsError:
        if not exist_ok:
            raise
    store = open(path, "w", durability=durability)
    try:
        _expect_made_so(store, choice, id_type, coded, record, file_mode)
    except BaseException:
        store.close()
        raise
    return store


def _expect_made_so(
    store: Store,
    choice: PlanChoice,
    id_type: str | None,
    codec: str,
    recipe: dict[str, Any] | None,
    mode: int | None,
) -> None:
    """ValueError for a store with other settings than were given to create."""
    settings = store._settings
    asked: list[tuple[str, object, object]] = [
        ("id_type", settings.id_type, id_type),
        ("bits", settings.bits, choice.bits),
        ("max_distance", settings.max_distance, choice.max_distance),
        ("codec", settings.codec, codec),
        ("layout", store.layout, "blocks" if choice.block_bytes else "slots"),
        ("block_bytes", store.plan.block_bytes, choice.block_bytes),
    ]
    if isinstance(choice.plan, Plan) and store.plan.tables != choice.plan.tables:
        asked.append(("plan", store.plan.name, f"{choice.plan.name} with the tables that were given"))
    if recipe is not None and settings.recipe != recipe:
        name = settings.recipe.get("name") if settings.recipe else None
        asked.append(("recipe", name, f"{recipe['name']} with the fields that were given"))
    asked += modes_asked(store, mode)
    wrong = [
        f"{name}: found {found!r:.80}, expected {wanted!r:.80}" for name, found, wanted in asked if found != wanted
    ]
    if wrong:
        raise ValueError(f"{store.path}: {'; '.join(wrong)}")


def modes_asked(store: _BaseStore, mode: int | None) -> list[tuple[str, object, object]]:
    """What is to be compared of the mode of a store that is there, where one was given."""
    if mode is None:
        return []
    found, wanted = (folder_mode(bits) & 0o777 for bits in (store._living.home.mode, mode))
    return [("mode", f"{found:#o}", f"{wanted:#o}")]


def open(
    path: PathLike,
    mode: Mode = "r",
    *,
    durability: Durability = "commit",
    signed: bool = False,
    warm: bool = False,
    cache: PathLike | None = None,
    cache_bytes: str | int | None = None,
) -> Store:
    """Open the store at path, or at a URL that fsspec reaches, such as s3://bucket/web.fpstore, for reading.

    mode: "r", for reading, beside any number of other processes and one that writes; "w", as that one. durability:
    "commit", what add and add_if_new store is durable, and seen by other processes, when they return; "batch", up to
    65,536 rows wait for that until the next sync, removal or close, and are lost if the process dies before.
    signed: everything that comes out, of fingerprints and of ids, is int64 with the same bits as uint64.
    warm: every page of the segments there are, and of the files with their names, is read and checked first, by all
    threads, so that the first searches are as fast as later ones; a damaged page is told by who needs it.
    cache, cache_bytes: of a store at a URL, the folder for what was read of it, and how many bytes that and what was
    read of others may take; by default as FPSTORE_CACHE and FPSTORE_CACHE_BYTES say, or the user's own, and 10 GiB.
    path is looked up once: where it leads to something else later, every call raises StoreChanged.
    Raises FileNotFoundError, NotAStore, CorruptStore, UnsupportedVersion; StoreLocked while another writes, JobError
    before a job that adds to it has ended. One that never will is undone, with a warning.
    """
    return opened(Store, path, mode, durability, signed, warm, cache, cache_bytes)


def opened(
    store_of: type[_Store],
    path: PathLike,
    mode: Mode,
    durability: Durability,
    signed: bool,
    warm: bool,
    cache: PathLike | None = None,
    cache_bytes: str | int | None = None,
) -> _Store:
    """A store of either kind, as open says."""
    expect_flags(signed=signed, warm=warm)
    if mode not in MODES:
        raise ValueError(f'mode: found {mode!r}, expected "r" or "w"')
    if durability not in DURABILITIES:
        raise ValueError(f'durability: found {durability!r}, expected "commit" or "batch"')
    store = _opened_there(store_of, path, mode, signed, cache, cache_bytes)
    if store is None:
        store = store_of(Path(path), mode, durability, signed=signed)
    if warm:
        try:
            store._warm()
        except BaseException:
            store.close()
            raise
    return store


def _opened_there(
    store_of: type[_Store],
    path: PathLike,
    mode: Mode,
    signed: bool,
    cache: PathLike | None,
    cache_bytes: str | int | None,
) -> _Store | None:
    """The store at a URL, or of a mirror; None for one of this machine."""
    if "://" not in os.fspath(path) and Path(path).name != MIRROR_NAME:
        return None
    from fpstore.remote.opening import located, opened_elsewhere

    place = located(path, cache, cache_bytes)
    return None if place is None else opened_elsewhere(partial(store_of, signed=signed), place, mode)


def _expect_id_type(id_type: object, more: str = "") -> str:
    if not isinstance(id_type, str) or id_type not in ID_TYPES:
        raise ValueError(f"id_type: found {id_type!r:.40}, expected {more}{', '.join(ID_TYPES)}")
    return id_type


def predict(
    *,
    n: int | None = None,
    max_distance: int | None = None,
    bits: int | None = None,
    like: PathLike | None = None,
    layout: Layout = "slots",
) -> list[Prediction]:
    """What each plan would cost for n distinct fingerprints without ids, smallest first; as `fpstore plan` prints.

    Each faster than all before it, the paper's for max_distance 3, and those that size, balanced and speed pick, as
    picked_by says. like: a store with fingerprints as skewed as these: its bits, its n and max_distance where none are
    given, and the bits that its code takes. max_distance: else 3. bits: of a fingerprint, without like, else 64.
    layout: "blocks", the same plans where tables are laid out in blocks of 1,024 bytes.
    Raises ValueError for what is out of range, and for other bits than those of like; TypeError without n and like;
    what open raises.
    """
    saved = 0.0
    if like is not None:
        with open(like) as store:
            stats = store.stats()
        n = _fingerprint_count(stats) if n is None else n
        max_distance = stats.max_distance if max_distance is None else max_distance
        if bits is not None and as_integer(bits) != stats.bits:
            told = f"found {bits!r:.40} with a store of {stats.bits}, expected none: how skewed they are is of its own"
            raise ValueError(f"bits: {told}")
        bits = stats.bits
        saved = _bits_saved(stats)
    if n is None:
        raise TypeError("n: found None, expected how many fingerprints there will be, or a store that it is like")
    count, distance = as_integer(n), as_integer(3 if max_distance is None else max_distance)
    if count is None:
        raise ValueError(f"n: found {n!r:.40}, expected an integer")
    if distance is None:
        raise ValueError(f"max_distance: found {max_distance!r:.40}, expected an integer")
    in_blocks = block_bytes_asked(layout, None) > 0
    width = expect_bits(KEY_BITS if bits is None else bits)
    if width in WIDE_BITS:
        PlanChoice(distance, "size", width, block_bytes_asked(layout, None))
        return choices_wide(count, distance, width)
    found = planner.choices(count, distance, saved, width)
    return [planner.in_blocks(each, saved) for each in found] if in_blocks else found


def _fingerprint_count(stats: Stats) -> int:
    """How many there are, or at most, where only reading them would tell."""
    if stats.fingerprint_count is not None:
        return stats.fingerprint_count
    return sum(segment.fingerprint_count for segment in stats.segments) + stats.pending_count


def _bits_saved(stats: Stats) -> float:
    """How many bits of a fingerprint its code saves of what uniform ones take, on average."""
    saved, total = 0.0, 0
    for segment in stats.segments:
        count = segment.fingerprint_count
        if count:
            bytes_ = segment.payload_bytes + (0 if stats.plan.block_bytes else segment.fences_bytes)
            code_bits = 8 * bytes_ / (count * len(segment.tables))
            saved, total = saved + planner.saving(count, code_bits, stats.bits) * count, total + count
    return saved / max(1, total)


def _expect_recipe(record: "Mapping[str, object]", bits: int) -> None:
    """ValueError, UnsupportedVersion for a record that is no recipe, or one of other fingerprints or of none."""
    from fpstore.text import Recipe
    from fpstore.text.recipe import expect_fingerprints

    _expect_recipe_bits(expect_fingerprints(Recipe.from_json(record)), bits)


def _expect_recipe_bits(recipe: "Recipe", bits: int) -> None:
    if bits != recipe.bits:
        found = f"recipe: found {recipe.name}, which makes fingerprints of {recipe.bits} bits"
        expected = f"expected none in a store of {bits}"
        if bits in WIDE_BITS or bits == RECIPE_BITS:
            expected = (
                f"expected one of {bits}, such as fpstore recipe text-1 --bits {bits} prints, or no bits (--bits)"
            )
        raise RecipeError(f"{found}, {expected}")


def recipe_record(recipe: "Recipe | str | None", bits: int | None) -> tuple[dict[str, Any] | None, int]:
    """What a store of fingerprints keeps of a recipe, as recipe_of says, and how many bits these have.

    bits: as asked for; None: those of the recipe, or 64. RecipeError for a recipe that makes others, too.
    """
    found = recipe_of(recipe, "hamming")
    if found is None:
        return None, expect_bits(KEY_BITS if bits is None else bits)
    width = expect_bits(found.bits if bits is None else bits)
    _expect_recipe_bits(found, width)
    return dict(found.to_json()), width


def distance_of(asked: int | None, record: dict[str, Any] | None) -> int:
    """The distance that a store must answer: the one asked for, or 3 for each 64 bits of its recipe, or 3."""
    if asked is not None:
        return asked
    return DEFAULT_DISTANCE if record is None else DEFAULT_DISTANCE * int(bits_of(record)) // RECIPE_BITS


def recipe_of(recipe: "Recipe | str | None", kind: Kind) -> "Recipe | None":
    """The recipe that a caller means, None for none. TypeError for what is none.

    RecipeError for a name that none has, and for one that makes not what stores of this kind have.
    """
    if recipe is None:
        return None
    from fpstore.text import Recipe, recipes
    from fpstore.text.recipe import expect_of_kind

    if isinstance(recipe, str):
        if recipe not in recipes():
            raise RecipeError(f"recipe: found {recipe!r:.40}, expected a Recipe or one of {', '.join(recipes())}")
        recipe = recipes()[recipe]
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe: found a {type(recipe).__name__}, expected a Recipe, the name of one or None")
    return expect_of_kind(recipe, kind)
