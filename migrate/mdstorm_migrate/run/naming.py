"""What strings of files that name modules do.

``mock.patch("petastorm.make_reader")`` means the library that the code under test calls, and
``_target_: petastorm.make_reader`` in a file of configuration makes objects that code takes. Such a
file and what it reaches move together, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from mdstorm_migrate.base.edits import NAMES, Edit, Finding
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.names_in_strings import patches, patches_by_name

#: Nothing, import, replace parts of modules, configure.
Naming: TypeAlias = Literal["", "imports", "patches", "configures"]

#: Rules about strings that name modules.
_NAMING = frozenset({"PM103", "PM131"})


def naming_of(
    module: PythonModule | None, edits: Iterable[Edit], findings: Iterable[Finding]
) -> Naming:
    """Return what strings of a document that name modules do."""
    findings = list(findings)
    is_patching = any(one.rule == "PM108" for one in findings)
    if is_patching or (module is not None and patches(module)):
        return "patches"
    is_named = any(edit.group == NAMES for edit in edits)
    if not is_named and not any(one.rule in _NAMING and one.holds for one in findings):
        return ""
    if module is None:
        return "configures"
    return "patches" if patches_by_name(module) else "imports"
