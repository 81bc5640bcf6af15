"""Statistics as numbers, a table and a verdict."""

from typing import Any

import pytest

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.loaders import PassRecorders, Statistics, loader_statistics


def found(waited: float, cause: str = "batching", **others: Any) -> Statistics:
    """Statistics for 100 seconds, some of which were spent waiting."""
    values: dict[str, Any] = {
        "passes": 1,
        "batches": 50,
        "rows": 1_600,
        "waited_seconds": waited,
        "training_seconds": 100 - waited,
        f"waited_for_{cause}": waited,
        **others,
    }
    return Statistics(**values)


def test_verdict_with_under_five_percent_waiting_is_no_wait() -> None:
    assert found(4.9, "downloads").verdict.cause == "nothing"
    assert str(found(4.9, "downloads").verdict) == "training does not wait (5 %)"
    assert found(5.1, "downloads").verdict.cause == "downloads"


def test_verdict_for_downloads_over_idle_link_also_recommends_predownload() -> None:
    slow = {"downloads": 8, "downloaded_bytes": 4_000_000_000, "downloading_seconds": 50}
    verdict = found(62, "downloads", **slow).verdict
    assert verdict.cause == "downloads"
    assert str(verdict) == (
        "training waits 62 % of the time, 62 % for downloads: the link gives 80.0 MB/s and is idle "
        "50 % of the time; compress the shards, or keep them on this machine (local); a "
        "StreamingDataset in the elastic order can also download further ahead (predownload)"
    )


def test_download_rate_counts_worker_processes_in_parallel() -> None:
    of_four = found(50, "downloads", workers=4, downloaded_bytes=4_000, downloading_seconds=40)
    assert of_four.download_rate == 400
    assert of_four.downloading_share == pytest.approx(0.1)


def test_verdict_for_evicted_shards_recommends_a_larger_cache() -> None:
    verdict = found(40, "downloads", downloads=10, downloaded_again=5, evictions=9).verdict
    assert verdict.cause == "cache"
    assert "5 of 10 were for evicted shards: raise cache_limit" in str(verdict)
    assert found(40, "downloads", downloads=10, downloaded_again=4).verdict.cause == "downloads"


def test_verdict_is_startup_if_it_takes_longest() -> None:
    slow = found(10, passes=2, startup_seconds=100.0)
    assert slow.verdict.cause == "startup"
    assert "the first batch of a pass takes 50.0 s, 50 % of the time" in str(slow.verdict)
    assert found(10, startup_seconds=9.0).verdict.cause == "batching"
    assert "the time: write smaller shards" in str(slow.verdict)
    of_two = found(10, workers=2, startup_seconds=100.0)
    assert "the time: keep worker processes (persistent_workers), " in str(of_two.verdict)
    assert "takes 50 ms" in str(found(0.01, training_seconds=0, startup_seconds=0.05).verdict)


def test_verdict_for_batches_slower_to_send_than_to_read_recommends_no_workers() -> None:
    verdict = found(90, workers=2, decode_seconds=5.0).verdict
    assert verdict.cause == "batching"
    assert str(verdict) == (
        "training waits 90 % of the time, 90 % for batches to be put together: set num_workers=0. "
        "Reading these batches took 5.00 s, and sending them between processes 90.00 s"
    )
    assert "num_workers=0" not in str(found(90, workers=2, decode_seconds=95.0).verdict)
    assert "num_workers=0" not in str(found(90, decode_seconds=5.0).verdict)


def test_verdict_after_one_batch_is_unknown() -> None:
    assert Statistics().verdict.cause == "unknown"
    assert found(50, batches=1).verdict.cause == "unknown"


def test_difference_between_statistics_covers_the_time_between_them() -> None:
    earlier = found(30, "downloads", downloads=3)
    later = found(50, "downloads", downloads=7, order="elastic")
    between = later - earlier
    assert (between.waited_seconds, between.training_seconds, between.downloads) == (20, -20, 4)
    assert (between.order, between.consumer) == ("elastic", "training")
    assert earlier + between == found(50, "downloads", downloads=7)
    with pytest.raises(TypeError):
        later - 1  # type: ignore[operator]


def test_statistics_as_dict_contain_fields_and_derived_values() -> None:
    values = found(25, "downloads", results=4, results_ready=6).as_dict()
    assert values["waited_seconds"] == 25
    assert (values["waited_share"], values["queue_depth"]) == (0.25, 1.5)


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [({"results": 4, "results_ready": 6}, "1.5 results"), ({}, "nothing, read when requested")],
)
def test_ready_results_are_shown_only_if_threads_produced_any(
    numbers: dict[str, int], shown: str
) -> None:
    (line,) = (line for line in str(found(25, **numbers)).splitlines() if "ready ahead" in line)
    assert line.endswith(shown)


def test_statistics_table_shows_each_number_once_and_the_verdict_last() -> None:
    shown = found(62, "downloads", downloads=8, downloaded_bytes=5_000_000, evictions=2)
    text = str(shown)
    assert "waiting" in text
    assert "62.00 s (62 %)" in text
    assert "8 files, 5.0 MB" in text
    assert "1 pass, 50 batches, 1,600 rows" in text
    assert "0 hits, 2 evictions" in text
    assert "for transforms" not in text  # there were no waits of this kind
    assert " ".join(text.split()).endswith(str(shown.verdict))
    assert "62.00 s (62 %)" in shown._repr_html_()


def test_sum_of_passes_is_consistent_while_another_pass_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorders = PassRecorders()
    for rows in (3, 4):
        recorder = recorders.begin()
        recorder.record_batches(rows)
        recorder.end(is_waiting=True)
    seen: list[int] = []
    summed = loader_statistics._statistics

    def asked_meanwhile(recorder: Recorder) -> Statistics:
        with monkeypatch.context() as patch:  # a metrics exporter's thread may ask now
            patch.setattr(loader_statistics, "_statistics", summed)
            seen.append(recorders.statistics().rows)
        return summed(recorder)

    monkeypatch.setattr(loader_statistics, "_statistics", asked_meanwhile)
    recorders.begin()
    assert seen == [7]
    monkeypatch.undo()
    assert recorders.statistics().rows == 7
    assert recorders.statistics().passes == 3


def test_running_pass_is_counted_in_the_sum() -> None:
    recorders = PassRecorders()
    first, second = recorders.begin(), recorders.begin()
    second.record_batches(1)
    second.end(is_waiting=False)
    third = recorders.begin()
    first.record_batches(10)
    third.record_batches(100)
    assert recorders.statistics().rows == 111
    assert recorders.statistics(last_pass=True).rows == 100
