"""Run programs, and save what each program returns or raises, by program name, as JSON.

    record.py FOLDER OUTCOMES.json [NAME...]

FOLDER contains modules with `main(spark, directory)`, and folders with such a `main.py`. Run with
Petastorm's interpreter from `benchmarks/.environments`, this script records `outcomes.json`; the
tests run it with mdstorm's interpreter for the migrated programs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
SLOW_START_S = 0.1
KEYS = [f"{library}.spark.converter.parentCacheDirUrl" for library in ("petastorm", "mdstorm")]


def programs(folder: Path) -> dict[str, Path]:
    """Return the paths of the modules that have a `main`, by program name."""
    found = {path.stem: path for path in folder.glob("*.py")}
    found |= {path.parent.name: path for path in folder.glob("*/main.py")}
    return dict(sorted(found.items()))


def wait_for_rows() -> None:
    """Make Petastorm's readers pause after they start; otherwise, some would yield no rows."""
    try:
        from petastorm.reader import Reader
    except ImportError:
        return
    original = Reader.__init__

    def patient(self: Any, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        time.sleep(SLOW_START_S)

    Reader.__init__ = patient


def outcome(spark: Any, name: str, path: Path) -> Any:
    """Import a program from its own folder, as its users do, and return the result of `main`."""
    from pyspark import cloudpickle

    before = set(sys.modules)
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        # Spark's Python workers cannot import this module.
        cloudpickle.register_pickle_by_value(module)
        with tempfile.TemporaryDirectory() as directory:
            return json.loads(json.dumps(module.main(spark, directory)))
    finally:
        sys.path.remove(str(path.parent))
        for key in KEYS:
            spark.conf.unset(key)
        # Another project may have modules with the same names.
        for loaded in set(sys.modules) - before:
            file = getattr(sys.modules[loaded], "__file__", None) or ""
            if file.startswith(f"{path.parent}{os.sep}"):
                del sys.modules[loaded]


def main() -> None:
    """Run the named programs in a folder, or all of them, in one Spark session."""
    folder, outcomes, *names = sys.argv[1:]
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # If the parent process has a Spark session, this variable contains that session's settings.
    os.environ.pop("PYSPARK_SUBMIT_ARGS", None)
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    wait_for_rows()
    results: dict[str, Any] = {}
    for name, path in programs(Path(folder)).items():
        if names and name not in names:
            continue
        try:
            results[name] = {"returned": outcome(spark, name, path)}
        except BaseException as error:
            traceback.print_exc()
            results[name] = {"raised": f"{type(error).__name__}: {error}"}
        print(name, json.dumps(results[name], ensure_ascii=False)[:200], flush=True)
    Path(outcomes).write_text(
        json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
