"""Record the programs' results under the real Petastorm.

::

    benchmarks/.environments/petastorm/bin/python -m tests.contract.conformance.record [NAME…]

If names of modules or programs are given, only those programs are recorded again.
"""

import faulthandler
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import petastorm
from tests.contract.conformance.running import (
    RECORDED,
    chosen,
    load_programs,
    needs_spark,
    run,
    save,
)

#: If a program runs longer, it counts as hanging, and the recording ends with a traceback.
_LONGEST_SECONDS = 60


def make_session(folder: str) -> Any:
    from pyspark.sql import SparkSession

    conf = "petastorm.spark.converter.parentCacheDirUrl"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config(conf, Path(folder).as_uri()).getOrCreate()


def main(wanted: list[str]) -> None:
    programs = load_programs()
    results = json.loads(RECORDED.read_text("utf-8")) if wanted and RECORDED.exists() else {}
    spark = None
    with tempfile.TemporaryDirectory() as cache:
        for name, program in chosen(programs, wanted).items():
            if needs_spark(program) and spark is None:
                spark = make_session(cache)
            faulthandler.dump_traceback_later(_LONGEST_SECONDS, exit=True)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    results[name] = run(program, Path(folder), spark)
                except Exception as error:  # continue, to report the mistakes in all programs
                    print(f"{name}: {error!r}", file=sys.stderr)
    kept = {name: results[name] for name in programs if name in results}
    save(RECORDED, kept)
    print(f"Petastorm {petastorm.__version__}: {len(kept)} programs", file=sys.stderr)


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    main(sys.argv[1:])
