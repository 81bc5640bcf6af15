"""Find programs, run them, and record their results."""

import importlib
import inspect
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.contract.conformance.describing import describe
from tests.contract.conformance.place import Place

_PROGRAMS = Path(__file__).with_name("programs")

#: Results of the programs under the real Petastorm, by name.
RECORDED = Path(__file__).with_name("recorded.json")

Program: TypeAlias = Callable[..., Any]


def load_programs(folder: Path = _PROGRAMS) -> dict[str, Program]:
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


def run(program: Program, folder: Path, spark: Any = None) -> Any:
    """Return a program's result as JSON values."""
    return run_in(Place(folder), program, spark)


def run_in(place: Any, program: Program, spark: Any = None) -> Any:
    """Run a program with a place of any class, not only a `Place`."""
    arguments = [place, spark] if needs_spark(program) else [place]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return describe(program(*arguments))


def chosen(programs: dict[str, Program], wanted: list[str]) -> dict[str, Program]:
    """Return the programs whose name or module is wanted, or all programs if `wanted` is empty."""
    return {
        name: program
        for name, program in programs.items()
        if not wanted or name in wanted or name.partition(".")[0] in wanted
    }


def save(path: Path, results: dict[str, Any]) -> None:
    """Write the results as JSON, with one line per program."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(result, ensure_ascii=False)}"
        for name, result in results.items()
    )
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
