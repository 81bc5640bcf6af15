"""Checking that executors and the driver can write to a directory, and reporting failures."""

import re
import socket
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import IS_CONNECT
from tests.kit import refusing
from tests.unit.mds_backend.format.own_classes import Words

from mdstorm_backend import errors, register_encoding
from mdstorm_backend.format.encodings.registry import unregister_encoding
from mdstorm_backend.spark.materialization import check_driver_writes, why_not_writable
from mdstorm_backend.storage import Location


def failing(error: BaseException) -> Any:
    """A session whose jobs fail."""

    def fail(*args: Any) -> Any:
        raise error

    return SimpleNamespace(range=lambda *numbers: SimpleNamespace(mapInArrow=fail))


def location_of(path: Path) -> Location:
    return Location.of(f"file://{path}")


@pytest.mark.parametrize(
    "error",
    [refusing.refusal("UNSUPPORTED_FEATURE", "no Python"), TimeoutError("no executor in 600 s")],
    ids=["refused", "timeout"],
)
def test_reason_states_the_error_of_a_failed_probe_job(tmp_path: Path, error: Exception) -> None:
    reason = why_not_writable(failing(error), location_of(tmp_path))
    assert type(error).__name__ in reason
    assert "\n" not in reason
    assert list(tmp_path.iterdir()) == []


def test_reason_states_that_the_driver_cannot_see_the_probe_file(tmp_path: Path) -> None:
    job = SimpleNamespace(collect=lambda: [{"report": ""}])  # as if on the executor's own disk
    session: Any = SimpleNamespace(range=lambda *_: SimpleNamespace(mapInArrow=lambda *_: job))
    reason = why_not_writable(session, location_of(tmp_path))
    assert reason == "the driver cannot see the file that an executor wrote there"


def test_ctrl_c_during_the_probe_raises_keyboard_interrupt(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        why_not_writable(failing(KeyboardInterrupt()), location_of(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_reason_states_that_the_session_rejects_python(spark: Any, tmp_path: Path) -> None:
    with refusing.without_python_on_executors(connect=IS_CONNECT):
        reason = why_not_writable(spark, location_of(tmp_path))
    assert reason == (
        "AnalysisException: [NOT_SUPPORTED_WITH_SERVERLESS] DataFrame.mapInArrow is not supported "
        "on serverless compute. SQLSTATE: 0A000"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def own_encoding() -> Iterator[None]:
    """An encoding that only the driver can import; jobs send it to executors."""
    register_encoding("own", Words)
    yield
    unregister_encoding("own")


@pytest.mark.usefixtures("own_encoding")
def test_workers_without_mdstorm_raise_error_naming_a_worker(
    classic_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "absent"
    package = absent / "mdstorm_backend"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('no mdstorm here')\n")
    environment = classic_spark.sparkContext.environment
    monkeypatch.setitem(environment, "PYTHONPATH", str(absent))
    worker = re.escape(socket.gethostname())
    message = rf"imported on the Spark worker {worker} \(no mdst.*Install it on the workers"
    with pytest.raises(errors.MissingDependencyError, match=message):
        why_not_writable(classic_spark, location_of(tmp_path / "cache"))
    assert list((tmp_path / "cache").iterdir()) == []


def check_short(error: BaseException) -> None:
    """Check that the traceback only shows the driver's own error."""
    shown = "".join(traceback.format_exception(error))
    assert error.__cause__ is None
    assert "direct cause" not in shown
    assert "During handling" not in shown
    assert "java" not in shown


def never(*numbers: int) -> Any:
    raise AssertionError("a job was run")


IDLE: Any = SimpleNamespace(range=never)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(PermissionError, errors.CredentialsError), (OSError, errors.StorageError)],
)
def test_store_error_is_raised_if_the_driver_cannot_write(
    monkeypatch: pytest.MonkeyPatch, raised: type[Exception], expected: type[Exception]
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise raised("not today")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.pipe_file", fail)
    for check in (check_driver_writes, partial(why_not_writable, IDLE)):
        with pytest.raises(expected, match="not today") as caught:
            check(Location.of("memory://cache"))
        check_short(caught.value)


def test_write_error_is_raised_if_the_driver_cannot_write_to_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.WriteError, match=r"file cannot be written to .*Choose a") as caught:
        why_not_writable(IDLE, location_of(tmp_path / "file"))
    check_short(caught.value)
