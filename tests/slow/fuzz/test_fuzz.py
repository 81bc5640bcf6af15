"""Damaged datasets only raise mdstorm errors, without crashes or huge allocations."""

import sys
from pathlib import Path

import pytest
from tests.slow.fuzz.many_cases import check_cases

#: How many times each kind of damage is drawn.
FACTOR = 40


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize(("targets", "cases"), [("targets", 400), ("files", 140), ("iceberg", 72)])
def test_fuzzed_files_cause_no_crashes_and_do_not_exhaust_memory(
    targets: str, cases: int, tmp_path: Path
) -> None:
    if targets == "iceberg":
        pytest.importorskip("tests.kit.iceberg_tables")
    assert check_cases(f"tests.slow.fuzz.{targets}", FACTOR, tmp_path) >= FACTOR * cases
