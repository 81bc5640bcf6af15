"""Record the programs' results under the real MosaicML Streaming.

::

    .venv-interop/bin/python -m tests.contract.interop.record [NAME…]

If names of modules or programs are given, only those are recorded again. With ``--print``, the
results are printed as JSON, and nothing is recorded.
"""

import faulthandler
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import streaming
from streaming.base.util import clean_stale_shared_memory
from tests.contract.conformance.running import chosen, load_programs, needs_spark, run_in, save

PROGRAMS, RECORDED = (Path(__file__).with_name(name) for name in ("programs", "recorded.json"))
#: If a program runs longer, it counts as hanging, and the recording ends with a traceback.
_LONGEST_SECONDS = 60


def make_session() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.getOrCreate()


def results_of(wanted: list[str], root: Path) -> dict[str, Any]:
    """Run the programs with the names in `wanted`, or all programs if it is empty.

    Their folders are kept until the end, because threads that outlive a program may use the files.
    """
    results, spark = {}, None
    for name, program in chosen(load_programs(PROGRAMS), wanted).items():
        if needs_spark(program) and spark is None:
            spark = make_session()
        faulthandler.dump_traceback_later(_LONGEST_SECONDS, exit=True)
        clean_stale_shared_memory()  # left by the previous program
        folder = root / name
        folder.mkdir()
        try:
            results[name] = run_in(folder, program, spark)
        except Exception as error:  # continue, to report the mistakes in all programs
            print(f"{name}: {error!r}", file=sys.stderr)
    return results


def main(arguments: list[str]) -> None:
    wanted = [argument for argument in arguments if argument != "--print"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        results = results_of(wanted, Path(root))
    if "--print" in arguments:
        print(json.dumps(results))
        return
    before = json.loads(RECORDED.read_text("utf-8")) if wanted and RECORDED.exists() else {}
    known = {**before, **results}
    kept = {name: known[name] for name in load_programs(PROGRAMS) if name in known}
    save(RECORDED, kept)
    print(f"MosaicML Streaming {streaming.__version__}: {len(kept)} programs", file=sys.stderr)


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    main(sys.argv[1:])
