"""A store that registers itself from one module passes the contract tests of stores."""

import re
import sys
from pathlib import Path

import pytest
from tests.kit.programs import run_command

pytestmark = pytest.mark.newest
ROOT = Path(__file__).parents[2]
CONTRACTS = ("stores", "parquet", "faults", "renewal_elsewhere")


@pytest.mark.long
def test_store_of_one_module_passes_the_contract_tests_of_stores() -> None:
    done = run_command(
        *(sys.executable, "-m", "pytest", "-p", "tests.packaging.shelf", "-k", "shelf", "-q"),
        *(ROOT / f"tests/unit/mds_backend/storage/test_{name}.py" for name in CONTRACTS),
        cwd=ROOT,
    )
    passed = re.search(r"^(\d+) passed, \d+ deselected", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= 15
