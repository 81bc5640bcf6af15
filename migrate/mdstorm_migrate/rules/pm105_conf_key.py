"""PM105: the constant that holds Spark's key of the parent cache directory, in quotes."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.conf_writes import CONSTANT
from mdstorm_migrate.python.module import PythonModule, string_value

CODE = "PM105"
TITLE = "The constant of the parent cache directory, in quotes"
CLASS: Class = "manual"
KIND = "python"

_TYPO = f"SparkDatasetConverter.{CONSTANT}"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding where the name is set as a key.

    Petastorm's own key, which the constant holds in both libraries, stays wherever it is set.
    """
    for call in module.scopes.calls:
        if call.args and string_value(call.args[0]) == _TYPO:
            what = f"`{_TYPO}` is in quotes, so this sets a key that nothing reads"
            remedy = f"{what}: remove the quotes"
            yield Finding(CODE, "manual", *module.span(call.args[0]), what, remedy)
