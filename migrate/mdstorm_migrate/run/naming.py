"""What strings of files that name modules do.

``mock.patch("petastorm.make_reader")`` means the library that the code under test calls. Such a
file and what it reaches move together, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from mdstorm_migrate.base.edits import NAMES, Edit, Finding
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.names_in_strings import patches, patches_by_name

#: Nothing, import, replace parts of modules.
Naming: TypeAlias = Literal["", "imports", "patches"]

#: The rule about strings that name modules.
_NAMING = "PM103"


def naming_of(
    module: PythonModule | None, edits: Iterable[Edit], findings: Iterable[Finding]
) -> Naming:
    """Return what strings of a document that name modules do."""
    if module is None:
        return ""
    if patches(module):
        return "patches"
    is_named = any(edit.group == NAMES for edit in edits)
    if not is_named and not any(one.rule == _NAMING and one.holds for one in findings):
        return ""
    return "patches" if patches_by_name(module) else "imports"
