"""The rules, one per module, discovered by module name.

ARCHITECTURE.md explains how to add a rule. A rule must not modify what it inspects, and must not
find anything in its own output.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from mdstorm_migrate.base.document import Kind
from mdstorm_migrate.base.edits import Class, Edit, Finding

__all__ = ["Rule", "all_rules", "find_rule"]

_MODULE_NAME = re.compile(r"pm\d{3}_\w+")


@dataclass(frozen=True)
class Rule:
    """A migration rule, with the attributes that its module defines.

    Attributes
    ----------
    code : str
    title : str
    cls : Class
    kinds : tuple of Kind
    check : callable
    """

    code: str
    title: str
    cls: Class
    kinds: tuple[Kind, ...]
    check: Callable[[Any], Iterable[Edit | Finding]]

    def explain(self) -> str:
        """Return the manual's page about this rule, as Markdown."""
        page = resources.files(__name__) / "docs" / f"{self.code}.md"
        return page.read_text("utf-8")


@cache
def all_rules() -> Sequence[Rule]:
    """Return all rules, ordered by code."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    found = [_load(name) for name in names if _MODULE_NAME.fullmatch(name)]
    return sorted(found, key=lambda rule: rule.code)


def find_rule(code: str) -> Rule | None:
    """Return the rule with the given code, in upper or lower case, or None if there is none."""
    return next((rule for rule in all_rules() if rule.code == code.upper()), None)


def _load(name: str) -> Rule:
    module = importlib.import_module(f"{__name__}.{name}")
    kinds = module.KIND if isinstance(module.KIND, tuple) else (module.KIND,)
    return Rule(module.CODE, module.TITLE, module.CLASS, kinds, module.check)
