"""Check the libraries, Spark's requirements, and whether PyTorch can use the GPUs.

Only the libraries' metadata is read, so that a broken library does not stop the other checks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.version import Version

import mdstorm
from mdstorm.doctor._report import Finding, Setup, note, ok, problem, warning
from mdstorm_backend.errors import InvalidArgumentError

#: The main library of each extra.
_EXTRAS = {
    "spark": "pyspark",
    "torch": "torch",
    "tf": "tensorflow",
    "delta": "deltalake",
    "iceberg": "pyiceberg",
    "databricks": "databricks-sdk",
    "s3": "s3fs",
    "gcs": "gcsfs",
    "azure": "adlfs",
    "images": "pillow",
}
#: Distributions that provide a library under a different name.
_INSTEAD = {
    "tensorflow": ("tensorflow-cpu", "tensorflow-macos", "tensorflow-rocm", "tf-nightly"),
    "pyspark": ("databricks-connect", "pyspark-client"),
}
#: Libraries that could be shadowed by a file with the same name in the working directory.
_HIDDEN = ("fsspec", "numpy", "pandas", "pyarrow", "pyspark", "tensorflow", "torch", "mdstorm")
#: Environment variables that are set if this process does not start Spark's JVM itself.
_STARTED_ELSEWHERE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "DATABRICKS_RUNTIME_VERSION")
_INSTALL_JAVA = (
    "install Java 17 (apt-get install openjdk-17-jre-headless, brew install openjdk@17, or conda "
    "install openjdk=17), and set JAVA_HOME to its directory"
)
#: Program run by the workers' Python to report its version and whether it can import mdstorm.
_ASK_WORKER = """
import json, sys
found = {"python": list(sys.version_info[:2])}
try:
    import mdstorm, mdstorm_backend.format, pyarrow
    found["mdstorm"] = mdstorm.__version__
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""
_ASK_TORCH = """
import json, torch
print(json.dumps([torch.cuda.is_available(), torch.cuda.device_count(), torch.version.cuda]))
"""
#: Timeout in seconds for connecting to a server.
_PATIENCE_FOR_SERVER = 5
#: Timeout in seconds for programs that are run to query this machine.
_PATIENCE = 60


def has(distribution: str) -> bool:
    """Whether a distribution with this name is installed."""
    return any(True for _ in metadata.distributions(name=distribution))


def installed(library: str) -> Version | None:
    """Return the version of a library, or None if it is not installed."""
    names = filter(has, (library, *_INSTEAD.get(library, ())))
    return next((Version(metadata.version(name)) for name in names), None)


def check_mdstorm(_: Setup) -> Iterator[Finding]:
    """Check that only one mdstorm is installed, and that no local file shadows a library."""
    place, version = Path(mdstorm.__file__).parent, mdstorm.__version__
    yield ok(f"{version}, imported from {place}")
    found = {one.version: one for one in metadata.distributions(name="mdstorm")}
    found.pop(version, None)
    if found:
        others = ", ".join(f"{v} in {one.locate_file('')}" for v, one in sorted(found.items()))
        yield problem(
            f"two versions are installed: {version} is imported, and pip has installed {others}",
            "run `pip uninstall mdstorm` until it finds none, then `pip install mdstorm`; check "
            "PYTHONPATH",
        )
    for name in _HIDDEN:
        for hiding in (Path.cwd() / f"{name}.py", Path.cwd() / name / "__init__.py"):
            if hiding.exists() and hiding != place / "__init__.py":
                yield problem(
                    f"{hiding} hides the library {name} from programs in this directory",
                    f"rename it, and remove __pycache__/{name}.*.pyc",
                )


def check_libraries(setup: Setup) -> Iterator[Finding]:
    """Check the installed libraries against mdstorm's and each other's requirements."""
    if not has("mdstorm"):
        yield warning(
            "mdstorm was not installed by pip here, so its required versions are unknown",
            "run `pip install .` in its directory, or install the wheel",
        )
        return
    needs_spark = bool(setup.url) and setup.world is None
    yield from _unmet("mdstorm", _required_by("mdstorm"), must_be_there=True)
    for extra in _EXTRAS:
        wanted = _required_by("mdstorm", extra) - _required_by("mdstorm")
        yield from _unmet(
            f"mdstorm[{extra}]", wanted, must_be_there=needs_spark and extra == "spark"
        )
    for name in sorted({Requirement(one).name for one in metadata.requires("mdstorm") or ()}):
        if has(name):
            wanted = _required_by(name, "sql" if name == "pyspark" else "")
            yield from _unmet(f"{name} {installed(name)}", wanted, must_be_there=False)
    yield from _known_conflicts()
    present = {name: version for name in _EXTRAS.values() if (version := installed(name))}
    yield ok(", ".join(f"{name} {version}" for name, version in present.items()) or "none")
    if not {"torch", "tensorflow"} & present.keys():
        yield note(
            "neither PyTorch nor TensorFlow is installed",
            'pip install "mdstorm[torch]", or "mdstorm[tf]"',
        )


def _required_by(name: str, extra: str = "") -> set[Requirement]:
    """Return a distribution's requirements on this machine, including those of an extra."""
    stated = map(Requirement, metadata.requires(name) or ())
    return {one for one in stated if one.marker is None or one.marker.evaluate({"extra": extra})}


def _unmet(of: str, wanted: Iterable[Requirement], *, must_be_there: bool) -> Iterator[Finding]:
    """Yield a problem for each requirement that the installed version does not meet.

    A library that is not installed is a problem only with `must_be_there`.
    """
    for one in sorted(wanted, key=str):
        version, needed = installed(one.name), f"{one.name}{one.specifier}"
        if version is None and must_be_there:
            install = of if "[" in of else needed
            yield problem(
                f"{one.name} is not installed, which {of} needs", f'pip install "{install}"'
            )
        elif version and not one.specifier.contains(version, prereleases=True):
            yield problem(
                f"{one.name} {version} is installed, and {of} needs {needed}",
                f'pip install "{needed}"',
            )


def _known_conflicts() -> Iterator[Finding]:
    """Yield a problem for each known conflict that the metadata does not declare."""
    numpy, torch, spark = installed("numpy"), installed("torch"), installed("pyspark")
    if numpy and torch and numpy.major >= 2 and torch < Version("2.3"):
        yield problem(
            f"torch {torch} was built for NumPy 1, and NumPy {numpy} is installed",
            'pip install "numpy<2", or "torch>=2.3"',
        )
    if has("databricks-connect") and has("pyspark"):
        yield problem(
            "databricks-connect and pyspark are both installed, and overwrite each other's files",
            "pip uninstall -y pyspark databricks-connect, then install the one that you need",
        )
    if spark and spark.major < 4 and not has("setuptools") and find_spec("distutils") is None:
        yield problem(
            f"pyspark {spark} imports distutils, which this Python only has with setuptools",
            "pip install setuptools",
        )


def check_java(setup: Setup) -> Finding:
    """Check that Java is installed in a version that Spark supports."""
    spark = installed("pyspark")
    if spark is None:
        return note(
            "pyspark is not installed: files can be read, but Spark DataFrames cannot be converted",
            'if you use Spark here, pip install "mdstorm[spark]", and Java 17 or newer',
        )
    elsewhere = next((name for name in _STARTED_ELSEWHERE if os.environ.get(name)), None)
    if setup.session is not None or elsewhere or has("databricks-connect"):
        return ok(f"not needed here: {elsewhere or 'Spark is already running'}")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if java is None:
        looked = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        return problem(f"{looked}, and Spark needs one", _INSTALL_JAVA)
    try:
        text = output_of(java, "-version", stderr=subprocess.STDOUT)
    except (OSError, subprocess.SubprocessError) as error:
        return problem(f"{java} does not run: {error}", _INSTALL_JAVA)
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    version = int(match[1]) if match else 0
    found = f"{java} is Java {version}, for pyspark {spark}"
    oldest, newest = (17, 21) if spark.major >= 4 else (8, 17)
    if version < oldest:
        return problem(f"{found}, which needs {oldest}", _INSTALL_JAVA)
    if version > newest:
        return warning(f"{found}, which is tested up to {newest}", _INSTALL_JAVA)
    return ok(found)


def check_workers(setup: Setup) -> Finding | None:
    """Check the Python that Spark starts for its tasks on this machine."""
    if installed("pyspark") is None or has("databricks-connect") or _is_remote(setup.session):
        return None
    named = os.environ.get("PYSPARK_PYTHON")
    python = shutil.which(named or "python3")
    says = f"PYSPARK_PYTHON={named}" if named else "PYSPARK_PYTHON is not set, and python3"
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    if python is None:
        return problem(f"{says} was not found, or cannot be executed", remedy)
    try:
        found = json.loads(output_of(python, "-c", _ASK_WORKER).splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.SubprocessError) as error:
        return problem(f"{says} does not run as a Python: {error}", remedy)
    version, own = ("{}.{}".format(*one) for one in (found["python"], sys.version_info))
    if version != own:
        return problem(f"{says} is Python {version}, and this one is {own}", remedy)
    if "error" in found:
        return problem(
            f"{says} ({python}) cannot import mdstorm: {found['error']}",
            f"{remedy}, or install mdstorm there: {python} -m pip install mdstorm",
        )
    if found["mdstorm"] != mdstorm.__version__:
        return problem(
            f"{says} ({python}) has mdstorm {found['mdstorm']}, and this is {mdstorm.__version__}",
            f"{remedy}, or install the same version there",
        )
    return ok(f"{python} is Python {own} with mdstorm")


def check_spark_home(_: Setup) -> Finding | None:
    """Check that the Spark in SPARK_HOME has the same version as pyspark."""
    home, spark = os.environ.get("SPARK_HOME"), installed("pyspark")
    if not home or spark is None:
        return None
    remedy = "unset SPARK_HOME, so that pyspark uses the Spark that it contains"
    core = min(Path(home, "jars").glob("spark-core_*.jar"), default=None)
    if core is None:
        return problem(f"SPARK_HOME={home} holds no Spark", remedy)
    version = core.stem.rpartition("-")[2]
    if version == spark.base_version:
        return None
    return problem(
        f"SPARK_HOME={home} has Spark {version}, and pyspark is {spark}",
        f'{remedy}, or pip install "pyspark=={version}"',
    )


def check_session(setup: Setup) -> Finding | None:
    """Report the current Spark session, and check that its version matches pyspark's."""
    session = setup.session
    if session is None:
        remote = os.environ.get("SPARK_REMOTE")
        return _server_at(remote) if remote else None
    from mdstorm_backend.spark import read_conf

    kind = "Spark Connect" if _is_remote(session) else "classic"
    where = read_conf(session, "spark.master") or "a server"
    found = f"a {kind} session of Spark {session.version} on {where}"
    client, server = installed("pyspark"), Version(session.version.split("-")[0])
    if client is None or server.release[:2] == client.release[:2]:
        return ok(found)
    return (warning if _is_remote(session) else problem)(
        f"{found}, and pyspark here is {client}",
        f'pip install "pyspark=={server.release[0]}.{server.release[1]}.*"',
    )


def _server_at(remote: str) -> Finding:
    """Check that a Spark Connect server accepts connections."""
    # The parameters after a semicolon may contain a token.
    shown, (host, port) = remote.partition(";")[0], _address_of(remote)
    is_behind_proxy = any(map(os.environ.get, ("grpc_proxy", "https_proxy", "http_proxy")))
    if host and not is_behind_proxy:
        try:
            socket.create_connection((host, port), timeout=_PATIENCE_FOR_SERVER).close()
        except OSError as error:
            return problem(
                f"SPARK_REMOTE={shown}, and no server accepts connections there: {error}",
                "start the server (sbin/start-connect-server.sh of Spark), correct SPARK_REMOTE, "
                "or unset it for a classic session",
            )
    return note(f"SPARK_REMOTE={shown}: sessions use Spark Connect")


def _address_of(remote: str) -> tuple[str, int]:
    """Return the host and port of a Spark Connect URL, with an empty host for ``local``."""
    try:
        parts = urlsplit(remote)
        return (parts.hostname or "" if parts.scheme == "sc" else "", parts.port or 15002)
    except ValueError as error:
        raise InvalidArgumentError(
            f"SPARK_REMOTE={remote.partition(';')[0]} is not a URL ({error}): use sc://host:port"
        ) from error


def check_driver_python(_: Setup) -> Finding | None:
    """Check that Spark's launchers start a Python interpreter as the driver's Python."""
    named = os.environ.get("PYSPARK_DRIVER_PYTHON")
    if not named or "python" in Path(named).name:
        return None
    return warning(
        f"PYSPARK_DRIVER_PYTHON={named} is not a Python: spark-submit starts it instead of your "
        "program",
        f"unset PYSPARK_DRIVER_PYTHON, or export PYSPARK_DRIVER_PYTHON={sys.executable}, where you "
        "start programs",
    )


def active_session() -> Any:
    """Return the active Spark session of this process, or None."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _is_remote(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect.")


def check_gpus(_: Setup) -> Finding:
    """Check that PyTorch can use the GPUs that the driver lists."""
    gpus: list[str] = []
    with suppress(OSError, subprocess.SubprocessError):
        gpus = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    if not gpus or gpus[0].startswith("No devices"):
        return note("the driver shows no NVIDIA GPU here")
    found = f"{len(gpus)} GPU{'s' * (len(gpus) > 1)} ({gpus[0]})"
    version = installed("torch")
    if version is None:
        return note(f"{found}; PyTorch is not installed")
    try:
        can, count, cuda = json.loads(output_of(sys.executable, "-c", _ASK_TORCH).splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.SubprocessError) as error:
        return problem(f"{found}, and torch {version} cannot be imported: {error}")
    if cuda is None:
        return problem(
            f"{found}, but torch {version} was built without CUDA",
            "pip uninstall -y torch, then pip install torch (without the index of CPU wheels)",
        )
    if not can:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hides = f" CUDA_VISIBLE_DEVICES={visible!r} may hide it." if visible is not None else ""
        return problem(
            f"{found}, but torch {version} for CUDA {cuda} cannot use it.{hides}",
            "install a torch for the CUDA version that `nvidia-smi` shows, or a newer driver",
        )
    rank = os.environ.get("LOCAL_RANK", "0")
    if rank.isdecimal() and int(rank) >= count:
        return problem(
            f"LOCAL_RANK={rank}, and PyTorch sees {count} GPUs here",
            f"start at most {count} processes per host: torchrun --nproc-per-node={count}",
        )
    return ok(f"{found}; torch {version} uses it with CUDA {cuda}")


def output_of(*command: str, **how: Any) -> str:
    """Run a program and return its standard output without surrounding whitespace.

    Raises
    ------
    OSError, subprocess.TimeoutExpired
        If the program cannot be run, fails, or takes too long.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": _PATIENCE}
    done = subprocess.run(command, text=True, check=False, **{**pipes, **how})
    if done.returncode:
        last = (done.stderr or done.stdout or "").strip().splitlines()[-1:]
        raise OSError(f"{command[0]} ended with {done.returncode}: {''.join(last)}")
    return str(done.stdout).strip()
