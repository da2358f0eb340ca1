"""How a caller comes by a store of signatures: built, made empty, or opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fpstore.arrays import as_integer, as_keys, as_mode, as_signatures, as_similarity
from fpstore.creation import create_empty
from fpstore.documents import Given, build_documents
from fpstore.errors import PathLike, RecipeError, WrongKind
from fpstore.living.memory import as_least as as_least
from fpstore.living.state import Minhash, Settings
from fpstore.making import DURABILITIES, _expect_id_type, modes_asked, opened, recipe_of
from fpstore.minhash.store import MinHashStore
from fpstore.names.column import Names, as_names
from fpstore.plans import families
from fpstore.plans.choice import expect_bits
from fpstore.progress import OnProgress, told
from fpstore.sketches.bands import MAX_VALUES, Banding, key_bits_for
from fpstore.sketches.kept import Kept, bits_for
from fpstore.threads import thread_count
from fpstore.types import Array, Durability, Ids, IdType, Mode, expect_flags

if TYPE_CHECKING:
    from fpstore.store import Store
    from fpstore.text import Recipe
    from fpstore.text.asked import Asked

# Signatures of a store for which nobody says how many values they have.
VALUES = 128
# The bits of keys are chosen for so many documents, or those that a store is built of, where these are more.
BUILT_FOR, CREATED_FOR = 10**7, 10**9
# Where a similarity is integrated over, to choose bands by it.
STEPS = 2000


def build(
    path: PathLike,
    signatures: object,
    *,
    ids: object = "row",
    id_type: IdType | None = "uint64",
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    keep_signatures: bool = True,
    bits: int | None = None,
    recipe: Recipe | str | None = None,
    memory: str | int = "2GiB",
    threads: int | None = None,
    progress: OnProgress | None = None,
    force: bool = False,
    mode: int | None = None,
) -> MinHashStore:
    """Build a store of MinHash signatures at path and open it for reading.

    signatures: integers[n, values], or a stream: an iterator of such arrays, or of pairs of them and ids. ids:
    uint64[n], or names; "row", the index in the input; None, a store without ids. bands, rows_per_band: documents are
    found that share a band, so many values; None: 16 and 8. min_similarity: chosen by the similarity from which
    documents should be found, in place of these two; with either that is a ValueError. keep_signatures: some bits of
    each value are kept, so that answers have an estimated similarity. bits: of the key of a band, 16 to 64. Of n
    documents a signature meets, by chance, bands^2 * n / 2^bits more than share a band with it. None: so many that
    these are at most a quarter of a document where each comes with its similarity, a hundredth where not, and in a
    store without ids 10^-5 for a band; of the documents that are given, or of 10^7 where these are fewer. recipe: by
    which the signatures were made, one of sketch minhash. All else is as for fpstore.build.
    Raises ValueError, TypeError, RecipeError; FileExistsError; the operating system's errors.
    """
    expect_flags(keep_signatures=keep_signatures, force=force)
    first, stream = _begun(signatures, ids)
    from fpstore.text.asked import Asked

    asked = Asked(bands=bands, rows_per_band=rows_per_band, min_similarity=min_similarity)
    made_by = recipe_of(recipe, "minhash")
    values = _value_count(first, _usual_values(asked) if made_by is None else made_by.values)
    wanted = _id_type_of(ids, id_type)
    settings = _settings(values, wanted, asked, keep_signatures, bits, recipe, BUILT_FOR)
    reader = _Documents(settings, ids)
    build_documents(
        Path(path),
        lambda: reader.read(stream),
        settings,
        lambda count: _with_bits(settings, bits, max(count, BUILT_FOR)),
        memory=memory,
        threads=thread_count(threads),
        progress=told(progress),
        mode=as_mode(mode),
        force=force,
    )
    return open(path)


def create(
    path: PathLike,
    *,
    exist_ok: bool = False,
    id_type: IdType | None = "uint64",
    values: int | None = None,
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    keep_signatures: bool = True,
    bits: int | None = None,
    recipe: Recipe | str | None = None,
    force: bool = False,
    durability: Durability = "commit",
    mode: int | None = None,
) -> MinHashStore:
    """Make an empty store of signatures at path, and open it for writing.

    values: how many a signature has; else as the recipe says; else 128, or bands * rows_per_band where that is more.
    bits: None: as for build, of 10^9 documents. exist_ok: a store that is there is opened, where it has the settings of
    this call, and any bits where these are None; else ValueError, which names each with what was found and expected.
    All else is as for build. Raises ValueError, TypeError, RecipeError;
    FileExistsError; WrongKind; the operating system's errors.
    """
    expect_flags(exist_ok=exist_ok, keep_signatures=keep_signatures, force=force)
    wanted = None if id_type is None else _expect_id_type(id_type, "None or ")
    if exist_ok and force:
        raise ValueError("exist_ok and force: found both, expected one of the two")
    if durability not in DURABILITIES:
        raise ValueError(f'durability: found {durability!r}, expected "commit" or "batch"')
    made_by = recipe_of(recipe, "minhash")
    from fpstore.text.asked import Asked

    asked = Asked(bands=bands, rows_per_band=rows_per_band, min_similarity=min_similarity)
    if values is None:
        values = made_by.values if made_by is not None else _usual_values(asked)
    settings = _settings(values, wanted, asked, keep_signatures, bits, recipe, CREATED_FOR)
    file_mode = as_mode(mode)
    try:
        create_empty(Path(path), settings, mode=file_mode, force=force)
    except FileExistsError:
        if not exist_ok:
            raise
    store = open(path, "w", durability=durability)
    try:
        _expect_made_so(store, settings, recipe is not None, bits is not None, file_mode)
    except BaseException:
        store.close()
        raise
    return store


def open(
    path: PathLike,
    mode: Mode = "r",
    *,
    durability: Durability = "commit",
    signed: bool = False,
    warm: bool = False,
    cache: PathLike | None = None,
    cache_bytes: str | int | None = None,
) -> MinHashStore:
    """Open the store of signatures at path; all is as for fpstore.open. WrongKind for a store of fingerprints."""
    return opened(MinHashStore, path, mode, durability, signed, warm, cache, cache_bytes)


def open_any(path: PathLike, mode: Mode = "r") -> Store | MinHashStore:
    """The store at path, whatever its kind is, which its catalog says. Raises what open does, but for WrongKind."""
    from fpstore.making import open as open_of_fingerprints

    try:
        return open_of_fingerprints(path, mode)
    except WrongKind:
        return open(path, mode)


def expect_bands(values: int, bands: object, rows_per_band: object) -> None:
    """ValueError for bands that signatures of so many values cannot be cut into."""
    Banding(_integer("bands", bands), _integer("rows_per_band", rows_per_band)).expect_sound(values)


def kept_of(values: int) -> Kept:
    """What stores keep of signatures of so many values."""
    return Kept(values, bits_for(values))


def bands_for(values: int, min_similarity: float, weights: tuple[float, float] = (0.5, 0.5)) -> tuple[int, int]:
    """How many bands, of how many values, tell best which documents have at least that Jaccard similarity.

    Of all that so many values allow, those with the least sum of what is found below it and what is missed above it,
    each integrated over the similarities, with these weights; of equal ones the first, by bands, then rows.
    """
    points = (np.arange(STEPS) + 0.5) / STEPS
    best, least = (1, 1), np.inf
    above, below = points >= min_similarity, points < min_similarity
    for bands in range(1, values + 1):
        for rows in range(1, values // bands + 1):
            found = 1 - (1 - points**rows) ** bands
            error = float(weights[0] * found[below].sum() + weights[1] * (1 - found[above]).sum())
            if error < least - 1e-9:
                best, least = (bands, rows), error
    return best


def _settings(
    values: int,
    id_type: str | None,
    asked: Asked,
    keep_signatures: bool,
    bits: int | None,
    recipe: Recipe | str | None,
    documents: int,
) -> Settings:
    """Of so many documents. ValueError for what cannot be."""
    count, (bands, rows) = _integer("values", values), _cut_of(asked)
    if asked.min_similarity is not None:
        least = as_similarity(asked.min_similarity, "min_similarity")
        if (asked.bands, asked.rows_per_band) != (None, None):
            told = f"found {bands} bands of {rows} values too, expected one of the two ways to say it"
            raise ValueError(f"min_similarity: {told}")
        bands, rows = bands_for(min(max(count, 1), MAX_VALUES), least)
    kept = bits_for(count) if keep_signatures and id_type is not None and count > 0 else 0
    minhash = Minhash(bands, rows, count, kept)
    made_by = recipe_of(recipe, "minhash")
    if made_by is not None and made_by.values != count:
        raise RecipeError(f"recipe {made_by.name}: found {made_by.values} values, expected {count}, as signatures have")
    record = None if made_by is None else dict(made_by.to_json())
    plan = families.choose(1, 0)
    settings = Settings(0, plan.to_json(), "gap", id_type, record, plan.bits, minhash)
    return _with_bits(settings, bits, documents)


def _with_bits(settings: Settings, bits: int | None, documents: int) -> Settings:
    """These with keys of so many bits, or of those that so many documents need."""
    minhash = settings.minhash
    assert minhash is not None
    if bits is None:
        estimated = minhash.sketch_bits > 0
        bits = key_bits_for(documents, minhash.bands, estimated=estimated, with_ids=settings.ids)
    plan = families.choose(1, 0, expect_bits(bits, 1, wide=False))
    return replace(settings, plan=plan.to_json(), bits=plan.bits)


def _cut_of(asked: Asked) -> tuple[int, int]:
    """How signatures are cut where no similarity says it. ValueError for what is no integer."""
    bands, rows = asked.cut
    return _integer("bands", bands), _integer("rows_per_band", rows)


def _usual_values(asked: Asked) -> int:
    """How many values a signature has where nothing says it. ValueError for more than there may be."""
    bands, rows = _cut_of(asked)
    needed = bands * rows
    if needed > MAX_VALUES:
        raise ValueError(f"bands * rows_per_band: found {needed}, expected at most {MAX_VALUES} values")
    return max(VALUES, needed)


def _id_type_of(ids: object, id_type: object) -> str | None:
    """That of a store that is built of these ids. ValueError where the two do not go together."""
    if isinstance(ids, str) and ids != "row":
        raise ValueError(f'ids: found {ids!r:.40}, expected an array, "row" or None')
    if id_type is None:
        if ids is not None and not isinstance(ids, str):
            raise ValueError("ids: found some for a store without (id_type None), expected None")
        return None
    wanted = _expect_id_type(id_type, "None or ")
    if ids is None and wanted != "uint64":
        raise ValueError("ids: found None, expected a name for each signature")
    return None if ids is None else wanted


def _integer(name: str, value: object) -> int:
    number = as_integer(value)
    if number is None:
        raise ValueError(f"{name}: found {value!r:.40}, expected an integer")
    return number


def _begun(signatures: object, ids: object) -> tuple[object, Iterable[object]]:
    """The first item of a stream, or None where there is none, and the whole of it; of an array the array itself."""
    if isinstance(signatures, Iterator):
        if ids is not None and not isinstance(ids, str):
            raise TypeError(f'ids of a stream: found a {type(ids).__name__}, expected "row" or None, or pairs in it')
        first = next(signatures, None)
        return first, _from_first(first, signatures)
    return signatures, [signatures]


def _from_first(first: object, rest: Iterator[object]) -> Iterator[object]:
    if first is not None:
        yield first
        yield from rest


def _value_count(first: object, usual: int) -> int:
    item = first[0] if isinstance(first, tuple) and first else first
    if item is None:
        return usual
    return int(as_signatures(item, "signatures").shape[1]) or usual


class _Documents:
    """What a caller gives to build, as documents of these settings."""

    def __init__(self, settings: Settings, ids: object) -> None:
        self._settings, self._ids = settings, ids
        self._row = 0

    def read(self, items: Iterable[object]) -> Iterator[Given]:
        """All of them. ValueError, TypeError."""
        whole, paired = isinstance(items, list), None
        for item in items:
            if paired is None:
                paired = isinstance(item, tuple) and not whole
            if paired:
                if not isinstance(item, tuple) or len(item) != 2 or item[1] is None or isinstance(item[1], str):
                    raise TypeError(f"the stream yields {item!r:.60}, expected pairs of arrays: (signatures, ids)")
                if not self._settings.ids:
                    raise TypeError("the stream yields pairs, expected no ids: the store has none")
                yield self._given(*item)
                continue
            if isinstance(item, tuple) and not whole:
                raise TypeError(f"the stream yields {item!r:.60} after arrays, expected arrays of signatures")
            if isinstance(self._ids, str) and self._ids == "row":
                if self._settings.named:
                    raise ValueError("ids: found 'row', expected a name for each signature")
                yield self._given(item, None)
            else:
                yield self._given(item, self._ids)

    def _given(self, signatures: object, ids: object) -> Given:
        settings, minhash = self._settings, self._settings.minhash
        assert minhash is not None
        array = as_signatures(signatures, "signatures", minhash.values)
        own = self._ids_of(array, ids)
        hashes = minhash.banding(settings.bits).hashes(array)
        return Given(hashes, None if settings.kept is None else settings.kept.sketches(array), own)

    def _ids_of(self, array: Array, ids: object) -> Ids | Names | None:
        settings = self._settings
        if not settings.ids:
            return None
        if settings.named:
            found: Ids | Names = as_names(ids, settings.id_type == "string", "ids")
        elif ids is None:
            found = np.arange(self._row, self._row + len(array), dtype=np.uint64)
            self._row += len(array)
        else:
            found = as_keys(ids, "ids")
        count = found.size
        if count != len(array):
            raise ValueError(f"{count} ids for {len(array)} signatures: expected one for each")
        return found


def _expect_made_so(store: MinHashStore, asked: Settings, with_recipe: bool, with_bits: bool, mode: int | None) -> None:
    """ValueError for a store with other settings than were given to create."""
    settings = store._settings
    one, other = settings.minhash, asked.minhash
    names = ("bands", "rows_per_band", "values", "sketch_bits")
    pairs: list[tuple[str, Any, Any]] = [
        ("id_type", settings.id_type, asked.id_type),
        *([("bits", settings.bits, asked.bits)] if with_bits else []),
        *((name, getattr(one, name), getattr(other, name)) for name in names),
        *([("recipe", settings.recipe, asked.recipe)] if with_recipe else []),
        *modes_asked(store, mode),
    ]
    wrong = [
        f"{name}: found {found!r:.80}, expected {wanted!r:.80}" for name, found, wanted in pairs if found != wanted
    ]
    if wrong:
        raise ValueError(f"{store.path}: {'; '.join(wrong)}")
