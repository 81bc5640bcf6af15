"""Check what mdstorm requires: Python, libraries, Java, Spark's workers, and directories.

Only the libraries' metadata is read, so that a broken library does not stop the other checks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

import mdstorm
from mdstorm.doctor._report import Finding
from mdstorm_backend.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mdstorm_backend.order import World
    from mdstorm_backend.storage import Location

#: Extras that are not for users; `all` is the sum of others.
_NOT_CHECKED = {"all", "dev", "docs"}
#: Distributions that provide a library under a different name.
_INSTEAD = {
    "tensorflow": ("tensorflow-cpu", "tensorflow-macos", "tensorflow-rocm", "tf-nightly"),
    "pyspark": ("databricks-connect", "pyspark-client"),
}
#: Environment variables that are set if this process does not start Spark's JVM itself.
_STARTED_ELSEWHERE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "DATABRICKS_RUNTIME_VERSION")
#: The variable that is set on Databricks' serverless GPU compute, according to MLflow's source, and
#: the packages with the launcher there: from environment version 6, and up to version 5.
_ON_SERVERLESS_GPU = "DATABRICKS_ACCELERATOR"
_SERVERLESS_LAUNCHERS = ("databricks.air", "serverless_gpu")
_INSTALL_JAVA = (
    "install Java 17 (apt-get install openjdk-17-jre-headless, brew install openjdk@17, or conda "
    "install openjdk=17), and set JAVA_HOME to its directory"
)
#: Program run by the workers' Python to report its version and the mdstorm that it imports.
_ASK_WORKER = """
import json, sys
found = ["%d.%d" % sys.version_info[:2]]
try:
    import mdstorm, mdstorm_backend.format, pyarrow
    found.append(f"mdstorm {mdstorm.__version__}")
except Exception as error:
    found.append(f"{type(error).__name__}: {error}")
print(json.dumps(found))
"""
#: Timeout in seconds for programs that are run to query this machine.
_PATIENCE = 60


def check_python() -> Finding:
    """Check the operating system, and report the Python version."""
    found = f"{platform.python_version()} ({sys.executable}) on {platform.system()}"
    if platform.system() not in ("Linux", "Darwin"):
        return Finding("python", "problem", found, "use Linux or macOS; on Windows, use WSL")
    return Finding("python", "ok", found)


def installed(library: str) -> Version | None:
    """Return the version of a library, or None if it is not installed."""
    for name in (library, *_INSTEAD.get(library, ())):
        with suppress(metadata.PackageNotFoundError):
            return Version(metadata.version(name))
    return None


def check_libraries(*, needs_spark: bool) -> Iterator[Finding]:
    """Check the installed libraries against the requirements of mdstorm and its extras."""
    place, version = Path(mdstorm.__file__).parent, mdstorm.__version__
    yield Finding("mdstorm", "ok", f"{version}, imported from {place}")
    wanted = _required()
    yield from _unmet("mdstorm", wanted, must_be_there=True)
    present = {}
    for extra in _extras():
        added = _required(extra) - wanted
        must_be_there = needs_spark and extra == "spark"
        yield from _unmet(f"mdstorm[{extra}]", added, must_be_there)
        names = sorted(one.name for one in added)
        present.update({name: found for name in names if (found := installed(name))})
    listed = ", ".join(f"{name} {found}" for name, found in present.items())
    yield Finding("libraries", "ok", listed or "none")
    if not {"torch", "tensorflow"} & present.keys():
        remedy = 'pip install "mdstorm[torch]", or "mdstorm[tf]"'
        yield Finding("libraries", "note", "neither PyTorch nor TensorFlow is installed", remedy)


def _extras() -> list[str]:
    """Return the extras for users."""
    every = metadata.metadata("mdstorm").get_all("Provides-Extra", [])
    return [extra for extra in every if extra not in _NOT_CHECKED]


def _required(extra: str = "") -> set[Requirement]:
    """Return mdstorm's requirements on this machine, including those of an extra."""
    stated = map(Requirement, metadata.requires("mdstorm") or ())
    return {one for one in stated if one.marker is None or one.marker.evaluate({"extra": extra})}


def _unmet(of: str, wanted: Iterable[Requirement], must_be_there: bool) -> Iterator[Finding]:
    """Yield a finding for each requirement that the installed version does not meet.

    A library that is not installed is a problem only with `must_be_there`. One that is newer than
    the requirement allows is a note, since it may work.
    """
    for one in sorted(wanted, key=str):
        version, needed = installed(one.name), f"{one.name}{one.specifier}"
        if version is None and must_be_there:
            message = f"{one.name} is not installed, which {of} needs"
            remedy = f'pip install "{of if "[" in of else needed}"'
            yield Finding("libraries", "problem", message, remedy)
        elif version and not one.specifier.contains(version, prereleases=True):
            message = f"{one.name} {version} is installed, and {of} needs {needed}"
            bounds = [bound for bound in one.specifier if not bound.operator.startswith("<")]
            is_newer = all(bound.contains(version, prereleases=True) for bound in bounds)
            remedy = f'pip install "{needed}"'
            yield Finding("libraries", "note" if is_newer else "problem", message, remedy)


def check_names() -> Iterator[Finding]:
    """Check that no file of the user hides a library from programs in the current directory."""
    own = Path(mdstorm.__file__).parent.parent
    names = {"mdstorm", *(one.name for extra in ("", *_extras()) for one in _required(extra))}
    for name in sorted(names):
        for path in (Path(f"{name}.py").absolute(), Path(name, "__init__.py").absolute()):
            is_installed = any(path.parent.glob(f"{name}-*.dist-info")) or own in path.parents
            if path.is_file() and not is_installed:
                remedy = "rename it, or start programs in another directory"
                yield Finding("libraries", "problem", f"{path} hides the library {name}", remedy)


def check_java(session: SparkSession | None) -> Finding:
    """Check that Java is installed in a version that Spark supports."""
    spark = installed("pyspark")
    if spark is None:
        return Finding(
            "java",
            "note",
            "pyspark is not installed: files can be read, but Spark DataFrames cannot be converted",
            'if you use Spark here, pip install "mdstorm[spark]", and Java 17 or newer',
        )
    elsewhere = next((name for name in _STARTED_ELSEWHERE if os.environ.get(name)), None)
    if session is not None or elsewhere:
        return Finding("java", "ok", f"not needed here: {elsewhere or 'Spark is running'}")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if java is None:
        looked = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        is_there = home and shutil.which("java")
        remedy = "unset JAVA_HOME, to use the java on the PATH" if is_there else _INSTALL_JAVA
        return Finding("java", "problem", f"{looked}, and Spark needs one", remedy)
    try:
        text = _output_of(java, "-version")
    except OSError as error:
        return Finding("java", "problem", f"{java} does not run: {error}", _INSTALL_JAVA)
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    version = int(match[1]) if match else 0
    found = f"{java} is Java {version}, for pyspark {spark}"
    oldest = 17 if spark.major >= 4 else 8
    if version < oldest:
        return Finding("java", "problem", f"{found}, which needs {oldest}", _INSTALL_JAVA)
    return Finding("java", "ok", found)


def check_spark_home(session: SparkSession | None) -> Iterator[Finding]:
    """Check the Spark that SPARK_HOME names, which pyspark starts instead of its own."""
    home, pyspark = os.environ.get("SPARK_HOME"), installed("pyspark")
    is_started = session is None and not any(map(os.environ.get, _STARTED_ELSEWHERE))
    if not home or pyspark is None or not is_started:
        return
    core = next(Path(home, "jars").glob("spark-core_*.jar"), None)
    version = core and re.match(r"spark-core_[\d.]+-(\d+\.\d+)", core.name)
    if shutil.which(str(Path(home, "bin", "spark-submit"))) is None:
        found = f"SPARK_HOME={home} has no bin/spark-submit, which pyspark starts"
    elif version and version[1] != f"{pyspark.major}.{pyspark.minor}":
        found = f"SPARK_HOME={home} is Spark {version[1]}, and pyspark is {pyspark}"
    else:
        return
    remedy = f"unset SPARK_HOME, or set it to the directory of Spark {pyspark.base_version}"
    yield Finding("spark", "problem", found, remedy)


def check_workers(session: SparkSession | None) -> Iterator[Finding]:
    """Check the Python that Spark starts for its tasks on this machine."""
    is_remote = type(session).__module__.startswith("pyspark.sql.connect.")
    if is_remote or installed("pyspark") is None or os.environ.get("SPARK_REMOTE"):
        return
    named = os.environ.get("PYSPARK_PYTHON")
    python = shutil.which(named or "python3")
    subject = f"PYSPARK_PYTHON={named}" if named else "PYSPARK_PYTHON is not set, and python3"
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    own = ["{}.{}".format(*sys.version_info), f"mdstorm {mdstorm.__version__}"]
    if python is None:
        message = f"{subject} was not found, or cannot be executed"
    else:
        try:
            version, imported = json.loads(
                _output_of(python, "-c", _ASK_WORKER).rpartition("\n")[2]
            )
        except (OSError, ValueError) as error:
            message = f"{subject} does not run as a Python: {error}"
        else:
            if [version, imported] == own:
                yield Finding("workers", "ok", f"{python} is Python {version} with {imported}")
                return
            message = f"{subject} is Python {version} with {imported}; this is Python "
            message += " with ".join(own)
    yield Finding("workers", "problem", message, remedy)


def world_of_job() -> World | None:
    """Return the world of a job with several ranks, or None for a single process."""
    with suppress(InvalidArgumentError, ImportError):
        from mdstorm_backend.order import find_world

        world = find_world()
        return world if world.size > 1 else None
    return None


def check_launcher() -> Iterator[Finding]:
    """Report the rank of this process, and check the launcher of serverless GPU compute."""
    from mdstorm_backend.order import find_world

    if _ON_SERVERLESS_GPU in os.environ and not any(map(_can_import, _SERVERLESS_LAUNCHERS)):
        named = " nor ".join(_SERVERLESS_LAUNCHERS)
        message = f"this is serverless GPU compute, and neither {named} is installed"
        yield Finding("launcher", "problem", message, "choose a GPU environment for the notebook")
    world = find_world()
    if world.unknown:
        message, _, remedy = world.unknown.rpartition(": ")
        yield Finding("launcher", "note", message, remedy)
        return
    message = f"rank {world.rank} of {world.size} on {world.num_nodes} hosts, from {world.source}"
    if world.size == 1:
        message = "none: this process reads all rows"
    yield Finding("launcher", "ok", message)


def _can_import(module: str) -> bool:
    """Whether there is such a module, without importing more than the packages that contain it."""
    with suppress(ModuleNotFoundError):
        return importlib.util.find_spec(module) is not None
    return False


def check_temporary() -> Iterator[Finding]:
    """Check the directory for temporary files that TMPDIR names."""
    named = os.environ.get("TMPDIR")
    if named and not Path(named).is_dir():
        found = f"TMPDIR={named} does not exist, so temporary files go to {tempfile.gettempdir()}"
        yield Finding("tmpdir", "problem", found, f"mkdir -p {named}, or unset TMPDIR")


def check_cache() -> Finding:
    """Check the directory that stores local copies of remote shards."""
    from mdstorm_backend.cache import cache_root, check_cache_root

    path = Path(cache_root())
    try:
        check_cache_root()
        nearest = next(one for one in (path, *path.parents) if one.exists())
        with tempfile.TemporaryDirectory(prefix="mdstorm-doctor-", dir=nearest) as own:
            Path(own, "written").write_bytes(b"mdstorm doctor")
    except OSError as error:
        remedy = "set MDSTORM_CACHE_DIR to a directory that you own on a local disk"
        return Finding("cache", "problem", f"{path} cannot be written to: {error}", remedy)
    return Finding("cache", "ok", f"{path} can be written to")


def check_cache_dir(given: str, session: SparkSession | None) -> Finding:
    """Check the directory for converted DataFrames by writing and removing a small file."""
    from mdstorm._spark import (
        ENVIRONMENT_VARIABLE,
        PETASTORM_CONF,
        checked_directory,
        configured_parent,
    )
    from mdstorm_backend.spark import check_driver_writes
    from mdstorm_backend.storage import Location, check_scheme

    configured = configured_parent(session, given)
    if not configured:
        return Finding(
            "cache-dir",
            "note",
            "no directory for converted DataFrames is configured",
            f"set the conf {PETASTORM_CONF}, or the variable {ENVIRONMENT_VARIABLE}; "
            "`mdstorm doctor --cache-dir URL` checks a directory before you set it",
        )
    url = checked_directory(configured)
    check_scheme(url)
    location = Location.of(url)
    with no_new_directories(location):
        check_driver_writes(location)
    world = world_of_job()
    if location.is_local_disk and world is not None and world.num_nodes > 1:
        found = (
            f"{location.path} is in this machine's files, and the job has {world.num_nodes} hosts"
        )
        remedy = "make sure that it is a mount that all hosts see, or use a store such as s3://…"
        return Finding("cache-dir", "note", found, remedy)
    return Finding("cache-dir", "ok", f"this process can write to {url}")


@contextmanager
def no_new_directories(location: Location) -> Iterator[None]:
    """On exit, remove directories in a path that are empty and did not exist before."""
    paths = (Path(location.path), *Path(location.path).parents) if location.is_in_file_tree else ()
    missing = [path for path in paths if not path.exists()]
    try:
        yield
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


def _output_of(*command: str) -> str:
    """Run a program, and return its standard output, or its standard error if that is empty.

    Raises
    ------
    OSError
        If the program cannot be run, fails, or takes too long.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(str(error)) from None
    output = (done.stdout or done.stderr).strip()
    if done.returncode:
        last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise OSError(f"{command[0]} ended with {done.returncode}: {last}")
    return output
