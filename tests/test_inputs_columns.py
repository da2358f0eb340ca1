"""What only later rows tell, and texts beside fingerprints: refused or counted, never lost."""

from pathlib import Path

import pytest

from fpstore.inputs import BadInput, documents, read


@pytest.mark.parametrize("name", ["id", "ID", "Id"])
def test_an_id_that_only_later_objects_have_is_never_lost(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "one"}}\n{{"{name}": 777, "text": "two"}}\n')
    with pytest.raises(BadInput, match=r"line 2: found a field called id, expected none, as in the object before; ids"):
        list(read([path]))
    assert [batch.ids.tolist() for batch in read([path], ids="row") if batch.ids is not None] == [[0, 1]]
    reader = read([path], skip_bad=True)
    assert [len(batch.fingerprints) for batch in reader] == [1]
    assert dict(reader.skipped) == {"bad line": 1}


@pytest.mark.parametrize("header", ["id,text,hash", "text", "TEXT,fingerprint"])
def test_a_table_with_a_text_is_refused_until_it_is_said_what_is_meant(tmp_path: Path, header: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n" + ",".join("00000000deadbeef" for _ in header.split(",")) + "\n")
    expected = r"texts among them; expected fingerprint_column \(--fingerprint-column\) or text_column"
    with pytest.raises(BadInput, match=expected):
        list(read([path]))
    with pytest.raises(ValueError, match=r"expected texts, and text_column \(--text-column\) to name their column"):
        documents([path])
    column = header.split(",")[-1]
    batches = read([path], fingerprint_column=column, ids="row")
    assert [batch.fingerprints.tolist() for batch in batches] == [[0xDEADBEEF]]


def test_a_field_of_texts_that_is_missing_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"body": "one"}\n')
    with pytest.raises(BadInput, match=r"found fields body, expected one named text, or text_column \(--text-column\)"):
        list(documents([path]))
