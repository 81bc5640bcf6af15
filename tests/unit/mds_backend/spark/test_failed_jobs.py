"""Failed jobs leave no files behind, and neither do failed task attempts."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.programs import SESSION, run_program

from mdstorm_backend.errors import (
    EncodingError,
    EncodingRangeError,
    InvalidArgumentError,
    WriteError,
)
from mdstorm_backend.spark.materialization import collect_reports, materialize
from mdstorm_backend.write import tasks


def failing_frame(spark: Any, target: Path) -> Any:
    """Two partitions of 500 rows; the second fails once the first has written a shard."""

    def fail_at_the_end(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 999 in batch.column(0).to_pylist():
                while not list(target.glob("*.mds")):
                    os.sched_yield()
                raise ValueError("row 999 is bad")

    return spark.range(0, 1000, 1, 2).mapInArrow(fail_at_the_end, "id long")


def test_failed_job_removes_its_files_and_keeps_other_files(spark: Any, target: Path) -> None:
    target.mkdir()
    (target / "part-00000.parquet").write_text("mine")
    with pytest.raises(Exception, match="row 999 is bad"):
        materialize(failing_frame(spark, target), str(target))
    assert [path.name for path in target.rglob("*")] == ["part-00000.parquet"]
    assert len(materialize(spark.range(3), str(target))) == 3


#: Values that MDS cannot hold, by the error of the task that writes them.
INVALID = {
    "array(CAST(IF(id = 2, unhex('FF'), unhex('61')) AS STRING))": EncodingError,
    "struct(IF(id = 2, date_add(DATE '9999-12-31', 1), DATE '2024-01-01') AS d)": (
        EncodingRangeError
    ),
}


@pytest.mark.parametrize("value", INVALID)
def test_invalid_value_fails_the_job_with_the_error_of_the_task(
    spark: Any, target: Path, value: str
) -> None:
    frame = spark.range(0, 4, 1, 1).selectExpr(f"{value} AS v")
    with pytest.raises(INVALID[value], match=r"^column 'v' has a value in row 2 that") as caught:
        materialize(frame, str(target))
    assert "Traceback" in str(caught.value.__cause__)
    assert not target.exists()


@pytest.mark.parametrize("reason", [ValueError("a bad row"), KeyboardInterrupt("stop")], ids=repr)
def test_job_error_is_raised_even_if_the_session_is_gone(reason: BaseException) -> None:
    def gone(*_: Any) -> str:
        raise ConnectionError("the session is gone")

    def fail() -> list[Any]:
        try:
            raise reason
        finally:
            if isinstance(reason, KeyboardInterrupt):
                gone()  # Spark's clean-up after Ctrl-C uses the session

    session = SimpleNamespace(conf=SimpleNamespace(get=gone))
    mapped: Any = SimpleNamespace(sparkSession=session, collect=fail)
    with pytest.raises(type(reason), match=str(reason)):
        collect_reports(mapped)


def test_failed_write_in_task_raises_write_error_with_its_cause(spark: Any) -> None:
    text = f"file:///x/{'a' * 500}.mds could not be written (No space left on device). Check it"

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise WriteError(text)

    with pytest.raises(WriteError) as caught:
        collect_reports(spark.range(1).mapInArrow(fail, "report string"))
    assert str(caught.value) == text
    assert text in str(caught.value.__cause__)


def test_error_of_a_users_function_stays_the_error_of_spark(spark: Any) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("mdstorm_backend.errors.WriteError: not an error of mdstorm")

    with pytest.raises(Exception, match="not an error of mdstorm") as caught:
        collect_reports(spark.range(1).mapInArrow(fail, "report string"))
    assert type(caught.value).__module__.startswith("pyspark.")


def test_destination_resembling_a_table_name_raises_error_before_the_job(spark: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'main\.sales\.orders' is a table name"):
        materialize(spark.range(3), "main.sales.orders")


def test_directory_that_cannot_be_created_raises_error_before_the_job(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=r"cannot be written to .* Choose a directory"):
        materialize(failing_frame(spark, tmp_path), f"{tmp_path}/file/dataset")


def test_shards_that_the_driver_cannot_see_raise_error(
    spark: Any, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_task = tasks.make_task

    def make_task_on_a_separate_disk(write: Any, job: dict[str, Any]) -> Any:
        write_shards, directory = make_task(write, job), str(target)

        def write_and_lose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pathlib import Path

            yield from write_shards(batches)
            for shard in Path(directory).glob("part-*"):
                shard.unlink(missing_ok=True)

        return write_and_lose

    monkeypatch.setattr(tasks, "make_task", make_task_on_a_separate_disk)
    with pytest.raises(WriteError, match=r"1 of 1 shards .* cannot be seen from here"):
        materialize(spark.range(0, 10, 1, 1), str(target))
    assert not target.exists()


NOT_INSTALLED = (
    SESSION
    + """
import sys
from mdstorm_backend import materialize

spark = builder.config("spark.executorEnv.PYTHONPATH", sys.argv[2]).getOrCreate()
try:
    materialize(spark.range(3), sys.argv[1])
except ImportError as error:
    print(error)
"""
)


@pytest.mark.long
def test_workers_without_pyarrow_raise_error_naming_the_python_to_use(tmp_path: Path) -> None:
    stand_in = tmp_path / "site" / "pyarrow.py"
    stand_in.parent.mkdir()
    stand_in.write_text("raise ModuleNotFoundError(\"No module named 'pyarrow'\")\n")
    output = run_program(NOT_INSTALLED, tmp_path / "dataset", stand_in.parent, cwd=tmp_path).stdout
    assert not (tmp_path / "dataset").exists()
    assert "has no pyarrow. Set the environment variable PYSPARK_PYTHON to /" in output
    assert "or activate its environment" in output
    assert len(output.splitlines()) == 1
