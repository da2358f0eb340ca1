"""`fpstore compact`: a store's segments merged into one, without what was removed."""

from fpstore.cli.documents import tell_done
from fpstore.cli.progress import progress_bar
from fpstore.cli.stores import opened_store, size_of
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import counted, decimal_size, store_argument


@subcommand(
    "compact",
    short_help="Merge a store's segments into one.",
    epilog="\b\nExample:\n  fpstore compact web.fpstore\n",
)
@store_argument
def command(store: str) -> None:
    """Merge all of STORE into one segment, without what was removed, and print its size before and after.

    Probes go on meanwhile. Until the end there must be room for the new segment beside the old ones. An interrupted
    compaction leaves the store as it was.
    """
    with progress_bar() as bar, opened_store(store, "w") as opened:
        stats = opened.stats()
        before, all_before = sum(segment.file_bytes for segment in opened._segments), size_of(opened)
        waiting = [counted(len(stats.segments), "segment")]
        waiting += [counted(stats.pending_count, "pending row")] if stats.pending_count else []
        waiting += [counted(stats.removal_count, "removal")] if stats.removal_count else []
        names = [segment.path for segment in opened._segments]
        opened.compact(progress=bar)
        merged = names != [segment.path for segment in opened._segments]
        count, after = len(opened._segments), sum(segment.file_bytes for segment in opened._segments)
    with opened_store(store) as found:  # what a writer holds beside the store while it is open is gone
        whole = size_of(found)
    was = {"segment_count": len(names), "pending_count": stats.pending_count, "removal_count": stats.removal_count}
    became = f"now {counted(count, 'segment')}, {decimal_size(whole)}"
    tell_done(
        "compact",
        {
            "path": store,
            "merged": merged,
            "before": {**was, "segments_bytes": before},
            "after": {"segment_count": count, "segments_bytes": after},
        },
        f"{store}: {', '.join(waiting)}, {decimal_size(all_before)};"
        f" {became if merged else 'nothing to merge, and nothing was read'}",
    )
