"""The check that shard arguments agree with the launcher, which only warns."""

import logging
from typing import Any

import pytest

from mdstorm._spark.horovod import warn_if_inconsistent
from mdstorm.errors import InvalidArgumentError
from mdstorm.spark import SparkDatasetConverter

HOROVOD = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "4"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
PMI = {"PMI_RANK": "1", "PMI_SIZE": "4"}


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {**HOROVOD, **OPEN_MPI, **PMI}:
        monkeypatch.delenv(name, raising=False)


def launched(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("environment", [HOROVOD, OPEN_MPI, PMI], ids=lambda e: next(iter(e)))
@pytest.mark.parametrize(
    ("cur_shard", "shard_count", "warns"),
    [(1, 4, False), (0, 4, True), (1, 3, True), (None, None, True)],
)
def test_other_arguments_than_the_launcher_says_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    environment: dict[str, str],
    cur_shard: int | None,
    shard_count: int | None,
    warns: bool,
) -> None:
    launched(monkeypatch, environment)
    with caplog.at_level(logging.WARNING):
        warn_if_inconsistent(cur_shard, shard_count)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == warns
    for message in messages:
        assert "is not consistent with horovod environments" in message
        assert f"cur_shard({cur_shard}) and shard_count({shard_count})" in message
        assert next(iter(environment)) in message


@pytest.mark.parametrize(
    ("environment", "warns"),
    [
        ({}, False),
        ({"HOROVOD_RANK": "1"}, False),
        ({"HOROVOD_SIZE": "4", **PMI}, False),
        ({**HOROVOD, "OMPI_COMM_WORLD_RANK": "9", "OMPI_COMM_WORLD_SIZE": "9"}, False),
        ({**OPEN_MPI, "PMI_RANK": "9", "PMI_SIZE": "9"}, False),
        ({"HOROVOD_RANK": "9", "HOROVOD_SIZE": "9", **OPEN_MPI}, True),
    ],
    ids=["none", "half a pair", "half a pair ends the search", "first", "second", "first wins"],
)
def test_the_first_pair_of_variables_counts(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    environment: dict[str, str],
    warns: bool,
) -> None:
    launched(monkeypatch, environment)
    with caplog.at_level(logging.WARNING):
        warn_if_inconsistent(1, 4)
    assert len(caplog.records) == warns


@pytest.mark.parametrize("value", ["one", "", "1.0"])
def test_variables_that_are_no_integers_are_an_error(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    launched(monkeypatch, {**HOROVOD, "HOROVOD_RANK": value})
    with pytest.raises(InvalidArgumentError, match="must be integers") as caught:
        warn_if_inconsistent(1, 4)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
@pytest.mark.parametrize(
    ("arguments", "warnings"), [({}, 1), ({"cur_shard": 1, "shard_count": 4}, 0)], ids=str
)
def test_the_check_runs_when_a_loader_is_made(
    ten: SparkDatasetConverter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    make: str,
    arguments: dict[str, Any],
    warnings: int,
) -> None:
    launched(monkeypatch, HOROVOD)
    with caplog.at_level(logging.WARNING, "mdstorm"):
        getattr(ten, make)(**arguments)
    assert [r.name for r in caplog.records] == ["mdstorm.spark.spark_dataset_converter"] * warnings
