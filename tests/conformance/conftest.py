from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def spark_with_cache(
    spark: Any, tmp_path: Path, set_conf: Callable[[str, str | None], None]
) -> Any:
    """The session of the tests, with a directory for converted frames."""
    set_conf("petastorm.spark.converter.parentCacheDirUrl", f"file://{tmp_path / 'cache'}")
    return spark
