"""The Python code in docs/trainers.md runs."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.kit.small_datasets import write_dataset
from tests.slow.trainers.launching import launch

PAGE = Path(__file__).parents[3] / "docs" / "trainers.md"
#: The titles of the sections that contain Python code.
SECTIONS = [
    title
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    if "```python" in text
]


@pytest.mark.long
@pytest.mark.parametrize("section", SECTIONS)
def test_python_blocks_of_section_run(section: str, tmp_path: Path) -> None:
    columns = {
        "age": np.linspace(1, 80, 100, dtype=np.float32),
        "fare": np.linspace(5, 500, 100, dtype=np.float32),
        "survived": np.arange(100) % 2,
    }
    fields = {"age": "float", "fare": "float", "survived": "long"}
    url = write_dataset(tmp_path / "passengers", columns, fields).url

    launch("page.py", url, section, at=tmp_path)
