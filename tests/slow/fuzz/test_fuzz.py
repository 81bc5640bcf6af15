"""Damaged datasets only raise mdstorm errors, without crashes or huge allocations."""

import sys
from importlib import import_module
from pathlib import Path
from random import Random

import pytest
from tests.kit.frameworks import import_framework
from tests.slow.fuzz.many_cases import check_cases

#: How many times each kind of damage is drawn.
FACTOR = 40


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize(("targets", "cases"), [("targets", 400), ("files", 140), ("iceberg", 72)])
def test_fuzzed_files_cause_no_crashes_and_do_not_exhaust_memory(
    targets: str, cases: int, tmp_path: Path
) -> None:
    _skip_without_pyiceberg(targets)
    assert check_cases(f"tests.slow.fuzz.{targets}", FACTOR, tmp_path) >= FACTOR * cases


@pytest.mark.parametrize("targets", ["targets", "files", "iceberg"])
def test_each_attack_runs_on_its_first_target(targets: str) -> None:
    _skip_without_pyiceberg(targets)
    for attack, names, _ in import_module(f"tests.slow.fuzz.{targets}").ATTACKS:
        attack(next(iter(names)), Random(0))


def _skip_without_pyiceberg(targets: str) -> None:
    if targets == "iceberg":
        import_framework("tests.kit.iceberg_tables")
