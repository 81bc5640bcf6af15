"""PM403: ``setup.py``, ``setup.cfg`` and other INI files, and code that installs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from mdstorm_migrate.base.document import Document, is_setup_script
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging import requirement
from mdstorm_migrate.packaging.commands import installed, rewrite_commands, rewrite_runs
from mdstorm_migrate.packaging.lists import rewrite_listed
from mdstorm_migrate.packaging.rewriting import CONDA, MESSAGE, Place, manual, rewrite_requirement
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import PythonModule, inner_span, last_name, string_value
from mdstorm_migrate.rules.rule import rule

CODE = "PM403"

_WHAT = "this string requires Petastorm"
_REMEDY = "require mdstorm here; its version numbers are its own"
_PINNED = re.compile(rf"(?<![\w./-]){OLD_ROOT}(?:\[[^\]]*\])?[ ]?[=<>~!]=")
#: A requirement whose version is filled in, as in ``f"petastorm=={version}"``.
_OPEN = re.compile(rf"{OLD_ROOT}(?:\[[^\]]*\])?[ ]?[=<>~!]=[^\s'\"]*")
#: Uses of Petastorm in a string that also installs it. The string is edited only if all its uses
#: can be edited.
_USING = re.compile(rf"(?:from|import|-m)[ \t]+{OLD_ROOT}\b")
_ADDRESS = re.compile(r"(?:git|hg|svn)\+|\S+#egg=")
#: Functions and arguments that install packages, such as ``dbutils.library.installPyPI``.
_INSTALLS = re.compile(
    r"install|require|packages|dependenc|librar|pypi|(?:^|_)(?:pip|deps|reqs)", re.IGNORECASE
)
#: Those for which a name alone is a requirement. In ``require("petastorm")`` and
#: ``library="petastorm"``, it may be a module or an option of the project.
_INSTALLS_NAME = re.compile(
    r"install(?!ed)|pypi|(?:^|_)(?:pip|deps|reqs)|(?:require|packages|dependenc)(?!.*\(\))",
    re.IGNORECASE,
)
#: Arguments of ``setup()`` that may be a single requirement instead of a list.
_REQUIRES = re.compile("require")
#: Arguments of ``setup()`` whose lists are not requirements.
_NO_REQUIREMENTS = frozenset({"exclude", "keywords", "packages", "platforms", "py_modules"})
_LISTS = (ast.List, ast.Tuple, ast.Set)


@rule(
    CODE, "setup.py, setup.cfg and code that installs name mdstorm", "exact", "python", "setup_cfg"
)
def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield edits to a ``setup.py``, an INI file, or other code that installs packages."""
    if isinstance(module, PythonModule):
        is_setup = is_setup_script(module.document.path)
        for string in module.scopes.strings:
            if OLD_ROOT in str(string.value).lower():
                yield from _string_results(module, string, is_setup)
        return
    yield from rewrite_listed(module, CODE)
    yield from rewrite_commands(module, CODE)


def requires(module: PythonModule) -> bool:
    """Whether code requires or installs Petastorm."""
    return any(one.topic == "install" for one in check(module))


def _string_results(
    module: PythonModule, string: ast.Constant, is_setup: bool
) -> Iterator[Edit | Finding]:
    """Yield edits and findings for a string in code that requires or installs Petastorm."""
    value, span = str(string.value), inner_span(module, string)
    if isinstance(module.scopes.parents.get(string), ast.Expr):  # a docstring, or an example
        return
    runs = [] if span is None else list(rewrite_runs(module.document, CODE, *span))
    runs = [one for one in runs if isinstance(one, Edit)]  # others may be messages
    is_using = len(runs) < len(_USING.findall(value))
    yield from () if is_using else runs
    place: Place = "string"
    if _ADDRESS.match(value):
        found = list(requirement.find_addresses(value))
    elif (commands := [one for _, one in installed(value)]) and not is_using:
        found, place = commands, "word"
    elif requirement.is_requirement(value) and _is_required(module, string, is_setup):
        found = list(requirement.find_requirements(value))
    elif is_setup and (listed := list(_listed(value))):
        found, place = listed, "line"
    else:
        is_pinned = _PINNED.search(value) is not None
        is_listed = _OPEN.fullmatch(value) and _is_installed(module, string)
        is_other = requirement.is_requirement(value) and requirement.is_versioned(value)
        if (is_setup and is_pinned) or is_listed or _is_key(module, string):
            yield Finding(CODE, "manual", *module.span(string), _WHAT, _REMEDY, topic="install")
        elif is_other:  # nothing here is known to install it
            yield Finding(CODE, "manual", *module.span(string), _WHAT, _REMEDY)
        return
    for one in found:
        if span is None or module.text[slice(*span)] != value:  # several literals, or escapes
            yield Finding(CODE, "manual", *module.span(string), _WHAT, _REMEDY, topic="install")
            return
        at = replace(one, start=span[0] + one.start, stop=span[0] + one.stop)
        if place == "string" and _is_conda_string(module, string):
            yield manual(at, CODE, CONDA, "remove petastorm here, and let pip install mdstorm")
            continue
        call = module.scopes.parents.get(string)
        if place == "string" and isinstance(call, ast.Call) and not _is_install_command(call):
            place = "alone"  # most functions accept a single requirement
        for result in rewrite_requirement(module.document, at, CODE, place):
            yield result
            if isinstance(result, Edit) and (result.start, result.stop) == (at.start, at.stop):
                yield from _version_arguments(module, string)


def _is_key(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a key in a dictionary of packages: ``packages={"petastorm": "0.12"}``."""
    table = module.scopes.parents.get(string)
    if not isinstance(table, ast.Dict) or string not in table.keys or string.value != OLD_ROOT:
        return False
    is_extra = isinstance(table.values[table.keys.index(string)], _LISTS)
    return not is_extra and any(map(_INSTALLS_NAME.search, _holders(module, table)))


def _is_installed(module: PythonModule, string: ast.Constant) -> bool:
    """Whether what holds a string installs packages; see `_holders`."""
    if requirement.is_versioned(str(string.value)):
        return any(map(_INSTALLS.search, _holders(module, string)))
    # A list of plain names may also be a list of modules to import.
    return any(map(_INSTALLS_NAME.search, _holders(module, string, named=False)))


def _listed(value: str) -> Iterator[requirement.Requirement]:
    """Yield requirements with a version or an extra that have a line of their own in a string."""
    for line in re.finditer(r"[^\n]+", value):
        if (
            "\n" in value
            and requirement.is_requirement(line[0])
            and requirement.is_versioned(line[0])
        ):
            yield from requirement.find_requirements(value, *line.span())


def _is_required(module: PythonModule, string: ast.Constant, is_setup: bool) -> bool:
    """Whether a string that may be a requirement is listed among packages to install."""
    parent = module.scopes.parents.get(string)
    if _is_install_command(parent):
        return True
    if not is_setup:
        return _is_installed(module, string)
    is_extra = isinstance(parent, ast.Dict) and string in parent.values
    holders = [*_holders(module, parent if is_extra and parent is not None else string)]
    if not _NO_REQUIREMENTS.isdisjoint(holders):
        return False
    is_listed = isinstance(parent, _LISTS) or requirement.is_versioned(str(string.value))
    return is_listed or any(map(_REQUIRES.search, holders))


def _is_install_command(parent: ast.AST | None) -> bool:
    """Whether a list or call contains the words of an install command."""
    if isinstance(parent, ast.Call):
        is_named = last_name(parent.func) == "install"
        return is_named or any(string_value(one) == "install" for one in parent.args)
    words = parent.elts if isinstance(parent, _LISTS) else []
    return any(string_value(one) == "install" for one in words)


def _is_conda_string(module: PythonModule, string: ast.Constant) -> bool:
    """Whether conda installs a package, because conda is mentioned or pip has a separate list."""
    parent = module.scopes.parents.get(string)
    siblings = parent.elts if isinstance(parent, _LISTS) else []
    is_conda = any("conda" in one.lower() for one in _holders(module, string))
    return is_conda or any(isinstance(one, ast.Dict) for one in siblings)


def _version_arguments(module: PythonModule, string: ast.Constant) -> Iterator[Edit]:
    """Yield the edit that removes a separate version argument: ``f("petastorm", version=v)``."""
    call = module.scopes.parents.get(string)
    given = [*call.args, *call.keywords] if isinstance(call, ast.Call) else []
    for before, one in pairwise(given):
        value = string_value(one) if isinstance(one, ast.expr) else None
        if (value or "")[:1].isdigit() or getattr(one, "arg", None) == "version":
            start, stop = module.span(before)[1], module.span(one)[1]
            yield Edit(CODE, "exact", start, stop, "", MESSAGE, topic="install")


#: Functions and methods that return what they are given in a different form.
_SAME = frozenset({"format", "frozenset", "join", "list", "set", "sorted", "tuple"})
#: Maximum number of variables through which a value is followed.
_DEPTH = 3


def _holders(
    module: PythonModule, node: ast.AST, named: bool = True, depth: int = _DEPTH
) -> Iterator[str]:
    """Yield the names of the arguments, keys, calls and variables that hold a value.

    The name of a called function ends with ``()``. A value is followed through variables. The
    holder of a ``package`` is the next one: ``pypi`` in ``{"pypi": {"package": "petastorm"}}``.
    With `named`, the names of the variables count as well.
    """
    child, name = node, ""
    for owner in module.ancestors(node):
        match owner:
            case ast.Dict(keys=keys, values=values) if child in values:
                name = string_value(keys[values.index(child)]) or ""
            case ast.keyword(arg=argument):
                name = argument or ""
            case ast.Attribute(attr=method) if method in _SAME:
                pass
            case ast.Call(func=function):
                name = "" if last_name(function) in _SAME else f"{last_name(function)}()"
            case ast.List() | ast.Tuple() | ast.Set() | ast.Starred() | ast.BinOp():
                pass
            case ast.IfExp() | ast.JoinedStr() | ast.FormattedValue():
                pass
            case ast.Assign(targets=[ast.Name() as target]) | (
                ast.AnnAssign(target=ast.Name() as target)
                | ast.AugAssign(target=ast.Name() as target)
            ):
                yield from [target.id] if named else []
                for read in _reads(module, target) if depth else ():
                    yield from _holders(module, read, named, depth - 1)
                return
            case _:
                return
        if name not in ("", "package"):
            yield name
            return
        child = owner


def _reads(module: PythonModule, target: ast.Name) -> Iterator[ast.Name]:
    """Yield the reads of a variable."""
    for read in module.scopes.references.get(target.id, ()):
        if any(one.node is target for one in module.bindings(target.id, read.scope)):
            yield read.node
