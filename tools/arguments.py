"""What tools take on the command line: a wrong value is a line that says what is expected, and status 2."""

import argparse
import math
import re
from collections.abc import Callable, Collection
from dataclasses import fields
from pathlib import Path


def parse_whole(text: str) -> int:
    """A whole number from 0 on, as 10000000 or 1e7."""
    return _whole(text, 0)


def parse_count(text: str) -> int:
    """A whole number from 1 on, as 10000000 or 1e7."""
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    number = _number(text)
    if math.isfinite(number) and number == int(number) >= least:
        return int(text) if text.isdecimal() else int(number)
    raise argparse.ArgumentTypeError(f"found {text}, expected a whole number from {least}")


def parse_seconds(text: str) -> float:
    """A number above 0."""
    number = _number(text)
    if 0 < number < math.inf:
        return number
    raise argparse.ArgumentTypeError(f"found {text}, expected a number above 0")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def parse_folder(text: str) -> Path:
    """A folder that is there."""
    if text and Path(text).is_dir():
        return Path(text)
    raise argparse.ArgumentTypeError(f"found {text}, expected a folder that is there")


def parse_file(text: str) -> Path:
    """A file that is there."""
    if Path(text).is_file():
        return Path(text)
    raise argparse.ArgumentTypeError(f"found {text}, expected a file that is there")


def parse_there(text: str) -> str:
    """A file or a folder that is there."""
    if text and Path(text).exists():
        return text
    raise argparse.ArgumentTypeError(f"found {text}, expected a file or a folder that is there")


def parse_pattern(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"found {text}, expected a regular expression: {error}") from None
    return text


def parse_budget(text: str) -> str:
    """A number of bytes, as fpstore.build takes it."""
    from fpstore.arrays import parse_memory

    try:
        parse_memory(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def parse_list(text: str) -> list[str]:
    """Several, separated by commas."""
    found = text.split(",")
    if all(found):
        return found
    raise argparse.ArgumentTypeError(f"found {text!r}, expected one or more, separated by commas")


def parse_any(text: str) -> list[str]:
    """Several, separated by commas, or none."""
    return parse_list(text) if text else []


def parse_two_counts(text: str) -> list[int]:
    """Two counts, of which the second is larger."""
    found = parse_counts(text)
    if len(found) == 2 and found[0] < found[1]:
        return found
    raise argparse.ArgumentTypeError(f"found {text}, expected two whole numbers, the larger one behind a comma")


def parse_recipe(text: str) -> str:
    """The name of a recipe, or a file that has one."""
    from fpstore.text import load_recipe

    try:
        load_recipe(text)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(f"found {text}, expected a recipe: {error}") from None
    return text


def parse_confirm(text: str) -> str:
    """What `fpstore dedup` confirms by, or none."""
    from fpstore.text.confirm import Confirm

    try:
        return text if text == "none" else str(Confirm.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_living_sizes(text: str) -> dict[str, int]:
    """Sizes that a writer goes by, NAME=NUMBER,..., or none."""
    from fpstore.living.sizes import LivingSizes

    pairs = [each.partition("=") for each in parse_any(text)]
    known = [field.name for field in fields(LivingSizes)]
    found = {names_among(known)(name)[0]: parse_whole(number) for name, _, number in pairs}
    try:
        LivingSizes(**found)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text}, expected sizes that go together: {error}") from None
    return found


def expect_sets(parser: argparse.ArgumentParser, folder: Path, names: Collection[str]) -> None:
    """End where a folder has no set of one of these names."""
    for name in names:
        if not (folder / f"{name}.jsonl.zst").is_file():
            parser.error(f"found no {name}.jsonl.zst in {folder}, expected the sets that are named")


def parse_counts(text: str) -> list[int]:
    """Several counts."""
    return [parse_count(each) for each in parse_list(text)]


def parse_wholes(text: str) -> list[int]:
    """Several whole numbers."""
    return [parse_whole(each) for each in parse_list(text)]


def wholes_among(known: Collection[int]) -> Callable[[str], list[int]]:
    """What parses several of the numbers that are known."""

    def wholes(text: str) -> list[int]:
        for each in parse_wholes(text):
            if each not in known:
                told = f"{min(known)} to {max(known)}" if isinstance(known, range) else ", ".join(map(str, known))
                raise argparse.ArgumentTypeError(f"found {each}, expected some of {told}")
        return parse_wholes(text)

    return wholes


def parse_apart(text: str) -> list[str]:
    """Several numbers of bits that fingerprints of every width have, or far."""
    for each in parse_list(text):
        if each != "far":
            wholes_among(range(65))(each)
    return [each if each == "far" else str(parse_whole(each)) for each in parse_list(text)]


def parse_cases(text: str) -> list[str]:
    """Several bits:k for which there are plans."""
    import fpstore

    for each in parse_list(text):
        bits, _, distance = each.partition(":")
        try:
            fpstore.predict(n=1, bits=parse_whole(bits), max_distance=parse_whole(distance))
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"found {each}, expected bits:k of plans: {error}") from None
    return parse_list(text)


def parse_recipes(text: str) -> list[str]:
    """Several recipes: names, or files."""
    return [parse_recipe(each) for each in parse_list(text)]


def names_among(known: Collection[str]) -> Callable[[str], list[str]]:
    """What parses several of those that are known."""

    def names(text: str) -> list[str]:
        for each in parse_list(text):
            if each not in known:
                raise argparse.ArgumentTypeError(f"found {each}, expected some of {', '.join(known)}")
        return parse_list(text)

    return names


def parse_plan(text: str) -> str:
    """A plan: an aim or a name."""
    return parse_plans(text)[0]


def parse_plans(text: str) -> list[str]:
    """Several plans, aims or names."""
    from fpstore.plans.choice import PlanChoice

    for each in parse_list(text):
        try:
            PlanChoice(3, each)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return parse_list(text)
