"""The tables are true of the libraries that are installed, here and beside Petastorm."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from pkgutil import resolve_name

import pytest
from tests.migrate.libraries import releases

from mdstorm_migrate.libraries.removed import Removed
from mdstorm_migrate.libraries.tables import HOOKS, KEYWORDS, MEMBERS, NAMES

ROOT = Path(__file__).parents[3]
#: Petastorm's own environment, with older releases; where the benchmarks have been set up.
OLDER = ROOT / "benchmarks" / ".environments" / "petastorm" / "bin" / "python"
#: These are imported in a moment; the others in seconds.
LIGHT = ("numpy", "pandas", "pyarrow", "pyspark")
#: Distributions, where they have other names than packages.
LIBRARIES = {"NumPy": "numpy", "PySpark": "pyspark", "TensorFlow": "tensorflow"}
#: Names that are back, or still there with an error as their value.
BACK = {"numpy.bool", "numpy.long"}


def entries(root: str) -> dict[str, Removed]:
    """Return what the tables say is gone of a package, names and members."""
    members = {
        f"{owner}.{name}": member.removed
        for name, member in MEMBERS.items()
        for owner in member.owners
    }
    found = {**NAMES, **members}
    return {path: one for path, one in found.items() if path.startswith(f"{root}.")}


def numbers(release: str) -> list[int]:
    """Return a release as numbers: of ``"pandas 2.0"``, and of ``"2.3.3"``."""
    return [int(part) for part in re.findall(r"\d+", release)][:3]


def check(root: str, version: str, there: set[str]) -> None:
    for path, removed in entries(root).items():
        is_gone = numbers(version) >= numbers(removed.release)
        if path not in BACK:
            assert (path in there) is not is_gone, (path, version, removed.release)


@pytest.mark.parametrize("root", LIGHT)
def test_what_is_said_to_be_gone_is_gone_here(root: str) -> None:
    pytest.importorskip(root)
    found = releases.main(list(entries(root)))
    check(root, found["versions"][root], set(found["there"]))


@pytest.mark.newest
@pytest.mark.long
@pytest.mark.parametrize("root", ["torch", "pytorch_lightning", "tensorflow", "scipy", "sklearn"])
def test_what_is_said_to_be_gone_is_gone_from_frameworks(root: str) -> None:
    pytest.importorskip(root)
    there = {path for path in entries(root) if releases.is_there(path)}
    assert there == set()


def test_names_of_python_are_gone() -> None:
    standard = {"base64", "cgi", "collections", "fractions", "itertools", "platform", "string"}
    paths = [path for path in NAMES if path.partition(".")[0] in standard - {"cgi"}]
    assert len(paths) > 20
    assert not any(map(releases.is_there, paths))


@pytest.mark.skipif(not OLDER.exists(), reason="the benchmarks' environments are not set up")
@pytest.mark.parametrize("root", ["numpy", "pyarrow"])
def test_what_is_said_to_be_gone_was_there_with_petastorm(root: str) -> None:
    paths = json.dumps(list(entries(root)))
    command = [str(OLDER), releases.__file__]
    done = subprocess.run(command, input=paths, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found["there"]) > 10
    check(root, found["versions"][root], set(found["there"]))


def is_gone_from(function: str, keyword: str) -> bool:
    """Whether a function of an installed library has no such argument."""
    assert releases.is_there(function)
    owner, _, name = function.rpartition(".")
    found = getattr(resolve_name(owner), name)
    return keyword not in inspect.signature(found).parameters


@pytest.mark.parametrize("root", ["pandas", "pyarrow"])
def test_arguments_that_are_said_to_be_gone_are_gone_here(root: str) -> None:
    library = pytest.importorskip(root)
    for function, keywords in KEYWORDS.items():
        for keyword, removed in keywords.items():
            if not function.startswith(f"{root}."):
                continue
            if numbers(library.__version__) >= numbers(removed.release):
                assert is_gone_from(function, keyword), (function, keyword)


@pytest.mark.long
def test_arguments_and_hooks_of_lightning_are_gone() -> None:
    lightning = pytest.importorskip("pytorch_lightning")
    accepted = inspect.signature(lightning.Trainer).parameters
    assert not set(KEYWORDS["pytorch_lightning.Trainer"]) & set(accepted)
    assert not any(
        hasattr(lightning.LightningModule, hook)
        for hook in HOOKS["pytorch_lightning.LightningModule"]
    )


def is_the_same(old: str, new: str) -> bool:
    """Whether two names of NumPy are one thing, or functions that agree."""
    import numpy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = (eval(one, {"numpy": numpy}) for one in (old, new))
        if callable(first) and not isinstance(first, type):
            sample = numpy.array([[0.5, 0.0], [2.0, 3.5]])
            return bool(numpy.array_equal(first(sample), second(sample)))
    return first is second or first == second or (first != first and second != second)


def test_what_stands_for_a_name_is_the_same_thing_in_old_and_new_releases() -> None:
    for path, removed in NAMES.items():
        new = removed.exact.lstrip("-")
        assert not new.startswith("numpy.") or releases.is_there(new)
        if removed.exact and path not in BACK and releases.is_there(path):
            assert is_the_same(path, removed.exact), path


def test_ruff_finds_what_is_said_to_be_its(tmp_path: Path) -> None:
    lines, expected = [], []
    for path, removed in NAMES.items():
        if removed.ruff:
            module, _, name = path.rpartition(".")
            is_import = removed.ruff.startswith("UP")
            lines.append(
                f"from {module} import {name}" if is_import else f"import {module}; {path}"
            )
            expected.append((len(lines), removed.ruff))
    file = tmp_path / "names.py"
    file.write_text("\n".join(lines) + "\n")
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed here")
    command = [ruff, "check", "--isolated", "--select=NPY,PD,UP", "--output-format=json", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {(one["location"]["row"], one["code"]) for one in json.loads(done.stdout)}
    assert set(expected) - found == set()
