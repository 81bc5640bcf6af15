"""Check mdstorm itself, and the versions of the libraries that it uses.

Only their metadata is read: a library that cannot be imported must not stop the check-up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import mdstorm
from mdstorm.doctor._findings import Finding

#: Extras, and the library that each one is about.
EXTRAS = {
    "spark": "pyspark",
    "torch": "torch",
    "tf": "tensorflow",
    "delta": "deltalake",
    "databricks": "databricks-sdk",
    "s3": "s3fs",
    "gcs": "gcsfs",
    "azure": "adlfs",
    "images": "pillow",
}
#: Distributions that bring a library of another name.
_INSTEAD = {
    "tensorflow": ("tensorflow-cpu", "tensorflow-macos", "tensorflow-rocm", "tf-nightly"),
    "pyspark": ("databricks-connect", "pyspark-client"),
}
#: Libraries that a file of the same name hides from the programs beside it.
_HIDDEN = ("fsspec", "numpy", "pandas", "pyarrow", "pyspark", "tensorflow", "torch", "mdstorm")


def installed(name: str) -> Version | None:
    """Return the version of a library; None if it is not installed."""
    for one in (name, *_INSTEAD.get(name, ())):
        try:
            return Version(metadata.version(one))
        except metadata.PackageNotFoundError:
            continue
    return None


def look_at_mdstorm() -> Iterator[Finding]:
    """Check that there is one mdstorm, and that no file hides a library."""
    place = Path(mdstorm.__file__).parent
    yield Finding("mdstorm", "ok", f"{mdstorm.__version__}, imported from {place}")
    others = {
        f"{found.version} in {found.locate_file('')}"
        for found in metadata.distributions(name="mdstorm")
        if found.version != mdstorm.__version__
    }
    if others:
        yield Finding(
            "mdstorm",
            "problem",
            f"two versions are installed: {mdstorm.__version__} is imported, and pip has installed "
            f"{', '.join(sorted(others))}",
            "run `pip uninstall mdstorm` until it finds none, then `pip install mdstorm`; check "
            "PYTHONPATH",
        )
    for name in _HIDDEN:
        for hiding in (Path.cwd() / f"{name}.py", Path.cwd() / name / "__init__.py"):
            if hiding.exists() and hiding != place / "__init__.py":
                yield Finding(
                    "mdstorm",
                    "problem",
                    f"{hiding} hides the library {name} from programs in this directory",
                    f"rename it, and remove __pycache__/{name}.*.pyc",
                )


def look_at_libraries(needed: Iterable[str]) -> Iterator[Finding]:
    """Check what is installed against what mdstorm, and each library, requires.

    Parameters
    ----------
    needed : iterable of str
        Extras without which what was asked for cannot be done.
    """
    try:
        stated = [Requirement(text) for text in metadata.requires("mdstorm") or []]
    except metadata.PackageNotFoundError:
        yield Finding(
            "libraries",
            "warning",
            "pip has not installed mdstorm here, so the versions that it needs are not known",
            "run `pip install .` in its directory, or install the wheel",
        )
        return
    yield from _unmet("mdstorm", (one for one in stated if _applies(one)), must_be_there=True)
    for extra in EXTRAS:
        wanted = (one for one in stated if _applies(one, extra) and not _applies(one))
        yield from _unmet(f"mdstorm[{extra}]", wanted, must_be_there=extra in needed)
    yield from _look_at_each_other({canonicalize_name(one.name) for one in stated})
    yield from _known_conflicts()
    present = {name: version for name in EXTRAS.values() if (version := installed(name))}
    yield Finding("libraries", "ok", ", ".join(f"{n} {v}" for n, v in present.items()) or "none")
    if not {"torch", "tensorflow"} & present.keys():
        yield Finding(
            "libraries",
            "note",
            "neither PyTorch nor TensorFlow is installed",
            'pip install "mdstorm[torch]", or "mdstorm[tf]"',
        )


def _applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _unmet(
    of: str, requirements: Iterable[Requirement], *, must_be_there: bool
) -> Iterator[Finding]:
    """Yield a problem for each library that is missing, or has another version."""
    for one in requirements:
        version = installed(one.name)
        if version is None:
            if must_be_there:
                install = f'"{of}"' if "[" in of else f'"{one.name}{one.specifier}"'
                yield Finding(
                    "libraries",
                    "problem",
                    f"{one.name} is not installed, which {of} needs",
                    f"pip install {install}",
                )
        elif not one.specifier.contains(version, prereleases=True):
            yield Finding(
                "libraries",
                "problem",
                f"{one.name} {version} is installed, and {of} needs {one.name}{one.specifier}",
                f'pip install "{one.name}{one.specifier}"',
            )


def _look_at_each_other(names: Iterable[str]) -> Iterator[Finding]:
    """Check the requirements of each library against what is installed."""
    for name in sorted(names):
        try:
            stated = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        extra = "sql" if name == "pyspark" else ""
        wanted = (one for one in map(Requirement, stated) if _applies(one, extra))
        yield from _unmet(f"{name} {installed(name)}", wanted, must_be_there=False)


def _known_conflicts() -> Iterator[Finding]:
    """Yield the conflicts that no metadata tells."""
    numpy, torch, spark = installed("numpy"), installed("torch"), installed("pyspark")
    if numpy and torch and numpy.major >= 2 and torch < Version("2.3"):
        yield Finding(
            "libraries",
            "problem",
            f"torch {torch} was built for NumPy 1, and NumPy {numpy} is installed",
            'pip install "numpy<2", or "torch>=2.3"',
        )
    if _has("databricks-connect") and _has("pyspark"):
        yield Finding(
            "libraries",
            "problem",
            "databricks-connect and pyspark are both installed, and overwrite each other's files",
            "pip uninstall -y pyspark databricks-connect, then install the one that you need",
        )
    if spark and spark.major < 4 and not _has("setuptools") and not _has_distutils():
        yield Finding(
            "libraries",
            "problem",
            f"pyspark {spark} imports distutils, which this Python has only with setuptools",
            "pip install setuptools",
        )


def _has(name: str) -> bool:
    return any(True for _ in metadata.distributions(name=name))


def _has_distutils() -> bool:
    return any(Path(os.__file__).parent.glob("distutils/__init__.py"))


def extra_of(url: str) -> str:
    """Return the extra that a URL needs; empty if it needs none."""
    scheme = re.split(":", url, maxsplit=1)[0].lower()
    schemes = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
    azure = dict.fromkeys(("abfs", "abfss", "az"), "azure")
    return {**schemes, **azure}.get(scheme, "")
