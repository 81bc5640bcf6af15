"""`mdstorm doctor` reports each broken part with its remedy, and no other problems."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.edge.doctor.setups import Setup
from tests.kit.servers.s3 import BUCKET, S3Server

pytestmark = pytest.mark.newest


class Broken(NamedTuple):
    """One broken part, the expected text of its finding, and the command's options."""

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


def file_in_the_way(setup: Setup) -> None:
    (setup.root / "shards").write_text("a file")


def linked_cache(setup: Setup) -> None:
    setup.variables.pop("MDSTORM_CACHE_DIR")
    setup.set(TMPDIR=setup.root)
    (setup.root / f"mdstorm-cache-{os.getuid()}").symlink_to(setup.directory)


def own_mdstorm(setup: Setup) -> None:
    (setup.directory / "mdstorm").mkdir()
    (setup.directory / "mdstorm" / "__init__.py").touch()
    # As in `mdstorm doctor`, but not in `python -m mdstorm doctor`, the directory is not searched.
    setup.set(PYTHONSAFEPATH=1)


def other_spark(setup: Setup) -> None:
    for name in ("bin/spark-submit", "jars/spark-core_2.12-3.4.1.jar"):
        file = setup.root / "spark" / name
        file.parent.mkdir(parents=True)
        file.touch(0o755)
    setup.set(SPARK_HOME=setup.root / "spark")


QUICK = "--no-round-trip"
SHARED = ("--cache-dir", "file:///tmp", QUICK)

#: Faults that can be combined, because none of them hides another. Each check finds one of these.
BROKEN = [
    [
        Broken(without_java, "java", "there is no java on the PATH", "install Java 17", SHARED),
        Broken(
            worker("""echo '["3.99", "mdstorm 9"]'"""),
            "workers",
            "is Python 3.99 with mdstorm 9; this is Python 3.",
            f"export PYSPARK_PYTHON={sys.executable}",
        ),
        Broken(
            lambda setup: setup.add("pandas", "1.3.5"),
            "libraries",
            "pandas 1.3.5 is installed, and mdstorm[spark] needs pandas<3,>=",
            'pip install "pandas<3,>=',
        ),
        Broken(
            lambda setup: setup.add("xxhash", "0.8"),
            "libraries",
            "xxhash 0.8 is installed, and mdstorm[xxhash] needs xxhash>=",
            'pip install "xxhash>=',
        ),
        Broken(file_in_the_way, "cache", "Not a directory", "MDSTORM_CACHE_DIR"),
        Broken(
            lambda setup: setup.set(SPARK_HOME=setup.root),
            *("spark", "has no bin/spark-submit", "unset SPARK_HOME"),
        ),
    ],
    [
        Broken(
            worker("echo hello"), "workers", "does not run as a Python", "export PYSPARK_PYTHON="
        ),
        Broken(
            lambda setup: (setup.directory / "torch.py").touch(),
            *("libraries", "work/torch.py hides the library torch", "rename it"),
        ),
        Broken(
            lambda setup: setup.set(TMPDIR=setup.root / "none"),
            *("tmpdir", "none does not exist, so temporary files go to", "mkdir -p"),
        ),
        Broken(other_spark, "spark", "is Spark 3.4, and pyspark is", "unset SPARK_HOME"),
        Broken(lambda s: s.set(RANK=1), "launcher", "WORLD_SIZE is not set", "with torchrun"),
        Broken(
            lambda setup: None,
            *("cache-dir", "'ftpx://a/b' cannot be opened", "use file:///…"),
            ("--cache-dir", "ftpx://a/b"),
        ),
    ],
]
#: The other faults that the same checks find.
OTHERS = [
    [
        Broken(
            lambda s: (java("21.0.1")(s), s.set(JAVA_HOME=s.root)),
            *("java", "has no bin/java", "unset JAVA_HOME, to use the java on the PATH"),
        ),
        Broken(
            own_mdstorm, "libraries", "mdstorm/__init__.py hides the library mdstorm", "rename it"
        ),
        Broken(
            lambda setup: setup.add("numpy", "1.21.0"),
            "libraries",
            "numpy 1.21.0 is installed, and mdstorm needs numpy>=",
            'pip install "numpy>=',
        ),
        Broken(other_mdstorm, "workers", "with mdstorm 0.0.9; this is Python", "export"),
        Broken(
            lambda setup: setup.set(MDSTORM_CACHE_DIR="/proc/shards"),
            *("cache", "/proc/shards cannot be written to", "MDSTORM_CACHE_DIR"),
        ),
    ],
    [
        Broken(
            lambda s: (java("1.8.0_392")(s), s.add("pyspark", "4.0.0")),
            *("java", "is Java 8, for pyspark 4.0.0, which needs 17", "install Java 17"),
        ),
        Broken(
            lambda setup: setup.set(PYSPARK_PYTHON="/nowhere/python"),
            *("workers", "PYSPARK_PYTHON=/nowhere/python was not found", "export PYSPARK_PYTHON="),
        ),
        Broken(
            lambda setup: setup.remove("s3fs"),
            *("cache-dir", "needs a library for s3: URLs", 'pip install "mdstorm[s3]"'),
            ("--cache-dir", "s3://bucket/x"),
        ),
        Broken(linked_cache, "cache", "is a link, or another user", "MDSTORM_CACHE_DIR"),
    ],
    [
        Broken(
            worker(f'exec {sys.executable} -S -E "$@"'),
            "workers",
            "with ModuleNotFoundError: No module named 'mdstorm'; this is Python",
            "export PYSPARK_PYTHON=",
        ),
        Broken(
            lambda setup: None,
            *("cache-dir", "ERROR! A scheme-less directory url", "", ("--cache-dir", "/tmp")),
        ),
    ],
    [
        Broken(
            lambda setup: setup.set(AWS_ENDPOINT_URL="http://127.0.0.1:1"),
            *("cache-dir", "http://127.0.0.1:1 cannot be reached", "Check the URL, the network"),
            ("--cache-dir", "s3://bucket/x"),
        ),
        Broken(
            lambda setup: setup.remove("pyspark"),
            "libraries",
            "pyspark is not installed, which mdstorm[spark] needs",
            'pip install "mdstorm[spark]"',
        ),
    ],
    [
        Broken(
            lambda setup: None,
            *("cache-dir", "file:///proc/cache cannot be written to", ""),
            ("--cache-dir", "file:///proc/cache"),
        ),
    ],
]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


@pytest.fixture
def store() -> Iterator[S3Server]:
    """An S3 server that rejects all credentials."""
    server = S3Server()
    server.check_credentials(True)
    try:
        yield server
    finally:
        server.check_credentials(False)
        server.close()


def problems(found: list[dict[str, str]]) -> list[dict[str, str]]:
    return [one for one in found if one["status"] == "problem"]


def test_working_setup_has_no_problems(setup: Setup) -> None:
    setup.add("pandas", "3.1.1")
    found = setup.doctor("--cache-dir", f"file://{setup.root}/a/b", QUICK)
    assert problems(found) == []
    assert {"python", "java", "workers", "cache", "cache-dir"} <= {
        one["check"] for one in found if one["status"] == "ok"
    }
    (newer,) = (one["found"] for one in found if one["status"] == "note")
    assert "pandas 3.1.1 is installed, and mdstorm[spark] needs pandas<3" in newer
    assert not (setup.root / "a").exists()
    assert not (setup.root / "shards").exists()


@pytest.mark.parametrize(
    "things",
    [*BROKEN, *(pytest.param(things, marks=pytest.mark.long) for things in OTHERS)],
    ids=lambda things: ", ".join(broken.check for broken in things),
)
def test_broken_setup_is_reported_with_remedy(things: list[Broken], setup: Setup) -> None:
    for broken in things:
        broken.arrange(setup)
    found = problems(setup.doctor(*(option for broken in things for option in broken.options)))
    for broken in things:
        (remedy,) = (
            one["remedy"]
            for one in found
            if one["check"] == broken.check and broken.found in one["found"]
        )
        assert broken.remedy in remedy


@pytest.mark.long
def test_wrong_credentials_are_reported_before_any_job(setup: Setup, store: S3Server) -> None:
    setup.set(
        AWS_ENDPOINT_URL=store.url, AWS_ACCESS_KEY_ID="wrong", AWS_SECRET_ACCESS_KEY="wrong-secret"
    )
    (named,) = problems(setup.doctor("--cache-dir", f"s3://{BUCKET}/x"))
    assert named["check"] == "cache-dir"
    assert "S3 (s3:) gives no access" in named["found"]
    assert "AWS_ACCESS_KEY_ID" in named["remedy"]
    assert "wrong-secret" not in str(named)


@pytest.mark.long
def test_remedy_for_missing_cache_dir_names_environment_variable(setup: Setup) -> None:
    (found,) = (one for one in setup.doctor() if one["check"] == "cache-dir")
    assert "the variable MDSTORM_PARENT_CACHE_DIR_URL" in found["remedy"]
    setup.set(MDSTORM_PARENT_CACHE_DIR_URL=f"file://{setup.root}")
    (found,) = (one for one in setup.doctor() if one["check"] == "cache-dir")
    assert found["status"] == "ok"


@pytest.mark.long
def test_directory_in_files_of_one_of_several_hosts_is_noted(setup: Setup) -> None:
    setup.set(RANK=0, WORLD_SIZE=2, LOCAL_WORLD_SIZE=1)
    (found,) = (one for one in setup.doctor(*SHARED) if one["check"] == "cache-dir")
    assert found["status"] == "note"
    assert found["found"] == "/tmp is in this machine's files, and the job has 2 hosts"


def test_serverless_gpu_without_launcher_is_a_problem(setup: Setup) -> None:
    setup.set(DATABRICKS_RUNTIME_VERSION="client.6.1", DATABRICKS_ACCELERATOR="GPU_8xH100")
    (found,) = problems(setup.doctor())
    assert found["check"] == "launcher"
    assert "databricks.air" in found["found"]
    assert "serverless_gpu" in found["found"]
    (setup.libraries / "serverless_gpu").mkdir()
    assert not problems(setup.doctor())


@pytest.mark.long
@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "DATABRICKS_RUNTIME_VERSION"])
def test_java_is_not_needed_where_spark_runs_elsewhere(setup: Setup, variable: str) -> None:
    without_java(setup)
    setup.set(**{variable: "sc://host"})
    (found,) = (one for one in setup.doctor() if one["check"] == "java")
    assert (found["status"], found["found"]) == ("ok", f"not needed here: {variable}")
