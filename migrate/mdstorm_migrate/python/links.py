"""What links a Python file to the other files of a project: its imports, and names in strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from mdstorm_migrate.petastorm.absent import INCIDENTAL
from mdstorm_migrate.petastorm.names import OLD_ROOT, is_petastorm, is_within
from mdstorm_migrate.python.calls import IMPORTING, called, defined_name
from mdstorm_migrate.python.makers import handed_loaders
from mdstorm_migrate.python.module import PythonModule, dotted, string_value

#: ``%run ./utils``, in a cell or in a comment of a Databricks notebook.
RUN = re.compile(
    r"^[ \t]*(?:\#[ \t]*MAGIC[ \t]+)?%run[ \t]+(?:-\w+[ \t]+)*(?P<quote>[\"']?)(?P<path>[^\"'\s]+)",
    re.MULTILINE,
)

#: Functions that resolve names, and their calls and definitions, except calls with a literal. The
#: names are given elsewhere, as in a table or a configuration file, or are assembled by code.
_RESOLVING = (
    *("import_module", "__import__", "import_string", "locate", "resolve_name", "instantiate"),
    *("find_spec", "importorskip"),
    *("get_class", "get_method", "get_object", "load_class", "load_object"),
    *("LightningCLI", "auto_cli", "CLI"),
)
_RESOLVES = re.compile(
    rf"\b(?:{'|'.join(_RESOLVING)})\(\s*(?:(?![\s\"'])|([\"'])[^\"'\n]*\1\s*[+%.])"
)

#: Functions that find an installed distribution, and the module of one with a common name.
DISTRIBUTIONS = frozenset({"distribution", "get_distribution"})
METADATA = re.compile(r"\bimportlib(?:[._]|[ ]import[ ])metadata\b|\bmetadata\.version\(")
_FINDERS = IMPORTING | DISTRIBUTIONS
#: Functions that import a module by its name, and those that find an object in one.
_IMPORTING = ("import_module", "__import__", "run_module")
_FINDING = ("import_string", "locate", "resolve_name")
#: Words in code that names modules without a function that resolves names: for pytest, and for what
#: writes the metadata of a dataset.
_NAMING = ("pytest_plugins", "unischema_class", "generate_petastorm_metadata")
#: A script that code executes, as in ``exec(open("utils.py").read())``.
_EXECUTED = re.compile(
    r"\b(?:exec(?:file)?|run_path)\([^\n]{0,80}?[\"'](?P<path>[^\"'\s]{1,200}\.py)[\"']"
)
#: ``compat.petastorm``, in code or in a string such as the target of a mock; and its name as an
#: argument or a key, as in ``patch.object(compat, "petastorm")`` and ``vars(compat)["petastorm"]``.
_OWNER = re.compile(
    rf"""\b(\w+)(?:\.{OLD_ROOT}\b
    |\)?\[["']{OLD_ROOT}["']
    |\s*,\s*(?:\w+=)?["']{OLD_ROOT}["']
    |["']?\s*,\s*{OLD_ROOT}=)""",
    re.VERBOSE,
)
#: What every match of it contains, which is much faster to find.
_OWNED = (f".{OLD_ROOT}", f'"{OLD_ROOT}"', f"'{OLD_ROOT}'", f"{OLD_ROOT}=")
#: ``f"{MODULE}.petastorm"``, or another string that assembles the path of the name in a module.
_ASSEMBLED = re.compile(rf"[}}\"']\.{OLD_ROOT}\b")
#: A string that may be the path of a module, or of something in it.
_NAMED = re.compile(r"[\"'](?P<dots>\.*)(?P<path>[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*)[\"']")
#: The class that a command in a string imports.
_CLASS = re.compile(r"--unischema_class[ =]+(?P<path>\w+(?:\.\w+)+)")
#: A string that may be the path of a module.
_MODULE = re.compile(r"[\"'](?:\w+\.)*(\w+)[\"']")


@dataclass(frozen=True)
class FileImport:
    """A name that a file imports from another file.

    Attributes
    ----------
    module : str
        The module as the import names it, or the path of a notebook or script that runs here.
    level : int
        Number of leading dots; -1 for a path.
    name : str
        The name in that module; ``*`` for all, an empty string for the module itself.
    bound : str
        The name in this file; empty if no statement binds one.
    """

    module: str
    level: int
    name: str
    bound: str


@dataclass(frozen=True)
class Links:
    """What links a file to other files.

    Attributes
    ----------
    imports : tuple of FileImport
    needs_root : bool
        Whether the file uses a name ``petastorm`` that it does not bind.
    resolves : bool
        Whether the file resolves names that are given elsewhere, as in configuration.
    finders : frozenset of str
        Its functions and classes that find modules or distributions by names given to them.
    owners : frozenset of str
        Names whose attribute ``petastorm`` the file uses, in code or in strings.
    parts : frozenset of (str, str)
        The names of the module that refer to parts of Petastorm, with their paths; ``*`` for all
        names of a part.
    packages : frozenset of str
        Its functions that return the package ``petastorm``.
    handed : frozenset of (str, str)
        The functions to which it passes a converter's loader, and the position or keyword.
    """

    imports: tuple[FileImport, ...] = ()
    needs_root: bool = False
    resolves: bool = False
    finders: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    parts: frozenset[tuple[str, str]] = frozenset()
    packages: frozenset[str] = frozenset()
    handed: frozenset[tuple[str, str]] = frozenset()


def links_of(module: PythonModule) -> Links:
    """Return what links a module to other files."""
    references = module.scopes.references.get(OLD_ROOT, ())
    nodes = module.scopes.nodes
    imports = sorted(nodes[ast.Import] + nodes[ast.ImportFrom], key=lambda one: one.lineno)
    return Links(
        (
            *file_imports(imports),
            *filter(None, map(imported_by_name, module.scopes.calls)),
            *named_modules(module.text),
            *runs_of(module.text),
        ),
        any(one.scope.home(OLD_ROOT) is None for one in references),
        resolves(module.text),
        finders_of(module),
        frozenset(_owners(module)),
        frozenset(_parts(module)),
        frozenset(_packages(module)),
        frozenset(handed_loaders(module)),
    )


def _parts(module: PythonModule) -> Iterator[tuple[str, str]]:
    scope = module.scopes.module
    for name, bindings in scope.bindings.items():
        for one in bindings if OLD_ROOT in module.text else ():
            above = module.scopes.parents.get(one.node)
            value = above.value if isinstance(above, ast.Assign) else None
            path = one.target if value is None else module.resolve(value, scope)
            if path is not None and is_petastorm(path):
                yield name, path


def _packages(module: PythonModule) -> Iterator[str]:
    """Yield the functions of the module that return the package itself."""
    functions = {one.name for one in module.tree.body if isinstance(one, ast.FunctionDef)}
    for node in module.scopes.nodes[ast.Return] if OLD_ROOT in module.text else ():
        if isinstance(value := node.value, ast.Name) and _around(module, node) in functions:
            path = module.resolve(value, module.scope_of(value))
            yield from [_around(module, node)] if path == OLD_ROOT else []


def unbound_names(module: PythonModule) -> frozenset[str]:
    """Return the names that a file uses without binding them, and that Petastorm's modules leak."""
    references = module.scopes.references
    return frozenset(
        name
        for name in INCIDENTAL & references.keys()
        if any(one.scope.home(name) is None for one in references[name])
    )


def _owners(module: PythonModule) -> Iterator[str]:
    if not any(one in module.text for one in _OWNED):
        return
    yield from _OWNER.findall(module.text)
    if _ASSEMBLED.search(module.text) is not None:
        yield from _MODULE.findall(module.text)
        if module.document.path is not None:
            yield module.document.path.stem  # `__name__`


def all_imports(nodes: Iterable[ast.AST]) -> Iterator[FileImport]:
    """Yield the names that statements among the nodes import."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (file_import(node, alias) for alias in node.names)


def file_imports(nodes: Iterable[ast.AST]) -> Iterator[FileImport]:
    """Yield the names that statements among the nodes import, except from Petastorm."""
    return filter(_is_of_project, all_imports(nodes))


def _is_of_project(item: FileImport) -> bool:
    return bool(item.level) or not is_petastorm(item.module)


def dotted_import(item: FileImport) -> str:
    """Return the dotted name that an absolute import imports."""
    return f"{item.module}.{item.name}" if item.name not in ("", "*") else item.module


def file_import(statement: ast.AST, alias: ast.alias) -> FileImport:
    """Return what one name in an import statement imports."""
    if isinstance(statement, ast.ImportFrom):
        bound = alias.asname or alias.name
        return FileImport(statement.module or "", statement.level, alias.name, bound)
    return FileImport(alias.name, 0, "", alias.asname or alias.name.partition(".")[0])


def imported_by_name(call: ast.Call) -> FileImport | None:
    """Return what ``import_module("lib.pool")`` imports, or None for other calls."""
    match call:
        case ast.Call(
            func=ast.Name(function) | ast.Attribute(attr=function),
            args=[ast.Constant(str(written)), *others],
        ) if function in (*_IMPORTING, *_FINDING):
            path, _, name = written.partition(":")
            module = path.lstrip(".")
            level = len(path) - len(module)
            packages = (*others[:1], *(one.value for one in call.keywords if one.arg == "package"))
            package = next(filter(None, map(string_value, packages)), "")
            if level and package:
                above = package.split(".")[: len(package.split(".")) + 1 - level]
                module, level = ".".join([*above, module]), 0
            if function in _FINDING and not name:
                module, _, name = module.rpartition(".")
            return None if is_petastorm(module) else FileImport(module, level, name, "")
    return None


def named_modules(text: str) -> Iterator[FileImport]:
    """Yield what strings may name in code that resolves names, except parts of Petastorm.

    In a module with ``__getattr__``, a word may be a module next to it.
    """
    is_lazy = "__getattr__" in text
    is_naming = is_lazy or any(word in text for word in _NAMING) or resolves(text)
    for option in _CLASS.finditer(text) if "--unischema_class" in text else ():
        module, _, name = option["path"].rpartition(".")
        yield FileImport(module, 0, name, "")
    for string in _NAMED.finditer(text) if is_naming else ():
        level, path = len(string["dots"]), string["path"].replace(":", ".")
        module, dot, name = path.rpartition(".")
        if not is_petastorm(path) and (dot or level or is_lazy):
            yield FileImport(module, level or int(not dot), name, "")


def runs_of(text: str) -> Iterator[FileImport]:
    """Yield the notebooks that ``%run`` runs, and the scripts that code executes."""
    for words, pattern in ((("%run",), RUN), (("exec", "run_path"), _EXECUTED)):
        is_there = any(word in text for word in words)
        for run in pattern.finditer(text) if is_there else ():  # most files have neither
            yield FileImport(run["path"].removesuffix("\\n"), -1, "*", "*")


def resolves(text: str) -> bool:
    """Whether code calls or defines a function that resolves names given elsewhere."""
    return any(one in text for one in _RESOLVING) and _RESOLVES.search(text) is not None


@lru_cache(maxsize=1)
def finders_of(module: PythonModule) -> frozenset[str]:
    """Return the functions and classes that find modules or distributions by names given to them.

    It has an empty string if code outside of them does so.
    """
    nodes = (*filter(lambda one: _finds_given(module, one), module.scopes.calls), *_asked(module))
    finders = {_around(module, one) for one in nodes}
    todo = [*finders]
    while todo:
        reads = module.scopes.references.get(todo.pop(), ())
        new = {_around(module, one.node) for one in reads} - finders - {""}
        finders |= new
        todo += new
    return frozenset(finders)


def _around(module: PythonModule, node: ast.AST) -> str:
    """Return the outermost function, class or variable with a node; empty if there is none."""
    match [node, *module.ancestors(node)][-2:]:
        case [ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name), _]:
            return name
        case [ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]), _]:
            return name
    return ""


def _finds_given(module: PythonModule, call: ast.Call) -> bool:
    """Whether a call finds a module by a name that may be given to the code as a whole."""
    words = [call.func, *call.args]
    function, *names = words[1:] if called(call) == "map" and call.args else words
    return finds(module, function) and any(_is_whole(module, one) for one in names[:1])


def _asked(module: PythonModule) -> Iterator[ast.AST]:
    """Yield the places that look up a name given to the code among the loaded modules."""
    for node in module.scopes.nodes[ast.Attribute] if "sys.modules" in module.text else ():
        match module.scopes.parents[node]:
            case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()]) as place:
                is_asked = name is not node and _is_whole(module, name)
            case ast.Subscript(slice=name) as place:
                is_asked = _is_whole(module, name)
            case _:
                continue
        if is_asked and ast.unparse(node) == "sys.modules":
            yield place


def finds(module: PythonModule, function: ast.expr) -> bool:
    """Whether a function finds a module or a distribution by its name, also in another file."""
    name = defined_name(module, function)
    is_version = (name == "version" and METADATA.search(module.text) is not None) or (
        name == "require" and "pkg_resources" in module.text
    )
    return name in _FINDERS or is_version or is_finder(module, function)


def is_finder(module: PythonModule, function: ast.expr) -> bool:
    """Whether a function of another file finds modules by their names.

    A method may be that of a base class.
    """
    name, attributes = dotted(function) or (None, [])
    if name is None or not module.given.finders:
        return False
    bindings = module.bindings(name.id, module.scope_of(name))
    if any(isinstance(one.node, ast.arg) for one in bindings):
        classes = [one for one in module.ancestors(function) if isinstance(one, ast.ClassDef)]
        return any(is_finder(module, base) for one in classes for base in one.bases)
    if not bindings:
        return name.id in module.given.finders  # of a star import
    path = ".".join([name.id, *attributes])
    is_imported = any(isinstance(one.node, ast.alias) for one in bindings)
    return is_imported and any(is_within(path, one) for one in module.given.finders)


def _is_whole(module: PythonModule, name: ast.expr) -> bool:
    """Whether an expression may be a name as it was given, not one that the file assembles."""
    match name:
        case ast.Name():
            values = (
                module.scopes.parents.get(one.node)
                for one in module.bindings(name.id, module.scope_of(name))
            )
            return all(
                not isinstance(one, ast.Assign) or _is_whole(module, one.value) for one in values
            )
        case ast.Constant() | ast.JoinedStr() | ast.BinOp():
            return False
        case ast.Subscript(slice=ast.Name() | ast.Attribute()):  # a table of the file
            return False
        case ast.Call(func=ast.Attribute(attr="format" | "get" | "join")):
            return False
    return True
