"""What is broken is named, each with its remedy, and nothing else is reported as broken."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.compat.doctor.setups import Setup
from tests.servers.s3 import BUCKET, S3Server

import mdstorm

pytestmark = pytest.mark.newest


class Broken(NamedTuple):
    """One thing that is broken, and what is said of it."""

    arrange: Callable[[Setup], object]
    check: str
    found: str
    remedy: str
    options: tuple[str, ...] = ()


def java(version: str) -> Callable[[Setup], object]:
    def arrange(setup: Setup) -> None:
        setup.variables.pop("JAVA_HOME", None)
        setup.program("java", f"echo 'openjdk version \"{version}\"' >&2")

    return arrange


def without_java(setup: Setup) -> None:
    setup.variables.pop("JAVA_HOME", None)
    setup.set(PATH=setup.programs)


def worker(script: str) -> Callable[[Setup], object]:
    return lambda setup: setup.set(PYSPARK_PYTHON=setup.program("other", script))


def other_mdstorm(setup: Setup) -> None:
    package = setup.root / "older" / "mdstorm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.0.9"\n')
    path = f"{package.parent}:{setup.variables['PYTHONPATH']}"
    script = f'PYTHONPATH={path} exec {sys.executable} -S "$@"'
    setup.set(PYSPARK_PYTHON=setup.program("other", script))


def gpu(torch: str) -> Callable[[Setup], object]:
    def arrange(setup: Setup) -> None:
        setup.program("nvidia-smi", "echo NVIDIA H100")
        setup.add("torch", torch)

    return arrange


def spark_home(setup: Setup) -> None:
    jars = setup.root / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core_2.12-3.3.1.jar").touch()
    setup.set(SPARK_HOME=jars.parent)


def file_in_the_way(setup: Setup) -> None:
    (setup.root / "shards").write_text("a file")


def linked_cache(setup: Setup) -> None:
    setup.variables.pop("MDSTORM_CACHE_DIR")
    setup.set(TMPDIR=setup.root)
    (setup.root / f"mdstorm-cache-{os.getuid()}").symlink_to(setup.directory)


QUICK = "--no-round-trip"
SHARED = ("--cache-dir", "file:///tmp", QUICK)

BROKEN = {
    "no Java": Broken(
        without_java, "java", "there is no java on the PATH", "install Java 17", SHARED
    ),
    "JAVA_HOME without Java": Broken(
        lambda setup: setup.set(JAVA_HOME=setup.root),
        "java",
        "has no bin/java",
        "let JAVA_HOME name its directory",
    ),
    "Java 8 for Spark 4": Broken(
        lambda s: (java("1.8.0_392")(s), s.add("pyspark", "4.0.0")),
        "java",
        "is Java 8, for pyspark 4.0.0, which needs 17",
        "install Java 17",
    ),
    "PYSPARK_PYTHON that is not there": Broken(
        lambda setup: setup.set(PYSPARK_PYTHON="/nowhere/python"),
        "workers",
        "PYSPARK_PYTHON=/nowhere/python is not a program here",
        f"export PYSPARK_PYTHON={sys.executable}",
    ),
    "PYSPARK_PYTHON of an older version": Broken(
        worker("""echo '{"python": [3, 1]}'"""),
        "workers",
        "is Python 3.1, and this one is",
        "export PYSPARK_PYTHON=",
    ),
    "PYSPARK_PYTHON of a newer version": Broken(
        worker("""echo '{"python": [3, 99]}'"""), "workers", "is Python 3.99, and this", "export"
    ),
    "PYSPARK_PYTHON without mdstorm": Broken(
        worker(f'exec {sys.executable} -S -E "$@"'),
        "workers",
        "cannot import mdstorm: ModuleNotFoundError: No module named 'mdstorm'",
        "-m pip install mdstorm",
    ),
    "PYSPARK_PYTHON with another mdstorm": Broken(
        other_mdstorm,
        "workers",
        f"has mdstorm 0.0.9, and this is {mdstorm.__version__}",
        "install the same version there",
    ),
    "PYSPARK_PYTHON that is no Python": Broken(
        worker("echo hello"), "workers", "does not run as a Python", "export PYSPARK_PYTHON="
    ),
    "SPARK_HOME of another version": Broken(
        spark_home, "spark", "has Spark 3.3.1, and pyspark is", "unset SPARK_HOME"
    ),
    "SPARK_HOME without Spark": Broken(
        lambda setup: setup.set(SPARK_HOME="/nowhere"),
        "spark",
        "SPARK_HOME=/nowhere holds no Spark",
        "unset SPARK_HOME",
    ),
    "no pyspark": Broken(
        lambda setup: setup.remove("pyspark"),
        "libraries",
        "pyspark is not installed, which mdstorm[spark] needs",
        'pip install "mdstorm[spark]"',
        SHARED,
    ),
    "old pandas": Broken(
        lambda setup: setup.add("pandas", "1.3.5"),
        "libraries",
        "pandas 1.3.5 is installed, and mdstorm[spark] needs pandas>=",
        'pip install "pandas>=',
    ),
    "old NumPy": Broken(
        lambda setup: setup.add("numpy", "1.21.0"),
        "libraries",
        "numpy 1.21.0 is installed, and mdstorm needs numpy>=",
        'pip install "numpy>=',
    ),
    "NumPy 2 with a torch for NumPy 1": Broken(
        lambda s: (s.add("torch", "2.1.2"), s.add("numpy", "2.1.0")),
        "libraries",
        "torch 2.1.2 was built for NumPy 1, and NumPy 2.1.0 is installed",
        '"numpy<2"',
    ),
    "s3fs that needs another fsspec": Broken(
        lambda s: s.add("s3fs", "2026.1.0", "fsspec==2026.1.0"),
        "libraries",
        "s3fs 2026.1.0 needs fsspec==2026.1.0",
        'pip install "fsspec==2026.1.0"',
    ),
    "databricks-connect beside pyspark": Broken(
        lambda setup: setup.add("databricks_connect", "15.4.0"),
        "libraries",
        "databricks-connect and pyspark are both installed",
        "pip uninstall -y pyspark databricks-connect",
    ),
    "two versions of mdstorm": Broken(
        lambda setup: setup.add_beside("mdstorm", "0.0.9"),
        "mdstorm",
        "two versions are installed",
        "pip uninstall mdstorm",
    ),
    "a file that hides a library": Broken(
        lambda setup: (setup.directory / "pyspark.py").touch(),
        "mdstorm",
        "pyspark.py hides the library pyspark",
        "rename it",
    ),
    "torch without the GPU that is there": Broken(
        gpu("2.9.0+cpu"), "gpu", "torch 2.9.0+cpu was built without CUDA", "pip uninstall -y torch"
    ),
    "a rank without a world": Broken(
        lambda setup: setup.set(RANK=1), "launcher", "WORLD_SIZE is not set", "set both"
    ),
    "a host without an address": Broken(
        lambda s: s.set(RANK=0, WORLD_SIZE=2, MASTER_ADDR="no-such-host.invalid"),
        "launcher",
        "MASTER_ADDR=no-such-host.invalid has no address here",
        "all hosts can resolve",
    ),
    "a cache of shards that is a file": Broken(
        file_in_the_way, "cache", "Not a directory", "MDSTORM_CACHE_DIR"
    ),
    "a cache of shards that is a link": Broken(
        linked_cache, "cache", "is a link, or another user", "MDSTORM_CACHE_DIR"
    ),
    "a cache of shards that is read-only": Broken(
        lambda setup: setup.set(MDSTORM_CACHE_DIR="/proc/shards"),
        "cache",
        "/proc/shards cannot be written to",
        "MDSTORM_CACHE_DIR",
    ),
    "a directory that one host has": Broken(
        lambda s: s.set(RANK=0, WORLD_SIZE=2, LOCAL_WORLD_SIZE=1),
        "cache-dir",
        "/tmp is on a disk of this machine, and the job has 2 hosts",
        "use a store or a mount that all of them see",
        SHARED,
    ),
    "a directory of the driver on Databricks": Broken(
        lambda s: s.set(
            DATABRICKS_RUNTIME_VERSION="15.4", MDSTORM_PARENT_CACHE_DIR_URL="file:///tmp"
        ),
        "cache-dir",
        "/tmp is on a disk of this machine",
        "dbfs:/",
    ),
    "a directory without a scheme": Broken(
        lambda setup: None,
        "cache-dir",
        "ERROR! A scheme-less directory url",
        "",
        ("--cache-dir", "/tmp"),
    ),
    "a directory that cannot be written to": Broken(
        lambda setup: None,
        "cache-dir",
        "file:///proc/cache cannot be written to",
        "",
        ("--cache-dir", "file:///proc/cache"),
    ),
    "a scheme that is not known": Broken(
        lambda setup: None,
        "cache-dir",
        "'ftpx://a/b' cannot be opened",
        "use file:///…",
        ("--cache-dir", "ftpx://a/b"),
    ),
    "no library for S3": Broken(
        lambda setup: setup.remove("s3fs"),
        "cache-dir",
        "needs a library for s3: URLs",
        'pip install "mdstorm[s3]"',
        ("--cache-dir", "s3://bucket/x"),
    ),
    "a store that cannot be reached": Broken(
        lambda setup: setup.set(AWS_ENDPOINT_URL="http://127.0.0.1:1"),
        "cache-dir",
        "http://127.0.0.1:1 cannot be reached",
        "Check the URL, the network",
        ("--cache-dir", "s3://bucket/x"),
    ),
}


#: What can be broken at once, since none of it hides another; anything else is broken alone.
TOGETHER = [
    (
        "no Java",
        "PYSPARK_PYTHON of a newer version",
        "old pandas",
        "a cache of shards that is a file",
    ),
    (
        "JAVA_HOME without Java",
        "old NumPy",
        "a file that hides a library",
        "a cache of shards that is read-only",
    ),
    (
        "Java 8 for Spark 4",
        "PYSPARK_PYTHON that is not there",
        "no library for S3",
        "a cache of shards that is a link",
    ),
    (
        "PYSPARK_PYTHON of an older version",
        "SPARK_HOME of another version",
        "a rank without a world",
        "a scheme that is not known",
    ),
    ("PYSPARK_PYTHON without mdstorm", "SPARK_HOME without Spark", "a directory without a scheme"),
    (
        "PYSPARK_PYTHON with another mdstorm",
        "torch without the GPU that is there",
        "a store that cannot be reached",
    ),
    (
        "PYSPARK_PYTHON that is no Python",
        "NumPy 2 with a torch for NumPy 1",
        "s3fs that needs another fsspec",
        "a directory that cannot be written to",
    ),
    (
        "databricks-connect beside pyspark",
        "a host without an address",
        "a directory that one host has",
    ),
]
ALONE = [(name,) for name in BROKEN if name not in set().union(*TOGETHER)]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


@pytest.fixture
def store() -> Iterator[S3Server]:
    """S3 that refuses all credentials."""
    server = S3Server()
    server.check_credentials(True)
    try:
        yield server
    finally:
        server.check_credentials(False)
        server.close()


def problems(found: list[dict[str, str]]) -> list[dict[str, str]]:
    return [one for one in found if one["status"] == "problem"]


def test_a_set_up_that_works_has_no_problems(setup: Setup) -> None:
    found = setup.doctor("--cache-dir", f"file://{setup.root}/a/b", QUICK)
    assert problems(found) == []
    assert {"python", "java", "workers", "cache", "cache-dir"} <= {
        one["check"] for one in found if one["status"] == "ok"
    }
    assert not (setup.root / "a").exists()
    assert not (setup.root / "shards").exists()


@pytest.mark.parametrize("names", [*TOGETHER, *ALONE], ids=", ".join)
def test_what_is_broken_is_named_with_its_remedy(names: tuple[str, ...], setup: Setup) -> None:
    for name in names:
        BROKEN[name].arrange(setup)
    options = [option for name in names for option in BROKEN[name].options]
    found = problems(setup.doctor(*options))
    for broken in (BROKEN[name] for name in names):
        (remedy,) = (
            one["remedy"]
            for one in found
            if one["check"] == broken.check and broken.found in one["found"]
        )
        assert broken.remedy in remedy


def test_wrong_credentials_are_named_before_a_job_starts(setup: Setup, store: S3Server) -> None:
    setup.set(
        AWS_ENDPOINT_URL=store.url, AWS_ACCESS_KEY_ID="wrong", AWS_SECRET_ACCESS_KEY="wrong-secret"
    )
    (named,) = problems(setup.doctor("--cache-dir", f"s3://{BUCKET}/x"))
    assert named["check"] == "cache-dir"
    assert "S3 (s3:) gives no access" in named["found"]
    assert "AWS_ACCESS_KEY_ID" in named["remedy"]
    assert "wrong-secret" not in str(named)
