"""PM110: arguments that concern Parquet."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.signatures import PARQUET
from mdstorm_migrate.python.calls import given_arguments
from mdstorm_migrate.python.module import PythonModule

CODE = "PM110"
TITLE = "Arguments about Parquet, and what they mean with mdstorm"
CLASS: Class = "note"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a note for each argument about Parquet in calls to Petastorm's API."""
    for given in given_arguments(module):
        for keyword in given.call.keywords:
            meaning = PARQUET.get(keyword.arg or "")
            if meaning is not None:
                what = f"`{keyword.arg}` of {given.function}(): {meaning}"
                yield Finding(CODE, CLASS, *module.span(keyword), what)
