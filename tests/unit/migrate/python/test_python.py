"""Scopes match the Python compiler's symbol tables, and names resolve to their bindings."""

import ast
import glob
import os
import symtable
import sys
import warnings
from types import FrameType
from typing import Any

import pytest
from tests.kit.migrating import each

from mdstorm_migrate.api import migrate
from mdstorm_migrate.python.scopes import Scope, analyse

_LIBRARY = os.path.dirname(os.__file__)
_MODULES = [
    *("argparse", "ast", "dataclasses", "enum", "functools", "typing", "unittest/mock"),
    *("test/test_grammar", "test/test_scope", "test/test_named_expressions", "test/test_patma"),
]
_NAMES = {
    ast.DictComp: "dictcomp",
    ast.GeneratorExp: "genexpr",
    ast.Lambda: "lambda",
    ast.ListComp: "listcomp",
    ast.SetComp: "setcomp",
}


@each(*_MODULES)
def test_scopes_match_compiler_symbol_tables(name: str) -> None:
    paths = glob.glob(f"{_LIBRARY}/{name}.py")
    if not paths:
        pytest.skip("this Python is installed without its tests")
    with open(paths[0], encoding="utf-8") as file:
        text = file.read()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler warns about code in Python's own tests
        tree = ast.parse(text)
        tables = _tables(symtable.symtable(text, name, "exec"))
    checked = 0
    for scope in _scopes(tree):
        found = tables.get(_key(scope.node), [])
        if len(found) == 1:
            checked += sum(_check(scope, symbol) for symbol in found[0].get_symbols())
    assert checked > 100


def _check(scope: Scope, symbol: symtable.Symbol) -> bool:
    """Assert that a name is bound where the compiler binds it; return whether it was checked."""
    name = symbol.get_name()
    # Skip `__class__`, which no statement binds, and mangled names such as `_Class__name`.
    if not symbol.is_referenced() or "__" in name:
        return False
    home = scope.home(name)
    if symbol.is_free():
        assert home is not None, name
        assert home is not scope, name
        assert home.parent is not None, name
    elif symbol.is_local():
        assert home in (scope, None) or _is_inlined(scope), name
    elif symbol.is_global():
        assert home is None or home.parent is None, name
    return True


def _is_inlined(scope: Scope) -> bool:
    """Whether the compiler may have moved a comprehension's names to the surrounding scope."""
    nodes = ast.walk(scope.node)
    return sys.version_info >= (3, 12) and any(type(node) in _NAMES for node in nodes)


def _tables(table: symtable.SymbolTable) -> dict[tuple[str, int], list[symtable.SymbolTable]]:
    found = {(table.get_name(), table.get_lineno()): [table]}
    for child in table.get_children():
        for key, tables in _tables(child).items():
            found.setdefault(key, []).extend(tables)
    return found


def _key(node: ast.AST) -> tuple[str, int]:
    if isinstance(node, ast.Module):
        return "top", 0
    decorators = getattr(node, "decorator_list", None)
    line = decorators[0].lineno if decorators else node.lineno  # type: ignore[attr-defined]
    return _NAMES.get(type(node)) or node.name, line  # type: ignore[attr-defined]


def _scopes(tree: ast.Module) -> set[Scope]:
    found: set[Scope] = set()
    for references in analyse(tree).references.values():
        for reference in references:
            scope: Scope | None = reference.scope
            while scope is not None:
                found.add(scope)
                scope = scope.parent
    return found


def test_long_expression_does_not_exceed_recursion_limit() -> None:
    found = analyse(ast.parse(" + ".join(["a"] * 900)))
    assert len(found.references["a"]) == 900


@each(
    ("from petastorm import make_reader\n", True),
    ("from petastorm import make_reader\nmake_reader = partial(make_reader, seed=3)\n", True),
    (
        "try:\n    from petastorm import make_reader\n"
        "except ImportError:\n    def make_reader(url): raise\n",
        True,
    ),
    ("make_reader = None\nif url:\n    from petastorm import make_reader\n", True),
    # names that the file defines itself
    ("from petastorm import make_reader\ndef make_reader(url, foo): ...\n", False),
    ("from petastorm import make_reader\nclass make_reader(object): ...\n", False),
    ("import petastorm\nmake_reader = wrap(petastorm.make_reader)\n", False),
)
def test_name_resolves_to_its_binding(code: str, is_petastorms: bool) -> None:
    findings = migrate(f"{code}make_reader(url, foo=3)\n").findings
    assert any(found.rule == "PM113" for found in findings) is is_petastorms


def test_import_before_global_statement_binds_global() -> None:
    code = (
        "def load():\n    import petastorm\n    global petastorm\n"
        "print(petastorm.hdfs, petastorm.make_reader)\n"
    )
    assert not migrate(code, todo=False).changed


def test_name_bound_by_two_imports_stays_bound() -> None:
    code = "import petastorm.spark as petastorm\nimport petastorm\neval('petastorm.reader')\n"
    after = migrate(code, todo=False).output
    assert "import mdstorm as petastorm\n" in after


@pytest.mark.long
@each(
    "import petastorm.reader\n",
    "import mdstorm.reader\nimport petastorm.reader\n",
    "from petastorm import make_reader as read_{0}\nread_{0}('file:///data')\n",
    "def read_{0}():\n    import petastorm\n    petastorm.make_reader('file:///data')\n",
    "class Test{0}:\n    from petastorm import make_reader\n    reader = make_reader('file:///a')\n",
    "try:\n    import mdstorm as {0}\nexcept ImportError:\n    import petastorm as {0}\n",
    "import petastorm.pytorch\nmock.patch('petastorm.pytorch.DataLoader')\n",
    "from petastorm import make_reader\nmake_reader('file:///data', seed=1)\n",
    "from importlib import import_module\nimport_module('petastorm.reader')\n",
)
def test_migration_work_grows_linearly_with_number_of_imports(lines: str) -> None:
    small, large = (
        lines_run_by_migrate("".join(lines.format(f"n{number}") for number in range(count)))
        for count in (30, 60)
    )
    assert large < 2.3 * small


def lines_run_by_migrate(code: str) -> int:
    """Return the number of mdstorm_migrate's lines that are executed to migrate a file."""
    count = 0

    def count_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return count_line

    def enter(frame: FrameType, event: str, _: object) -> Any:
        return count_line if "mdstorm_migrate" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        migrate(code)
    finally:
        sys.settrace(before)
    return count


def test_import_guarded_by_earlier_try_is_unchanged() -> None:
    tried = "try:\n    import mdstorm as store\nexcept ImportError:\n    store = None\n"
    later = "if store is None:\n    import petastorm as store\nstore.make_reader\n"
    assert migrate(tried + later).output == tried + later
    assert "import mdstorm as store" in migrate(later).output
