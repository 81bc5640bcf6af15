"""PM103: dotted names of Petastorm in strings that are resolved at run time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import NAMES, Class, Edit, Finding, Topic
from mdstorm_migrate.packaging.commands import renamed_in_code
from mdstorm_migrate.packaging.configuration import TARGETS, dotted_values
from mdstorm_migrate.packaging.strings import is_module_run
from mdstorm_migrate.petastorm import names
from mdstorm_migrate.python.calls import (
    REPLACING,
    call_with_first,
    called,
    function_of,
    is_docstring,
    resolved_as,
)
from mdstorm_migrate.python.import_actions import has_fallback
from mdstorm_migrate.python.imports import Use, imported_names, missing_prefix, reached_uses
from mdstorm_migrate.python.links import all_imports, resolves
from mdstorm_migrate.python.module import PythonModule, inner_span, last_name, literal_span
from mdstorm_migrate.python.shadow import shadow_of
from mdstorm_migrate.rules import loggers, versions
from mdstorm_migrate.rules.rule import rule
from mdstorm_migrate.rules.string_uses import (
    IMPORT,
    StringUse,
    caught_import,
    comparison_of,
    has_string,
    use_of,
    uses_sys_modules,
    values_of,
)

CODE = "PM103"


#: An index of another part than the first, as in ``x.__module__.split(".")[-1]``.
_OTHER_PART = re.compile(r"\[-?[1-9]")
#: Why a mock of a name that Petastorm itself looks up needs review.
_NO_EFFECT = "mdstorm may not look up this name there: check that the mock has an effect"
#: A line of an example in a docstring.
_EXAMPLE = re.compile(
    r"""(?:^[ \t]*|(?<=["']))(?:>>>|\.\.\.)[ \t](?P<code>[^\r\n]*)""", re.MULTILINE
)
#: The lines after one of an example, and a dotted name in them, also as a whole string.
_SHOWN = re.compile(r"(?:[^\r\n\"]*\r?\n(?![ \t]*(?:>>>|\.\.\.|\"\"\"|'''|\r?\n)))+[^\r\n]*")
_PATH = re.compile(
    rf"""(?P<mark>(?<=['"]))?(?<![\w./-])(?P<path>{names.OLD_ROOT}(?:\.\w+)*)(?(mark)(?=['"]))"""
)
#: Names to which examples are assigned that `doctest` runs.
_DOCUMENTING = frozenset({"__doc__", "__test__"})
#: Functions that return the module named by their first argument.
_RETURNING = frozenset({"import_module", "importorskip"})
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
        elif names.is_configured(key, path):
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


def _in_code(module: PythonModule) -> Iterable[Edit | Finding]:
    for string in module.scopes.strings:
        value, use = str(string.value), use_of(module, string)
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
            is_both = has_string(module, names.renamed(value))
            found = _renamed(value, *span, first, absent, why, use, is_both=is_both)
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
        if is_root and uses_sys_modules(module.scopes.parents[word]):
            yield _unknown(word.arg, *module.span(word))


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
    if not IMPORT.search(code):
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
    if not has_string(module, names.renamed(value)):
        what = f'`find_class` compares names with "{value}"'
        remedy = f'{what}: also allow "{names.renamed(value)}", which new pickles name'
        yield Finding(CODE, "manual", *module.span(string), what, remedy, holds=value)


def _absent(module: PythonModule, string: ast.Constant, use: StringUse) -> str | None:
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
    use: StringUse | None = None,
    *,
    is_both: bool = False,
) -> Edit | Finding:
    """Return the edit to a string whose text begins at `inner`, or a finding.

    The edit needs review if there is a reason `why`. If the file has both names, it is left. For a
    logger in review, the new name may be that of a module, which was renamed before.
    """
    new = names.renamed(value)
    is_in_review = use == "logger" and why is not None
    is_both &= not is_in_review
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


def _why(module: PythonModule, string: ast.Constant, use: StringUse) -> str | None:
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


def _is_of_other_import(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is compared with an error of an import that is not in the `try` itself."""
    compared = comparison_of(module, string)
    handler = None if compared is None else caught_import(module, compared)
    around = None if handler is None else module.scopes.parents.get(handler)
    return isinstance(around, ast.Try) and not any(
        names.is_petastorm(item.module)
        for body in around.body
        for item in all_imports(ast.walk(body))
    )


def _may_be_of_project(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a module of the project may be equal, because not only the first part is compared."""
    compared = comparison_of(module, string)
    if not module.given.has_namesake or string.value != names.OLD_ROOT or compared is None:
        return False
    if caught_import(module, compared) is not None:
        return False
    match compared:
        case ast.Call() if called(compared) == "startswith":
            return True
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[one]):
            if left is string and "sys.modules" not in ast.unparse(one):
                return True
    read = (one for one in ast.walk(compared) if isinstance(one, ast.Name))
    values = (value for name in read for value in values_of(module, name))
    return any(_OTHER_PART.search(ast.unparse(one)) for one in (compared, *values))


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


def _is_for_programs(path: str) -> bool:
    """Whether programs look up this path, but the library's own code does not.

    A mock of such a path has the same effect with either library. Names in the `petastorm` package
    itself are such paths, because Petastorm's own code imports them from its modules.
    """
    owner, _, name = path.rpartition(".")
    is_of_package = owner == names.OLD_ROOT and names.missing(path) is None
    return name in names.ENTRIES or is_of_package or _METHOD.fullmatch(path) is not None
