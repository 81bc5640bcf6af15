"""What is asked to be kept outlives the process, also if the copy is an older one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from mdstorm.spark import make_spark_converter

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
df = spark.range(5)
first = make_spark_converter(df, parent_cache_dir_url=sys.argv[1])
second = make_spark_converter(df, parent_cache_dir_url=sys.argv[1], {asked})
assert first.cache_dir_url == second.cache_dir_url
"""


@pytest.mark.parametrize("asked", ["keep=True", "cache_key='five'"])
def test_a_copy_is_kept_if_a_later_call_asks_for_it(asked: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(asked=asked))
    cache = tmp_path / "cache"
    subprocess.run(
        [sys.executable, program, f"file://{cache}"],
        check=True,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": "pyspark-shell"},
        capture_output=True,
    )
    assert len(list(cache.glob("*/index.json"))) == 1
    assert len(list(cache.glob("_mdstorm_cache_key_*"))) == ("cache_key" in asked)
