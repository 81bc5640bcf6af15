"""PM103: dotted names of Petastorm in strings that are resolved at run time."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Literal, TypeAlias

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import NAMES, Class, Edit, Finding, Topic
from mdstorm_migrate.packaging.commands import renamed_in_code
from mdstorm_migrate.packaging.configuration import TARGETS, dotted_values
from mdstorm_migrate.packaging.strings import is_module_run
from mdstorm_migrate.petastorm import names
from mdstorm_migrate.python.calls import (
    IMPORTING,
    PATCHING,
    REPLACING,
    RESOLVING,
    call_with_first,
    called,
    function_of,
    is_docstring,
    is_target,
    reads_bound,
    reads_of_value,
    resolved_as,
    words_before,
)
from mdstorm_migrate.python.import_actions import has_fallback, is_fallback
from mdstorm_migrate.python.imports import Use, imported_names, missing_prefix, reached_uses
from mdstorm_migrate.python.links import all_imports, finders_of, finds, is_finder, resolves
from mdstorm_migrate.python.module import (
    PythonModule,
    inner_span,
    last_name,
    literal_span,
    string_value,
)
from mdstorm_migrate.python.scopes import Comprehension
from mdstorm_migrate.python.shadow import shadow_of
from mdstorm_migrate.rules import loggers, versions
from mdstorm_migrate.rules.rule import rule

CODE = "PM103"

#: An import in a program.
_IMPORT = re.compile(rf"(?:^|;)[ \t]*(?:from|import)[ \t]+{names.OLD_ROOT}\b", re.MULTILINE)
#: A prefix of a dotted name that code assembles, as in ``"petastorm." + name``.
_PART = re.compile(rf"{names.OLD_ROOT}\.(?:[\w.]*(?:\.|[%{{][\w.(){{}}]*))?")

#: Code that fills `sys.modules` with names that are given elsewhere, such as a list of mocks.
_FILLING = re.compile(
    r"""\bsys\.modules(?:\[(?!["'\s]|__name__\])[^\]\n]*\]\s*=(?!=)
    |(?:\.(?:setdefault|update)\(|["']?\s*,)\s*(?!["'\s]|\{\s*["'}]))""",
    re.VERBOSE,
)
#: Code that finds loaded modules, compares the module of an object, or replaces a part of a module,
#: by names that are assembled or given elsewhere, except by the name of the file itself or of
#: another object's module.
_FINDING = re.compile(
    r"""(?:\bsys\.modules(?:\[|\.(?:get|pop|setdefault|update)\(|["']?\s*,)
    |\b__module__(?:\s*(?:[!=]=|in\b|not\s+in\b)|\.startswith\()
    |\bpatch\(\s*(?:target\s*=)?
    |\.setattr\((?=[^,\n]*,[^,\n]+\)))\s*[({\[]*\s*
    (?:(?!["'\s\[\](){}])(?!__name__\b|[\w.]+\.(?:__module__|__name__|name)\b)
    |(["'])[^"'\n]*\1\s*(?:[+%.]|if\b))""",
    re.VERBOSE,
)
#: Methods that compare strings.
_COMPARING = frozenset({"assertEqual", "assertIn", "assertNotEqual", "assertNotIn", "startswith"})
#: How code reaches the loaded modules.
_MODULES = ("sys.modules", "'sys.modules'", "__import__('sys').modules")
#: An index of another part than the first, as in ``x.__module__.split(".")[-1]``.
_OTHER_PART = re.compile(r"\[-?[1-9]")
#: Errors that name the module of a failed import.
_FAILED_IMPORTS = frozenset({"ImportError", "ModuleNotFoundError"})
#: Code that replaces how modules are imported, and may compare their names.
_REPLACES_IMPORT = re.compile(r"""\b(?:__import__["']?\s*[,=](?!=)|meta_path\b)""")
#: A class that restricts what a pickle may contain.
FIND_CLASS = re.compile(r"\bdef find_class\b")
#: Why a mock of a name that Petastorm itself looks up needs review.
_NO_EFFECT = "mdstorm may not look up this name there: check that the mock has an effect"
#: The Sphinx setting that lists modules to mock.
_MOCKED = "autodoc_mock_imports"
#: A value of ``filterwarnings(module=…)``, itself a regular expression, that matches Petastorm's
#: modules.
_MODULE_PATTERN = re.compile(rf"{names.OLD_ROOT}(?:\W.*)?")
#: A line of an example in a docstring.
_EXAMPLE = re.compile(
    r"""(?:^[ \t]*|(?<=["']))(?:>>>|\.\.\.)[ \t](?P<code>[^\r\n]*)""", re.MULTILINE
)
#: The lines after one of an example, and a dotted name in them, also as a whole string.
_SHOWN = re.compile(r"(?:[^\r\n\"]*\r?\n(?![ \t]*(?:>>>|\.\.\.|\"\"\"|'''|\r?\n)))+[^\r\n]*")
_PATH = re.compile(
    rf"""(?P<mark>(?<=['"]))?(?<![\w./-])(?P<path>{names.OLD_ROOT}(?:\.\w+)*)(?(mark)(?=['"]))"""
)
#: The library's name among other words, as in ``"torch petastorm".split()``.
_WORD = re.compile(rf"(?<![^\s,;]){names.OLD_ROOT}(?![^\s,;])")
#: Methods that return the items of a table.
_ITEMS = frozenset({"items", "keys", "values"})
#: Names to which examples are assigned that `doctest` runs.
_DOCUMENTING = frozenset({"__doc__", "__test__"})
#: Functions that return the module named by their first argument.
_RETURNING = frozenset({"import_module", "importorskip"})
#: Functions that find the modules of a package, and put a prefix before their names.
_WALKING = frozenset({"iter_modules", "walk_packages"})
#: Methods that programs call and that have the same name in both libraries.
_METHOD = re.compile(
    r"petastorm\.(?:pytorch\.\w*DataLoader\.__(?:enter|exit|init|iter)__|reader\.Reader\.(?:join|stop)"
    r"|spark(?:\.spark_dataset_converter)?\.SparkDatasetConverter"
    r"\.(?:delete|make_tf_dataset|make_torch_dataloader))"
)


@rule(CODE, "Module paths in strings name mdstorm", "exact", "python", "cluster", "conda", "text")
def check(module: PythonModule | Document) -> Iterable[Edit | Finding]:
    """Yield an edit for each dotted name in a string, or a finding if its meaning is unknown."""
    if isinstance(module, PythonModule):
        yield from _in_code(module)
        return
    for key, path, start, stop in dotted_values(module.text, names.OLD_ROOT):
        if key in TARGETS:
            yield _renamed(path, start, stop, start, names.missing(path))
        elif key == loggers.KEY_IN_INI:
            yield from _logger(module.text, path, start)
        elif names.is_configured(path):
            yield _unknown(path, start, stop, "code")
    for path, start in loggers.keys_of_tables(module.text):
        yield from _logger(module.text, path, start)


def _logger(text: str, path: str, start: int) -> Iterator[Edit | Finding]:
    """Yield the edit to the name of a logger in configuration, if mdstorm has a logger for it."""
    if names.is_module(path) and not loggers.names_new(text):
        why = loggers.why_in_review(path)
        yield _renamed(path, start, start + len(path), start, None, why, "logger")


def _mocked(module: PythonModule, use: Use) -> Iterator[Finding]:
    """Yield the finding about a mock of a name in a module that mdstorm may not look up there."""
    match module.scopes.parents.get(use.node):
        case ast.Call(args=[owner, ast.Constant(str(name)), *_]) as call:
            path = f"{use.path}.{name}"
            is_mock = owner is use.node and called(call) in REPLACING and names.is_module(use.path)
            if is_mock and not (names.is_module(path) or _is_for_programs(path)):
                what = f"`{path}` is replaced at run time"
                remedy = f"{what}; {_NO_EFFECT}"
                yield Finding(CODE, "manual", *module.span(call), what, remedy, holds=path)


#: What takes a string: code that resolves names, a function that finds loggers, a filter of
#: warnings, a function that finds an installed distribution, perhaps among other code, a comparison
#: with what configuration names, a function that finds the classes in a pickle, or perhaps code
#: that resolves names. Or the string is code itself.
_Use: TypeAlias = Literal[
    "resolved", "logger", "filter", "version", "asked", "configured", "pickle", "unknown", "code"
]


def _in_code(module: PythonModule) -> Iterable[Edit | Finding]:
    for string in module.scopes.strings:
        value, use = str(string.value), _use(module, string)
        if use is None and string in loggers.checked_loggers(module):
            what = f'this may be the name of a logger, which becomes "{names.renamed(value)}"'
            remedy = f"{what}: change both, or none"
            yield Finding(CODE, "manual", *module.span(string), what, remedy)
        if use is None:
            continue
        span, inner = module.span(string), inner_span(module, string)
        if use == "pickle":
            yield from _allowed(module, string)
        elif use == "unknown":
            yield _unknown(value, *span, "this file" if resolves(module.text) else "code")
        elif use == "asked":
            what = "the version of a distribution is looked up here by this name"
            remedy = f'{what}: look up "{names.NEW_ROOT}"'
            yield Finding(CODE, "manual", *span, what, remedy)
        elif use == "code":
            what = "this string is code that imports Petastorm"
            remedy = f"{what}: import mdstorm in it"
            yield Finding(CODE, "manual", *span, what, remedy, holds=names.OLD_ROOT)
        elif use == "resolved" and (local := shadow_of(module, value)):
            what = f"this may mean `{local.name}`, not the library"
            yield Finding(CODE, "note", *span, what)
        elif use == "resolved" and _may_be_of_project(module, string):
            what = "a module of this project may have this name"
            remedy = f'{what}: if the library is meant, compare with "{names.NEW_ROOT}"'
            yield Finding(CODE, "manual", *span, what, remedy)
        else:
            first = inner and inner[0]
            absent, why = _absent(module, string, use), _why(module, string, use)
            found = _renamed(value, *span, first, absent, why, use, module.text)
            if is_module_run(module, string):
                yield replace(found, topic="run")
            else:
                yield replace(found, topic="log") if _is_of_other_import(module, string) else found
    if ">>>" in module.text and any(imported_names(module)):
        for string in module.scopes.strings:
            if ">>>" in str(string.value) and _documents(module, string):
                yield from _examples(module, string)
    uses = (name.all_uses for name in imported_names(module))
    for one in chain(*uses, reached_uses(module)):
        yield from _mocked(module, one)
    for word in module.scopes.nodes[ast.keyword]:
        is_root = word.arg == names.OLD_ROOT  # patch.dict("sys.modules", petastorm=None)
        if is_root and _uses_sys_modules(module.scopes.parents[word]):
            yield _unknown(word.arg, *module.span(word))


def _use(module: PythonModule, string: ast.Constant) -> _Use | None:
    """Return what takes a string, or None if it is data."""
    value = str(string.value)
    if value == f"{names.OLD_ROOT}." and _is_prefix(module, string):
        return "resolved"
    if FIND_CLASS.search(module.text) and re.fullmatch(rf"{names.PATH.pattern}\.?", value):
        return "pickle" if resolved_as(module, string) is None else "resolved"
    if value.endswith(".") and _is_of_module(module, string):
        return "resolved"
    if _PART.fullmatch(value) and _resolves_parts(module.text):
        return "unknown"
    if _is_filter(module, string):
        return "filter"
    if _is_code(module, string):
        return "code"
    if _WORD.search(value) and value != names.OLD_ROOT and _is_given_to_finder(module, string):
        return "unknown"
    is_filling = _FILLING.search(module.text) is not None
    if not names.PATH.fullmatch(value) or (is_fallback(module, string) and not is_filling):
        return None
    if loggers.is_logger(module, string):
        return "logger"
    call = versions.lookup_of(module, string)
    if call is not None and versions.is_only_looked_up(module, string):
        return "version"
    if _is_resolved(module, string):
        return "resolved"
    if _is_configured(module, string):
        return "configured"
    if _may_be_resolved(module, string):
        return "unknown"
    return None if call is None else "asked"


def _documents(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a docstring, or is assigned to ``__doc__`` or ``__test__``."""
    assigned = (one for one in module.ancestors(string) if isinstance(one, ast.Assign))
    targets = chain.from_iterable(one.targets for one in assigned)
    return is_docstring(module, string) or any(last_name(one) in _DOCUMENTING for one in targets)


def _examples(module: PythonModule, string: ast.Constant) -> Iterator[Edit | Finding]:
    """Yield edits to the examples in a docstring that import Petastorm, or a finding."""
    whole = module.span(string)
    lines = list(_EXAMPLE.finditer(module.text, *literal_span(module, string) or whole))
    codes = [one["code"] for one in _EXAMPLE.finditer(str(string.value))]
    code = "\n".join(codes)
    if not _IMPORT.search(code):
        return
    if any(isinstance(one, Finding) for one in renamed_in_code(code, CODE, 0, len(code))):
        what = "this example imports what mdstorm does not have"
    elif codes != [one["code"] for one in lines]:
        what = "this example imports Petastorm, and is written with backslashes"
    else:
        for one in lines:
            yield from renamed_in_code(module.text, CODE, *one.span("code"))
            yield from _expected(module, one.end(), whole[1])
        return
    span = lines[0].span("code") if lines else whole
    yield Finding(CODE, "manual", *span, what, f"{what}: change it by hand")


def _expected(module: PythonModule, start: int, stop: int) -> Iterator[Edit | Finding]:
    """Yield edits to the lines that an example shows, up to the next one or an empty line."""
    shown = _SHOWN.match(module.text, start, stop)
    for found in _PATH.finditer(module.text, *shown.span()) if shown is not None else ():
        path, span = found["path"], found.span("path")
        if names.missing(path) is None and found["mark"] is not None:
            yield _renamed(path, *span, span[0], None)
        else:
            what = f"this example shows `{path}`"
            yield Finding(CODE, "manual", *span, what, f"{what}: check what mdstorm shows")


def _allowed(module: PythonModule, string: ast.Constant) -> Iterator[Finding]:
    """Yield the finding about a class that may be read from a pickle, unless both libraries' are.

    Pickles that Petastorm has written name its classes, and new ones name mdstorm's.
    """
    value = str(string.value)
    if not any(one.value == names.renamed(value) for one in module.scopes.nodes[ast.Constant]):
        what = f'`find_class` compares names with "{value}"'
        remedy = f'{what}: also allow "{names.renamed(value)}", which new pickles name'
        yield Finding(CODE, "manual", *module.span(string), what, remedy, holds=value)


def _absent(module: PythonModule, string: ast.Constant, use: _Use) -> str | None:
    """Return what mdstorm lacks of the name in a string, or of what the code does with it."""
    value = str(string.value)
    if use == "resolved":
        return names.missing(value.rstrip(".")) or _missing_in_module(module, string, value)
    if use == "version" and (call := versions.lookup_of(module, string)):
        return missing_prefix(module, call, names.VERSION)
    return value if use == "logger" and not names.is_module(value) else None


def _unknown(value: str, start: int, stop: int, who: str = "this file") -> Finding:
    """Return the finding about a string or keyword that code may resolve."""
    what = f'{who} resolves names at run time, and "{value}" may be one of them'
    remedy = f"{what}: if so, change it to mdstorm"
    return Finding(CODE, "manual", start, stop, what, remedy, holds=value)


def _renamed(
    value: str,
    start: int,
    stop: int,
    inner: int | None,
    absent: str | None,
    why: str | None = None,
    use: _Use | None = None,
    text: str = "",
) -> Edit | Finding:
    """Return the edit to a string whose text begins at `inner`, or a finding.

    The edit needs review if there is a reason `why`. If `text` has the new name, it is left. For a
    logger in review, the new name may be that of a module, which was renamed before.
    """
    new = names.renamed(value)
    is_in_review = use == "logger" and why is not None
    is_both = not is_in_review and _is_quoted(new, text)
    if absent is None and inner is not None and not is_both:
        message = f'"{value}" becomes "{new}"' + (f"; {why}" if why else "")
        cls: Class = "review" if why else "exact"
        group = NAMES if use == "resolved" else None
        topic: Topic | None = "log" if use in ("logger", "filter") else None
        end = inner + len(names.OLD_ROOT)
        return Edit(CODE, cls, inner, end, names.NEW_ROOT, message, group, topic)
    what, advice = f'"{value}" names a part of Petastorm', "change it by hand"
    if absent == names.VERSION:
        what, advice = "Petastorm's version is compared here", names.REMOVED[names.VERSION]
    elif absent is not None:
        what += f"; `{absent}` is not in mdstorm"
    elif is_both:
        what = f'this file names both "{value}" and "{new}"'
    return Finding(CODE, "manual", start, stop, what, f"{what}; {advice}", holds=value)


def _is_quoted(name: str, text: str) -> bool:
    return re.search(rf"[\"']{re.escape(name)}[\"']", text) is not None


def _why(module: PythonModule, string: ast.Constant, use: _Use) -> str | None:
    """Return why renaming a string needs review, or None if it is exact.

    All files that a name affects must use the same library, which the run decides. Patching an
    internal name only works if the library itself looks up the name there.
    """
    value = str(string.value)
    if use == "logger" and (why := loggers.why_in_review(value)):
        return why
    if use == "logger" and loggers.checked_loggers(module):
        return "this file also checks names of loggers"
    if use == "configured":
        return "change it together with the configuration that it is compared with"
    if use != "resolved":
        return None
    if has_fallback(module):
        return "this file still imports Petastorm where mdstorm is not installed"
    is_patch = resolved_as(module, string) == "patched"
    if is_patch and not (names.is_module(value) or _is_for_programs(value)):
        return _NO_EFFECT
    return None


def _is_resolved(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is resolved as the name of a module or of something in it.

    This is done by functions that import or patch, `sys.modules`, ``_target_``, ``python -m`` and
    Sphinx. A comparison with a caught error or with the module of an object also counts.
    """
    if resolved_as(module, string) is not None or is_module_run(module, string):
        return True
    if _is_of_module(module, string):
        return True
    parent = module.scopes.parents.get(string)
    match parent:
        case ast.List():
            of = module.scopes.parents.get(parent)
            return isinstance(of, ast.stmt) and ast.unparse(of).startswith(_MOCKED)
        case ast.Dict(values=values) if string in values:
            return False
        case ast.Dict():
            parent = module.scopes.parents.get(parent)
    return parent is not None and _uses_sys_modules(parent)


def _is_of_other_import(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is compared with an error of an import that is not in the `try` itself."""
    compared = _comparison(module, string)
    handler = None if compared is None else _caught_import(module, compared)
    around = None if handler is None else module.scopes.parents.get(handler)
    return isinstance(around, ast.Try) and not any(
        names.is_petastorm(item.module)
        for body in around.body
        for item in all_imports(ast.walk(body))
    )


def _is_of_module(module: PythonModule, string: ast.AST) -> bool:
    """Whether a string is compared with a caught error, or with the module of an object."""
    compared = _comparison(module, string)
    return compared is not None and _involves_library(module, compared)


def _may_be_of_project(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a module of the project may be equal, because not only the first part is compared."""
    compared = _comparison(module, string)
    if not module.given.has_namesake or string.value != names.OLD_ROOT or compared is None:
        return False
    if _caught_import(module, compared) is not None:
        return False
    match compared:
        case ast.Call() if called(compared) == "startswith":
            return True
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[one]):
            if left is string and "sys.modules" not in ast.unparse(one):
                return True
    read = (one for one in ast.walk(compared) if isinstance(one, ast.Name))
    values = (value for name in read for value in _values(module, name))
    return any(_OTHER_PART.search(ast.unparse(one)) for one in (compared, *values))


def _is_code(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a program that imports Petastorm: several statements, or after ``-c``."""
    code = str(string.value)
    if _IMPORT.search(code) is None or is_docstring(module, string):
        return False
    try:
        statements = ast.parse(textwrap.dedent(code)).body
    except (SyntaxError, ValueError):
        return False
    before = words_before(module, string)
    return len(statements) > 1 or (bool(before) and string_value(before[-1]) == "-c")


def _is_prefix(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is the prefix of the modules that `pkgutil` finds in the package."""
    parent = module.scopes.parents.get(string)
    call = module.scopes.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    return isinstance(call, ast.Call) and function_of(module, call) in _WALKING


def _involves_library(module: PythonModule, comparison: ast.expr) -> bool:
    """Whether the comparison involves a caught error, or the module that defines an object."""
    read = [one for one in ast.walk(comparison) if isinstance(one, ast.Name)]
    if _caught_import(module, comparison) is not None:
        return True
    values = (value for name in read for value in _values(module, name))
    return any(map(_names_module, (comparison, *values)))


def _is_configured(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is compared with the object that configuration names."""
    value = str(string.value)
    if not any(key in module.text for key in TARGETS) or names.missing(value):
        return False
    if _is_quoted(names.renamed(value), module.text):  # it allows both
        return False
    compared = _comparison(module, string)
    read = ast.walk(compared) if compared is not None else ()
    values = [value for one in read if isinstance(one, ast.Name) for value in _values(module, one)]
    return any(_names_target(one) for one in (compared, *values) if one is not None)


def _names_target(value: ast.expr) -> bool:
    text = ast.unparse(value)
    return any(re.search(rf"\b{key}\b", text) for key in TARGETS)


def _caught_import(module: PythonModule, comparison: ast.expr) -> ast.ExceptHandler | None:
    """Return the handler of the failed import that a comparison involves, if it does."""
    read = {one.id for one in ast.walk(comparison) if isinstance(one, ast.Name)}
    for above in module.ancestors(comparison):
        if isinstance(above, ast.ExceptHandler) and above.name in read and above.type:
            caught = {last_name(one) for one in getattr(above.type, "elts", [above.type])}
            return None if caught.isdisjoint(_FAILED_IMPORTS) else above
    return None


def _values(module: PythonModule, name: ast.Name) -> Iterator[ast.expr]:
    """Yield what a variable is assigned, or iterates over."""
    for binding in module.bindings(name.id, module.scope_of(name)):
        match module.scopes.parents.get(binding.node):
            case ast.Assign(value=value):
                yield value
            case ast.For(iter=value) | ast.comprehension(iter=value):
                yield value
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp() as inner:
                yield from (one.iter for one in inner.generators if one.target is binding.node)


def _names_module(value: ast.expr) -> bool:
    """Whether an expression has the name of the module of an object, or those of all modules."""
    text = ast.unparse(value)
    return ".__module__" in text or "sys.modules" in text or "getmodule(" in text


def _uses_sys_modules(node: ast.AST) -> bool:
    """Whether an expression reads or changes `sys.modules`."""
    others: list[ast.expr] = []
    match node:
        case ast.Subscript(value=value):
            others = [value]
        case ast.Compare(comparators=comparators):
            others = comparators
        case ast.Call(func=ast.Attribute(value=owner), args=args):
            others = [owner, *args]
    return any(ast.unparse(one) in _MODULES for one in others)


def _is_filter(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a pattern for the modules whose warnings are filtered."""
    word = module.scopes.parents.get(string)
    if not (isinstance(word, ast.keyword) and word.arg == "module"):
        return False
    call = module.scopes.parents.get(word)
    is_pattern = _MODULE_PATTERN.fullmatch(str(string.value)) is not None
    return is_pattern and isinstance(call, ast.Call) and called(call) == "filterwarnings"


def _missing_in_module(module: PythonModule, string: ast.Constant, value: str) -> str | None:
    """Return the first name that mdstorm lacks among those used from a module imported by name."""
    call = call_with_first(module, string)
    function = function_of(module, call)
    if call is None or function not in ("__import__", *_RETURNING):
        return None
    if function == "importorskip" and (
        len(call.args) > 1 or any(word.arg == "minversion" for word in call.keywords)
    ):
        return names.VERSION
    if function == "__import__" and len(call.args) + len(call.keywords) < 2:
        value = names.OLD_ROOT  # `__import__` returns the root package
    nodes: list[ast.expr] = [call]
    match module.scopes.parents.get(call):
        case ast.Assign(targets=[ast.Name(name)]) | ast.NamedExpr(target=ast.Name(name)):
            home = module.scopes.scopes[call].home(name)
            references = module.scopes.references.get(name, ())
            nodes = [one.node for one in references if home and home in one.scope.owners(name)]
    found = (missing_prefix(module, *module.chain(one, value)) for one in nodes)
    return next(filter(None, found), None)


def _may_be_resolved(module: PythonModule, string: ast.Constant) -> bool:
    """Whether code in the file may resolve a name even though no call with it is visible.

    The library's name alone is usually data, unless it is assigned to a variable, or passed to a
    function or class of this file.
    """
    parent = module.scopes.parents.get(string)
    call = module.scopes.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if isinstance(call, ast.Call) and function_of(module, call) in IMPORTING:
        return True
    if names.missing(str(string.value)) is not None:
        return False
    is_listed = isinstance(parent, ast.Dict | ast.List | ast.Set | ast.Tuple)
    if is_listed and _FILLING.search(module.text):
        return True
    if _REPLACES_IMPORT.search(module.text) is not None and _comparison(module, string):
        return True
    if any(_takes_name(module, read) for read in _reads(module, string)):
        return True
    if _is_given_to_finder(module, string):
        return True
    is_root = string.value == names.OLD_ROOT
    is_part = not is_root or _is_dotted(module, parent)
    if not (_resolves_parts if is_part else resolves)(module.text):
        # Another file may look up what a table has, as it may of YAML.
        return isinstance(parent, ast.Dict) and string in parent.values and not is_root
    is_passed = isinstance(call, ast.Call) and module.defines(call.func, module.scopes.scopes[call])
    return is_part or is_passed or isinstance(parent, ast.Assign | ast.AnnAssign)


def _is_given_to_finder(module: PythonModule, string: ast.Constant) -> bool:
    """Whether code that finds modules by their names may get a string, also in a collection.

    Names in a comparison, the choices of an option, and the keys of a table are data.
    """
    parents = module.scopes.parents
    node: ast.AST = string
    match parents[string]:
        case ast.Attribute(attr="split") as split:
            node = parents[split]
    while isinstance(owner := parents[node], ast.Dict | ast.List | ast.Set | ast.Tuple):
        node = owner
    is_assigned = isinstance(owner, ast.Assign | ast.AnnAssign)
    if node is not string and isinstance(owner, ast.Assign) and module.given.listed:
        targets = {last_name(one) for one in owner.targets}
        if module.given.listed & {"*", *targets}:
            return True
    for use in (node, *(reads_bound(module, owner, node) if is_assigned else ())):
        if isinstance(above := parents[use], ast.Attribute) and above.attr in _ITEMS:
            use = parents[above]
        if isinstance(above := parents[use], ast.Starred | ast.keyword):
            use = above
        taker = parents[use]
        if isinstance(taker, ast.Call) and use is not taker.func and is_finder(module, taker.func):
            return True
        if isinstance(node, ast.Dict):
            calls = (call_with_first(module, one) for one in reads_bound(module, taker, use))
            if any(finds(module, call.func) for call in calls if call is not None):
                return True
        elif node is not string and _takes_items(taker, use) and finders_of(module):
            return versions.lookup_of(module, string) is None  # which has its own finding
    return False


def _takes_items(owner: ast.AST | None, use: ast.AST) -> bool:
    """Whether a loop, or a function other than one that defines choices, gets a collection."""
    is_choice = isinstance(use, ast.keyword) and use.arg == "choices"
    return isinstance(owner, ast.For | Comprehension | ast.Call) and not is_choice


def _resolves_parts(text: str) -> bool:
    """Whether code may resolve names of modules in a package."""
    return resolves(text) or _FINDING.search(text) is not None


def _is_dotted(module: PythonModule, words: ast.AST | None) -> bool:
    """Whether code joins words with dots, as in ``".".join(["petastorm", name])``."""
    match module.scopes.parents.get(words) if words is not None else None:
        case ast.Call(func=ast.Attribute(ast.Constant("."), "join")):
            return True
    return False


def _reads(module: PythonModule, string: ast.Constant) -> Iterator[ast.AST]:
    """Yield the reads of the variable that has a string, or what joins one of them to others.

    For the value of a table, they are what is read from the table.
    """
    table = module.scopes.parents.get(string)
    if isinstance(table, ast.Dict) and string in table.values:
        for read in reads_of_value(module, table):
            above = module.scopes.parents.get(read)
            if isinstance(above, ast.Attribute) and above.attr == "get":
                above = module.scopes.parents.get(above)
            if isinstance(above, ast.Subscript | ast.Call):
                yield above
    for read in reads_of_value(module, string):
        joined = (ast.BinOp, ast.FormattedValue, ast.JoinedStr)
        while isinstance(above := module.scopes.parents.get(read), joined):
            read = above
        yield read


def _takes_name(module: PythonModule, read: ast.AST) -> bool:
    """Whether code resolves the name that a variable has."""
    call = call_with_first(module, read)
    function, above = function_of(module, call), module.scopes.parents.get(read)
    if function in RESOLVING or function in PATCHING or is_target(module, read):
        return True
    if isinstance(above, ast.Dict) and read in above.keys:
        above = module.scopes.parents.get(above)
    return above is not None and (_uses_sys_modules(above) or _is_of_module(module, read))


def _comparison(module: PythonModule, string: ast.AST) -> ast.expr | None:
    """Return what compares a string, also as one of several or as a prefix."""
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.List | ast.Set | ast.Tuple):
        parent = module.scopes.parents.get(parent)
    if isinstance(parent, ast.Call) and called(parent) in _COMPARING:
        return parent
    return parent if isinstance(parent, ast.Compare) else None


def _is_for_programs(path: str) -> bool:
    """Whether programs look up this path, but the library's own code does not.

    A mock of such a path has the same effect with either library. Names in the `petastorm` package
    itself are such paths, because Petastorm's own code imports them from its modules.
    """
    owner, _, name = path.rpartition(".")
    is_of_package = owner == names.OLD_ROOT and names.missing(path) is None
    return name in names.ENTRIES or is_of_package or _METHOD.fullmatch(path) is not None
