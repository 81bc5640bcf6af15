"""Damaged datasets only raise mdstorm errors, without crashes or huge allocations."""

import sys
from pathlib import Path

import pytest
from tests.mds_backend.fuzz.many_cases import check_cases


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize(("targets", "cases"), [("targets", 400), ("files", 140), ("iceberg", 72)])
@pytest.mark.parametrize("factor", [1, pytest.param(40, marks=pytest.mark.long)])
def test_fuzzed_files_cause_no_crashes_and_do_not_exhaust_memory(
    targets: str, cases: int, factor: int, tmp_path: Path
) -> None:
    if targets == "iceberg":
        pytest.importorskip("tests.iceberg_tables")
    assert check_cases(f"tests.mds_backend.fuzz.{targets}", factor, tmp_path) >= factor * cases
