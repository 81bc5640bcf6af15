"""PM103: strings that Python resolves as dotted names of Petastorm."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import NAMES, Class, Edit, Finding
from mdstorm_migrate.petastorm.configuration import is_called
from mdstorm_migrate.petastorm.names import (
    NEW_ROOT,
    OLD_ROOT,
    VERSION,
    is_module,
    missing,
    renamed,
)
from mdstorm_migrate.python.archives import of_shipped, shipped_library
from mdstorm_migrate.python.asked import (
    TAKES_DISTRIBUTION,
    has_version_beside,
    is_distribution,
    is_resource,
    looked_up,
)
from mdstorm_migrate.python.by_name import lacking_of_name
from mdstorm_migrate.python.call_strings import (
    call_with_first,
    function_of,
    is_docstring,
    is_measured,
    logger_class,
    resolving,
)
from mdstorm_migrate.python.fallbacks import has_fallback, is_fallback
from mdstorm_migrate.python.files import hooked, ships_package
from mdstorm_migrate.python.literals import inner_span, string_value
from mdstorm_migrate.python.messages import of_failed_import
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.module_tests import module_test
from mdstorm_migrate.python.patches import reaches_callers
from mdstorm_migrate.python.resolved import (
    PATCHES,
    RESOLVING,
    TAKES_PATH,
    compares_version,
    is_asked_beside,
    is_path,
)
from mdstorm_migrate.python.shadow import hiding
from mdstorm_migrate.python.tables import ItemUses, uses_of_item
from mdstorm_migrate.python.textual import is_annotation, is_evaluated, is_forward_reference
from mdstorm_migrate.python.warning_filters import (
    NamedInFilter,
    is_module_pattern,
    named_in_filter,
)

CODE = "PM103"
TITLE = "Name mdstorm in strings that Python reads as names"
CLASS: Class = "exact"
KIND = "python"

#: What reads data that is stored; a file that asks for such names may write them as well.
_READS = re.compile(r"\A(?!.*__(?:module|qualname)__).*\bjson\.loads?\(", re.DOTALL)
_PATH = re.compile(rf"{OLD_ROOT}(?:\.[^\W\d]\w*)*")
#: Why names wait that say which modules, or which files, are shipped.
_SHIPPED = "what is shipped is of one library or of the other"


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield an edit for each such string; a finding where mdstorm has nothing of that name."""
    if (hook := hooked(module)) and module.tree.body:
        yield _of_hook(module, hook)
    for string in module.scopes.strings:
        value = str(string.value)
        if (file := shipped_library(value)) and not is_docstring(module, string):
            yield of_shipped(file, CODE, *module.span(string))
        if named := named_in_filter(module, string):
            yield _of_filter(module, string, named)
        elif place := of_failed_import(module, string):
            message = "Python says so of an import of mdstorm that fails"
            yield Edit(CODE, "review", place, place + len(OLD_ROOT), NEW_ROOT, message)
        elif is_module_pattern(module, string):
            why = "mdstorm warns in other places"
            yield from _rewrite(module, string, value, None, "review", why=why)
        elif _PATH.fullmatch(value):
            if (logger := logger_class(module, string)) is not None:
                lacking = None if is_module(value) else value
                why = "mdstorm says other things there, and some of them under other names"
                yield from _rewrite(module, string, value, lacking, logger, why=why)
            elif is_path(module, string):
                yield from _of_path(module, string, value)
            elif function := ships_package(module, string):
                yield _of_files(module, string, function)
            elif what := looked_up(module, string):
                yield _asked_for(module, string, what)
            elif _is_left(module, string, value):
                yield _left(module, string, value)


def _of_path(module: PythonModule, string: ast.Constant, value: str) -> Iterator[Edit | Finding]:
    """Speak of a string that Python resolves."""
    if is_fallback(module, string):
        return
    if neighbour := hiding(module, value):
        yield _of_neighbour(module, string, neighbour)
    elif compares_version(module, string):
        yield _of_version(module, string)
    else:
        lacking = missing(value) or lacking_of_name(module, string, value)
        why = _why_review(module, string, value)
        cls: Class = CLASS if why is None else "review"
        yield from _rewrite(module, string, value, lacking, cls, NAMES, why=why)


def _of_filter(module: PythonModule, string: ast.Constant, named: NamedInFilter) -> Edit | Finding:
    """Speak of a module or a class that a filter of warnings names."""
    lacking = missing(named.path) if named.is_class else None
    if lacking is None and named.start is not None:
        stop = named.start + len(OLD_ROOT)
        return Edit(CODE, "review", named.start, stop, NEW_ROOT, "filter the warnings of mdstorm")
    what = f"this filter of warnings names `{named.path}`"
    if lacking:
        what = f"{what}, which is imported, and is not in mdstorm"
    return Finding(CODE, "manual", *module.span(string), what, f"{what}: change it by hand")


def _is_stored(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is compared with data from JSON, in a file that writes no names."""
    match module.scopes.parents.get(string):
        case (
            ast.Compare(left=ast.Subscript(slice=key))
            | ast.Compare(left=ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]))
        ):
            is_called_for = is_called(string_value(key))
            return _READS.search(module.text) is not None and not is_called_for
    return False


def _asked_for(module: PythonModule, string: ast.Constant, what: str) -> Finding:
    """Speak of a string that a function looks for, among modules, distributions or files."""
    message = f'{what} is given "{string.value!s}"'
    if is_resource(module, string):
        message = f"{message}, and mdstorm has other files than Petastorm"
        remedy = f"{message}: see which of them is meant"
        return Finding(CODE, "manual", *module.span(string), message, remedy)
    remedy = f"{message}: give it the name that is meant after the migration"
    if has_version_beside(module, string):
        remedy = f"{remedy}; mdstorm has its own version numbers"
    if what.removesuffix("()") in TAKES_DISTRIBUTION and is_distribution(module, string):
        return Finding(CODE, "manual", *module.span(string), message, remedy)
    return Finding(
        CODE,
        "manual",
        *module.span(string),
        message,
        remedy,
        holds=str(string.value),
        because="what it answers decides which code runs",
    )


def _of_files(module: PythonModule, string: ast.Constant, function: str) -> Finding:
    """Speak of a function that ships the files of a package."""
    what = f'{function} is given "{string.value!s}"'
    remedy = f"{what}: give it mdstorm's, and mdstorm_backend's beside it, which has the engine"
    holds, span = str(string.value), module.span(string)
    return Finding(CODE, "manual", *span, what, remedy, holds=holds, because=_SHIPPED)


def _of_hook(module: PythonModule, hook: str) -> Finding:
    """Speak of the name of a hook of PyInstaller's."""
    what = f"PyInstaller runs this file for `{hook}`, by the name of the file"
    remedy = f"{what}: call it `hook-{renamed(hook)}.py`"
    span = module.span(module.tree.body[0])
    return Finding(CODE, "manual", *span, what, remedy, holds=hook, because=_SHIPPED)


def _is_left(module: PythonModule, string: ast.Constant, value: str) -> bool:
    """Whether a string spells a path of mdstorm's, and nothing says what reads it.

    Types in strings, and code that is evaluated, find it by the name that the import binds.
    """
    if value == OLD_ROOT or missing(value) is not None:
        return False
    is_code = is_annotation(module, string) or is_forward_reference(module, string)
    is_read = is_code or is_evaluated(module, string)
    is_data = is_measured(module, string)
    return not is_read and not is_data and module_test(module, string) is None  # PM124 has those


def _left(module: PythonModule, string: ast.Constant, value: str) -> Finding:
    """Speak of a string of which nothing says what reads it.

    Names of modules are often names of loggers; classes and functions are looked up.
    """
    what = f'the string "{value}" names a part of Petastorm; it was left, since nothing says what '
    holds = value if resolving(module) else None
    if holds is None and (is_module(value) or _is_stored(module, string)):
        return Finding(CODE, "note", *module.span(string), f"{what}reads it")
    remedy = f'"{value}" names a part of Petastorm: name mdstorm in it if it is looked up'
    because = "what looks the name up gets it from the library that is named"
    return Finding(
        CODE,
        "manual",
        *module.span(string),
        f"{what}reads it",
        remedy,
        holds=holds,
        because=because,
    )


def _of_version(module: PythonModule, string: ast.Constant) -> Finding:
    what = "this asks for a version of Petastorm"
    remedy = f"{what}, and mdstorm has its own version numbers: name mdstorm, without a version"
    return Finding(CODE, "manual", *module.span(string), what, remedy)


def _of_neighbour(module: PythonModule, string: ast.Constant, neighbour: str) -> Finding:
    """Leave a name that may mean a file of the project's; imports of it are spoken of by PM115."""
    what = f"this may mean `{neighbour}` beside the file, not the library"
    if function_of(module, call_with_first(module, string)) not in TAKES_PATH:
        return Finding(CODE, "note", *module.span(string), what)
    remedy = f"{what}: if it means the library, name mdstorm"
    return Finding(CODE, "manual", *module.span(string), what, remedy)


def _rewrite(
    module: PythonModule,
    string: ast.Constant,
    value: str,
    lacking: str | None,
    cls: Class,
    group: str | None = None,
    *,
    why: str | None = None,
) -> Iterator[Edit | Finding]:
    inner = inner_span(module, string)
    if lacking is None and inner is not None:
        start = inner[0]
        message = f'"{value}" becomes "{renamed(value)}"'
        message = f"{message}; {why}" if why and cls == "review" else message
        yield Edit(CODE, cls, start, start + len(OLD_ROOT), NEW_ROOT, message, group)
        return
    if lacking == f"{value}.*":
        what = f'a part of "{value}" is imported by a name that is put together'
    elif lacking == VERSION:
        own = "mdstorm has its own version numbers"
        what = f'"{value}" is imported by name, and its `__version__` is used; {own}'
    elif lacking == value:
        what = f'"{value}" names a part of Petastorm that mdstorm does not have'
    elif lacking:
        what = f'"{value}" is imported by name, and of it `{lacking}`, which is not in mdstorm'
    else:
        what = f'"{value}" names a part of Petastorm, and could not be changed in place'
    because = _SHIPPED if _is_spec(module) else None
    remedy, span = f"{what}: change it by hand", module.span(string)
    yield Finding(CODE, "manual", *span, what, remedy, holds=value, because=because)


def _is_spec(module: PythonModule) -> bool:
    return module.document.path is not None and module.document.path.suffix == ".spec"


def _why_review(module: PythonModule, string: ast.Constant, value: str) -> str | None:
    """Return why an edit of a path is to be reviewed; None if it is exact.

    All files that it reaches must name the same library: that is checked across the run
    (`run.naming`). A patch reaches a caller of Petastorm's alone if Petastorm
    looks the name up itself.
    """
    items = uses_of_item(module, string)
    if items is not None and not _is_of_names_alone(module, string, items):
        return "it stands in a table that is used for something else, too"
    if has_fallback(module):
        return "this file goes on importing Petastorm where mdstorm is missing"
    if is_asked_beside(module, string):
        return "something else is asked for Petastorm beside it, and stays"
    if module.around.names is not None:
        return f"waits, since {module.around.names}"
    is_patch = function_of(module, call_with_first(module, string)) in PATCHES
    if is_patch and not (is_module(value) or reaches_callers(value)):
        is_method = not is_module(value.rpartition(".")[0])
        what = "may not call it" if is_method else "itself does not look it up there"
        return f"mdstorm {what}: see that your own code does"
    return None


def _is_of_names_alone(module: PythonModule, string: ast.Constant, items: ItemUses) -> bool:
    """Whether a table is nothing but names to resolve: a dictionary may have versions to them."""
    is_list = not isinstance(module.scopes.parents.get(string), ast.Dict)
    return is_list and items.are_only(RESOLVING)
