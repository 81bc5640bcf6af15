"""Whatever the bytes of a dataset of Petastorm's are: rows, or an error of ours."""

import sys
from pathlib import Path

import pytest
from tests.mds_backend.fuzz.many_cases import check_cases


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize("factor", [1, pytest.param(50, marks=pytest.mark.long)])
def test_damaged_datasets_of_petastorm_neither_crash_nor_take_memory(
    tmp_path: Path, factor: int
) -> None:
    assert check_cases("tests.conformance.damage", factor, tmp_path) == factor * 80
