"""How sessions start, which settings they allow, their batch sizes, and their errors."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.kit.refusing import refusal
from tests.kit.small_datasets import array_of, plan, struct_of

from mdstorm_backend.spark import is_local, materialize, read_conf, session_conf, start_session
from mdstorm_backend.spark.refusals import is_refusal, short_reason
from mdstorm_backend.spark.sessions import sized_arrow_batches

CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"

RAISED = "ImportError: mdstorm cannot be imported on a Spark worker (No module named 'mdstorm')"
PYTHON_IN_JAVA = f"""An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "/x/executor.py", line 62, in write_shards
ModuleNotFoundError: No module named 'mdstorm_backend'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/executor.py", line 65, in write_shards
{RAISED}

JVM stacktrace:
org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2856)
"""


class Conf(dict[str, str]):
    """A session configuration that rejects keys beginning with ``no``."""

    failure: Exception = refusal("CONFIG_NOT_AVAILABLE", "Configuration no is not available.")
    refused = "no"

    def check(self, key: str) -> None:
        if key.startswith(self.refused):
            raise self.failure

    def get(self, key: str, default: Any = None) -> Any:
        self.check(key)
        return super().get(key, default)

    def set(self, key: str, value: str) -> None:
        self.check(key)
        self[key] = value

    def unset(self, key: str) -> None:
        self.check(key)
        del self[key]

    def fail(self) -> None:
        """Lose the connection while a job fails."""
        self.refused, self.failure = "", ConnectionError("connection refused")
        raise KeyError("job")


def session(conf: Conf) -> Any:
    return SimpleNamespace(conf=conf)


def test_conf_that_the_session_refuses_to_read_counts_as_unset() -> None:
    conf = session(Conf({"yes": "1"}))
    assert [read_conf(conf, key) for key in ("yes", "other", "no")] == ["1", None, None]


@pytest.mark.parametrize("nothing", [None, object(), MagicMock()], ids=["None", "other", "mock"])
def test_conf_of_a_non_session_object_is_none(nothing: Any) -> None:
    assert read_conf(nothing, "spark.master") is None
    assert not is_local(nothing)


@pytest.mark.parametrize(
    ("master", "kind", "started_here", "expected"),
    [
        ("local[2]", "classic", False, True),
        ("LOCAL", "classic", False, True),
        ("spark://host:7077", "classic", False, False),
        ("local[2]", "connect", True, True),
        ("local[2]", "connect", False, False),
    ],
)
def test_session_counts_as_local_if_its_executors_run_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, master: str, kind: str, started_here: bool, expected: bool
) -> None:
    class Session(SimpleNamespace):
        __module__ = f"pyspark.sql.{kind}.session"

    monkeypatch.delenv("SPARK_LOCAL_REMOTE", raising=False)
    if started_here:
        monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    assert is_local(Session(conf=Conf({"spark.master": master}))) is expected


def test_lost_connection_raises_error_instead_of_counting_as_an_unset_conf() -> None:
    conf = Conf()
    conf.failure = ConnectionError("connection refused")
    with pytest.raises(ConnectionError):
        read_conf(session(conf), "no")
    with pytest.raises(ConnectionError), session_conf(session(conf), {"no": "1"}):
        pytest.fail("the block was run")


def test_conf_is_set_within_the_block_and_restored_afterwards() -> None:
    conf = Conf({"a": "1", "other": "2"})
    with session_conf(session(conf), {"a": "3", "no": "4", "b": "5"}) as refused:
        assert refused == {"no"}
        assert conf == {"a": "3", "b": "5", "other": "2"}
    assert conf == {"a": "1", "other": "2"}
    with pytest.raises(KeyboardInterrupt), session_conf(session(conf), {"a": "3"}):
        raise KeyboardInterrupt
    assert conf == {"a": "1", "other": "2"}


def test_error_within_the_block_is_raised_even_if_the_session_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf = Conf({"a": "1"})
    with pytest.raises(KeyError, match="job"), session_conf(session(conf), {"a": "2", "b": "3"}):
        conf.fail()
    assert sorted(caplog.messages) == [
        "the conf a could not be restored to '1' (ConnectionError: connection refused)",
        "the conf b could not be restored to None (ConnectionError: connection refused)",
    ]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal("CONFIG_NOT_AVAILABLE", "x"), True),
        (refusal("CONFIG_NOT_AVAILABLE.NOT_IN_LIST", "x"), True),
        (refusal("JVM_ATTRIBUTE_NOT_SUPPORTED", "x", "PySparkAttributeError"), True),
        (Exception("(org.x.AnalysisException) [CONFIG_NOT_AVAILABLE] Configuration x"), True),
        (Exception("py4j.security.Py4JSecurityException: Method is not whitelisted"), True),
        (Exception("Cannot modify the value of a Spark config: spark.app.id"), True),
        (refusal("INSUFFICIENT_PERMISSIONS", "User does not have permission"), True),
        (refusal("", "[CONFIG_NOT_AVAILABLE] Configuration x is not available"), True),
        (refusal("TABLE_OR_VIEW_NOT_FOUND", "x"), False),
        (refusal("INVALID_CONF_VALUE.TYPE_MISMATCH", "[CONFIG_NOT_AVAILABLE]"), False),
        (ConnectionError("Connection refused"), False),
        (ValueError(), False),
    ],
    ids=str,
)
def test_conf_refusals_are_distinguished_from_other_errors(
    error: Exception, expected: bool
) -> None:
    assert is_refusal(error) is expected


@pytest.mark.parametrize("key", ["spark.sql.warehouse.dir", "spark.sql.extensions"])
def test_spark_itself_rejects_static_configuration(spark: Any, key: str) -> None:
    with session_conf(spark, {key: "x"}) as refused:
        assert refused == {key}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError(PYTHON_IN_JAVA), RAISED),
        (RuntimeError("An error occurred while calling o1.x.\n: java.E: no\n\tat x"),
         "RuntimeError: java.E: no"),
        (TimeoutError(), "TimeoutError: "),
    ],
    ids=["python in java", "java", "no text"],
)  # fmt: skip
def test_short_error_reason_is_one_line(error: Exception, reason: str) -> None:
    assert short_reason(error) == reason


@pytest.mark.parametrize(
    ("types", "rows"),
    [(["long", "decimal(38,0)"], 10_000), (["string"], 512), ([array_of("double")], 512),
     ([array_of("string")], 512), ([struct_of(a="long")], 512), (["long", "binary"], 128)],
    ids=str,
)  # fmt: skip
def test_widest_column_limits_the_rows_per_batch(types: list[Any], rows: int) -> None:
    conf = Conf()
    with sized_arrow_batches(session(conf), plan({f"c{i}": t for i, t in enumerate(types)})):
        assert conf == {CONF: str(rows)}
    assert conf == {}


@pytest.mark.parametrize(
    ("before", "inside"),
    [(None, "128"), ("5000", "128"), ("128", "128"), ("7", "7"), ("0", "128"), ("-1", "128")],
)
def test_batch_size_is_lowered_and_restored(before: str | None, inside: str) -> None:
    conf = Conf() if before is None else Conf({CONF: before})
    with sized_arrow_batches(session(conf), plan({"x": "binary"})):
        assert conf[CONF] == inside
    assert conf.get(CONF) == before


@pytest.mark.spark_session
@pytest.mark.parametrize("session", ["spark", "refusing_spark"])
def test_all_rows_arrive_in_batches_of_any_size(
    session: str, request: pytest.FixtureRequest, target: Path
) -> None:
    """If the session rejects the setting, the first batch has 10,000 rows instead of 128."""
    df = (
        request.getfixturevalue(session)
        .range(0, 10_500, 1, 1)
        .selectExpr("CAST(id AS STRING) AS x", "X'00' AS y")
    )
    assert materialize(df, str(target)).to_table().column("x").to_pylist() == [
        str(i) for i in range(10_500)
    ]


@pytest.mark.long
def test_large_binaries_exceeding_one_arrow_batch_are_written(spark: Any, tmp_path: Path) -> None:
    """Without smaller batches, the first batch would be 2.5 GB, which crashes Spark 3.5."""
    rows, size = 10_500, 250_000
    df = spark.range(0, rows, 1, 1).selectExpr(f"CAST(repeat('x', {size}) AS BINARY) AS x")
    target = tmp_path / "dataset"
    try:
        dataset = materialize(df, str(target), shard_size=1 << 28)
        assert len(dataset) == rows
        assert dataset.nbytes > rows * size
        assert dataset[rows - 1]["x"] == b"x" * size
    finally:
        shutil.rmtree(target, ignore_errors=True)


def test_restricted_session_rejects_configuration_and_the_jvm(
    refusing_spark: Any, set_conf: Any
) -> None:
    spark = refusing_spark
    for call in (lambda: spark.conf.get(CONF, "default"), lambda: spark.conf.set(CONF, "1")):
        with pytest.raises(Exception, match=r"^\[CONFIG_NOT_AVAILABLE\] Configuration"):
            call()
    assert read_conf(spark, CONF) is None
    for name in ("sparkContext", "_jvm", "_jsparkSession", "_jsc"):
        assert not hasattr(spark, name)
    for call in (spark.range(1).cache, lambda: spark.catalog.cacheTable("x")):
        with pytest.raises(Exception, match=r"^\[NOT_SUPPORTED_WITH_SERVERLESS\]"):
            call()
    set_conf("spark.sql.session.timeZone", "Asia/Tokyo")  # an allowed setting
    assert read_conf(spark, "spark.sql.session.timeZone") == "Asia/Tokyo"


@pytest.mark.long
@pytest.mark.parametrize("is_there", [True, False])
def test_missing_or_unusable_java_raises_error_naming_java(is_there: bool, tmp_path: Path) -> None:
    java = tmp_path / "home" / "bin" / "java"
    if is_there:
        java.parent.mkdir(parents=True)
        java.write_text("#!/bin/sh\nexit 1\n")
        java.chmod(0o755)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAVA", "SPARK", "PYSPARK_GATEWAY"))
    }
    done = subprocess.run(
        [sys.executable, "-c", "from mdstorm_backend.spark import start_session; start_session()"],
        env={**kept, "JAVA_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert "MissingDependencyError: Spark could not start Java" in last
    assert "Spark 4 needs Java 17" in last
    assert "Install Java 17" in last


def test_error_of_session_that_is_not_about_java_is_kept() -> None:
    builder = MagicMock()
    builder.getOrCreate.side_effect = RuntimeError("no such master")
    with pytest.raises(RuntimeError, match="no such master"):
        start_session(builder)
