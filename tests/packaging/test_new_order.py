"""An order that registers itself from one module passes the laws of orders."""

import re
import sys
from pathlib import Path

import pytest
from tests.kit.programs import run_command

pytestmark = pytest.mark.newest
ROOT = Path(__file__).parents[2]
LAWS = ("law/test_orders.py", "unit/mds_backend/order/test_order.py")


@pytest.mark.long
def test_order_of_one_module_passes_the_laws_of_orders() -> None:
    done = run_command(
        *(sys.executable, "-m", "pytest", "-p", "tests.packaging.from_end", "-k", "from-end"),
        *("-m", "not long", "-q", *(ROOT / "tests" / law for law in LAWS)),
        cwd=ROOT,
    )
    passed = re.search(r"^(\d+) passed, \d+ deselected", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= 16
