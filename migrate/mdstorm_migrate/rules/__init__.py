"""The rules: functions that declare themselves with `rule.rule` or `rule.remarks`.

ARCHITECTURE.md explains how to add a rule. A rule must not modify what it inspects, and must not
find anything in its own output.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

from mdstorm_migrate.rules.rule import RULES, Rule

__all__ = ["Rule", "all_rules", "find_rule", "recipe_of"]


@cache
def all_rules() -> Sequence[Rule]:
    """Return all rules, ordered by code."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return [RULES[code] for code in sorted(RULES)]


def find_rule(code: str) -> Rule | None:
    """Return the rule with the given code, in upper or lower case, or None if there is none."""
    return next((rule for rule in all_rules() if rule.code == code.upper()), None)


@cache
def recipe_of(code: str) -> dict[str, str] | None:
    """Return code that a rule reports, and code that does the same with mdstorm, if known."""
    found = find_rule(code)
    blocks = {} if found is None else found.examples()
    if "by hand" not in blocks:
        return None
    return {"before": blocks["before"].code, "after": blocks["by hand"].code}
