"""Finds the programs, and runs one."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.conformance.describing import describe
from tests.conformance.place import Place

__all__ = ["RECORDED", "Program", "load_programs", "needs_spark", "run"]

_PROGRAMS = Path(__file__).with_name("programs")

#: What the programs got from the real Petastorm, by name.
RECORDED = Path(__file__).with_name("recorded.json")

Program: TypeAlias = Callable[..., Any]


def load_programs() -> dict[str, Program]:
    """Import all modules of programs, and `petastorm` with them; names are ``module.function``."""
    found = {}
    for path in sorted(_PROGRAMS.glob("*.py")):
        module = importlib.import_module(f"tests.conformance.programs.{path.stem}")
        for name, function in vars(module).items():
            is_own = inspect.isfunction(function) and function.__module__ == module.__name__
            if is_own and not name.startswith("_"):
                found[f"{path.stem}.{name}"] = function
    return found


def needs_spark(program: Program) -> bool:
    return "spark" in inspect.signature(program).parameters


def run(program: Program, folder: Path, spark: Any = None) -> Any:
    """Return what a program gets, or which error it ends with, as JSON can hold it."""
    arguments = [Place(folder), spark] if needs_spark(program) else [Place(folder)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return describe(program(*arguments))
