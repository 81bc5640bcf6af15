"""The shares of the corpus that are migrated automatically, as the documentation gives them."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "count_automatic.py"


@pytest.mark.long
def test_the_table_is_that_of_the_corpus() -> None:
    script = runpy.run_path(str(SCRIPT))
    written = script["TARGET"].read_text("utf-8")
    assert written == script["page"](), "run scripts/count_automatic.py"
