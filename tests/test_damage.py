"""A damaged segment raises CorruptStore or answers as before; tools/check_damage.py is this at full length."""

from pathlib import Path

import pytest
from damage import MODES, Sample, check_range, damage_count, make_sample
from helpers import CODECS

# Files of each mode for each codec, with ids and without: about 30 seconds for all on two shared cores.
FILES = {"bits": 1200, "truncations": 400, "edits": 500, "repaired": 500}
STEP_SEED = 7919  # a prime: positions all over the file, others for each codec


@pytest.fixture(scope="module", params=[(codec, ids) for codec in CODECS for ids in (False, True)], ids=str)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return make_sample(tmp_path_factory.mktemp("sample"), *request.param)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_damaged_file_is_refused_or_answers_as_before(sample: Sample, mode: str, tmp_path: Path) -> None:
    count = damage_count(sample, mode, FILES[mode])
    step = max(1, count // FILES[mode])
    outcomes, failures = check_range(sample, mode, range(STEP_SEED % step, count, step), tmp_path)
    assert failures == []
    assert outcomes["CorruptStore"] > outcomes.total() // 10
    if mode == "repaired":
        assert outcomes["another answer"] > 0


def test_the_check_itself_notices_a_changed_answer_and_another_exception(tmp_path: Path) -> None:
    sample = make_sample(tmp_path, "gap", False)
    unchanged = range(208, 209)  # byte 20 set to 0, which it is
    assert sample.data[20] == 0
    assert check_range(sample, "bits", unchanged, tmp_path) == ({"answer unchanged": 1}, [])
    sample.answer = [[]]
    outcomes, failures = check_range(sample, "bits", unchanged, tmp_path)
    assert (outcomes, failures) == (
        {"ANSWER CHANGED": 1},
        ["byte 20 set to 0x00: the answer changed and nothing was said"],
    )
    sample.queries = "no array"  # type: ignore[assignment]
    outcomes, failures = check_range(sample, "bits", unchanged, tmp_path)
    assert outcomes == {"another exception": 1}
    assert failures[0].startswith("byte 20 set to 0x00: ")
