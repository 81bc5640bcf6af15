"""Which pins leave no version of what mdstorm needs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.segments import Segment
from mdstorm_migrate.packaging.bounds import (
    BASE,
    EXTRAS,
    PYTHON,
    conflicts,
    raised,
    raised_python,
)
from mdstorm_migrate.packaging.conflicts import conflicts_in

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[3]


def declared(requirements: list[str]) -> dict[str, str]:
    """Return lower bounds by name, what other extras and older Pythons ask for left out."""
    found = {}
    for one in requirements:
        match = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", one)
        if match is not None:
            found[match[1]] = match[2]
    return found


def test_the_tables_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert declared(project["dependencies"]) == BASE
    assert {
        name: declared(extras[name]) for name in extras if name not in ("all", "dev", "docs")
    } == EXTRAS
    assert project["requires-python"] == f">={PYTHON}"


@pytest.mark.parametrize(
    ("specifier", "style"),
    [
        ("==1.20", "pip"),
        ("== 1.20.3", "pip"),
        ("===1.20.3+local", "pip"),
        ("==1.20.*", "pip"),
        ("~=1.20.0", "pip"),
        ("<=1.23.4", "pip"),
        ("<1.23.5", "pip"),
        (">=1.19,<1.22", "pip"),
        ("1.20", "poetry"),
        ("~1.20", "poetry"),
        ("^0.9", "poetry"),
        ("~1.19 || 1.20", "poetry"),
        ("=1.20", "conda"),
        ("=1.20.3=py38_0", "conda"),
        ("=1.20.3=py3.8_cuda11.1_cudnn8.0.5_0", "conda"),
        ("1.20.*", "conda"),
    ],
)
def test_pins_below_the_lower_bound_conflict(specifier: str, style: str) -> None:
    assert conflicts(specifier, "1.23.5", style)


@pytest.mark.parametrize(
    ("specifier", "style"),
    [
        ("==1.23.5", "pip"),
        ("==1.26.*", "pip"),
        ("~=1.20", "pip"),
        ("<=1.23.5", "pip"),
        ("<2", "pip"),
        (">=1.19", "pip"),
        ("!=1.20", "pip"),
        ("", "pip"),
        ("*", "poetry"),
        ("^1.19", "poetry"),
        ("1.20 || 2.1", "poetry"),
        ("=1", "conda"),
        ("=1.24=py3.10_0", "conda"),
        (">1.0", "conda"),
    ],
)
def test_others_leave_something(specifier: str, style: str) -> None:
    assert not conflicts(specifier, "1.23.5", style)


@pytest.mark.parametrize(
    ("specifier", "lowest", "expected"),
    [
        ("==1.20", "1.23.5", ">=1.23.5,<2"),
        ("<11", "14.0.1", ">=14.0.1"),
        ("==2021.10.0", "2023.5.0", ">=2023.5.0"),
        (">=1.5,<2", "2.0.1", ">=2.0.1"),
    ],
)
def test_what_takes_their_place_stays_in_the_major_version(
    specifier: str, lowest: str, expected: str
) -> None:
    assert raised(specifier, lowest) == expected
    assert not conflicts(expected, lowest)


def test_who_pins_an_older_spark_gets_no_newer_one_than_needed() -> None:
    assert raised("==2.4.5", "3.5", "pyspark") == ">=3.5,<4"
    assert raised("==3.1.2", "3.5", "pyspark") == ">=3.5,<4"


@pytest.mark.parametrize(
    ("specifier", "expected"),
    [
        (">=3.7", ">=3.10"),
        (">=3.6, <4", ">=3.10,<4"),
        ("~=3.7", ">=3.10,<4"),
        (">3.6,!=3.7.*,<3.12", ">=3.10,<3.12"),
        ("<4", ">=3.10,<4"),
        (">=3.7,<3.10", ">=3.10"),
        ("==3.8.*", ">=3.10"),
        ("^3.8", "^3.10"),
        ("*", ">=3.10"),
        (">=3.10", None),
        (">=3.11,<3.13", None),
        ("^3.11", None),
        ("==3.12.*", None),
    ],
)
def test_pythons_are_narrowed_to_those_that_mdstorm_has(
    specifier: str, expected: str | None
) -> None:
    assert raised_python(specifier) == expected
    if expected is not None:
        assert raised_python(expected) is None


@pytest.mark.parametrize(
    ("requirement", "is_refused"),
    [
        ("flask==1.1.4", True),
        ("mlflow==2.3.2", True),
        ("mlflow==2.0.1", True),
        ("numba==0.55.2", True),
        ("scipy==1.7.3", True),
        ("torch==1.10.2", True),  # for want of a build for Python 3.10
        ("tensorflow-cpu==2.7.4", True),
        ("tensorflow-cpu==2.8.0", False),
        ("flask==2.0.0", False),
        ("mlflow==1.20.2", False),  # which asked for nothing
        ("scipy==1.8.0", False),
        ("torch==1.11.0", False),
    ],
)
def test_others_are_refused_for_what_they_ask_for(requirement: str, is_refused: bool) -> None:
    document = Document("requirements", [Segment(f"petastorm\n{requirement}\n")])
    assert any(conflicts_in(document)) == is_refused
