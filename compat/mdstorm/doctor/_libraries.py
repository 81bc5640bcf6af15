"""Check mdstorm itself and the versions of the libraries that it uses.

Only the libraries' metadata is read: one that cannot be imported must not stop the other checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import mdstorm
from mdstorm.doctor._report import Finding, Setup, note, ok, problem, warning

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
#: Distributions that provide a library under another name.
_INSTEAD = {
    "tensorflow": ("tensorflow-cpu", "tensorflow-macos", "tensorflow-rocm", "tf-nightly"),
    "pyspark": ("databricks-connect", "pyspark-client"),
}
#: Libraries that a file of the same name in the working directory would shadow.
_HIDDEN = ("fsspec", "numpy", "pandas", "pyarrow", "pyspark", "tensorflow", "torch", "mdstorm")


def has(distribution: str) -> bool:
    """Whether a distribution of this name is installed."""
    return any(True for _ in metadata.distributions(name=distribution))


def installed(library: str) -> Version | None:
    """Return the version of a library; None if it is not installed."""
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
    """Check the installed libraries against the requirements of mdstorm and of each other."""
    if not has("mdstorm"):
        yield warning(
            "pip has not installed mdstorm here, so the versions that it needs are not known",
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
    """Return the requirements of a distribution, with an extra, that apply on this machine."""
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
            f"pyspark {spark} imports distutils, which this Python has only with setuptools",
            "pip install setuptools",
        )
