"""Owns what holds of every option: it is given once, and it does something for what was asked, or it is refused.

USES says of each option of each subcommand what it needs to do anything; a test holds that none is left out. Three are
everywhere, whether they have something to do or not: --json, --threads and --progress (fpstore.cli.common), so that a
script may give them to every command. --json is refused where standard output has something else.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import click

from fpstore.cli.common import Common, common_options, take_common

_NEGATIVE = re.compile(r"-\d+")
STANDARD_OUTPUT = "-"


class Fact(NamedTuple):
    """What an option needs. reason: what is said after its name where that is missing.

    holds: whether it is so, given the parameters; None where only what is read tells, and the subcommand says it.
    """

    reason: str
    holds: Callable[[Mapping[str, Any]], bool] | None


def _given(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda given: any(given[name] not in (None, (), False) for name in names)


def _missing(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    found = _given(*names)
    return lambda given: not found(given)


def _with_number(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda given: given[name] is not None  # 0 is one, too


def _without_number(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda given: given[name] is None


def _to_a_file(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda given: given[name] not in (None, STANDARD_OUTPUT)


OF_TEXTS = Fact("goes with texts: found fingerprints", None)
OF_BITS = Fact("goes with fingerprints: found signatures", None)
OF_SIGNATURES = Fact("goes with signatures (a recipe of sketch minhash): found fingerprints", None)
ANY_TEXT = Fact("goes with texts: found fingerprints only", None)
WITH_IDS = Fact("goes with a store that has ids: found one without", None)
SIGNED_NUMBERS = Fact("goes with numbers of 64 bits or fewer: found none among what is written", None)
SIGNED_FORMAT = Fact("goes with npy, csv and parquet: found another format", None)

_LINES = Fact("goes without --json: its fields have names, and its fingerprints are hexadecimal", _missing("as_json"))
_IF_NEW = Fact("goes with --if-new", _given("if_new"))
_NOT_IF_NEW = Fact("goes without --if-new: expected one of the two", _missing("if_new"))
_INPUT = Fact("goes with --input", _given("input_path"))
_TEXT_OR_INPUT = Fact("goes with --text or --input", _given("text", "input_path"))
_IDS_OF_INPUT = Fact(
    "goes with --id-input, or with --input and --pairs",
    lambda given: bool(given["id_path"] or (given["pairs"] and given["input_path"])),
)
_ANY_INPUT = Fact("goes with --input or --id-input", _given("input_path", "id_path"))
_PROBED = Fact("goes with a FINGERPRINT; of --input, --fingerprint-format says it", _given("fingerprints"))
_REMOVED = _PROBED._replace(holds=_given("values"))
_BYTES_PROBED = Fact("goes with a FINGERPRINT or --input", _given("fingerprints", "input_path"))
_BYTES_REMOVED = _BYTES_PROBED._replace(holds=_given("values", "input_path"))
_NOT_DECIMAL = Fact("goes without --decimal: numbers have no order of bytes", _missing("decimal"))
_NOT_COUNTED = Fact("goes without --count", _missing("count_only"))
_TEXTS = Fact("goes with texts: found --features too, expected one of the two", _missing("features"))
_FEATURES = Fact("goes with --features: of texts, the recipe says it", _given("features"))
_COMPARED = Fact("goes with a FILE", _given("files"))
_NOT_ALL = Fact("goes without --all", _missing("shows_all"))
_RECIPE = Fact("goes with --recipe", _given("recipe_name"))
_NOT_EXIST_OK = Fact("goes without --exist-ok: expected one of the two", _missing("exist_ok"))
_NO_MAX_BYTES = Fact("goes without --max-bytes, which stands in its place", _missing("max_bytes"))
_IN_BLOCKS = Fact("goes with --layout blocks", lambda given: given["layout"] == "blocks")
_LEADERS = Fact(
    "goes without --update-center and --components: those compare no document with another one",
    _missing("update_center", "components"),
)
_FILE = Fact("goes with a file: found standard output", _to_a_file("output"))
_KEPT_FILE = _FILE._replace(holds=_to_a_file("kept"))

_FILES = Fact("goes without --unbuffered, whose lines are fingerprints or JSON", _missing("unbuffered"))
_ASKED = Fact("goes without a FINGERPRINT or --text", _missing("fingerprints", "text"))
# Where standard output has what is not ours to put into JSON.
_JSON_KEPT = Fact("goes with -o FILE: found standard output, which has the documents", _to_a_file("kept"))
_JSON_OUT = Fact(
    "goes with a file as OUT: found standard output, which has the rows (--format jsonl)", _to_a_file("output")
)
_JSON_ANNOTATED = Fact(
    "goes with -o FILE, or without --annotate: found standard output, which has the documents",
    lambda given: not given["annotate"] or _to_a_file("output")(given),
)
_PORT = Fact("goes with --port", _with_number("port"))
_NO_PORT = Fact("goes without --port", _without_number("port"))

_NO_RANK = Fact("goes without --rank, which does tasks in this process", _without_number("rank"))
_CLUSTER = Fact("goes with --engine ray or spark", lambda given: given["engine"] in ("ray", "spark"))
_RANKED = Fact("goes with --world-size", _given("world_size"))
_IN_FOLDER = Fact("goes with --folder, which all processes share", _given("folder"))

_COMMON: dict[str, tuple[Fact, ...]] = dict.fromkeys(Common._fields, ())
# Of each option, what it needs. Those that texts, or columns, need of an input are refused by fpstore.inputs.
_READ: dict[str, tuple[Fact, ...]] = {"format": (), "text_column": (), "input_header": (), "html": (), "skip_bad": ()}
_COLUMNS: dict[str, tuple[Fact, ...]] = dict.fromkeys(
    ("fingerprint_column", "fingerprint_format", "byte_order"), (OF_BITS,)
)
_IDS: dict[str, tuple[Fact, ...]] = {"id_column": (), "ids": ()}
_RECIPES: dict[str, tuple[Fact, ...]] = {"recipe_name": (), "idf_path": ()}
_PLAN: dict[str, tuple[Fact, ...]] = {
    "bits": (),
    "max_distance": (OF_BITS,),
    "plan": (_NO_MAX_BYTES, OF_BITS),
    "max_bytes": (OF_BITS,),
    "codec": (OF_BITS,),
    "layout": (OF_BITS,),
    "block_bytes": (_IN_BLOCKS,),
    "shuffle": (OF_BITS,),
    "bands": (OF_SIGNATURES,),
    "rows_per_band": (OF_SIGNATURES,),
    "min_similarity": (OF_SIGNATURES,),
    "keep_signatures": (OF_SIGNATURES,),
    "mode": (),
}
_NEAR: dict[str, tuple[Fact, ...]] = {
    "max_distance": (OF_BITS,),
    **dict.fromkeys(("bands", "rows_per_band", "min_similarity"), (OF_SIGNATURES,)),
}
_MEASURED: dict[str, tuple[Fact, ...]] = {
    **dict.fromkeys(("workers", "engine"), (_NO_RANK,)),
    "address": (_CLUSTER,),
    "folder": (),
    "rank": (_RANKED,),
    "world_size": (_IN_FOLDER,),
}
_CORPUS: dict[str, tuple[Fact, ...]] = {
    **_READ,
    **_RECIPES,
    **_NEAR,
    "id_column": (),
    "summary_path": (),
    **_MEASURED,
}

_QUERIES: dict[str, tuple[Fact, ...]] = {
    "input_path": (),
    "format": (_INPUT,),
    "input_header": (_INPUT,),
    "fingerprint_column": (_INPUT, OF_BITS),
    "fingerprint_format": (_INPUT, OF_BITS),
    "byte_order": (_BYTES_PROBED, _NOT_DECIMAL, OF_BITS),
    "text_column": (_INPUT,),
    "html": (_TEXT_OR_INPUT,),
    "idf_path": (_TEXT_OR_INPUT, ANY_TEXT),
    "skip_bad": (_INPUT,),
    "text": (),
    "max_distance": (OF_BITS,),
    "decimal": (_PROBED,),
    "header": (_LINES,),
    "signed": (_LINES, SIGNED_NUMBERS),
}  # Those of them that say how files are read or lines are written.
_OF_QUERY_FILES = (
    "format",
    "input_header",
    "fingerprint_column",
    "fingerprint_format",
    "byte_order",
    "text_column",
    "html",
    "skip_bad",
    "header",
    "signed",
)


def _of_files(options: Mapping[str, tuple[Fact, ...]]) -> dict[str, tuple[Fact, ...]]:
    return {name: (_FILES, *facts) for name, facts in options.items()}


_OWN: dict[str, dict[str, tuple[Fact, ...]]] = {
    "build": {
        **_READ,
        **_COLUMNS,
        **_IDS,
        **_RECIPES,
        **_PLAN,
        "id_type": (),
        "memory": (),
        "force": (),
        **_MEASURED,
    },
    "create": {
        **_PLAN,
        "id_type": (),
        "recipe_name": (),
        "idf_path": (_RECIPE,),
        "exist_ok": (),
        "force": (_NOT_EXIST_OK,),
    },
    "add": {
        **_of_files(_READ),
        **_of_files(_COLUMNS),
        "id_column": (_FILES,),
        "ids": (),
        "idf_path": (ANY_TEXT,),
        "if_new": (),
        "upsert": (_NOT_IF_NEW, WITH_IDS),
        "max_distance": (_IF_NEW, OF_BITS),
        "min_similarity": (_IF_NEW, OF_SIGNATURES),
        "header": (_IF_NEW, _FILES, _LINES),
        "signed": (_IF_NEW, _FILES, _LINES, SIGNED_NUMBERS),
        "unbuffered": (_IF_NEW,),
    },
    "remove": {
        "ids": (),
        "input_path": (),
        "id_path": (),
        "pairs": (),
        "id_column": (_IDS_OF_INPUT,),
        "format": (_ANY_INPUT,),
        "input_header": (_ANY_INPUT,),
        "skip_bad": (_ANY_INPUT,),
        "fingerprint_column": (_INPUT, OF_BITS),
        "fingerprint_format": (_INPUT, OF_BITS),
        "byte_order": (_BYTES_REMOVED, _NOT_DECIMAL, OF_BITS),
        "text_column": (_INPUT, OF_BITS),
        "html": (_INPUT, OF_BITS),
        "idf_path": (_INPUT, ANY_TEXT),
        "decimal": (_REMOVED,),
    },
    "probe": {
        **_QUERIES,
        **_of_files({name: _QUERIES[name] for name in _OF_QUERY_FILES}),
        "min_similarity": (OF_SIGNATURES,),
        "unbuffered": (_INPUT, _ASKED),
        **dict.fromkeys(("workers", "engine"), (_INPUT, _FILES, OF_BITS, _NO_RANK)),
        "address": (_CLUSTER,),
        "folder": (_INPUT, _FILES, OF_BITS),
        "rank": (_RANKED,),
        "world_size": (_IN_FOLDER,),
    },
    "nearest": {
        **{name: tuple(fact for fact in facts if fact is not OF_BITS) for name, facts in _QUERIES.items()},
        "count": (),
    },
    "lookup": {
        "input_path": (),
        "id_column": (_INPUT,),
        "format": (_INPUT,),
        "input_header": (_INPUT,),
        "skip_bad": (_INPUT,),
        "header": (_LINES,),
        "signed": (_LINES, SIGNED_NUMBERS),
    },
    "pairs": {
        "max_distance": (OF_BITS,),
        "min_similarity": (OF_SIGNATURES,),
        "of": (OF_BITS,),
        "count_only": (),
        "memory": (),
        **dict.fromkeys(("workers", "engine"), (_NOT_COUNTED, _NO_RANK)),
        "address": (_CLUSTER,),
        "folder": (_NOT_COUNTED,),
        "rank": (_RANKED,),
        "world_size": (_IN_FOLDER,),
        "header": (_NOT_COUNTED, _LINES),
        "signed": (_NOT_COUNTED, _LINES, SIGNED_NUMBERS),
    },
    "document-pairs": {**_CORPUS, "memory": (), "output": (), "force": (_FILE,)},
    "dedup": {
        **_CORPUS,
        "kept": (),
        "dropped": (),
        "keep": (),
        "tag": (),
        "shards": (),
        "confirm": (),
        "store": (),
        "force": (_KEPT_FILE,),
        "as_json": (_JSON_KEPT,),
    },
    "cluster": {
        **{name: (OF_TEXTS, *facts) for name, facts in _CORPUS.items()},
        **_MEASURED,
        "max_distance": (OF_BITS,),
        "min_similarity": (OF_SIGNATURES,),
        "summary_path": (),
        "output": (),
        "confirm": (OF_TEXTS, _LEADERS),
        "update_center": (OF_BITS,),
        "components": (),
        "annotate": (OF_TEXTS,),
        "topics": (OF_TEXTS,),
        "store": (OF_TEXTS,),
        "force": (_FILE,),
        "as_json": (_JSON_ANNOTATED,),
    },
    "fingerprint": {
        **{name: (_TEXTS, *facts) for name, facts in _MEASURED.items()},
        "format": (),
        "skip_bad": (),
        "text_column": (_TEXTS,),
        "input_header": (_TEXTS,),
        "html": (_TEXTS,),
        "recipe_name": (_TEXTS,),
        "idf_path": (_TEXTS,),
        "features": (),
        "hash": (_FEATURES,),
        "seed": (_FEATURES,),
        "tie": (_FEATURES,),
        "bits": (_FEATURES,),
    },
    "compare": {
        "texts": (),
        "format": (_COMPARED,),
        "text_column": (_COMPARED,),
        "input_header": (_COMPARED,),
        "html": (),
        **_RECIPES,
        **_NEAR,
        "shown": (),
    },
    "recipe": {"bits": ()},
    "learn-idf": {**_READ, "output": (), "force": (), "recipe_name": ()},
    "compact": {},
    "copy": {"mode": ()},
    "recover": {},
    "export": {
        "format": (),
        "no_ids": (WITH_IDS, OF_BITS),
        "signed": (SIGNED_FORMAT, SIGNED_NUMBERS),
        "force": (_FILE,),
        "as_json": (_JSON_OUT,),
    },
    "serve": {
        "socket_path": (_NO_PORT,),
        "port": (),
        "host": (_PORT,),
        "token_file": (),
        "read_only": (),
        "idf_path": (),
        "max_body": (),
        "max_queries": (),
        "max_matches": (),
        "max_answer": (),
        "max_connections": (),
        "timeout": (),
    },
    "plan": {"n": (), "bits": (), "max_distance": (), "like": ()},
    "report": {},
    "stats": {"spikes": ()},
    "inspect": {"most": (_NOT_ALL,), "shows_all": ()},
    "verify": {},
}
USES = {name: {**_COMMON, **own} for name, own in _OWN.items()}


class Subcommand(click.Command):
    """A subcommand, which has the common options, and refuses one that is given again, or that would do nothing."""

    def __init__(self, *, params: Sequence[click.Parameter], **given: Any) -> None:
        super().__init__(params=[*params, *common_options()], **given)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does. UsageError for an option that is given again, and for a number that looks like an option."""
        try:
            if not ctx.resilient_parsing:
                self._expect_once(ctx, self.make_parser(ctx).parse_args(list(args))[2])
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            number = next((each for each in args if _NEGATIVE.fullmatch(each)), None)
            if number is None:
                others = _who_has(error.option_name, ctx)
                if not others:
                    raise
                told = f"{error.option_name}: found it with {self.name}, expected it with {' or '.join(others)}"
                raise click.UsageError(told, ctx) from None
            told = f"found {number:.40}, which looks like an option; expected -- before a number below 0"
            decimal = ", and --decimal before that" if any(each.name == "decimal" for each in self.params) else ""
            raise click.UsageError(f"{told}{decimal}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, if every option that was given does something."""
        for name, facts in USES[str(self.name)].items():
            for fact in facts:
                if fact.holds is not None and not fact.holds(ctx.params):
                    _refuse(ctx, name, fact)
        take_common(ctx)
        return super().invoke(ctx)

    def _expect_once(self, ctx: click.Context, order: Sequence[click.Parameter]) -> None:
        seen: set[int] = set()
        for each in order:
            if isinstance(each, click.Option) and not each.multiple and each.expose_value and id(each) in seen:
                raise click.UsageError(f"{_named(each)}: found it twice, expected it once", ctx)
            seen.add(id(each))


subcommand = partial(click.command, cls=Subcommand)


def refuse_unused(*missing: Fact) -> None:
    """UsageError for an option, of the subcommand under way, that was given and needs a fact which is none here."""
    context = click.get_current_context()
    for name, facts in USES[str(context.command.name)].items():
        for fact in facts:
            if fact in missing:
                _refuse(context, name, fact)


def _refuse(context: click.Context, name: str, fact: Fact) -> None:
    if context.get_parameter_source(name) in (None, click.core.ParameterSource.DEFAULT):
        return
    option = next(each for each in context.command.params if each.name == name)
    raise click.UsageError(f"{_named(option)} {fact.reason}", context)


def _who_has(option: str, ctx: click.Context) -> list[str]:
    """The other subcommands that have an option."""
    group = ctx.parent.command if ctx.parent is not None else None
    if not isinstance(group, click.Group):
        return []
    found = []
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None and any(option in (*each.opts, *each.secondary_opts) for each in command.params):
            found.append(name)
    return found


def _named(option: click.Parameter) -> str:
    return max(option.opts, key=len)
