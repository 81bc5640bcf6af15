"""Statistics as numbers, a table and a verdict."""

from typing import Any

import pytest

from mdstorm_backend.loaders import Recorder, Statistics
from mdstorm_backend.loaders.loader_statistics import ADVICE


def found(waited: float, cause: str = "", **others: Any) -> Statistics:
    """Statistics for 100 seconds, some of which were spent waiting for one cause."""
    values: dict[str, Any] = {"batches": 50, "rows": 1_600, "waited_seconds": waited}
    if cause:
        values[f"waited_for_{cause}"] = waited
    return Statistics(**{**values, "training_seconds": 100 - waited, **others})


@pytest.mark.parametrize("cause", ["downloads", "decoding", "transforms", "batching"])
def test_verdict_names_the_largest_cause_of_waiting_and_what_helps(cause: str) -> None:
    slow = found(62, "" if cause == "batching" else cause)
    assert slow.cause == cause
    told = f"waiting takes 62 % of the time, 62 % for {cause}: {ADVICE[cause]}"
    assert slow.verdict == told


def test_waiting_for_under_five_percent_is_negligible() -> None:
    assert found(4.9, "downloads").cause == "nothing"
    told = "waiting takes 5 % of the time: nothing needs to change"
    assert found(4.9, "downloads").verdict == told
    assert found(5.1, "downloads").cause == "downloads"


def test_cause_after_one_batch_is_unknown() -> None:
    assert Statistics().cause == "unknown"
    assert Statistics().verdict == "waiting takes 0 % of the time: not enough batches yet"
    assert found(50, batches=1).cause == "unknown"
    assert found(50, batches=2).cause == "batching"


def test_rest_of_waiting_is_batching() -> None:
    parts = {"waited_for_decoding": 5.0, "waited_for_transforms": 2.0}
    assert found(30, "", waited_for_downloads=10.0, **parts).waited_for_batching == 13
    assert found(30, "downloads", **parts).waited_for_batching == 0  # the clock is not exact


def test_difference_between_statistics_covers_the_time_between_them() -> None:
    earlier, later = found(30, "downloads", skipped=3), found(50, "downloads", skipped=7)
    between = later - earlier
    assert (between.waited_seconds, between.training_seconds, between.skipped) == (20, -20, 4)
    assert between.waited_for_downloads == 20
    with pytest.raises(TypeError):
        later - 1  # type: ignore[operator]


def test_statistics_as_dict_contain_fields_and_derived_values() -> None:
    values = found(25, "downloads").as_dict()
    assert (values["waited_seconds"], values["seconds"], values["waited_share"]) == (25, 100, 0.25)
    assert values["waited_for_batching"] == 0
    assert not any(isinstance(value, str) for value in values.values())


def test_statistics_table_shows_what_occurred_and_the_verdict_last() -> None:
    shown = found(62, "downloads", downloaded_bytes=5_000_000, download_seconds=70.0, skipped=2)
    text = str(shown)
    assert "62.00 s (62 %)" in text
    assert "5.0 MB in 70.00 s" in text
    assert "50 batches, 1,600 rows" in text
    assert "2 samples skipped" in text
    assert "for transforms" not in text  # there were no waits of this kind
    assert " ".join(text.split()).endswith(shown.verdict)
    assert "62.00 s (62 %)" in shown._repr_html_()
    assert "downloads" not in str(found(62))


def test_statistics_of_the_last_pass_leave_out_earlier_passes() -> None:
    recorder = Recorder()
    for sizes in ([10], [100, 100]):
        recorder.begin()
        recorder.record_received(sizes)
    assert Statistics.of(recorder).rows == 210
    assert Statistics.of(recorder, last_pass=True).rows == 200
    assert Statistics.of(recorder, last_pass=True).batches == 2
