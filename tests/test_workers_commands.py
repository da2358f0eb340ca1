"""Which commands share HTML and Chinese out to processes: all that read many texts, and what they write is the same."""

import json
from pathlib import Path

import pytest
from outcome import Command
from test_workers import count_asked

from fpstore import workers as module
from fpstore.cli import SUBCOMMANDS, _fpstore
from fpstore.text import shared

# How each command that has --threads and --html reads many pages; {recipe} where it has that too.
SHARED = {
    "build": "build made.fpstore pages.jsonl --ids row --html {recipe}",
    "add": "add copy.fpstore pages.jsonl --ids from:1000 --html",
    "remove": "remove copy.fpstore --input pages.jsonl --html",
    "probe": "probe store.fpstore --input pages.jsonl --html",
    "nearest": "nearest store.fpstore --input pages.jsonl --html",
    "document-pairs": "document-pairs pages.jsonl -o pairs.tsv --html {recipe}",
    "dedup": "dedup pages.jsonl -o kept.jsonl --dropped dropped.tsv --html {recipe}",
    "cluster": "cluster pages.jsonl -o clusters.tsv --html {recipe}",
    "fingerprint": "fingerprint pages.jsonl --html {recipe}",
    "learn-idf": "learn-idf pages.jsonl -o model.idf --html --recipe {weighted}",
}
# Those that read one or two.
ALONE = ["compare"]


def options_of(name: str) -> set[str]:
    command = _fpstore.commands.get(name) or _fpstore.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_that_reads_texts_is_in_the_table() -> None:
    reading = [name for name in SUBCOMMANDS if {"--threads", "--html"} <= options_of(name)]
    assert sorted(reading) == sorted([*SHARED, *ALONE])
    for name, line in SHARED.items():
        assert ("--recipe" in options_of(name)) is ("--recipe" in line or "{recipe}" in line)


def written(folder: Path) -> dict[str, bytes]:
    """All files; but what jobs know of themselves names the folder."""
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*") if path.is_file()}


# What of Chinese texts is shared out.
CHINESE = (shared._measured, shared._measured_and_kept, shared._features)


@pytest.mark.slow
@pytest.mark.parametrize("is_chinese", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_processes_share_it_and_write_what_one_writes(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_chinese: bool
) -> None:
    monkeypatch.setattr(module, "HELP_AFTER_SECONDS", 0)
    monkeypatch.setattr(shared, "PAGES_AT_ONCE", 2000)
    monkeypatch.setattr(shared, "TEXTS_AT_ONCE", 2000)
    pages = [f"<p>{' '.join(f'词{i * j % 71}' for j in range(60))} 中文分词</p>" for i in range(40)]
    pages += [page.replace("词0 ", "另 ", 1) for page in pages[::3]]
    found, (recipe, weighted) = [], ("--recipe zh", "mine.json") if is_chinese else ("", "simhash-1")
    for threads in ("1", "2"):
        folder = tmp_path / threads
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("pages.jsonl").write_text(
            "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(pages))
        )
        zh = json.loads(command("recipe", "zh").out)
        Path("mine.json").write_text(json.dumps(zh | {"name": "mine", "sketch": "simhash"}))
        for store in ("store.fpstore", "copy.fpstore"):
            given = ["build", store, "pages.jsonl", "--ids", "row", "--html", *recipe.split(), "--threads", "1"]
            assert command(*given).status == 0
        with monkeypatch.context() as counting:
            asked = count_asked(counting)
            done = command(*SHARED[name].format(recipe=recipe, weighted=weighted).split(), "--threads", threads)
        assert (done.status, asked == []) == (0, threads == "1"), done.err
        kinds = {shared._shown, *(CHINESE if is_chinese else ())}
        assert set(asked) <= kinds
        assert len(set(asked)) == (threads == "2") * (1 + is_chinese)
        for path in Path().glob("*.fpstore"):
            assert command("export", path, f"{path.stem}.csv").status == 0
        found.append((done.out, written(folder)))
    assert found[0] == found[1]
