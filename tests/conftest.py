"""Fixtures for tests in all folders: the Spark session of the process, and its settings."""

import faulthandler
import gc
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests import refusing
from tests.programs import free_port

# Every run uses the same examples, so that failures can be reproduced. `make test-all` draws more
# and different examples; one that fails there is kept as an `@example`. There is no time limit,
# because a loaded machine would exceed it.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("repeatable")

#: After this many seconds a test fails, and the next one runs. If the test cannot be interrupted,
#: ``faulthandler_timeout`` ends the run later.
SECONDS_PER_TEST = int(os.environ.get("MDSTORM_TEST_SECONDS", "300"))

#: A classic session and a Spark Connect session cannot coexist in one process: each run of pytest
#: has one. Either kind can be configured to refuse the calls that serverless compute refuses, and
#: Python on the executors as well.
SESSION_KIND = os.environ.get("MDSTORM_TEST_SESSION", "classic")
SESSION_KINDS = (
    *("classic", "connect", "refusing", "refusing-connect"),
    *("refusing-python", "refusing-python-connect"),
)
IS_CONNECT = SESSION_KIND.endswith("connect")
IS_REFUSING = SESSION_KIND.startswith("refusing")

#: For tests that run Python on executors, which some kinds of sessions refuse.
runs_python_on_executors = pytest.mark.skipif(
    "python" in SESSION_KIND, reason="runs Python on executors, which this session refuses"
)

#: For tests of values: in the short tests, one kind of session is enough.
of_values = pytest.mark.long if IS_CONNECT else pytest.mark.spark_session

# Spark's driver and workers must run the same Python, even if pytest is started by hand.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
# JVMs that run for some minutes do not benefit from the optimizing compiler.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_SPARK_CONF = {
    # Each partition is a task; tests that need several set the number.
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def _within_limit() -> Generator[None, Any, Any]:
    signal.signal(signal.SIGALRM, _end_test)
    signal.alarm(SECONDS_PER_TEST)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def _end_test(*_: object) -> None:
    faulthandler.dump_traceback(sys.__stderr__)
    pytest.fail(f"has not ended after {SECONDS_PER_TEST} s")


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(_within_limit)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(_within_limit)


#: Matches the text of modules whose tests use the session.
_NAMES_SESSION = re.compile(r'spark: |"spark"|\bspark_session\b|\bof_values\b')


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """If only tests with a session run, skip modules without it: importing them is slow."""
    leaves_out = config.option.markexpr.startswith("spark_session") and collection_path.match(
        "test_*.py"
    )
    if leaves_out and not _NAMES_SESSION.search(collection_path.read_text("utf-8")):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            assert _NAMES_SESSION.search(item.path.read_text("utf-8")), f"{item}: would be left out"
            item.add_marker(pytest.mark.spark_session)


def pytest_collection_finish() -> None:
    # Without this, each full garbage collection would visit all imported objects again.
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' cache separate from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MDSTORM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """Make SIGINT raise KeyboardInterrupt, even in a background process of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def mounted_volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The mount point of a volume that behaves like Databricks'."""
    from tests.servers.volume import MountedVolume

    try:
        volume = MountedVolume(tmp_path_factory.mktemp("mount"))
    except OSError as error:
        pytest.skip(f"needs root and FUSE ({error})")
    yield volume.path
    volume.close()


@pytest.fixture(params=["as a disk", "as a volume"])
def volume(request: Any, mounted_volume: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on the volume, under an ordinary path, and under a path below ``/Volumes/``.

    Processes that Spark starts take it for a disk in both cases.
    """
    from mdstorm_backend.storage import urls

    if request.param == "as a volume":
        prefixes = (*urls.FUSE_PREFIXES, f"{mounted_volume}/")
        monkeypatch.setattr(urls, "FUSE_PREFIXES", prefixes)
    directory = mounted_volume / uuid.uuid4().hex
    directory.mkdir()
    return directory


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session of this process, of the kind that MDSTORM_TEST_SESSION names."""
    from pyspark.sql import SparkSession

    assert SESSION_KIND in SESSION_KINDS, f"MDSTORM_TEST_SESSION is one of {SESSION_KINDS}"
    conf, port = dict(_SPARK_CONF), free_port()
    if IS_CONNECT:
        conf["spark.connect.grpc.binding.port"] = str(port)
    # Settings of the JVM, which a Connect client cannot change later.
    options = " ".join(f"--conf {key}={value}" for key, value in conf.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{options} pyspark-shell"
    builder = SparkSession.builder.appName("mdstorm tests")
    with ExitStack() as stack:
        if IS_CONNECT:
            from pyspark.sql.connect.client.core import DefaultChannelBuilder

            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(DefaultChannelBuilder, "default_port", lambda: port)
            session = builder.remote("local[2]").getOrCreate()
        else:
            session = builder.master("local[2]").getOrCreate()
        if IS_REFUSING:
            stack.enter_context(refusing.refusing(connect=IS_CONNECT))
        if "python" in SESSION_KIND:
            stack.enter_context(refusing.without_python_on_executors(connect=IS_CONNECT))
        yield session
    session.stop()


@pytest.fixture
def classic_spark(spark: Any) -> Iterator[Any]:
    """The classic session, for tests that inspect details which Spark Connect does not show."""
    if IS_CONNECT:
        pytest.skip("needs the driver's JVM, which a Spark Connect client cannot reach")
    with refusing.lifted():
        yield spark


@pytest.fixture
def set_conf(spark: Any) -> Iterator[Callable[[str, str | None], None]]:
    """Set (or unset, with None) a conf of the session until the end of the test.

    Where the session refuses the conf, it is never set, and tests that set it are skipped.
    """
    before: dict[str, str | None] = {}

    def apply(key: str, value: str | None) -> None:
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)

    def set_(key: str, value: str | None) -> None:
        if IS_REFUSING and key not in refusing.AVAILABLE_CONF:
            if value is not None:
                pytest.skip(f"sets the conf {key}, which this session refuses")
            return
        before.setdefault(key, spark.conf.get(key, None))
        apply(key, value)

    yield set_
    for key, value in before.items():
        apply(key, value)
