"""Fixtures shared by all test folders: the process's Spark session and its settings."""

import faulthandler
import gc
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.kit import refusing
from tests.kit.matrix import add_long_to_other_cases
from tests.kit.programs import free_port

# Every run uses the same examples, so that failures are reproducible. `make test-all` draws more
# and different examples; any that fail there are kept as `@example`. There is no deadline because
# a loaded machine would exceed it.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("repeatable")

#: A test that takes longer than this fails, and the run continues. If the test cannot be
#: interrupted, ``faulthandler_timeout`` ends the run later.
SECONDS_PER_TEST = int(os.environ.get("MDSTORM_TEST_SECONDS", "300"))

#: A classic session and a Spark Connect session cannot coexist in one process, so each pytest run
#: has only one of them. Either kind can be configured to refuse the calls that serverless compute
#: refuses, and also Python on the executors.
SESSION_KIND = os.environ.get("MDSTORM_TEST_SESSION", "classic")
SESSION_KINDS = (
    *("classic", "connect", "refusing", "refusing-connect"),
    *("refusing-python", "refusing-python-connect"),
)
IS_CONNECT = SESSION_KIND.endswith("connect")
IS_REFUSING = SESSION_KIND.startswith("refusing")

#: Mark for tests that run Python on executors, which some kinds of sessions refuse.
runs_python_on_executors = pytest.mark.skipif(
    "python" in SESSION_KIND, reason="runs Python on executors, which this session refuses"
)

#: Mark for tests that check values. One kind of session is enough in the short test run.
of_values = pytest.mark.long if IS_CONNECT else pytest.mark.spark_session

# Spark's driver and workers must run the same Python, even if pytest is started by hand.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
# JVMs that run for only a few minutes do not benefit from the optimizing compiler, and verifying
# Spark's classes takes a fifth of the time in which they start.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{_SHORT_LIVED} {_UNVERIFIED}")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", f"{_SHORT_LIVED} {_UNVERIFIED}")

_SPARK_CONF = {
    # Each partition is a task. Tests that need several tasks override this.
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
    pytest.fail(f"still running after {SECONDS_PER_TEST} s")


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(_within_limit)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(_within_limit)


#: Matches the source of test modules that use the session.
_NAMES_SESSION = re.compile(r'spark: |"spark"|\bspark_session\b|\bof_values\b')


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip modules without Spark tests if only Spark tests run, because importing is slow."""
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
            assert _NAMES_SESSION.search(item.path.read_text("utf-8")), f"{item} would be skipped"
            item.add_marker(pytest.mark.spark_session)
    add_long_to_other_cases(items)


#: Packages that Keras imports if they are installed, for what no test uses. Lightning needs them.
_OPTIONAL_FOR_KERAS = () if find_spec("lightning") else ("matplotlib", "sklearn")


def pytest_collection() -> None:
    # Imports create many objects that stay; visiting them takes a sixth of the time of importing.
    gc.disable()
    for name in _OPTIONAL_FOR_KERAS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # cannot be imported


def pytest_collection_finish() -> None:
    for name in _OPTIONAL_FOR_KERAS:
        if sys.modules[name] is None:
            del sys.modules[name]
    # Without this, each full garbage collection would visit all imported objects again.
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' cache separate from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MDSTORM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """Make SIGINT raise KeyboardInterrupt, even if pytest runs in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def often_switched() -> Iterator[None]:
    """Let threads run in turn as often as Python can, so that they meet in the middle of a step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="session")
def mounted_volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The mount point of a volume that behaves like a Databricks volume."""
    from tests.kit.servers.volume import MountedVolume

    try:
        volume = MountedVolume(tmp_path_factory.mktemp("mount"))
    except OSError as error:
        pytest.skip(f"needs root and FUSE ({error})")
    yield volume.path
    volume.close()


@pytest.fixture(params=["as a disk", "as a volume"])
def volume(request: Any, mounted_volume: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on the volume, treated as a local disk or as a path under ``/Volumes/``.

    Processes that Spark starts treat it as a local disk in both cases.
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
    """The process's session, of the kind set by MDSTORM_TEST_SESSION."""
    from pyspark.sql import SparkSession

    assert SESSION_KIND in SESSION_KINDS, f"MDSTORM_TEST_SESSION must be one of {SESSION_KINDS}"
    conf, port = dict(_SPARK_CONF), free_port()
    if IS_CONNECT:
        conf["spark.connect.grpc.binding.port"] = str(port)
    # JVM settings, which a Connect client cannot change later.
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
def refusing_spark(spark: Any) -> Iterator[Any]:
    """The process's session, which refuses what serverless compute refuses."""
    with nullcontext() if IS_REFUSING else refusing.refusing(connect=IS_CONNECT):
        yield spark


@pytest.fixture
def classic_spark(spark: Any) -> Iterator[Any]:
    """The classic session, for tests that inspect details that Spark Connect does not expose."""
    if IS_CONNECT:
        pytest.skip("needs the driver's JVM, which a Spark Connect client cannot reach")
    with refusing.lifted():
        yield spark


@pytest.fixture
def set_conf(spark: Any) -> Iterator[Callable[[str, str | None], None]]:
    """Set a session conf, or unset it with None, until the end of the test.

    If the session refuses the conf, tests that set it are skipped.
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
