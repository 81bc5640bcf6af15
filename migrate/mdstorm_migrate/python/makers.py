"""What made the objects in a Python file, as far as its own names show.

An object is followed from the call that makes it through assignments, arguments, results and loops
of the same file. A container counts as all of its elements, and the order of statements does not
matter. Objects are not followed to other files: what matters there is found by its name. Only the
function of another file that a converter's loader is passed to is known, and one that returns the
package.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain

from mdstorm_migrate.petastorm.attributes import ATTRIBUTES
from mdstorm_migrate.petastorm.names import CONVERTER, OLD_ROOT
from mdstorm_migrate.python.imports import imported_names, reached_uses
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.reads import reads_bound
from mdstorm_migrate.python.scopes import Scope

#: Functions that return their arguments, or containers or iterators of them.
_SAME = frozenset(
    [
        *("cast", "deepcopy", "dict", "enter_context", "enumerate", "iter", "list", "next"),
        *("reversed", "set", "sorted", "tuple", "zip"),
    ]
)
#: Methods that return the object itself, or an element of it.
_ELEMENT = frozenset(
    ["__enter__", "__getitem__", "cache", "copy", "get", "items", "persist", "pop", "values"]
)
#: Usual names of readers that come from elsewhere, and what their attribute `dataset` is.
_READER_NAME = re.compile(r"(?:^|_)reader$", re.IGNORECASE)
_DATASET = ATTRIBUTES["Reader", "dataset"].removesuffix("()")
_LOADER = "make_torch_dataloader"


def makers(module: PythonModule, node: ast.AST) -> set[str]:
    """Return the names of what made the Petastorm objects that an expression may be."""
    return {path.rpartition(".")[2] for path in made_in(module).get(node, ())}


@lru_cache(maxsize=1)
def made_in(module: PythonModule) -> Mapping[ast.AST, set[str]]:
    """Return the expressions that may be Petastorm's objects, with the paths of their makers.

    The package itself counts as one, because code may ask it for its version.
    """
    made: defaultdict[ast.AST, set[str]] = defaultdict(set)
    todo = [*_made_first(module)]
    while todo:
        node, path = todo.pop()
        if path not in made[node]:
            made[node].add(path)
            todo += _made_next(module, node, path)
    return dict(made)


def _made_first(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """Yield the expressions that are objects by themselves."""
    yield from module.calls
    uses = (*(use for name in imported_names(module) for use in name.all_uses),)
    for use in (*uses, *reached_uses(module)):
        if use.path == OLD_ROOT:
            yield use.node, use.path
    for call in module.scopes.calls if module.given.packages else ():
        if ast.unparse(call.func) in module.given.packages:
            yield call, OLD_ROOT
    yield from ((read, f"{CONVERTER}.{_LOADER}") for read in _handed(module))
    for one in module.scopes.bindings:
        annotation = getattr(one.node, "annotation", None)
        if isinstance(above := module.scopes.parents.get(one.node), ast.AnnAssign):
            annotation = above.annotation
        path = module.resolve(annotation, one.scope) if annotation is not None else None
        if path is not None:
            yield from ((read, path) for read in _reads(module, one.name, one.scope))
    for node in module.scopes.nodes[ast.Attribute]:
        if node.attr == "dataset" and _may_be_reader(module, node.value):
            yield node, _DATASET


def handed_loaders(module: PythonModule) -> Iterator[tuple[str, str]]:
    """Yield the functions to which code passes a converter's loader, and position or keyword."""
    for node, paths in made_in(module).items() if f".{_LOADER}(" in module.text else ():
        parent = module.scopes.parents.get(node)
        if f"{CONVERTER}.{_LOADER}" not in paths:
            continue
        match parent, module.scopes.parents.get(parent) if parent is not None else None:
            case ast.Call(func=function, args=args), _ if node in args:
                yield ast.unparse(function), str(args.index(node))
            case ast.keyword(arg=str(name)), ast.Call(func=function):
                yield ast.unparse(function), name


def _handed(module: PythonModule) -> Iterator[ast.Name]:
    """Yield the reads of the parameters that other files pass a converter's loader for."""
    nodes = module.scopes.nodes
    for name, how in module.given.handed:
        inits = (one.body for one in nodes[ast.ClassDef] if one.name == name)
        named = (one for one in nodes[ast.FunctionDef] if one.name == name)
        for function in (*named, *chain.from_iterable(inits)):
            if isinstance(function, ast.FunctionDef) and function.name in (name, "__init__"):
                given = [*function.args.posonlyargs, *function.args.args]
                given = given[1:] if given and given[0].arg == "self" else given
                by_position = {str(number): one.arg for number, one in enumerate(given)}
                parameter = by_position.get(how, how)
                for read in module.scopes.references.get(parameter, ()):
                    home = read.scope.home(parameter)
                    if home is not None and home.node is function:
                        yield read.node


def _reads(module: PythonModule, name: str, scope: Scope) -> Iterator[ast.Name]:
    for read in module.scopes.references.get(name, ()):
        if read.scope.home(name) is scope:
            yield read.node


def _may_be_reader(module: PythonModule, node: ast.expr) -> bool:
    """Whether a parameter or an attribute has the usual name of a reader."""
    if not _READER_NAME.search(last_name(node)):
        return False
    if not isinstance(node, ast.Name):
        return OLD_ROOT in module.imported_roots
    bindings = module.bindings(node.id, module.scope_of(node))
    return bool(bindings) and all(isinstance(one.node, ast.arg) for one in bindings)


def _made_next(module: PythonModule, node: ast.AST, path: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield the expressions that are an object, or a part of it, because `node` is."""
    parents = module.scopes.parents
    parent = parents.get(node)
    if parent is None:
        return
    yield from ((read, path) for read in reads_bound(module, parent, node))
    match parent:
        case ast.Attribute(attr=name):
            above = parents[parent]
            target = ATTRIBUTES.get((path.rpartition(".")[2], name))
            if target is not None:
                is_object = target.endswith("()")
                yield parent if is_object else above, target.removesuffix("()")
            elif name == "fields":  # of a schema
                yield parent, path
            elif name in _ELEMENT and isinstance(above, ast.Call) and above.func is parent:
                yield above, path
        case ast.Call() | ast.keyword():
            taker = parent if isinstance(parent, ast.Call) else parents[parent]
            if isinstance(taker, ast.Call):
                yield from ((one, path) for one in _from_call(module, taker, node))
        case ast.Subscript(value=value) if value is node:
            yield parent, path
        case ast.Dict(values=values) if node in values:
            yield parent, path
        case (
            ast.List()
            | ast.Tuple()
            | ast.Set()
            | ast.Starred()
            | ast.Await()
            | ast.NamedExpr()
            | ast.IfExp()
            | ast.BoolOp()
        ):
            yield parent, path
        case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value) | ast.DictComp(value=value):
            if value is node:
                yield parent, path
        case ast.Return() | ast.Yield():
            yield from ((call, path) for call in calls_of(module, parent))


def _from_call(module: PythonModule, call: ast.Call, node: ast.AST) -> Iterator[ast.expr]:
    """Yield what is an object because a call gets it, besides the parameters of its function.

    These are the results of functions that return what they get; the fields of a class; and what
    another function, such as ``partial``, or a decorator passes to a function of the file.
    """
    if call.func is node:
        yield from [call] if isinstance(node, ast.Call) else []  # ``partial(f, conv)()``
        return
    if last_name(call.func) in _SAME:
        yield call
    given = [*call.args, *(one.value for one in call.keywords)]
    names = {one.id for one in given if isinstance(one, ast.Name) and one is not node}
    for function in module.scopes.nodes[ast.FunctionDef]:
        if function.name in names or call in function.decorator_list:
            yield call
            for one in (*function.args.args, *function.args.kwonlyargs):
                reads = module.scopes.references.get(one.arg, ())
                yield from (read.node for read in reads if read.scope.node is function)
    for owner in module.scopes.nodes[ast.ClassDef]:
        if owner.name == last_name(call.func):
            fields = {
                ast.unparse(one.target) for one in owner.body if isinstance(one, ast.AnnAssign)
            }
            for init in owner.body:
                if isinstance(init, ast.FunctionDef) and init.name == "__init__":
                    fields |= _kept_by(init)
            yield from (one for one in module.scopes.nodes[ast.Attribute] if one.attr in fields)


def _kept_by(init: ast.FunctionDef) -> set[str]:
    """Return the attributes to which a constructor assigns its parameters."""
    return {
        target.attr
        for one in ast.walk(init)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Name)
        for target in one.targets
        if isinstance(target, ast.Attribute)
    }


def calls_of(module: PythonModule, result: ast.AST) -> Iterator[ast.expr]:
    """Yield the calls of the function around a result; those of methods by their name.

    A property is called by reading an attribute.
    """
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    function = next((one for one in module.ancestors(result) if isinstance(one, kinds)), None)
    if function is None:
        return
    if any(last_name(one) in ("cached_property", "property") for one in function.decorator_list):
        yield from (one for one in module.scopes.nodes[ast.Attribute] if one.attr == function.name)
        return
    for call in module.scopes.calls:
        if not isinstance(call.func, ast.Name):
            if last_name(call.func) == function.name:
                yield call
        elif call.func.id == function.name:
            bound = module.bindings(function.name, module.scope_of(call.func))
            if any(one.node is function for one in bound):
                yield call
