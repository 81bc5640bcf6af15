"""PM103: dotted names of Petastorm in strings that functions resolve."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from mdstorm_migrate.base.edits import NAMES, Class, Edit, Finding
from mdstorm_migrate.petastorm.names import (
    NEW_ROOT,
    OLD_ROOT,
    REMOVED,
    VERSION,
    is_module,
    missing,
    renamed,
)
from mdstorm_migrate.python.calls import call_with_first, function_of
from mdstorm_migrate.python.import_actions import has_fallback, is_fallback
from mdstorm_migrate.python.imports import lacking
from mdstorm_migrate.python.module import PythonModule, inner_span
from mdstorm_migrate.python.names_in_strings import (
    PATCHES,
    asking_version,
    is_filter,
    is_logger,
    is_resolved,
    lacking_of_module,
    may_be_resolved,
    reaches_callers,
    resolves,
)
from mdstorm_migrate.python.shadow import hiding

CODE = "PM103"
TITLE = "Name mdstorm in strings that Python reads as names"
CLASS: Class = "exact"
KIND = "python"

_PATH = re.compile(rf"{OLD_ROOT}(?:\.[^\W\d]\w*)*")
#: A part of one that code puts together, as in ``"petastorm." + name``.
_PART = re.compile(rf"{OLD_ROOT}\.(?:[\w.]*[.%{{][\w.(){{}}]*)?")
#: Loggers that mean the same in both libraries.
_SAME_LOGGERS = (OLD_ROOT, f"{OLD_ROOT}.spark.spark_dataset_converter")


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield an edit for each such string; a finding where it is not known what becomes of it."""
    for string in module.scopes.strings:
        value = str(string.value)
        if _PART.fullmatch(value) and resolves(module):
            yield _unknown(module, string, value)
        elif is_filter(module, string):
            why = module.around.stays and f"waits because {module.around.stays}"
            yield _renamed(module, string, value, None, why, None)
        elif not _PATH.fullmatch(value) or is_fallback(module, string):
            continue
        elif is_logger(module, string):
            why = module.around.stays and f"waits because {module.around.stays}"
            if value not in _SAME_LOGGERS:
                why = "mdstorm logs different messages under that name"
            yield _renamed(module, string, value, None if is_module(value) else value, why, None)
        elif call := asking_version(module, string):
            yield _renamed(module, string, value, lacking(module, call, VERSION), None, None)
        elif is_resolved(module, string):
            if local := hiding(module, value):
                what = f"this may mean `{local.name}`, not the library"
                yield Finding(CODE, "note", *module.span(string), what)
            else:
                lacked = missing(value) or lacking_of_module(module, string, value)
                yield _renamed(module, string, value, lacked, _why(module, string, value), NAMES)
        elif may_be_resolved(module, string):
            yield _unknown(module, string, value)


def _unknown(module: PythonModule, string: ast.Constant, value: str) -> Finding:
    """Speak of a string that code of the file may resolve."""
    what = f'this file resolves names at run time, and "{value}" may be one of them'
    remedy = f"{what}: if so, change it to mdstorm"
    return Finding(CODE, "manual", *module.span(string), what, remedy, holds=value)


def _renamed(
    module: PythonModule,
    string: ast.Constant,
    value: str,
    lacked: str | None,
    why: str | None,
    group: str | None,
) -> Edit | Finding:
    """Return the edit of a string, to be reviewed if there is a reason, or a finding."""
    inner, new = inner_span(module, string), renamed(value)
    is_both = re.search(rf"[\"']{re.escape(new)}[\"']", module.text) is not None
    if lacked is None and inner is not None and not is_both:
        message = f'"{value}" becomes "{new}"' + (f"; {why}" if why else "")
        cls: Class = "review" if why else CLASS
        return Edit(CODE, cls, inner[0], inner[0] + len(OLD_ROOT), NEW_ROOT, message, group)
    what, advice = f'"{value}" names a part of Petastorm', "change it by hand"
    if lacked == VERSION:
        what, advice = "Petastorm's version is compared here", REMOVED[VERSION]
    elif lacked is not None:
        what += f"; `{lacked}` is not in mdstorm"
    elif is_both:
        what = f'this file names both "{value}" and "{new}"'
    return Finding(CODE, "manual", *module.span(string), what, f"{what}; {advice}", holds=value)


def _why(module: PythonModule, string: ast.Constant, value: str) -> str | None:
    """Return why an edit of a name that is looked up is to be reviewed; None if it is exact.

    All files that it reaches must name the same library: that is checked across the run. A patch
    reaches a caller of Petastorm's alone if Petastorm looks the name up itself.
    """
    if has_fallback(module):
        return "this file still imports Petastorm where mdstorm is not installed"
    if module.around.names is not None:
        return f"waits because {module.around.names}"
    is_patch = function_of(module, call_with_first(module, string)) in PATCHES
    if is_patch and not (is_module(value) or reaches_callers(value)):
        return "mdstorm does not look it up there: check that your own code does"
    return None
