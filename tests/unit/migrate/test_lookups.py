"""A name that a program looks up at run time belongs to the library that the program imports.

Each program imports from Petastorm, and looks up a module or an object by its name. The names are
written in many ways. The programs are run, before and after their migration, with two stand-in
packages whose objects know their library: Petastorm's has all names, mdstorm's lacks some. A tool
that reads such programs may leave one and say so, but must not mix the libraries.
"""

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from typing import NamedTuple

import pytest

from mdstorm_migrate.api import migrate

ROOTS = ("mdstorm", "petastorm")
#: The names of the stand-in packages; only Petastorm has those in `hdfs`.
MODULES = {
    "": ["make_reader", "Reader"],
    ".reader": ["make_reader", "Reader"],
    ".spark": ["make_spark_converter"],
    ".spark.spark_dataset_converter": ["make_spark_converter"],
    ".hdfs": [],
    ".hdfs.namenode": ["make_reader", "Reader"],
}


def stand_in(root: str) -> dict[str, types.ModuleType]:
    """Return the modules of a package; its functions are strings, its classes are classes."""
    found: dict[str, types.ModuleType] = {}
    for rest, names in MODULES.items():
        if root == "petastorm" or "hdfs" not in rest:
            path = f"{root}{rest}"
            module = found[path] = types.ModuleType(path)
            module.__path__ = []
            module.__spec__ = ModuleSpec(path, None, is_package=True)
            for name in names:
                kind = type(name, (), {"__module__": path}) if name == "Reader" else None
                setattr(module, name, kind or f"{path}.{name}")
            above, _, last = path.rpartition(".")
            if above:
                setattr(found[above], last, module)
    return found


def is_of_library(name: str) -> bool:
    return name.startswith(ROOTS) and name.partition(".")[0] in ROOTS


def loaded() -> list[str]:
    """Return the names of the loaded modules of the two libraries."""
    return [*filter(is_of_library, sys.modules)]


@contextmanager
def stand_ins() -> Iterator[None]:
    """Make the stand-in packages importable, instead of the real ones."""
    real = {name: sys.modules.pop(name) for name in loaded()}
    finders = [*sys.meta_path]
    # Also without the finder that another test's drop-in has left, which is in mdstorm_backend.
    sys.meta_path = [one for one in finders if not getattr(one, "__module__", "").startswith(ROOTS)]
    sys.modules |= {**stand_in("petastorm"), **stand_in("mdstorm")}
    try:
        yield
    finally:
        for name in loaded():
            del sys.modules[name]
        sys.modules |= real
        sys.meta_path = finders


def replaced() -> list[str]:
    """Return the names of the modules and objects in whose place there is a fake."""
    found = []
    for path in loaded():
        module = sys.modules[path]
        values = vars(module) if isinstance(module, types.ModuleType) else {}
        found += [path] if module == "fake" else []
        found += [f"{path}.{name}" for name, value in values.items() if value == "fake"]
    return sorted(found)


def run(text: str) -> list[str]:
    """Run a program, and return what it looks up: paths, or what it found out about them."""
    found: list[str] = []

    def show(value: object) -> None:
        if isinstance(value, list):
            found.extend(value)
        elif isinstance(value, types.ModuleType | ModuleSpec):
            found.append(getattr(value, "__name__", None) or value.name)  # type: ignore[union-attr]
        else:
            found.append(str(value))

    def instantiate(config: dict[str, str]) -> None:
        module, _, name = config["_target_"].rpartition(".")
        show(getattr(sys.modules[module], name))

    names = {"show": show, "replaced": replaced, "instantiate": instantiate}
    with stand_ins():
        exec(compile(text, "program.py", "exec"), names)
    return found


HEAD = """\
import importlib, importlib.util, pkgutil, pydoc, sys
from importlib import import_module
from unittest import mock
import pytest
from petastorm import make_reader
from petastorm.reader import Reader
show(make_reader)
"""
#: Looks up a module, or compares its name.
OF_MODULES = [
    "show(importlib.import_module({}))",
    "show(importlib.import_module(name={}))",
    "show(import_module({}))",
    "show(__import__({}, fromlist=['x']))",
    "show(pkgutil.resolve_name({}))",
    "show(pydoc.locate({}))",
    "show(importlib.util.find_spec({}))",
    "show(pytest.importorskip({}))",
    "show(sys.modules[{}])",
    "show(sys.modules.get({}))",
    "show({} in sys.modules)",
    "sys.modules[{}] = 'fake'; show(replaced())",
    "sys.modules.update({{{}: 'fake'}}); show(replaced())",
    "mock.patch.dict('sys.modules', {{{}: 'fake'}}).start(); show(replaced())",
    "mock.patch.dict(sys.modules, {{{}: 'fake'}}).start(); show(replaced())",
    "pytest.MonkeyPatch().setitem(sys.modules, {}, 'fake'); show(replaced())",
    "mock.patch.object(sys.modules[{}], 'Reader', 'fake').start(); show(replaced())",
    "show(Reader.__module__ == {})",
    "show(Reader.__module__ in ({}, 'other'))",
    "show(Reader.__module__.startswith({}))",
    "show(all(one.__module__ != {} for one in [Reader]))",
]
#: Looks up an object.
OF_OBJECTS = [
    "mock.patch({}, 'fake').start(); show(replaced())",
    "mock.patch(target={}, new='fake').start(); show(replaced())",
    "pytest.MonkeyPatch().setattr({}, 'fake'); show(replaced())",
    "show(pkgutil.resolve_name({}))",
    "show(pydoc.locate({}))",
    "instantiate({{'_target_': {}}})",
    "instantiate(dict(_target_={}))",
]


class Way(NamedTuple):
    """A way to write a name: statements before its use, the expression there, and around the use.

    ``ROOT`` and ``REST`` are the parts of the name, before and after the first dot.
    """

    before: str
    expression: str
    around: str = "{}"
    is_whole: bool = False


WAYS = {
    "literal": Way("", "'ROOT.REST'", is_whole=True),
    "literal in parentheses": Way("", '("ROOT.REST")', is_whole=True),
    "adjacent literals": Way("", "'ROOT' '.REST'"),
    "variable": Way("N = 'ROOT.REST'", "N"),
    "annotated variable": Way("N: str = 'ROOT.REST'", "N"),
    "variable of a variable": Way("M = 'ROOT.REST'\nN = M", "N"),
    "sum": Way("", "'ROOT.' + 'REST'"),
    "sum with root": Way("R = 'ROOT'", "R + '.REST'"),
    "f-string": Way("R = 'ROOT'", "f'{R}.REST'"),
    "f-string with rest": Way("R = 'REST'", "f'ROOT.{R}'"),
    "%": Way("R = 'ROOT'", "'%s.REST' % R"),
    "format": Way("R = 'REST'", "'ROOT.{}'.format(R)"),
    "join": Way("", "'.'.join(['ROOT', 'REST'])"),
    "list": Way("", "N", "for N in ['ROOT.REST']: {}"),
    "list in variable": Way("L = ['ROOT.REST']", "N", "for N in L: {}"),
    "tuples": Way("L = [('x', 'ROOT.REST')]", "N", "for _, N in L: {}"),
    "dictionary": Way("D = {'k': 'ROOT.REST'}", "D['k']"),
    "dictionary with get": Way("D = {'k': 'ROOT.REST'}", "D.get('k')"),
    "key": Way("D = {'ROOT.REST': 1}", "N", "for N in D: {}"),
    "argument": Way("", "n", "def f(n): {}\nf('ROOT.REST')"),
    "named argument": Way("", "n", "def f(*, n): {}\nf(n='ROOT.REST')"),
    "default": Way("", "n", "def f(n='ROOT.REST'): {}\nf()"),
    "class attribute": Way("class C:\n    N = 'ROOT.REST'", "C.N"),
    "result": Way("def name(): return 'ROOT.REST'", "name()"),
    "choice": Way("", "('ROOT.REST' if make_reader else 'os')"),
}


def program(way: Way, lookup: str, name: str) -> str:
    root, _, rest = name.partition(".")
    way = Way(*(str(one).replace("ROOT.REST", name) for one in way))
    used = way.around.format(lookup.format(way.expression))
    lines = f"{way.before}\n{used}\n".replace("ROOT", root).replace("REST", rest)
    return f"{HEAD}{lines}"


def check(text: str, *, exists: bool, moves: bool) -> None:
    result = migrate(text, todo=False)
    assert result.errors == ()
    before, after = run(text), run(result.output)
    moved = [one.replace("petastorm", "mdstorm") for one in before]
    if not exists:
        assert after[1:] == before[1:], result.output
    elif moves:
        assert after == moved, result.output
    else:
        assert after in (before, moved), result.output
        assert after == moved or {one.cls for one in result.findings} & {"manual", "review"}


#: The gate has a third of the look-ups in each way, which together are all of them.
THIRDS = [0, *(pytest.param(third, marks=pytest.mark.long) for third in (1, 2))]


@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("owner", ["petastorm.reader", "petastorm.hdfs.namenode"])
def test_name_is_looked_up_in_one_library(way: str, owner: str, third: int) -> None:
    exists, moves = owner == "petastorm.reader", WAYS[way].is_whole
    first = ([*WAYS].index(way) + third) % 3
    for lookup in OF_MODULES[first::3]:
        check(program(WAYS[way], lookup, owner), exists=exists, moves=moves)
    for lookup in OF_OBJECTS[first::3]:
        check(program(WAYS[way], lookup, f"{owner}.make_reader"), exists=exists, moves=moves)


# The name of the package alone is often data, so it is not followed in every way.


OF_PACKAGE = [*list(WAYS)[:2], "variable", "annotated variable", "dictionary"]
OF_PACKAGE += ["dictionary with get"]


@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("way", OF_PACKAGE)
def test_name_of_package_is_looked_up_in_one_library(way: str, third: int) -> None:
    for lookup in OF_MODULES[(OF_PACKAGE.index(way) + third) % 3 :: 3]:
        check(program(WAYS[way], lookup, "petastorm"), exists=True, moves=WAYS[way].is_whole)


@pytest.mark.parametrize("way", ["list", "list in variable", "tuples"])
def test_fakes_take_the_place_of_the_package_that_is_imported(way: str) -> None:
    for lookup in OF_MODULES:
        if "'fake'" in lookup and "object" not in lookup:
            check(program(WAYS[way], lookup, "petastorm"), exists=True, moves=False)
