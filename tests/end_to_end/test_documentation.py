"""The Python in the documentation runs.

The blocks of a page run in their order and share their names, as a reader would type them. `spark`
is there already. What they write below ``/tmp`` goes into the test's own directory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mdstorm.spark import SparkDatasetConverter

ROOT = Path(__file__).parents[2]
#: Of `docs/trainers.md` see `tests.trainers.test_documentation`: it needs the frameworks.
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs/trainers.md"})]
FENCE = "```python\n"


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """Return the number of the first line, and the text, of every Python block."""
    text = page.read_text()
    blocks = [
        (text.count("\n", 0, match.start(1)), match[1])
        for match in re.finditer(rf"^{FENCE}(.*?)^```$", text, re.M | re.S)
    ]
    # None hides behind another way of writing its fence.
    assert len(blocks) == len(re.findall(r"^\s*[`~]{3,}\s*(?:python|py)\b", text, re.M)), page
    return blocks


def test_the_readme_shows_python() -> None:
    assert python_blocks(PAGES[0])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": page.name, "spark": spark}
    try:
        for line, block in python_blocks(page):
            program = block.replace("file:///tmp/", f"{tmp_path.as_uri()}/")
            # Empty lines in front: a traceback then names the line of the page.
            exec(compile("\n" * line + program, page, "exec"), names)
    finally:
        spark.conf.unset(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF)
