"""Rules that only have remarks about calls of Petastorm's functions and about their results."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import islice

from mdstorm_migrate.mosaicml.names import FRONT
from mdstorm_migrate.petastorm.attributes import CONVERTER_FILES
from mdstorm_migrate.petastorm.names import CONVERTER_METHODS, NEW_ROOT, is_petastorm
from mdstorm_migrate.petastorm.signatures import ACCEPTED, PARQUET, REMOVED_KEYWORDS
from mdstorm_migrate.python.calls import (
    CALLING,
    called,
    given_arguments,
    keys_of,
    keywords_of_call,
    library_of,
)
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.makers import calls_of, made_in, makers
from mdstorm_migrate.python.module import PythonModule, dotted, last_name, string_value
from mdstorm_migrate.python.reads import reads_bound
from mdstorm_migrate.python.scopes import Scope
from mdstorm_migrate.python.shadow import is_in_project
from mdstorm_migrate.rules.rule import Remark, remarks


@remarks("PM109", "Unpacked arguments cannot be checked", "note")
def unpacked_arguments(module: PythonModule) -> Iterator[Remark]:
    """Yield calls with ``*`` or ``**``, unless the file contains the dictionary as a literal."""
    for given in given_arguments(module):
        stars = [one for one in given.positional if isinstance(one, ast.Starred)]
        unpacked = [f"*{module.source_of(one.value)}" for one in stars]
        words = [one.value for one in given.call.keywords if one.arg is None]
        words = [one for one in words if not any(keys_of(module, given.call, one))]
        unpacked += [f"**{module.source_of(one)}" for one in words]
        for arguments in unpacked:
            what = f"the arguments in `{arguments}` of {given.function}() were not checked"
            yield Remark(given.call.func, what)


@remarks("PM110", "Arguments about Parquet, and what they mean with mdstorm", "note")
def parquet_arguments(module: PythonModule) -> Iterator[Remark]:
    """Yield the arguments about Parquet."""
    for given in given_arguments(module):
        for keyword in given.call.keywords:
            meaning = PARQUET.get(keyword.arg or "")
            if meaning is not None:
                yield Remark(keyword, f"`{keyword.arg}` of {given.function}(): {meaning}")


@remarks("PM112", "Repartitioning is no longer needed to shard", "note")
def repartition(module: PythonModule) -> Iterator[Remark]:
    """Yield the DataFrames that are repartitioned in the call that converts them.

    ``coalesce`` does not count, because merging many tiny partitions is useful.
    """
    what = (
        ".repartition() can be removed: mdstorm shards by rows, no matter how they are partitioned"
    )
    for call, path in module.calls:
        match call.args[:1]:
            case [ast.Call(func=ast.Attribute(attr="repartition")) as frame]:
                if path.rpartition(".")[2] == "make_spark_converter":
                    yield Remark(frame, what)


@remarks("PM113", "Arguments that neither Petastorm nor mdstorm has", "manual")
def unknown_arguments(module: PythonModule) -> Iterator[Remark]:
    """Yield the unknown arguments; PM106 reports arguments of older versions."""
    # Names that the file imports from other libraries, such as `DataLoader` from torch.
    others = {
        (binding.scope, binding.name)
        for binding in module.scopes.bindings
        if isinstance(binding.node, ast.alias) and not is_petastorm(binding.target)
    } - {(module.scopes.module, name.partition(".")[0]) for name in module.given.names or ()}
    for given in given_arguments(module):
        call, function = given.call, given.function
        accepted = ACCEPTED.get(function)
        if accepted is None or _name_of(module, call) in others:
            continue
        known = {*accepted, *REMOVED_KEYWORDS.get(function, ())}
        for name, node in keywords_of_call(module, call):
            if name not in known:
                what = f"neither Petastorm's nor mdstorm's {function}() has an argument `{name}`"
                advice = "remove it, or find another way to do what it was meant for"
                yield Remark(node, what, f"{what}: {advice}")


def _name_of(module: PythonModule, call: ast.Call) -> tuple[Scope | None, str] | None:
    """Return the name by which a call reaches the function, and the scope that owns the name."""
    function = call.args[0] if called(call) in CALLING and call.args else call.func
    found = dotted(function)
    if found is None:
        return None
    name = found[0].id
    return module.scopes.scopes[call].home(name), name


#: What opens a reader, or a loader over one. Loaders and datasets of mdstorm's converter are not
#: closed by a ``with`` block.
_OPENED = ("BatchedDataLoader", "DataLoader", "make_batch_reader", "make_reader")


@remarks("PM114", "A reader is returned after it was closed", "manual")
def escaping_reader(module: PythonModule) -> Iterator[Remark]:
    """Yield each ``return`` of a reader or loader that a ``with`` block closes."""
    what = "this is closed when the function returns it: its `with` block ends here"
    remedy = f"{what}; yield inside the block, or let the caller open it"
    opening = {call for call, path in module.calls if path.rpartition(".")[2] in _OPENED}
    for call in opening:
        item = module.scopes.parents.get(call)
        if not (isinstance(item, ast.withitem) and isinstance(item.optional_vars, ast.Name)):
            continue
        block = module.scopes.parents[item]
        for node in module.scopes.nodes[ast.Return]:
            value = node.value
            if isinstance(value, ast.Call) and value in opening and value.args:
                value = value.args[0]
            is_returned = isinstance(value, ast.Name) and value.id == item.optional_vars.id
            function = _enclosing_function(module, item)
            is_of_block = is_returned and block in module.ancestors(node)
            if is_of_block and _enclosing_function(module, node) is function:
                yield Remark(node, what, remedy)


def _enclosing_function(module: PythonModule, node: ast.AST) -> ast.AST | None:
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return next((one for one in module.ancestors(node) if isinstance(one, functions)), None)


#: Classes of the loaders that Petastorm's converter returns, but mdstorm's does not.
_CLASSES = frozenset(
    [
        *("BatchedDataLoader", "DataLoader", "LoaderBase"),
        *("TFDatasetContextManager", "TorchDatasetContextManager"),
    ]
)


@remarks("PM118", "Loaders of the converter are torch's, not Petastorm's", "manual")
def type_tests(module: PythonModule) -> Iterator[Remark]:
    """Yield each test of a converter's loader for such a class."""
    tests = ((of, one) for of, types in _type_tests(module) for one in ast.walk(types))
    for tested, node in tests:
        path = module.resolve(node, module.scope_of(found[0])) if (found := dotted(node)) else None
        name = (path or "").rpartition(".")[2]
        if name in _CLASSES and not makers(module, tested).isdisjoint(CONVERTER_METHODS):
            what = f"in mdstorm, the converter does not return a `{name}`"
            remedy = (
                f"{what}: loaders are `torch.utils.data.DataLoader` and datasets "
                "`tf.data.Dataset`; also test for those"
            )
            yield Remark(node, what, remedy)


def _type_tests(module: PythonModule) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each object whose type is tested, with the types that it is compared with."""
    for call in module.scopes.calls:
        match call:
            case (
                ast.Call(func=ast.Name("isinstance"), args=[tested, types])
                | ast.Call(func=ast.Attribute(attr="assertIsInstance"), args=[tested, types, *_])
            ):
                yield tested, types
            case ast.Call(func=ast.Name("issubclass"), args=[type_, types]):
                yield from ((tested, types) for tested in _of_type(type_))
    for comparison in module.scopes.nodes[ast.Compare]:
        sides = [comparison.left, *comparison.comparators]
        for tested in (tested for side in sides for tested in _of_type(side)):
            yield from ((tested, one) for one in sides)
    for match in module.scopes.nodes[ast.Match]:
        patterns = (node for one in match.cases for node in ast.walk(one.pattern))
        classes = (one.cls for one in patterns if isinstance(one, ast.MatchClass))
        yield from ((match.subject, one) for one in classes)


def _of_type(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the object of ``type(x)`` or ``x.__class__``."""
    match node:
        case (
            ast.Call(func=ast.Name("type"), args=[tested])
            | ast.Attribute(value=tested, attr="__class__")
        ):
            yield tested


_CONVERTERS = {"SparkDatasetConverter", "make_spark_converter"}
#: Functions that open files, judging by their names.
_OPENING = re.compile(
    r"parquet|read|load|open|scan|glob|listdir|\bls\b|walk|copy"
    r"|\bsystem\b|subprocess|log_artifact",
    re.IGNORECASE,
)
#: Methods that hand a value to other programs, and objects with such methods that only show it.
_HANDING = frozenset(
    ["dump", "exit", "publish", "push", "put", "send", "set", "write", "xcom_push"]
)
_STREAMS = frozenset({"stderr", "stdout", "sys"})
#: How a query reads files.
_READING = re.compile(r"parquet|\bfrom\b", re.IGNORECASE)
#: Functions that return the same paths in a different form.
_SAME_PATHS = frozenset(
    [
        *("Path", "basename", "chain", "choice", "concat", "enumerate", "filter", "format"),
        *("fspath", "islice", "iter", "join", "list", "max", "min", "next", "removeprefix"),
        *("replace", "reversed", "sample", "set", "sorted", "split", "str", "strip", "tuple"),
        *("urlparse", "zip"),
    ]
)
#: Functions of libraries that only show paths, test them, or put them in arrays.
_SHOWING = re.compile(r"(?:.*_)?(?:log|info|debug|warn)\w*|DataFrame|(?:as)?array", re.IGNORECASE)


@remarks("PM119", "The copy of a converter is MDS, not Parquet", "manual")
def files_of_copies(module: PythonModule) -> Iterator[Remark]:
    """Yield the uses of a converter's files in calls, except Petastorm's, that may open them.

    What only hands a path to others does not hold the file.
    """
    ours = {call for call, _ in module.calls}
    own = {one.name for one in module.scopes.nodes[ast.FunctionDef]}
    seen: set[ast.AST] = set()
    for name, node in _used_files(module):
        for place in (node, *_kept_as(module, node)):
            if place in seen:
                continue
            seen.add(place)
            calls = (one for one in module.ancestors(place) if isinstance(one, ast.Call))
            call = next((one for one in calls if not _is_same(one.func)), None)
            callee = "" if call is None else ast.unparse(call.func)
            what = f"`{name}` points to MDS shards, not Parquet"
            if call is None:
                is_direct = isinstance(place, ast.Attribute) and place.attr in CONVERTER_FILES
                for function in _returning(module, place) if is_direct else ():
                    remedy = f"{what}: other files that call {function}() must read MDS"
                    yield Remark(place, what, remedy)
                continue
            if call in ours or callee in own:
                continue
            # A method of the paths themselves, as in `url.rstrip()` and `Path(url).read_bytes()`.
            is_method = place in ast.walk(call.func)
            hands = not is_method and _is_handed(call.func)
            opens = _OPENING.search(last_name(call.func) if is_method or hands else callee)
            is_query = last_name(call.func) == "sql" and any(map(_reads_files, call.args))
            if callee.endswith(".endswith") and any(map(_names_parquet, call.args)):
                remedy = f"{what}: their names do not end in `.parquet`, so change this test"
                yield Remark(place, what, remedy, name)
            elif opens or is_query or (not is_method and _is_of_library(module, call)):
                remedy = f"{what}: if {callee}() reads them, read the DataFrame, or write Parquet"
                yield Remark(place, what, remedy, name)
            elif hands:
                yield Remark(place, what, f"{what}: what gets it from {callee}() must read MDS")


def _used_files(module: PythonModule) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes with a converter's files, and what holds only such files elsewhere."""
    is_own, nodes = bool(imported_names(module)), module.scopes.nodes
    is_own |= module.given.has_converter
    for node in nodes[ast.Attribute]:
        if node.attr in CONVERTER_FILES and (is_own or makers(module, node.value) & _CONVERTERS):
            yield node.attr, node
    for one, paths in made_in(module).items():
        made = {path.rpartition(".")[2] for path in paths}
        if made <= CONVERTER_FILES and isinstance(one, ast.Attribute | ast.Call | ast.Name):
            yield min(made), one


def _returning(module: PythonModule, node: ast.AST) -> Iterator[str]:
    """Yield the name of the function that returns an expression, if only other files call it."""
    above = module.scopes.parents[node]
    while isinstance(above, ast.Subscript):
        above = module.scopes.parents[above]
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    around = (one for one in module.ancestors(above) if isinstance(one, kinds))
    if isinstance(above, ast.Return) and not any(True for _ in calls_of(module, above)):
        yield from (one.name for one in islice(around, 1))


def _is_same(function: ast.expr) -> bool:
    """Whether a function returns the same paths in a different form; a method `set` stores them."""
    is_setter = isinstance(function, ast.Attribute) and function.attr == "set"
    return not is_setter and last_name(function) in _SAME_PATHS


def _is_handed(function: ast.expr) -> bool:
    """Whether a method hands a value to other programs."""
    match function:
        case ast.Attribute(value=owner, attr=name):
            return name in _HANDING and last_name(owner) not in _STREAMS
    return False


def _reads_files(query: ast.expr) -> bool:
    """Whether a query may read the files at a path, rather than store the path."""
    return any(_READING.search(str(string_value(one))) for one in ast.walk(query))


def _names_parquet(node: ast.expr) -> bool:
    return any("parquet" in str(string_value(one)) for one in ast.walk(node))


def _is_of_library(module: PythonModule, call: ast.Call) -> bool:
    """Whether a function comes from outside of the project and of Python's standard library."""
    root = (library_of(module, call.func) or "").partition(".")[0]
    known = {"", NEW_ROOT, FRONT, *sys.stdlib_module_names}
    is_known = root in known or is_in_project(module.document.path, root)
    return not is_known and _SHOWING.fullmatch(last_name(call.func)) is None


def _kept_as(module: PythonModule, node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the reads of variables that hold the paths, directly or through other variables."""
    todo, seen = [node], {node}
    while todo:
        value = todo.pop()
        for parent in module.ancestors(value):
            new = [read for read in reads_bound(module, parent, value) if read not in seen]
            seen.update(new)
            yield from new
            todo += new
            match parent:
                case ast.Call(func=function) if not _is_same(function):
                    break
                case ast.stmt():
                    break
            value = parent


@remarks("PM128", "A transform function may declare that it keeps rows", "note")
def transform_functions(module: PythonModule) -> Iterator[Remark]:
    """Yield functions that a ``TransformSpec`` gets, unless the file only reads row by row.

    The functions of ``make_reader`` return one row for each row by definition.
    """
    what = (
        "if the function returns one row for each row, add `keeps_rows=True`: loaders then have a "
        "length and equal batches on all ranks, and resume on another number of ranks"
    )
    given = given_arguments(module)
    readers = {one.function for one in given} & _READERS
    if readers == {"make_reader"}:
        return
    for one in given:
        if one.function == "TransformSpec":
            words = dict(keywords_of_call(module, one.call))
            if (one.positional or "func" in words) and "keeps_rows" not in words:
                yield Remark(one.call.func, what)


_READERS = {"make_reader", "make_batch_reader", "make_torch_dataloader", "make_tf_dataset"}
