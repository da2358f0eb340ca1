"""A damaged file raises CorruptStore or answers as before; tools/check_damage.py is this at full length."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from damage import MODES, Sample, check_range, make_sample
from damage_named import FILES, STORES, samples_of

# Files of each mode for each kind of file: about 45 seconds for all on two shared cores.
COUNTS = {"bits": 800, "truncations": 400, "edits": 250, "repaired": 250, "replaced": 20}
# The same for each file of a store, which takes longer to ask.
STORE_COUNTS = {"bits": 50, "truncations": 20, "edits": 20, "replaced": 20}
STEP_SEED = 7919  # a prime: positions all over the file, others for each kind


def check(sample: Sample, mode: str, files: int, folder: Path) -> Counter[str]:
    """How often each outcome was of about so many damaged files; nothing failed."""
    count = sample.count(mode, files)
    step = max(1, count // files)
    outcomes, failures = check_range(sample, mode, range(STEP_SEED % step, count, step), folder)
    assert failures == [], sample.name
    return outcomes


@pytest.fixture(scope="module", params=FILES)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    (made,) = samples_of(request.param, tmp_path_factory.mktemp("sample"))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_damaged_file_is_refused_or_answers_as_before(sample: Sample, mode: str, tmp_path: Path) -> None:
    outcomes = check(sample, mode, COUNTS[mode], tmp_path)
    assert outcomes["CorruptStore"] > outcomes.total() // 10 or not outcomes
    if mode == "repaired":
        assert outcomes["another answer"] > 0


@pytest.fixture(scope="module", params=STORES)
def store_samples(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Sample]:
    return samples_of(request.param, tmp_path_factory.mktemp("store"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", STORE_COUNTS)
def test_a_damaged_file_of_a_store_is_an_error_or_changes_no_answer(
    store_samples: Sequence[Sample], mode: str, tmp_path: Path
) -> None:
    for sample in store_samples:
        outcomes = check(sample, mode, STORE_COUNTS[mode], tmp_path)
        assert outcomes["CorruptStore"] > outcomes.total() // 4, sample.name


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
