"""Whether a string of a program stands where packages to install are listed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.tables import places_of

#: Arguments of ``setup()`` that hold no requirements; names of variables that are given to them.
_OTHER_ARGUMENTS = frozenset(
    [
        "classifiers",
        "data_files",
        "exclude",
        "include",
        "keywords",
        "namespace_packages",
        "package_data",
        "package_dir",
        "packages",
        "platforms",
        "provides",
        "py_modules",
        "scripts",
    ]
)
#: Functions that take what is installed: ``session.install``, ``cd.add_pip_package``.
INSTALLING = re.compile(
    r"install\w*$|(?:^|_)add_(?:\w+_)?(?:packages?|dependenc(?:y|ies)|requirements?|librar(?:y|ies))$",
    re.IGNORECASE,
)
#: Arguments of these functions that say what is installed.
_IS_PACKAGE = re.compile(r"name|package|librar|requirement|dependenc|spec|pip|pypi")
#: Keys and arguments that hold requirements: of Ray, MLflow, Databricks and others.
REQUIRES = re.compile(
    r"^(?:pip|package|pypi)$|requirements|dependencies|packages_to_install|(?:pip|conda)_packages"
    r"|^(?:install|setup|tests)_requires?$"
)
#: Arguments that hold names with versions, as Metaflow and cluster-pack have them.
_VERSIONS = re.compile(r"(?:^|_)(?:libraries|packages|dependencies)$")


def is_required(module: PythonModule, node: ast.expr) -> bool:
    """Whether it stands under a name of requirements, or behind ``install`` in a command."""
    parent = module.scopes.parents.get(node)
    child: ast.AST = node
    if _is_installed(module, node):
        return True
    if isinstance(parent, ast.Call) and node in parent.args:
        return _is_behind_install(parent.args, node)
    if isinstance(parent, ast.List | ast.Tuple | ast.Set):
        if _is_behind_install(parent.elts, node):
            return True
        child, parent = parent, module.scopes.parents.get(parent)
    if isinstance(parent, ast.Dict) and child in parent.keys:
        return _has_version(module, parent, child)
    if isinstance(parent, ast.Dict) and child in parent.values:
        key = string_value(parent.keys[parent.values.index(child)])
        if key == "packages":  # below ``pip``, as Ray has it
            above = module.scopes.parents.get(parent)
            if isinstance(above, ast.Dict) and parent in above.values:
                key = string_value(above.keys[above.values.index(parent)])
    else:
        key = parent.arg if isinstance(parent, ast.keyword) else None
        if key == "packages" and child is not node:  # of a function of Snowpark's
            call = module.scopes.parents.get(parent) if parent else None
            return isinstance(call, ast.Call) and last_name(call.func) != "setup"
    return key is not None and REQUIRES.search(key) is not None


def is_in_list(module: PythonModule, node: ast.expr) -> bool:
    """Whether it stands in a list that may hold requirements of a ``setup.py``."""
    if not isinstance(module.scopes.parents.get(node), ast.List | ast.Tuple | ast.Set):
        return False
    for parent in module.ancestors(node):
        if isinstance(parent, ast.keyword) and parent.arg in _OTHER_ARGUMENTS:
            return False
        if isinstance(parent, ast.Assign | ast.AnnAssign):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            names = {one.id.lower() for one in targets if isinstance(one, ast.Name)}
            return not names & _OTHER_ARGUMENTS
    return True


def is_written(module: PythonModule, node: ast.expr) -> bool:
    """Whether it is the argument of a call that writes a text to a file."""
    parent = module.scopes.parents.get(node)
    name = ast.unparse(parent.func) if isinstance(parent, ast.Call) else ""
    return re.search(r"\bwrite(?:_text)?$", name) is not None


def name_of(module: PythonModule, string: ast.Constant) -> str | None:
    """Return the key, the argument or the variable whose value a string is; None without one."""
    match module.scopes.parents.get(string):
        case ast.Dict(keys=keys, values=values) if string in values:
            return string_value(keys[values.index(string)]) or ""
        case ast.keyword(arg=name):
            return name
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            node = target.slice if isinstance(target, ast.Subscript) else target
            return string_value(node) or ast.unparse(node)
        case ast.Call(args=[first, *_]) if string is not first:
            return string_value(first)  # `setenv("PIP_PACKAGES", "…")`
    return None


def read_as(module: PythonModule, string: ast.Constant) -> Iterator[ast.expr]:
    """Yield where a string is read by the name that it is given: the whole texts made of it."""
    match module.scopes.parents.get(string):
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
            home = module.scopes.scopes[string].home(name)
            if home is None or len(home.bindings[name]) != 1:
                return
            for one in module.scopes.references.get(name, ()):
                if one.scope.may_see(name, home):
                    yield _whole(module, one.node)


def read_from_list(module: PythonModule, string: ast.Constant) -> Iterator[ast.expr]:
    """Yield where the items of the list are read that a string is in: by a loop, or all at once."""
    table = module.scopes.parents.get(string)
    if not isinstance(table, ast.List | ast.Tuple):
        return
    for place in places_of(module, table):
        parent = module.scopes.parents.get(place)
        if isinstance(parent, ast.Starred):
            yield parent
        elif isinstance(parent, ast.keyword) and isinstance(place, ast.expr):
            yield place
        elif parent is not None and (name := _loop_variable(parent, place)):
            for node in ast.walk(parent):
                if isinstance(node, ast.Name) and node.id == name:
                    yield _whole(module, node)


def _loop_variable(loop: ast.AST, table: ast.AST) -> str | None:
    """Return the name that a loop, or a comprehension, gives to the items of a table."""
    target = None
    match loop:
        case ast.For(target=found, iter=iterated) if iterated is table:
            target = found
        case (
            ast.ListComp(generators=parts)
            | ast.SetComp(generators=parts)
            | ast.DictComp(generators=parts)
            | ast.GeneratorExp(generators=parts)
        ):
            target = next((one.target for one in parts if one.iter is table), None)
    return target.id if isinstance(target, ast.Name) else None


def _whole(module: PythonModule, node: ast.expr) -> ast.expr:
    """Return the outermost text that a value goes into, such as ``"%s==%s" % (NAME, VERSION)``."""
    whole = node
    for parent in module.ancestors(node):
        match parent:
            case ast.BinOp() | ast.JoinedStr():
                whole = parent
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant())):
                whole = parent
            case ast.FormattedValue() | ast.keyword():
                pass
            case ast.Tuple() if isinstance(module.scopes.parents.get(parent), ast.BinOp):
                pass
            case _:
                break
    return whole


def _is_installed(module: PythonModule, node: ast.expr) -> bool:
    """Whether it is an argument, or in a list that is one, of a function that installs."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Call):
            return INSTALLING.search(last_name(parent.func)) is not None
        if isinstance(parent, ast.keyword):
            if _IS_PACKAGE.search(parent.arg or "") is None:
                return False
        elif not isinstance(parent, ast.List | ast.Tuple | ast.Set | ast.Starred):
            return False
    return False


def _is_behind_install(words: list[ast.expr], node: ast.expr) -> bool:
    return any(string_value(one) == "install" for one in words[: words.index(node)])


def _has_version(module: PythonModule, table: ast.Dict, key: ast.AST) -> bool:
    """Whether a key has a version, and stands in the argument of a call that lists packages."""
    value = table.values[table.keys.index(key)]  # type: ignore[arg-type]
    version = string_value(value)
    is_version = not isinstance(value, ast.Constant) or re.match(r"[\d*=<>~]", version or "")
    above = module.scopes.parents.get(table)
    name = above.arg if isinstance(above, ast.keyword) else None
    return bool(is_version) and name is not None and _VERSIONS.search(name) is not None
