"""Run programs with Spark and MosaicML Streaming; print what they compute.

That is what their `main` returns, or what notebooks leave in `result`.
"""

import json
import os
import runpy
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(directory: str, *programs: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    found = {}
    for program in programs:
        place = Path(directory) / f"data_{Path(program).stem}"
        place.mkdir()
        given = {"spark": spark, "directory": str(place)}
        names = runpy.run_path(program, given)
        result = names["main"](**given) if "main" in names else names["result"]
        found[Path(program).stem] = result
    print(json.dumps(found))


main(*sys.argv[1:])
