"""The page of licences is what the installed packages declare."""

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.newest

SCRIPT = Path(__file__).parents[2] / "scripts" / "list_licences.py"


def test_the_page_is_up_to_date() -> None:
    script = runpy.run_path(str(SCRIPT))
    rows = script["required"]()
    assert {"always", "spark", "torch", "tf"} <= rows.keys()
    assert "Apache-2.0" in rows["always"]["pyarrow"]
    written = script["TARGET"].read_text(encoding="utf-8")
    assert written == script["page"](rows), "run scripts/list_licences.py"


def test_every_package_declares_one() -> None:
    rows = runpy.run_path(str(SCRIPT))["required"]()
    assert all(
        licence != "not declared" for packages in rows.values() for licence in packages.values()
    )
