"""How commands make stores of signatures."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from fpstore.cli.documents import tell_done
from fpstore.cli.stores import size_of

if TYPE_CHECKING:
    from fpstore.text import Recipe
    from fpstore.types import IdType


def create_of_signatures(
    path: str, recipe: "Recipe", cut: dict[str, Any], *, id_type: str, exist_ok: bool, **options: Any
) -> None:
    """Make an empty one, and say so."""
    from fpstore import minhash

    kind = None if id_type == "none" else cast("IdType", id_type)
    if kind is None:
        options["keep_signatures"] = False
    with minhash.create(path, recipe=recipe, id_type=kind, exist_ok=exist_ok, **cut, **options) as made:
        is_empty = not made._holds_any()
        settings = {
            "id_type": made.id_type,
            "bits": made._settings.bits,
            "values": made.values,
            "bands": made.bands,
            "rows_per_band": made.rows_per_band,
            "sketch_bits": made._minhash.sketch_bits,
        }
        ids = {"uint64": "with ids", "none": "without ids"}.get(id_type, "with names as ids")
        tell_done(
            "create",
            {"path": path, "is_empty": is_empty, **settings},
            f"{path}: {'empty' if is_empty else 'there already'}, {ids}, {made._searched()}",
        )


def build_of_signatures(
    path: str, rows: Iterator[Any], recipe: "Recipe", cut: dict[str, Any], **options: Any
) -> tuple[int, int, int]:
    """Build one of the signatures of texts; how many documents it has, the bytes of its segments and of all files."""
    from fpstore import minhash

    if options["ids"] is None:
        options["keep_signatures"] = False
    with minhash.build(path, rows, recipe=recipe, **cut, **options) as built:
        return built.count(), sum(segment.file_bytes for segment in built._segments), size_of(built)
