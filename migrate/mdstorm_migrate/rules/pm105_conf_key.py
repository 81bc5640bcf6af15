"""PM105: the Spark conf key of the parent cache directory, as a literal."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY
from mdstorm_migrate.python.conf_writes import CONSTANT, conf_writes
from mdstorm_migrate.python.module import PythonModule, inner_span, string_value
from mdstorm_migrate.rules import pm201_cache_dir_argument as pm201

CODE = "PM105"
TITLE = "Set the parent cache directory under mdstorm's key"
CLASS: Class = "exact"
KIND = "python"

_TYPO = f"SparkDatasetConverter.{CONSTANT}"


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield an edit for each literal key, and a finding where a name was put in quotes.

    mdstorm reads both keys, its own first; the constant holds Petastorm's. So the edit is exact
    only where this file sets the literal and does nothing else with either key.
    """
    literals = [string for string in module.scopes.strings if string.value == CONF_KEY]
    keys = {write.key for write in conf_writes(module)}
    why = None
    if CONSTANT in module.text:
        why = f"this file also uses `{CONSTANT}`, which holds Petastorm's key"
    elif not keys.issuperset(literals) or module.text.count(CONF_KEY) > len(literals):
        why = "this file does more than set it; mdstorm reads both keys, its own first"
    message = f'"{CONF_KEY}" becomes "{NEW_CONF_KEY}"' + (f"; {why}" if why else "")
    removed = [
        (one.start, one.stop)
        for one in (pm201.check(module) if module.applies("PM201", "review") else ())
        if isinstance(one, Edit)
    ]
    for span in filter(None, (inner_span(module, literal) for literal in literals)):
        if not any(start <= span[0] < stop for start, stop in removed):
            cls: Class = "review" if why else CLASS
            yield Edit(CODE, cls, *span, NEW_CONF_KEY, message, CODE)
    for call in module.scopes.calls:
        if call.args and string_value(call.args[0]) == _TYPO:
            what = f"`{_TYPO}` is in quotes, so another key is set than the one that is read"
            remedy = f"{what}: remove the quotes"
            yield Finding(CODE, "manual", *module.span(call.args[0]), what, remedy)
