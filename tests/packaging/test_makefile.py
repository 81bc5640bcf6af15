"""The Makefile runs the tests in all folders."""

import re
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_MAKEFILE = (_TESTS.parent / "Makefile").read_text("utf-8")


def folders_run_by(targets: str) -> set[str]:
    """Return the test folders that are run by targets that match a regular expression."""
    lines = re.findall(rf"^(?:{targets}): TESTS := (.*)$", _MAKEFILE, re.MULTILINE)
    return {name for line in lines for name in line.split()}


@pytest.mark.parametrize(
    ("targets", "pattern"),
    [
        ("test-(?:engine|compat|readers|converter|peers)", ""),
        ("test-spark", r"pytest\.mark\.spark_session|def test_\w+\([^)]*\bspark: "),
    ],
)
def test_folders_with_tests_are_run_by_make_test(targets: str, pattern: str) -> None:
    found = {
        path.relative_to(_TESTS)
        for path in _TESTS.rglob("test_*.py")
        if re.search(pattern, path.read_text("utf-8"))
    }
    folders = {*folders_run_by(targets), "slow/trainers"}  # which has its own environment
    left = {path for path in found if not any(path.is_relative_to(one) for one in folders)}
    assert not left


def test_folders_left_out_of_a_part_are_another_part() -> None:
    lines = re.findall(r": LEFT_OUT [:+]= (.*)$", _MAKEFILE, re.MULTILINE)
    left_out = re.findall(r"--ignore=tests/(\S+)", " ".join(lines))
    assert left_out
    assert set(left_out) <= folders_run_by(r"test-\w+")
