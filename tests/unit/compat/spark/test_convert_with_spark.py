"""`convert` with a Spark job writes the same rows and columns as without Spark."""

from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tests.conftest import of_values, runs_python_on_executors
from tests.kit.parquet_files import numbers, write

import mdstorm
from mdstorm.cli import main

GOLDEN = Path(__file__).parents[1] / "etl" / "golden"


@of_values
@runs_python_on_executors
def test_convert_infers_same_partition_types_with_and_without_spark(
    spark: Any, tmp_path: Path
) -> None:
    for directory in ("n=1/d=2024-01-01", "n=02/d=2024-01-02", "n=3/d=1.50"):
        write(tmp_path / "source" / directory, numbers(5))
    with_spark, without = (
        mdstorm.convert(
            str(tmp_path / "source"), str(tmp_path / name), dtype="float32", spark=session
        )
        for name, session in (("a", spark), ("b", None))
    )
    assert with_spark.schema.names == ("n", "d", "id", "half", "text")
    order = [("n", "ascending"), ("id", "ascending")]  # Spark reads files in a different order
    tables = [dataset.to_table().sort_by(order) for dataset in (with_spark, without)]
    assert tables[0].equals(tables[1])


@of_values
@runs_python_on_executors
def test_convert_with_spark_decodes_petastorm_fields(spark: Any, tmp_path: Path) -> None:
    source, target = str(GOLDEN / "codecs"), str(tmp_path / "mds")
    mdstorm.convert(source, target, spark=spark)
    verify = ["verify", target, "--against", source]
    assert CliRunner().invoke(main, verify).exit_code == 0
