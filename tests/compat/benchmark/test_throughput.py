"""`reader_throughput`, and its command."""

import re

import pytest
from tests.conformance.place import DATA

from mdstorm.benchmark.cli import _main
from mdstorm.benchmark.throughput import ReadMethod, WorkerPoolType, reader_throughput
from mdstorm.errors import InvalidArgumentError

PLACES = (DATA / "places").as_uri()
HERE = {"spawn_new_process": False, "loaders_count": 1}


@pytest.mark.parametrize("pool", [WorkerPoolType.THREAD, WorkerPoolType.NONE])
def test_rows_are_counted(pool: WorkerPoolType) -> None:
    found = reader_throughput(PLACES, ["id"], 2, 20, pool, **HERE)  # type: ignore[arg-type]
    assert found.samples_per_second == pytest.approx(1 / found.time_mean)
    assert found.memory_info.rss > 1 << 20
    assert found.cpu >= 0


def test_arguments_reach_the_reader() -> None:
    wrong = {"reader_extra_args": {"cur_shard": 7, "shard_count": 2}}
    with pytest.raises(InvalidArgumentError, match="cur_shard=7"):
        reader_throughput(PLACES, **wrong, **HERE)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="measure_cycles_count must be an integer"):
        reader_throughput(PLACES, measure_cycles_count=0)


@pytest.mark.long
def test_tensorflow_takes_the_rows() -> None:
    found = reader_throughput(
        PLACES,
        ["id"],
        1,
        5,
        read_method=ReadMethod.TF,
        shuffling_queue_size=10,
        min_after_dequeue=5,
        **HERE,  # type: ignore[arg-type]
    )
    assert found.samples_per_second > 0


@pytest.mark.long
def test_the_command_prints_what_another_process_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _main([PLACES, "--field-regex", "id", "-m", "1", "-n", "10", "-p", "dummy"])
    line = r"Average sample read rate: [\d.]+ samples/sec; RAM [\d.]+ MB \(rss\); CPU [\d.]+%\n"
    assert re.fullmatch(line, capsys.readouterr().out)
