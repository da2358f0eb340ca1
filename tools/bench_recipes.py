"""Measures the recipes whose slow steps are a package's, Chinese words and HTML, beside the package alone.

    python tools/bench_recipes.py [--chinese FILE|FOLDER] [--pages FILE|FOLDER] [--n 1e7] [--rounds 7] [--json]

The texts and the pages are those of the inputs, in any format that fpstore reads as text (JSON lines of pages: field
`html`); without one, made up. They are taken again and again up to --n bytes. A bar is the share of the package's own
speed that is left of the whole way to fingerprints; it is judged where the inputs are real.
"""

import random
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from arguments import parse_there
from benchlib import Results, cpu_ratio, interleaved, median_cpu, new_parser, parse_arguments

from fpstore import inputs
from fpstore.text import recipes
from fpstore.text._simhash import measure

try:
    from resiliparse.extract.html2text import extract_plain_text
    from rjieba import Jieba
except ImportError as error:
    raise SystemExit("bench_recipes: needs the extras html and zh") from error

REAL_BYTES = 10**7  # what the bars speak of
SMALL_BYTES = 10**5
MIN_SHARE = 0.8

CHINESE = [
    "我们",
    "他们",
    "北京",
    "清华大学",
    "数据",
    "文档",
    "函数",
    "返回",
    "一个",
    "字符串",
    "的",
    "在",
    "是",
    "了",
    "不",
]
CHINESE += ["可以", "使用", "方法", "对象", "类型", "参数", "默认值", "模块", "，", "。", " Python ", " 3.14 "]


def made_up_chinese() -> Iterator[str]:
    source = random.Random(20070508)
    while True:
        yield "".join(source.choices(CHINESE, k=1000))


def made_up_pages() -> Iterator[str]:
    source = random.Random(20070509)
    words = ["".join(source.choices("etaoinshrdlu", k=source.randint(1, 10))) for _ in range(3000)]
    while True:
        menu = "".join(f"<li class='item'><a href='/{word}'>{word}</a></li>" for word in source.choices(words, k=60))
        body = "".join(f"<p>{' '.join(source.choices(words, k=80))}</p>" for _ in range(20))
        yield f"<html><body><nav><ul>{menu}</ul></nav><article><h1>Title</h1>{body}</article></body></html>"


def load(source: Iterator[str], size: int) -> list[str]:
    """Texts of at least so many bytes, repeated if they are fewer."""
    texts: list[str] = []
    total = 0
    for text in source:
        texts.append(text)
        total += len(text.encode())
        if total >= size:
            return texts
    if not total:
        raise SystemExit("bench_recipes: the inputs hold no text")
    distinct = len(texts)
    while total < size:
        texts.append(texts[-distinct])
        total += len(texts[-1].encode())
    return texts


def pages_of(path: str) -> Iterator[str]:
    """The HTML itself: as JSON lines have it in their field `html`, else the files as they are."""
    column = "html" if ".jsonl" in path else None
    format = "auto" if column else "text"
    return (text for _, text in inputs.documents([path], format=format, text_column=column))


def one_by_one(step: Callable[[str], Any], texts: Sequence[str]) -> None:
    """Do the step for each text, and keep nothing: what is kept takes time of its own."""
    for text in texts:
        step(text)


def bench(
    name: str,
    texts: Sequence[str],
    calls: dict[str, Callable[[], Any]],
    real: bool,
    arguments: Namespace,
    results: Results,
) -> None:
    """The first call is the package alone, the second the whole way; the others are for the table only."""
    size = sum(len(text.encode()) for text in texts)
    timings = interleaved(list(calls.values()), arguments.rounds)
    rows = [
        {
            "": what,
            "MB/s of a processor": size / median_cpu(own) / 1e6,
            "share of the package's": cpu_ratio(timings[0], own),
        }
        for what, own in zip(calls, timings, strict=True)
    ]
    results.table(f"{name}: {len(texts):,} documents of {size / 1e6:,.1f} MB", rows)
    if real:
        results.bar(f"{name}, share of the package's own speed", cpu_ratio(timings[0], timings[1]), at_least=MIN_SHARE)


def main() -> int:
    parser = new_parser(__doc__, rounds=7, counted="bytes of text", real=REAL_BYTES, small=SMALL_BYTES)
    parser.add_argument("--chinese", type=parse_there, metavar="FILE|FOLDER", help="default: made up")
    parser.add_argument("--pages", type=parse_there, metavar="FILE|FOLDER", help="default: made up")
    arguments = parse_arguments(parser, real=REAL_BYTES, small=SMALL_BYTES)
    results = Results("bench_recipes", arguments, only_keys=REAL_BYTES)
    chinese, web, cut = recipes()["zh"], recipes()["web-en"], Jieba().cut
    source = (text for _, text in inputs.documents([arguments.chinese])) if arguments.chinese else made_up_chinese()
    texts = load(source, arguments.n)
    joined = ["\x1f".join(cut(text)) for text in texts]
    calls: dict[str, Callable[[], Any]] = {
        "rjieba": lambda: one_by_one(cut, texts),
        "recipe zh": lambda: chinese.fingerprint_many(texts),
        "of it, the compiled core": lambda: measure(joined, shingle=chinese.shingle, weights=chinese.weights),
    }
    bench("Chinese words", texts, calls, arguments.chinese is not None, arguments, results)
    pages = load(pages_of(arguments.pages) if arguments.pages else made_up_pages(), arguments.n)
    calls = {
        "resiliparse": lambda: one_by_one(partial(extract_plain_text, main_content=True), pages),
        "recipe web-en": lambda: web.fingerprint_many([web.text_of(page) for page in pages]),
    }
    bench("HTML to main text", pages, calls, arguments.pages is not None, arguments, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
