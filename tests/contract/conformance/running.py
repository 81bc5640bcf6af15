"""Find programs, run them, and record their results."""

import faulthandler
import importlib
import inspect
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.contract.conformance.describing import describe

Program: TypeAlias = Callable[..., Any]

#: If a program runs longer, it counts as hanging, and the recording ends with a traceback.
_LONGEST_SECONDS = 60


def load_programs(folder: Path) -> dict[str, Program]:
    """Import all modules with programs; return the programs by name (``module.function``)."""
    package = ".".join(folder.parts[folder.parts.index("tests") :])
    found = {}
    for path in sorted(folder.glob("*.py")):
        module = importlib.import_module(f"{package}.{path.stem}")
        for name, function in vars(module).items():
            is_own = inspect.isfunction(function) and function.__module__ == module.__name__
            if is_own and not name.startswith("_"):
                found[f"{path.stem}.{name}"] = function
    return found


def needs_spark(program: Program) -> bool:
    return "spark" in inspect.signature(program).parameters


def run(program: Program, place: Any, spark: Any = None) -> Any:
    """Return a program's result as JSON values; `place` is its first argument."""
    arguments = [place, spark] if needs_spark(program) else [place]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(describe(program(*arguments))))


def record(home: Path, library: str, place: Callable[[Path], Any]) -> None:
    """Run programs under the library that they were written for; record or print the results.

    Parameters
    ----------
    home : Path
        A folder with ``programs``, and with the results in ``recorded.json``. If the command line
        names modules or programs, only those are run; with ``--print``, nothing is recorded.
    library : str
        The library and its version.
    place : callable
        Returns a program's first argument, given its own folder.
    """
    wanted = [argument for argument in sys.argv[1:] if argument != "--print"]
    programs, recorded = load_programs(home / "programs"), home / "recorded.json"
    # All folders are kept, because threads that outlive a program may use its files.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        results = _results(_chosen(programs, wanted), Path(root), place)
    if "--print" in sys.argv:
        print(json.dumps(results))
        return
    if wanted and recorded.exists():
        results = {**json.loads(recorded.read_text("utf-8")), **results}
    kept = {name: results[name] for name in programs if name in results}
    _save(recorded, kept)
    print(f"{library}: {len(kept)} programs", file=sys.stderr)


def _chosen(programs: dict[str, Program], wanted: list[str]) -> dict[str, Program]:
    """Return the programs whose name or module is wanted, or all programs if `wanted` is empty."""
    return {
        name: program
        for name, program in programs.items()
        if not wanted or name in wanted or name.partition(".")[0] in wanted
    }


def _results(
    programs: dict[str, Program], root: Path, place: Callable[[Path], Any]
) -> dict[str, Any]:
    results, spark = {}, None
    for name, program in programs.items():
        if needs_spark(program) and spark is None:
            spark = _make_session(root)
        faulthandler.dump_traceback_later(_LONGEST_SECONDS, exit=True)
        folder = root / name
        folder.mkdir()
        try:
            results[name] = run(program, place(folder), spark)
        except Exception as error:  # continue, to report the mistakes in all programs
            print(f"{name}: {error!r}", file=sys.stderr)
    return results


def _make_session(root: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = "petastorm.spark.converter.parentCacheDirUrl"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config(conf, (root / "cache").as_uri()).getOrCreate()


def _save(path: Path, results: dict[str, Any]) -> None:
    """Write the results as JSON, with one line per program."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(result, ensure_ascii=False)}"
        for name, result in results.items()
    )
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
