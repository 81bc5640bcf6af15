"""`streaming.base.converters`, `distributed`, `util` and `world`: what programs take of them."""

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as T  # noqa: N812

from mdstorm_backend.streaming.base import distributed, util
from mdstorm_backend.streaming.base.compression import Gzip, Snappy, decompress
from mdstorm_backend.streaming.base.converters import infer_dataframe_schema, is_json_compatible
from mdstorm_backend.streaming.base.util import (
    bytes_to_int,
    number_abbrev_to_int,
    retry,
    wait_for_file_to_exist,
)
from mdstorm_backend.streaming.base.world import World


class Frame:
    """The part of a DataFrame that is looked at."""

    def __init__(self, **types: T.DataType) -> None:
        self.schema = T.StructType([T.StructField(n, t) for n, t in types.items()])


@pytest.mark.parametrize(
    ("data_type", "compatible"),
    [
        (T.MapType(T.StringType(), T.IntegerType()), True),
        (T.StructType([T.StructField("a", T.ArrayType(T.StringType()))]), True),
        (T.StructType([T.StructField("a", T.NullType())]), True),
        (T.ArrayType(T.LongType()), False),
        (T.BinaryType(), False),
        (T.DecimalType(8, 2), False),
    ],
)
def test_what_mosaicml_streaming_stores_as_json(data_type: T.DataType, compatible: bool) -> None:
    assert is_json_compatible(data_type) is compatible


def test_each_level_of_a_compression_can_be_tried() -> None:
    for name, compression in Gzip.each():
        assert decompress(name, compression.compress(b"acorns")) == b"acorns"
    assert [name for name, _ in Gzip.each()] == ["gz", *(f"gz:{level}" for level in range(10))]
    assert [name for name, _ in Snappy.each()] == ["snappy"]


def test_encodings_of_a_frame() -> None:
    frame: Any = Frame(
        id=T.LongType(), price=T.DecimalType(8, 2), tokens=T.ArrayType(T.IntegerType())
    )
    expected = {"id": "int64", "price": "str_decimal", "tokens": "ndarray:int32"}
    assert infer_dataframe_schema(frame) == expected
    assert infer_dataframe_schema(frame, {"id": "int64"}) is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"no": "int64"}, "'no' is not a column of input dataframe"),
        ({"text": "int64"}, "Mismatched types"),
        (None, "not supported by dataframe_to_mds"),
    ],
)
def test_what_cannot_be_stored_is_a_value_error(
    columns: dict[str, str] | None, message: str
) -> None:
    frame: Any = Frame(text=T.StringType(), odd=T.NullType())
    with pytest.raises(ValueError, match=message):
        infer_dataframe_schema(frame, columns)


@pytest.mark.parametrize("convert", [bytes_to_int, number_abbrev_to_int])
@pytest.mark.parametrize("text", ["", "12kbb", "k", "p 64", "inf k"])
def test_what_is_no_number_is_named(convert: object, text: str) -> None:
    with pytest.raises(ValueError, match="Unsupported value/suffix"):
        convert(text)  # type: ignore[operator]


def test_the_last_error_is_raised_after_all_attempts() -> None:
    errors = [OSError("first"), OSError("second"), OSError("third")]
    cleaned = []

    @retry([OSError, KeyError], lambda: cleaned.append(1), 2, 0.001, 0.001)
    def fails() -> None:
        raise errors.pop(0)

    with pytest.raises(OSError, match="second"):
        fails()
    assert (len(errors), len(cleaned)) == (1, 2)


def test_other_errors_are_not_tried_again() -> None:
    calls = []

    @retry(OSError, initial_backoff=0.001, max_jitter=0.001)
    def fails() -> None:
        calls.append(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert len(calls) == 1


def test_the_decorator_works_without_parentheses() -> None:
    @retry
    def answer() -> int:
        """Answer."""
        return 42

    assert (answer(), answer.__doc__) == (42, "Answer.")
    with pytest.raises(ValueError, match="num_attempts must be at-least 1"):
        retry(num_attempts=0)


def test_waiting_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    wait_for_file_to_exist(str(tmp_path / "here"), 0.001, 1, "absent")
    with pytest.raises(RuntimeError, match=r"^absent 0\.010 < 0\.0"):
        wait_for_file_to_exist(str(tmp_path / "gone"), 0.001, 0.01, "absent")


def test_cleaning_shared_memory_says_once_that_there_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    util.clean_stale_shared_memory.cache_clear()  # type: ignore[attr-defined]
    with caplog.at_level(logging.DEBUG):
        util.clean_stale_shared_memory()
        util.clean_stale_shared_memory()
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert "uses no shared memory" in caplog.text


def test_a_replication_that_does_not_divide_the_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match="replication"):
        World(num_nodes=2, ranks_per_node=4, workers_per_rank=2, worker=11).replicate(3)


def test_the_launcher_says_where_this_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4, "LOCAL_RANK": 1}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    world = World.detect()
    assert (world.rank, world.num_nodes, world.rank_of_node) == (5, 2, 1)
    assert distributed.get_local_rank() == 1


def test_objects_cannot_be_gathered_without_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert distributed.all_gather_object(5) == [5]
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="no process group"):
        distributed.all_gather_object(5)
