"""Single-column DataFrames, and the directory that tests write to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def frame(spark: Any) -> Callable[..., Any]:
    """Make a DataFrame with the column `v` from SQL literals, in two partitions if possible."""

    def make(*literals: str) -> Any:
        half = len(literals) // 2
        parts = [[f"({one})" for one in part] for part in (literals[:half], literals[half:])]
        queries = (f"SELECT col1 AS v FROM VALUES {', '.join(part)}" for part in parts if part)
        return spark.sql(" UNION ALL ".join(queries))

    return make


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A directory that does not exist yet."""
    return tmp_path / "dataset"


@pytest.fixture
def session_far_from_utc(set_conf: Any) -> None:
    set_conf("spark.sql.session.timeZone", "America/New_York")
