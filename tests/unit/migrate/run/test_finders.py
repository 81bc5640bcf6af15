"""A module's name that a file gives to a function of another file which finds modules by it.

Libraries guard optional dependencies in this way. What guards an import of Petastorm must change
together with the import.
"""

from pathlib import Path

from tests.kit.migrating import each, run, write_files

from mdstorm_migrate.run.outcome import Settings

FOUND = "import importlib, importlib.util\n"
REQUIRE = f"{FOUND}def require(m, hint=None):\n    return importlib.import_module(m)\n"
AVAILABLE = f"{FOUND}def is_available(m): return importlib.util.find_spec(m) is not None\n"
REQUIRES = (
    f"{FOUND}def requires(*names):\n    def deco(f):\n        for n in names:\n"
    "            importlib.import_module(n)\n        return f\n    return deco\n"
)
READ = "    from petastorm import make_reader\n    return make_reader(u)\n"
USE = "from petastorm import make_reader\n"


def findings(root: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """Return the codes of what needs manual review in each file that has it."""
    write_files(root, files)
    outcomes = run(sorted(root.rglob("*.py")), Settings())
    return {
        one.path.relative_to(root).as_posix(): codes
        for one in outcomes
        if (codes := [two.rule for two in one.outcome.findings if two.cls == "manual"])
    }


@each(
    # a function that imports its argument
    (REQUIRE, f"from misc import require\ndef f(u):\n    require('petastorm')\n{READ}"),
    (REQUIRE, f"import misc\ndef f(u):\n    misc.require(m='petastorm')\n{READ}"),
    (REQUIRE, f"from misc import *\nrequire('petastorm', 'run pip')\n{USE}"),
    (
        "def need(m):\n    try: __import__(m)\n    except ImportError: raise\n",
        f"from .misc import need as n\nLIB = 'petastorm'\ndef f(u):\n    n(LIB)\n{READ}",
    ),
    (
        f"{FOUND}def all_of(names): return list(map(importlib.import_module, names))\n",
        f"from misc import all_of\nall_of(['torch', 'petastorm'])\n{USE}",
    ),
    (
        f"{FOUND}class Base:\n    def need(self, m): importlib.import_module(m)\n",
        "from misc import Base\nclass Own(Base):\n    def f(self, u):\n"
        f"        self.need('petastorm')\n    {READ.replace('    r', '        r')}",
    ),
    (REQUIRE, f"from misc import require\nfor lib in ('torch', 'petastorm'): require(lib)\n{USE}"),
    # a function that finds a module or a distribution
    (AVAILABLE, f"from misc import is_available\nif is_available('petastorm'):\n    {USE}"),
    (AVAILABLE, f"import misc\nHAS = misc.is_available('petastorm')\nif HAS:\n    {USE}"),
    (
        f"{FOUND}def _spec(m): return importlib.util.find_spec(m)\n"
        "is_there = lambda m: _spec(m) is not None\n",
        f"from misc import is_there\n{USE}assert is_there('petastorm')\n",
    ),
    (
        "from importlib.metadata import version\ndef has(name):\n    try: version(name)\n"
        "    except Exception: return False\n    return True\n",
        f"from misc import has\nif has('petastorm'):\n    {USE}",
    ),
    (
        "import pkg_resources\ndef has(name): return pkg_resources.get_distribution(name)\n",
        f"import misc as m\nassert m.has('petastorm')\n{USE}",
    ),
    (
        "import pkg_resources\ndef need(*m): pkg_resources.require(m)\n",
        f"from misc import need\nneed('petastorm')\n{USE}",
    ),
    (
        "import sys\ndef is_loaded(m): return m in sys.modules\n",
        f"import misc\nif misc.is_loaded('petastorm'): print(1)\n{USE}",
    ),
    (
        AVAILABLE,
        "from misc import is_available\n"
        f"ALL = {{n: is_available(n) for n in ('torch', 'petastorm')}}\n{USE}",
    ),
    # a decorator
    (REQUIRES, f"from misc import requires\n@requires('torch', 'petastorm')\ndef f(u):\n{READ}"),
    (REQUIRES, f"import misc\n@misc.requires('petastorm')\ndef f(u):\n{READ}"),
    (REQUIRES, f"from misc import requires\nD = ('petastorm',)\n@requires(*D)\ndef f(u):\n{READ}"),
    (REQUIRES, f"from misc import requires\n@requires(names=['petastorm'])\ndef f(u):\n{READ}"),
    (REQUIRES, f"from misc import requires\nn = requires('petastorm')\n@n\ndef f(u):\n{READ}"),
    (
        AVAILABLE,
        "import pytest\nfrom misc import is_available\n"
        f"@pytest.mark.skipif(not is_available('petastorm'), reason='x')\ndef test_it(u):\n{READ}",
    ),
)
def test_name_given_to_function_of_other_file_that_finds_it_needs_review(
    misc: str, app: str, tmp_path: Path
) -> None:
    assert findings(tmp_path, {"misc.py": misc, "app.py": app}) == {"app.py": ["PM103"]}


def test_name_given_through_package_needs_review(tmp_path: Path) -> None:
    files = {
        "lib/utils/__init__.py": "from .imports import require\n",
        "lib/utils/imports.py": REQUIRE,
        "lib/__init__.py": "from lib import utils\n",
        "app.py": f"import lib\nlib.utils.require('petastorm')\n{USE}",
        "other.py": f"from lib.utils import require as need\nneed('petastorm')\n{USE}",
    }
    assert findings(tmp_path, files) == {"app.py": ["PM103"], "other.py": ["PM103"]}


@each(
    "for lib in ['torch', 'petastorm']:\n    importlib.import_module(lib)",
    "NAMES = ('torch', 'petastorm')\ndef f(): return [n for n in NAMES if not find_spec(n)]",
    "all(importlib.import_module(m) for m in {'torch', 'petastorm'})",
    "[*map(importlib.import_module, ['torch', 'petastorm'])]",
    "for m, v in [('torch', '1'), ('petastorm', '0.9')]:\n    importlib.import_module(m)",
    "D = {'petastorm': 'hint'}\nfor m, hint in D.items():\n    importlib.import_module(m)",
    "D = {'a': ('petastorm', 1)}\n{k for k, (lib, _) in D.items() if importlib.import_module(lib)}",
    "D = {'a': 'petastorm'}\nfor lib in D.values(): importlib.import_module(lib)",
    "D = {'petastorm': 1}\nfor lib in D: importlib.import_module(lib)",
    "class C:\n    NAMES = ['petastorm']\n    def f(self):\n"
    "        for m in self.NAMES: importlib.import_module(m)",
    "def check(names):\n    for m in names: importlib.import_module(m)\ncheck(['petastorm'])",
    "[n for n in 'torch petastorm'.split() if not find_spec(n)]",
    "NAMES = 'torch,petastorm'.split(',')\nfor m in NAMES: importlib.import_module(m)",
    "@pytest.mark.parametrize('m', ['petastorm'])\ndef test_it(m): importlib.import_module(m)",
)
def test_listed_name_in_file_that_finds_modules_needs_review(text: str, tmp_path: Path) -> None:
    text = f"import importlib\nfrom importlib.util import find_spec\n{USE}{text}\n"
    assert findings(tmp_path, {"app.py": text}) == {"app.py": ["PM103"]}


@each(
    f"{FOUND}from conf import ALL\nfor m in ALL: importlib.import_module(m)\n",
    f"{FOUND}import conf\n[importlib.import_module(m) for m in conf.ALL]\n",
    "from misc import require\nfrom conf import *\nfor m in ALL: require(m)\n",
)
def test_listed_name_that_file_which_finds_modules_imports_needs_review(
    text: str, tmp_path: Path
) -> None:
    conf = "ALL = ['torch', 'petastorm']\n"
    files = {"misc.py": REQUIRE, "app.py": f"{USE}{text}", "conf.py": conf}
    assert findings(tmp_path, files) == {"conf.py": ["PM103"]}


@each(
    # a part of a name, and the key of a table
    (f"{FOUND}def get(k): return importlib.import_module(f'loaders.{{k}}')\n", "get('petastorm')"),
    (
        f"{FOUND}T = {{'petastorm': 'own'}}\ndef get(k):\n    path = T[k]\n"
        "    return importlib.import_module(path)\n",
        "get('petastorm')",
    ),
    # another function of the file
    (f"{REQUIRE}def get(tag): print(tag)\n", "get('petastorm')"),
    # choices, comparisons and tables next to code that imports another name
    (f"{REQUIRE}get = print\n", "require(conf)\noption('--kind', choices=['petastorm', 'tf'])"),
    (f"{REQUIRE}get = print\n", "require(conf)\nassert kind in ('petastorm', 'tf')"),
    (f"{REQUIRE}get = print\n", "require(conf)\n{'petastorm': make_reader}[kind]"),
    (f"{REQUIRE}get = print\n", "require(conf)\nfor k in {'petastorm': 1}: get(k)"),
    # a table of which something else is looked up
    (
        f"{REQUIRE}get = print\n",
        "[k for k, (m, _) in {'petastorm': ('h5py', 1)}.items() if require(m)]",
    ),
    (f"{REQUIRE}get = print\n", "for k, m in {'petastorm': 'h5py'}.items(): require(m)"),
    (f"{REQUIRE}get = print\n", "for m, k in {'h5py': 'petastorm'}.items(): require(m)"),
    (f"{REQUIRE}get = print\n", "for m in {'petastorm': 'h5py'}.values(): require(m)"),
    (f"{REQUIRE}get = print\n", "for m in {'h5py': ['petastorm']}: require(m)"),
)
def test_name_that_finds_no_module_moves_with_code(misc: str, text: str, tmp_path: Path) -> None:
    app = f"from misc import get, require\n{USE}{text}\n"
    assert findings(tmp_path, {"misc.py": misc, "app.py": app}) == {}
