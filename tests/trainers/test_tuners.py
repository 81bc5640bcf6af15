"""Optuna, Hyperopt and joblib-spark: the examples of tuning, with a Spark of their own."""

import re
from pathlib import Path

import pytest
from tests.end_to_end.test_examples import EXAMPLES, TUNERS, run


@pytest.mark.long
@pytest.mark.parametrize("tuner", TUNERS)
def test_trials_read_every_row_in_one_order_and_the_copy_is_deleted(
    tmp_path: Path, tuner: str
) -> None:
    printed = run(tmp_path, EXAMPLES / f"tune_with_{tuner}.py").stdout

    trials = re.findall(r"^learning rate (\S+): loss (\S+) after (\d+) rows$", printed, re.M)
    *tried, best = trials
    assert len(tried) == 4
    assert {rows for _, _, rows in trials} == {"1000"}
    assert best in tried
    assert f"best, trained again: loss {best[1]}\n" in printed
