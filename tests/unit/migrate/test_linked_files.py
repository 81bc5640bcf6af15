"""Files that pass objects to each other are migrated together, or not at all.

One file makes an object of Petastorm, another one passes it to a function of Petastorm. Between
them is each way in which one file reaches another. The programs are run after the migration with
two stand-in packages, whose functions refuse objects of the other library.
"""

import importlib
import os
import runpy
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.kit.migrating import run, write_files

from mdstorm_migrate.run.outcome import Settings

#: The names of the stand-in packages; only Petastorm has the last one.
NAMES = [("", "make_reader"), (".unischema", "Unischema"), (".reader", "ArrowReaderWorker")]


class MixedError(Exception):
    """A function of one library has got an object of the other one."""


def of_library(library: str) -> type:
    """Return a class of a library that takes only objects of the same library."""

    class Object:
        def __init__(self, *given: object) -> None:
            for one in given:
                if getattr(one, "library", library) != library:
                    raise MixedError(library)

        @property
        def library(self) -> str:
            return library

    return Object


def stand_ins() -> dict[str, types.ModuleType]:
    """Return the modules of both packages, and one that resolves names in configuration."""
    found = {}
    for library in ("petastorm", "mdstorm"):
        for module, name in NAMES:
            path = f"{library}{module}"
            made = found[path] = types.ModuleType(path)
            made.__path__ = []
            if library == "petastorm" or name != "ArrowReaderWorker":
                setattr(made, name, of_library(library))
    hydra = found["hydra"] = types.ModuleType("hydra")
    utils = found["hydra.utils"] = types.ModuleType("hydra.utils")
    vars(utils)["instantiate"] = instantiate
    vars(hydra)["utils"] = utils
    return found


def instantiate(config: dict[str, str]) -> Any:
    module, _, name = config["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), name)()


@contextmanager
def running_in(folder: Path) -> Iterator[None]:
    """Make the files of a folder and the stand-in packages importable."""
    before, paths, directory, finders = dict(sys.modules), sys.path, Path.cwd(), sys.meta_path
    roots = ("mdstorm", "petastorm")
    for name in [one for one in sys.modules if one.partition(".")[0] in roots]:
        del sys.modules[name]
    sys.meta_path = [one for one in finders if "mdstorm" not in getattr(one, "__module__", "")]
    sys.modules |= stand_ins()
    sys.path = [str(folder), *paths]
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(directory)
        sys.path, sys.meta_path = paths, finders
        for name in [one for one in sys.modules if one not in before]:
            del sys.modules[name]
        sys.modules |= before


class Link(NamedTuple):
    """A way in which code gets an object from a file: where the file is, code, other files."""

    path: str
    code: str
    others: Mapping[str, str] = types.MappingProxyType({})


GET = "from importlib import import_module\n"
LINKS = {
    "from": Link("made.py", "from made import MADE as obj"),
    "import": Link("made.py", "import made\nobj = made.MADE"),
    "import as": Link("made.py", "import made as m\nobj = m.MADE"),
    "star": Link("made.py", "from made import *\nobj = MADE"),
    "in function": Link(
        "made.py", "def get():\n    from made import MADE\n    return MADE\nobj = get()"
    ),
    "function": Link("made.py", "from made import make\nobj = make()"),
    "class": Link("made.py", "from made import Made\nobj = Made.MADE"),
    "object": Link("made.py", "from made import Made\nobj = Made().made"),
    "other file": Link(
        "made.py", "from other import MADE as obj", {"other.py": "from made import MADE\n"}
    ),
    "star of other file": Link(
        "made.py", "from other import *\nobj = MADE", {"other.py": "from made import *\n"}
    ),
    "function of other file": Link(
        "made.py",
        "import other\nobj = other.get()",
        {"other.py": "import made\ndef get(): return made.make()\n"},
    ),
    "module of other file": Link(
        "made.py", "import other\nobj = other.made.MADE", {"other.py": "import made\n"}
    ),
    "submodule": Link("p/made.py", "import p.made\nobj = p.made.MADE", {"p/__init__.py": ""}),
    "from package": Link("p/made.py", "from p import made\nobj = made.MADE"),
    "package": Link(
        "p/made.py", "from p import MADE as obj", {"p/__init__.py": "from .made import MADE\n"}
    ),
    "package with star": Link(
        "p/made.py", "import p\nobj = p.MADE", {"p/__init__.py": "from .made import *\n"}
    ),
    "package that imports": Link(
        "p/made.py", "import p\nobj = p.made.MADE", {"p/__init__.py": "from . import made\n"}
    ),
    "package with function": Link(
        "p/made.py",
        "from p import MADE as obj",
        {
            "p/__init__.py": f"{GET}def __getattr__(n):\n"
            "    return getattr(import_module('.made', __name__), n)\n"
        },
    ),
    "package with table": Link(
        "p/made.py",
        "from p import MADE as obj",
        {
            "p/__init__.py": f"{GET}NAMES = {{'MADE': '.made'}}\n"
            "def __getattr__(n): return getattr(import_module(NAMES[n], __name__), n)\n"
        },
    ),
    "package with words": Link(
        "p/made.py",
        "from p import MADE as obj",
        {
            "p/__init__.py": f"{GET}NAMES = {{'MADE': 'made'}}\n"
            "def __getattr__(n): return getattr(import_module('p.' + NAMES[n]), n)\n"
        },
    ),
    "name": Link("made.py", f"{GET}obj = import_module('made').MADE"),
    "name in package": Link("p/made.py", f"{GET}obj = import_module('p.made').MADE"),
    "name and package": Link("p/made.py", f"{GET}obj = import_module('.made', 'p').MADE"),
    "__import__": Link("made.py", "obj = __import__('made').MADE"),
    "variable": Link("p/made.py", f"{GET}N = 'p.made'\nobj = import_module(N).MADE"),
    "table": Link("p/made.py", f"{GET}N = {{'a': 'p.made'}}\nobj = import_module(N['a']).MADE"),
    "table of objects": Link(
        "p/made.py", f"{GET}M, N = 'p.made:MADE'.split(':')\nobj = getattr(import_module(M), N)"
    ),
    "other file by name": Link(
        "p/made.py",
        "from other import get\nobj = get('a')",
        {"other.py": f"{GET}N = {{'a': 'p.made'}}\ndef get(n): return import_module(N[n]).MADE\n"},
    ),
    "resolve_name": Link("p/made.py", "import pkgutil\nobj = pkgutil.resolve_name('p.made:MADE')"),
    "exec": Link(
        "made.py", "from pathlib import Path\nexec(Path('made.py').read_text())\nobj = MADE"
    ),
    "run_path": Link("made.py", "import runpy\nobj = runpy.run_path('made.py')['MADE']"),
    "run_module": Link("made.py", "import runpy\nobj = runpy.run_module('made')['MADE']"),
    "registry": Link(
        "made.py",
        "import made\nfrom registry import NAMES\nobj = NAMES['made']",
        {"registry.py": "NAMES = {}\n"},
    ),
    "configuration": Link(
        "p/made.py",
        "import yaml\nfrom hydra.utils import instantiate\nfrom pathlib import Path\n"
        "obj = instantiate(yaml.safe_load(Path('c.yaml').read_text()))",
        {"c.yaml": "_target_: p.made.make\n"},
    ),
}
MADE = """\
{}
MADE = {}()
def make(): return {}()
class Made:
    MADE = MADE
    def __init__(self): self.made = make()
"""
REGISTERS = "import registry\nregistry.NAMES['made'] = MADE\n"
SCHEMA = MADE.format("from petastorm.unischema import Unischema", *["Unischema"] * 2)
WORKER = "from petastorm.reader import ArrowReaderWorker"
STAYS = MADE.format(WORKER, *["ArrowReaderWorker"] * 2)
READS = "from petastorm import make_reader\nmake_reader(obj)\n"
#: The file that makes an object, the code that uses it, and whether both move.
CASES = {
    "both move": (SCHEMA, READS, True),
    "user stays": (SCHEMA, f"{WORKER}\nArrowReaderWorker(obj)\n", False),
    "maker stays": (STAYS, READS, False),
    "user is ignored": (SCHEMA, f"{READS}# mdstorm: ignore-file\n", False),
    "maker is ignored": (f"{SCHEMA}# mdstorm: ignore-file\n", READS, False),
}


def check(root: Path, files: Mapping[str, str], linked: set[str], *, moves: bool) -> None:
    """Assert that the program runs, and that either all linked files are migrated or none."""
    write_files(root, {**files, "apart.py": "from petastorm import make_reader\n"})
    outcomes = run(sorted(one for one in root.rglob("*.*")), Settings(todo=False))
    for one in outcomes:
        one.path.write_bytes(one.outcome.after)
    with running_in(root):
        runpy.run_path("user.py")
    changed = {one.path.relative_to(root).as_posix() for one in outcomes if one.changed}
    assert changed == {"apart.py", *(linked if moves else ())}


#: The gate has every second case of each link.
CELLS = [
    pytest.param(name, case, marks=pytest.mark.long if (one + other) % 2 else ())
    for one, name in enumerate(LINKS)
    for other, case in enumerate(CASES)
]


@pytest.mark.parametrize(("name", "case"), CELLS)
def test_linked_files_use_one_library(name: str, case: str, tmp_path: Path) -> None:
    link, (made, used, moves) = LINKS[name], CASES[case]
    made += REGISTERS if name == "registry" else ""
    files = {link.path: made, "user.py": f"{link.code}\n{used}", **link.others}
    check(tmp_path, files, {link.path, "user.py"}, moves=moves)


#: How a file passes an object from one file to another one, which has a function and a class.
PASSES = [
    "import made, work\nwork.take(made.MADE)\n",
    "from made import MADE\nfrom work import take as t\nt(obj=MADE)\n",
    "from made import *\nfrom work import *\nWork(MADE).take()\n",
    "from made import make\nfrom work import Work\nw = Work(None)\nw.obj = make()\nw.take()\n",
    "import made, work\nwork.OBJ = made.MADE\nwork.take_global()\n",
    "from functools import partial\nfrom made import MADE\nfrom work import take\n"
    "partial(take, MADE)()\n",
    "from made import make\nfrom work import take\n[take(one) for one in [make()]]\n",
    "import other\nfrom work import take\ntake(other.MADE)\n",
]
WORK = """\
{}
def take(obj): {}
def take_global(): take(OBJ)
class Work:
    def __init__(self, obj): self.obj = obj
    def take(self): take(self.obj)
{}
"""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("passes", PASSES)
def test_files_that_a_third_one_links_use_one_library(
    passes: str, case: str, tmp_path: Path
) -> None:
    made, used, moves = CASES[case]
    files = {"made.py": made, "work.py": WORK.format(*used.split("\n")), "user.py": passes}
    files["other.py"] = "from made import MADE\n"
    check(tmp_path, files, {"made.py", "work.py"}, moves=moves)
