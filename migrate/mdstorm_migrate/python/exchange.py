"""The names that a Python file offers to other files, imports from them and combines in calls."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from mdstorm_migrate.petastorm.names import OLD_ROOT, is_petastorm
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding

#: ``%run ./utils``, in a cell or in a comment of a Databricks notebook.
RUN = re.compile(
    r"^[ \t]*(?:\#[ \t]*MAGIC[ \t]+)?%run[ \t]+(?:-\w+[ \t]+)*(?P<quote>[\"']?)(?P<path>[^\"'\s]+)",
    re.MULTILINE,
)

#: Calls and definitions of functions that resolve names, except calls with a literal. The names are
#: given elsewhere, as in a table or a configuration file, or are assembled by code.
RESOLVES = re.compile(
    r"\b(?:import_module|__import__|import_string|locate|resolve_name|instantiate|get_class"
    r"|get_method|get_object|load_class|load_object|LightningCLI|auto_cli|CLI)"
    r"\(\s*(?:(?![\s\"'])|([\"'])[^\"'\n]*\1\s*[+%.])"
)

#: ``compat.petastorm``, in code or in a string such as the target of a mock.
_OWNER = re.compile(rf"\b(\w+)\.{OLD_ROOT}\b")
_IMPORTED = "import "
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class FileImport:
    """A name that a file imports from another file.

    Attributes
    ----------
    module : str
        The module as the import names it, or the path after ``%run``.
    level : int
        Number of leading dots; -1 for ``%run``.
    name : str
        The name in that module; ``*`` for all, an empty string for the module itself.
    bound : str
        The name in this file.
    """

    module: str
    level: int
    name: str
    bound: str


@dataclass(frozen=True)
class Exchange:
    """The names that a file offers to other files and imports from them.

    Attributes
    ----------
    imports : tuple of FileImport
    roots : tuple of (str, frozenset of str)
        Names of the module, and the imported names that their definitions reach. Names imported
        from Petastorm appear as ``petastorm``.
    needs_root : bool
        Whether the file uses a name ``petastorm`` that it does not bind.
    combined : tuple of frozenset of str
        Imported names that are combined in one call or expression. Only for files that do not
        use Petastorm themselves.
    is_known : bool
        False if the file could not be parsed, or creates objects by names in strings, so that its
        names do not reveal what they hold.
    resolves : bool
        Whether the file resolves names that are given elsewhere, as in configuration.
    owners : frozenset of str
        Names whose attribute ``petastorm`` the file uses, in code or in strings.
    paths : frozenset of str
        Dotted paths of Petastorm that the file uses, or imports without using them.
    """

    imports: tuple[FileImport, ...] = ()
    roots: tuple[tuple[str, frozenset[str]], ...] = ()
    needs_root: bool = False
    combined: tuple[frozenset[str], ...] = ()
    is_known: bool = True
    resolves: bool = False
    owners: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    def combinations(self, names: Collection[str]) -> Iterator[frozenset[str]]:
        """Yield the subsets of `names` that are combined in one call or expression."""
        return (found for one in self.combined if len(found := one.intersection(names)) > 1)


def exchange_of(module: PythonModule) -> Exchange:
    """Return the names that a module offers, imports and combines."""
    references = module.scopes.references.get(OLD_ROOT, ())
    runs = (FileImport(match["path"], -1, "*", "*") for match in RUN.finditer(module.text))
    imports = (*file_imports(module.tree), *runs)
    names, paths = {item.bound for item in imports}, frozenset(_paths(module))
    if "*" in names:
        unknown = module.scopes.references.keys() - module.scopes.module.bindings.keys()
        names |= unknown - _BUILTINS
    return Exchange(
        imports,
        tuple(_roots(module).items()),
        any(one.scope.home(OLD_ROOT) is None for one in references),
        () if paths else tuple(set(_combinations(module.tree, names))),
        resolves=resolves(module),
        owners=frozenset(_OWNER.findall(module.text)),
        paths=paths,
    )


def _paths(module: PythonModule) -> Iterator[str]:
    """Yield the Petastorm paths that a module uses, or imports without using them."""
    for name in imported_names(module):
        if name.uses:
            yield from (use.path for use in name.all_uses)
        else:
            yield from (one.target for one in name.imports if one.target is not None)


def file_imports(tree: ast.AST) -> Iterator[FileImport]:
    """Yield the names that a tree imports from modules other than Petastorm's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if not is_petastorm(alias.name):
                    bound = alias.asname or alias.name.partition(".")[0]
                    yield FileImport(alias.name, 0, "", bound)
        elif isinstance(node, ast.ImportFrom) and (node.level or not is_petastorm(node.module)):
            for alias in node.names:
                bound = alias.asname or alias.name
                yield FileImport(node.module or "", node.level, alias.name, bound)


def _roots(module: PythonModule) -> dict[str, frozenset[str]]:
    """Return, for each name in the module, the imported names that its definition uses.

    A name that nothing binds may come from a star import, and is prefixed with a question mark.
    """
    bindings = module.scopes.module.bindings
    direct = {
        name: {found for one in found_at for found in _reached(module, one)}
        for name, found_at in bindings.items()
    }
    reached = {name: frozenset(_imports(module, name, direct)) for name in direct}
    return {name: found for name, found in reached.items() if found}


def _imports(module: PythonModule, name: str, direct: dict[str, set[str]]) -> Iterator[str]:
    """Yield the imported names that a name depends on."""
    is_open = "*" in module.scopes.module.bindings or bool(RUN.search(module.text))
    seen, todo = {name}, [name]
    while todo:
        one = todo.pop()
        if one.startswith(_IMPORTED):
            yield one.removeprefix(_IMPORTED)
        elif one in direct:
            new = direct[one] - seen
            seen |= new
            todo += new
        elif is_open and one not in _BUILTINS:
            is_petastorms = module.resolve(ast.Name(one), module.scopes.module) is not None
            yield OLD_ROOT if is_petastorms else f"?{one}"


def _reached(module: PythonModule, binding: Binding) -> Iterator[str]:
    """Yield the module's names that the definition of a name mentions."""
    node = binding.node
    if isinstance(node, ast.alias):
        yield _IMPORTED + (OLD_ROOT if is_petastorm(binding.target) else binding.name)
        return
    match module.statement(node):
        case ast.For(iter=head) | ast.AsyncFor(iter=head):
            yield from _names([head])
        case ast.With(items=items) | ast.AsyncWith(items=items):
            yield from _names(item.context_expr for item in items)
        case statement:
            yield from _names([statement])


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                yield one.id
            elif isinstance(one, ast.ImportFrom | ast.Import):
                imports = list(file_imports(one))
                yield from (_IMPORTED + item.bound for item in imports)
                if len(imports) < len(one.names):
                    yield _IMPORTED + OLD_ROOT


def _combinations(tree: ast.Module, names: Iterable[str]) -> Iterator[frozenset[str]]:
    """Yield the sets of names that are combined in a call or an expression.

    Variables and attributes are identified by name alone, across the whole file.
    """
    given_to: dict[str, set[str]] = {}
    for targets, value in _assigned(tree):
        for one in _named(value):
            given_to.setdefault(one, set()).update(targets)
    reached: dict[str, set[str]] = {}
    for name in names:
        todo, seen = [name], {name}
        while todo:
            new = given_to.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        for one in seen:
            reached.setdefault(one, set()).add(name)

    def found(nodes: Iterable[ast.AST]) -> set[str]:
        return {name for node in nodes for one in _named(node) for name in reached.get(one, ())}

    for node in ast.walk(tree):
        for given, receiver in _operands(node):
            combined = found(given)
            combined |= found(receiver) if combined else set()
            if len(combined) > 1:
                yield frozenset(combined)


def _operands(node: ast.AST) -> Iterator[tuple[list[ast.AST], list[ast.AST]]]:
    """Yield the nodes that an expression combines, and the object that receives them."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            yield [*args, *keywords], [func]
        case ast.ClassDef(bases=bases, body=body):
            values = [one for one in body if isinstance(one, ast.Assign | ast.AnnAssign)]
            yield [*values], [*bases]
            yield [*bases], []
        case ast.BinOp(left=left, right=right):
            yield [left, right], []
        case ast.Compare(left=left, comparators=comparators):
            yield [left, *comparators], []


def _assigned(tree: ast.Module) -> Iterator[tuple[list[str], ast.AST]]:
    """Yield each assigned value with the names that receive it."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield [name for one in targets for name in _named(one)], value
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.AsyncFor(target=target, iter=value)
                | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
                | ast.comprehension(target=target, iter=value)
            ):
                yield list(_named(target)), value
            case ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body):
                for one in body:
                    yield [name], one


def _named(node: ast.AST) -> Iterator[str]:
    """Yield the names of variables and attributes in a node."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr


def resolves(module: PythonModule) -> bool:
    """Whether the code calls or defines a function that resolves names given elsewhere."""
    return RESOLVES.search(module.text) is not None
