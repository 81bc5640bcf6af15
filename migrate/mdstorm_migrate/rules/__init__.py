"""The rules: functions that declare themselves with `rule.rule` or `rule.remarks`.

A new rule is a function in a module of this folder, and a page ``docs/PM1nn.md``. Its code is the
number after the highest one: 1xx for Petastorm's code, 2xx for MosaicML Streaming's, 4xx for
requirements and settings. Only edits of 1xx rules wait while other code in the file still needs
Petastorm. Where rules usually begin:

- `PythonModule.calls`, `given_arguments` and `keywords_of_call`: calls of Petastorm's functions,
  also through ``partial``. They skip what they cannot follow without saying so, so a rule about a
  missing argument leaves out calls with ``*`` or ``**``.
- `PythonModule.makers`: what made an object, also if it comes from another file.
- `imported_names` and `dotted`: names that are imported, and attributes.

What holds for each rule:

- It modifies nothing that it inspects, and has nothing to edit in its own result.
- It yields each edit and each finding once. Edits of two rules do not overlap.
- An edit replaces an expression or a statement. No rule removes an argument, because mdstorm
  accepts Petastorm's arguments: report a finding instead.
- An edit that is right only together with the import of a name has the `group` of that import, and
  leaves out names that `action_for` keeps.
- Before Python 3.12, positions of nodes within f-strings are estimates: an edit needs `source_of`
  to return the node's text.
- In a notebook, an edit does not include the line break after a cell.

The page states what the rule does, and what must hold. Tests run its blocks ``python before``,
``python after`` (the file after all rules) and ``python by hand`` (what a person makes of it).
Test results with the functions in ``tests/kit/migrating.py``. If legacy programs get other
edits or comments, update ``expected.py`` in ``tests/unit/migrate/wild`` and ``wild2``, and
``tests/unit/migrate/corpus/after``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

from mdstorm_migrate.base.document import DocumentKind
from mdstorm_migrate.rules.rule import RULES, Rule

__all__ = ["Rule", "all_rules", "find_rule", "rules_for"]


@cache
def all_rules() -> Sequence[Rule]:
    """Return all rules, ordered by code."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return [RULES[code] for code in sorted(RULES)]


@cache
def rules_for(kind: DocumentKind, *, is_about_needs: bool) -> Sequence[Rule]:
    """Return the rules that check documents of a kind: those about needs, or the others."""
    return [
        one for one in all_rules() if kind in one.kinds and one.is_about_needs is is_about_needs
    ]


def find_rule(code: str) -> Rule | None:
    """Return the rule with the given code, in upper or lower case, or None if there is none."""
    return next((rule for rule in all_rules() if rule.code == code.upper()), None)
