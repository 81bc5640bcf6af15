"""Configuration is read and set as far as a session allows it."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.refusing import refusal

from mdstorm_backend.spark import is_local, read_conf, session_conf
from mdstorm_backend.spark.sessions import is_refusal, short_reason

PYTHON_IN_JAVA = """An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "/x/executor.py", line 62, in write_shards
ModuleNotFoundError: No module named 'mdstorm_backend'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/executor.py", line 65, in write_shards
ImportError: mdstorm cannot be imported on a Spark worker (No module named 'mdstorm_backend')

JVM stacktrace:
org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2856)
"""


class Conf(dict[str, str]):
    """The configuration of a session that refuses what begins with ``no``."""

    failure: Exception = refusal("CONFIG_NOT_AVAILABLE", "Configuration no is not available.")

    def check(self, key: str) -> None:
        if key.startswith("no"):
            raise self.failure

    def get(self, key: str, default: Any = None) -> Any:
        self.check(key)
        return super().get(key, default)

    def set(self, key: str, value: str) -> None:
        self.check(key)
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]


class LostConf(Conf):
    failure = ConnectionError("connection refused")


def session(conf: Conf) -> Any:
    return SimpleNamespace(conf=conf)


def test_what_is_refused_counts_as_not_set() -> None:
    conf = session(Conf({"yes": "1"}))
    assert [read_conf(conf, key) for key in ("yes", "other", "no")] == ["1", None, None]


@pytest.mark.parametrize("nothing", [None, object(), MagicMock()], ids=["None", "other", "mock"])
def test_what_is_no_session_has_no_configuration(nothing: Any) -> None:
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
def test_local_executors_are_on_the_disk_of_this_process(
    monkeypatch: pytest.MonkeyPatch, master: str, kind: str, started_here: bool, expected: bool
) -> None:
    class Session(SimpleNamespace):
        __module__ = f"pyspark.sql.{kind}.session"

    monkeypatch.delenv("SPARK_LOCAL_REMOTE", raising=False)
    if started_here:
        monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    assert is_local(Session(conf=Conf({"spark.master": master}))) is expected


def test_a_lost_connection_is_not_a_value_that_is_not_set() -> None:
    with pytest.raises(ConnectionError):
        read_conf(session(LostConf()), "no")
    with pytest.raises(ConnectionError), session_conf(session(LostConf()), {"no": "1"}):
        pytest.fail("the block was run")


def test_what_can_be_set_is_set_and_restored() -> None:
    conf = Conf({"a": "1", "other": "2"})
    with session_conf(session(conf), {"a": "3", "no": "4", "b": "5"}) as refused:
        assert refused == {"no"}
        assert conf == {"a": "3", "b": "5", "other": "2"}
    assert conf == {"a": "1", "other": "2"}
    with pytest.raises(KeyboardInterrupt), session_conf(session(conf), {"a": "3"}):
        raise KeyboardInterrupt
    assert conf == {"a": "1", "other": "2"}


def test_a_session_that_is_gone_does_not_hide_why(caplog: pytest.LogCaptureFixture) -> None:
    class GoneConf(Conf):
        is_gone = False

        def check(self, key: str) -> None:
            if self.is_gone:
                raise ConnectionError("connection refused")

        def unset(self, key: str) -> None:
            self.check(key)

        def fail(self) -> None:
            self.is_gone = True
            raise KeyError("job")

    conf = GoneConf({"a": "1"})
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
def test_refusals_are_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_refusal(error) is expected


@pytest.mark.parametrize("key", ["spark.sql.warehouse.dir", "spark.sql.extensions"])
def test_spark_itself_refuses_static_configuration(spark: Any, key: str) -> None:
    with session_conf(spark, {key: "x"}) as refused:
        assert refused == {key}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            RuntimeError(PYTHON_IN_JAVA),
            "ImportError: mdstorm cannot be imported on a Spark worker "
            "(No module named 'mdstorm_backend')",
        ),
        (
            RuntimeError(
                "An error occurred while calling o1.x.\n: java.lang.IOException: no\n\tat x"
            ),
            "RuntimeError: java.lang.IOException: no",
        ),
        (TimeoutError(), "TimeoutError: "),
    ],
    ids=["python in java", "java", "no text"],
)
def test_an_error_is_told_in_one_line(error: Exception, reason: str) -> None:
    assert short_reason(error) == reason
