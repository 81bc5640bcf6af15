"""A list or command that installs Petastorm installs mdstorm instead, and is otherwise the same.

Each place in which projects require packages is written with each form of a requirement. The files
are read before and after the migration by parsers that do not know the tool: TOML, YAML, JSON, INI,
a shell's words, requirements as pip has them. Code that installs is run.
"""

import builtins
import codecs
import configparser
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from packaging.requirements import InvalidRequirement, Requirement
from tests.kit.migrating import run, write_files

from mdstorm_migrate.run.outcome import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# What code needs


class Code(NamedTuple):
    """Code that moves, the extra that it needs, and a package that it needs with or without it."""

    text: str
    extra: str = ""
    package: str = "numpy"
    path: str = "uses.py"


READS = "from petastorm import make_reader\n"
CONVERTS = "from petastorm.spark import make_spark_converter\n"
CODES = [
    Code(READS),
    Code("from petastorm.pytorch import DataLoader\n", "torch", "torch"),
    Code("from petastorm.tf_utils import tf_tensors\n", "tf", "tensorflow"),
    Code(f"import pandas as pd\n{READS}", package="pandas"),
    Code(f"{CONVERTS}spark = SparkSession.builder.getOrCreate()\n", "spark", "pyspark"),
    Code(
        f"from pyspark.sql import SparkSession\nSparkSession.builder\n{READS}", "spark", "pyspark"
    ),
    Code("import importlib\nimportlib.import_module('petastorm.pytorch')\n", "torch", "torch"),
    Code("r:\n  _target_: petastorm.pytorch.DataLoader\n", "torch", "torch", "conf/uses.yaml"),
]
#: What an extra of Petastorm is in mdstorm.
EXTRAS = {"torch": "torch", "tf": "tf", "opencv": "images"}

# How a requirement is written

FORMS = [
    "petastorm",
    "Petastorm",
    "petastorm==0.12.1",
    "petastorm~=0.12",
    "petastorm>=0.9,<1.0",
    "petastorm[torch]==0.12.1",
    "petastorm[tf,opencv]",
    "petastorm[docs]>=0.11",
    "petastorm==0.12.1; python_version >= '3.10'",
    "petastorm[torch]; sys_platform == 'linux'",
]
#: How the text of a file is encoded.
ENCODINGS: list[Callable[[str], bytes]] = [
    str.encode,
    lambda text: text.replace("\n", "\r\n").encode(),
    lambda text: text.encode("utf-8-sig"),
]


def wide(text: str) -> bytes:
    """Encode a list as PowerShell does."""
    return codecs.BOM_UTF16_LE + text.encode("utf-16-le")


# Where it is


def ours(text: str) -> Requirement | None:
    """Return a requirement for one of the libraries, or for what Petastorm brought."""
    try:
        found = Requirement(text)
    except InvalidRequirement:
        return None
    return found if found.name.lower() in ("petastorm", "mdstorm", "pandas") else None


def word(form: str) -> str:
    """Write a requirement as a word of a shell."""
    return shlex.quote(form.replace("'", '"'))


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def in_lines(text: str) -> object:
    """Return the requirements, and the comments, in a list for pip."""
    lines = [re.split(r"(?:^|\s+)#", line) for line in text.splitlines()]
    return [one for one, *_ in lines], [comment for _, *comments in lines for comment in comments]


def in_ini(text: str) -> object:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return {
        section: {
            key: [one.removeprefix("py310: ") for one in value.splitlines()]
            for key, value in parser[section].items()
        }
        for section in parser
    }


def in_tables(text: str) -> object:
    """Return TOML, with tables of packages as lists; an optional package has a marker."""
    return _tables(tomllib.loads(text))


def _tables(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if not {"petastorm", "mdstorm"} & value.keys():
        return {key: _tables(one) for key, one in value.items()}
    found = []
    for name, given in value.items():
        one = {"version": given} if isinstance(given, str) else given
        extras = ",".join(one.pop("extras", []))
        markers = [one.pop("markers")] if "markers" in one else []
        markers += ["extra == 'optional'"] if one.pop("optional", False) else []
        version = one.pop("version").replace("*", "")
        found.append(f"{name}[{extras}]{version}{'; ' * bool(markers)}{' and '.join(markers)}")
        assert not one
    return found


def in_commands(text: str) -> object:
    """Return the words of each line, without what is before a command in a Makefile or notebook."""
    joined = text.replace("\\\n", "")
    return [words(re.sub(r"^(?:# )?(?:MAGIC )?[%!](?=pip)", "", one)) for one in joined.split("\n")]


def in_notebook(text: str) -> object:
    cells = json.loads(text)
    return [in_commands("".join(cell.pop("source"))) for cell in cells["cells"]], cells


class Recorder:
    """Anything that code calls, and the arguments that it got."""

    def __init__(self, given: list[object]) -> None:
        self._given = given

    def __getattr__(self, name: str) -> "Recorder":
        return self

    def __call__(self, *args: object, **kwargs: object) -> "Recorder":
        self._given.append([list(args), kwargs])
        return self


class Names(dict[str, object]):
    """Names of a module; those that nothing defines are recorders."""

    def __init__(self, given: list[object]) -> None:
        self._given = given

    def __missing__(self, name: str) -> object:
        return getattr(builtins, name) if hasattr(builtins, name) else Recorder(self._given)


def in_code(text: str) -> object:
    """Run code, and return the arguments that functions got from it."""
    given: list[object] = []
    exec(compile(text, "installs.py", "exec"), Names(given))
    return given


def mapping(form: str, *, optional: bool = False) -> str:
    """Write the value of a requirement in a table of packages."""
    one = Requirement(form)
    version = json.dumps(str(one.specifier) or "*")
    more = [f"extras = {json.dumps(sorted(one.extras))}"] if one.extras else []
    more += [f"markers = {json.dumps(str(one.marker))}"] if one.marker else []
    more += ["optional = true"] if optional else []
    return f"{{{', '.join([f'version = {version}', *more])}}}" if more else version


class Place(NamedTuple):
    """A file with a requirement.

    Attributes
    ----------
    path : str
    text : str
        Its text, with ``REQUIREMENT`` and ``NEXT``, the requirement of another package.
    read : callable
        Returns its content; lists in it have the requirements.
    write : callable
        Writes a requirement in this format.
    installs : bool
        Whether it installs what it lists; a constraint does not.
    host : frozenset of str
        Packages that what runs the code has.
    has_room : bool
        Whether packages can be added to what it lists.
    """

    path: str
    text: str
    read: Callable[[str], object]
    write: Callable[[str], str] = str
    installs: bool = True
    host: frozenset[str] = frozenset()
    has_room: bool = True

    def with_form(self, form: str) -> str:
        """Return the text with a requirement, and with ``NEXT``."""
        return self.text.replace("REQUIREMENT", self.write(form))


def a_string(form: str) -> str:
    return repr(form)


def in_table(header: str, *, optional: bool = False, path: str = "pyproject.toml") -> Place:
    text = f"[{header}]\nNEXT = '*'\npetastorm = REQUIREMENT\nboto3 = '1'\n"
    return Place(path, text, in_tables, lambda form: mapping(form, optional=optional))


def in_array(header: str, key: str, *, path: str = "pyproject.toml") -> Place:
    text = f"[{header}]\n{key} = [\n  'NEXT',\n  REQUIREMENT,  # a\n  'boto3',\n]\nz = ['x']\n"
    return Place(path, text, tomllib.loads, json.dumps)


def in_python(text: str, path: str = "installs.py") -> Place:
    return Place(path, text, in_code, a_string)


PLACES = {
    "requirements": Place("requirements.txt", "# x\nNEXT\nREQUIREMENT\nboto3==1\n", in_lines),
    "requirements with comments": Place(
        "requirements/train.in", "NEXT # a\nREQUIREMENT  # reads the lake\n-e .\n", in_lines
    ),
    "requirements of one line": Place("requirements.txt", "REQUIREMENT\n", in_lines),
    "constraints": Place("constraints.txt", "NEXT\nREQUIREMENT\n", in_lines, installs=False),
    "install_requires": Place(
        "setup.cfg", "[options]\ninstall_requires =\n    NEXT\n    REQUIREMENT\n    boto3\n", in_ini
    ),
    "extras_require": Place(
        "setup.cfg", "[options.extras_require]\ndata =\n  REQUIREMENT\n  NEXT\n[x]\ny=z\n", in_ini
    ),
    "tox": Place("tox.ini", "[testenv]\ndeps =\n    NEXT\n    REQUIREMENT\n[x]\ny=z\n", in_ini),
    "tox with factor": Place(
        "tox.ini", "[testenv]\ndeps =\n    NEXT\n    py310: REQUIREMENT\n", in_ini
    ),
    "project": in_array("project", "dependencies"),
    "project in one line": Place(
        "pyproject.toml",
        "[project]\ndependencies = ['NEXT', REQUIREMENT, 'boto3']\n",
        tomllib.loads,
        json.dumps,
    ),
    "optional dependencies": in_array("project.optional-dependencies", "train"),
    "dependency group": in_array("dependency-groups", "train"),
    "uv": in_array("tool.uv", "dev-dependencies"),
    "hatch": in_array("tool.hatch.envs.default", "dependencies"),
    "pdm": in_array("tool.pdm.dev-dependencies", "train"),
    "poetry": in_table("tool.poetry.dependencies"),
    "optional in poetry": in_table("tool.poetry.dependencies", optional=True),
    "poetry group": in_table("tool.poetry.group.train.dependencies"),
    "Pipfile": in_table("packages", path="Pipfile"),
    "pixi": in_table("tool.pixi.pypi-dependencies"),
    "conda": Place(
        "environment.yml",
        "name: x\ndependencies:\n- python=3.11\n- pip\n- pip:\n  - NEXT\n  - REQUIREMENT\n",
        yaml.safe_load,
        json.dumps,
    ),
    "job": Place(
        "job.yml", "requirements:\n  - NEXT\n  - REQUIREMENT\n", yaml.safe_load, json.dumps
    ),
    "job in JSON": Place(
        "job.json", '{"pip": ["NEXT", REQUIREMENT], "name": "petastorm"}\n', json.loads, json.dumps
    ),
    "setup.py": in_python("setup(name='x', install_requires=['NEXT', REQUIREMENT])\n", "setup.py"),
    "nox": in_python("session.install('NEXT', REQUIREMENT)\n", "noxfile.py")._replace(
        has_room=False
    ),
    "runtime environment": in_python("ray.init(runtime_env={'pip': ['NEXT', REQUIREMENT]})\n"),
    "variable": in_python("REQS = ['NEXT', REQUIREMENT]\nTask(task_id='t', requirements=REQS)\n"),
}


#: Commands that install what they name, and other packages.
INSTALLING = [
    "pip install REQUIREMENT NEXT",
    "pip3 install -U NEXT REQUIREMENT boto3",
    "python -m pip install --no-cache-dir -c pins.txt REQUIREMENT NEXT",
    "pip install -r petastorm.txt NEXT REQUIREMENT -q",
    "uv pip install NEXT REQUIREMENT",
    "uv add REQUIREMENT",
    "poetry add NEXT REQUIREMENT",
    "pipenv install --dev REQUIREMENT NEXT",
    "pip download -d ./petastorm REQUIREMENT NEXT",
]
#: Commands in which the name means something else, or that a person must change.
OTHERS = [
    "conda create -n petastorm python=3.11 numpy",
    "conda install -c petastorm numpy",
    "conda install -y petastorm=0.12",
    "mamba install conda-forge::petastorm",
    "pip install -r petastorm.txt -c petastorm --target petastorm",
    "pip install petastorm-extra 'reco[petastorm]' reco-petastorm==1",
    "pip install git+https://host/petastorm@main",
    "pip install --no-binary petastorm numpy",
    "poetry install -E petastorm --with petastorm",
    "apt-get install petastorm",
    "helm install petastorm ./petastorm",
    "docker build -t petastorm==0.12 petastorm",
    "echo petastorm==0.12",
]


class Shell(NamedTuple):
    """Where a command is, how it is written there, and what reads the file."""

    path: str
    text: str
    read: Callable[[str], object] = in_commands
    write: Callable[[str], str] = str


def in_image(text: str) -> object:
    *lines, last = text.splitlines()
    return lines, json.loads(last.removeprefix("RUN "))


def in_quotes(line: str) -> str:
    return f'"""{line}"""'


def in_list(line: str) -> str:
    return str(shlex.split(line))


def in_json(line: str) -> str:
    return json.dumps(shlex.split(line))


CI = "jobs:\n  test:\n    steps:\n    - uses: actions/checkout@v4\n    - run: "
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["!COMMAND\n", "x"]}
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
)
SHELLS = {
    "image": Shell("Dockerfile", "FROM python:3.11\nCOPY . .\nRUN set -e; COMMAND \\\n  && x\n"),
    "image with words": Shell(
        "Dockerfile", "FROM python:3.11\nCOPY . .\nRUN COMMAND\n", in_image, in_json
    ),
    "script": Shell("setup.sh", "set -e\ncd a && COMMAND && pytest  # petastorm\n"),
    "Makefile": Shell("Makefile", "all:\n\tCOMMAND\n\tpytest\n"),
    "CI": Shell(".github/workflows/ci.yml", f"{CI}COMMAND\n    - run: pytest\n", yaml.safe_load),
    "CI with lines": Shell(
        ".github/workflows/ci.yml", f"{CI}|\n        COMMAND\n        pytest\n", yaml.safe_load
    ),
    "tox": Shell("tox.ini", "[testenv]\ncommands =\n    COMMAND\n    pytest\n", in_ini),
    "pdm": Shell(
        "pyproject.toml", "[tool.pdm.scripts]\na = COMMAND\nb = 'x'\n", tomllib.loads, json.dumps
    ),
    "notebook": Shell("a.ipynb", NOTEBOOK, in_notebook, lambda line: json.dumps(line)[1:-1]),
    "Databricks": Shell("a.py", "# Databricks notebook source\n# MAGIC %sh\n# MAGIC COMMAND\n"),
    "Jupytext": Shell("a.py", "# %%\n# !COMMAND\n# %%\n1\n"),
    "code": Shell("a.py", "os.system(COMMAND)\n", in_code, in_quotes),
    "words in code": Shell("a.py", "run(COMMAND, check=True)\n", in_code, in_list),
}
#: Packages that Databricks has.
ON_DATABRICKS = frozenset({"pandas", "pyspark"})


def with_command(name: str, command: str) -> Place:
    """Return the place of the requirement in a command."""
    shell = SHELLS[name]
    return Place(
        shell.path,
        shell.text.replace("COMMAND", "REQUIREMENT"),
        shell.read,
        lambda form: shell.write(command.replace("REQUIREMENT", word(form))),
        host=ON_DATABRICKS if name == "Databricks" else frozenset(),
    )


# What becomes of it


class Cell(NamedTuple):
    """A project with a requirement, in a folder of its own."""

    folder: str
    place: Place
    form: str
    code: Code
    stays: bool = False
    next: str = "numpy"
    encode: Callable[[str], bytes] = str.encode

    @property
    def text(self) -> str:
        return self.place.with_form(self.form).replace("NEXT", self.next)


def plain(found: Requirement) -> tuple[str, ...]:
    extras = ",".join(sorted(found.extras))
    return found.name.lower(), extras, str(found.specifier), str(found.marker or "")


def expected(cell: Cell, old: Requirement) -> list[tuple[str, ...]]:
    """Return the requirements in the place of one for Petastorm."""
    if old.name.lower() != "petastorm":
        return [plain(old)]
    place, package = cell.place, cell.code.package
    is_listed = package in place.host or (
        cell.next == package and "NEXT" in place.with_form("petastorm")
    )
    extras = {EXTRAS[one] for one in old.extras if one in EXTRAS}
    extras |= set() if is_listed else {cell.code.extra} - {""}
    new = Requirement(f"mdstorm[{','.join(extras)}]" if place.installs else "mdstorm")
    new.marker = old.marker  # also of an optional one
    is_brought = package == "pandas" and place.installs and place.has_room and not is_listed
    brought = [Requirement("pandas")] if is_brought else []
    return [plain(one) for one in ([old] if cell.stays else []) + [new, *brought]]


def content(tree: Any, change: Callable[[Requirement], list[tuple[str, ...]]]) -> Any:
    """Return the content of a file; requirements of one list are apart, because they are added."""
    if isinstance(tree, dict):
        return [(key, content(value, change)) for key, value in tree.items()]
    if isinstance(tree, str) and re.search(r"\b(?:install|add|download) ", tree):
        return [content(words(line), change) for line in tree.splitlines()]
    if isinstance(tree, list | tuple):
        found = [ours(one) if isinstance(one, str) else None for one in tree]
        others = [content(one, change) for one, of in zip(tree, found, strict=True) if of is None]
        required = [one for of in found if of is not None for one in change(of)]
        return others, sorted(required)
    return "a recorder" if isinstance(tree, Recorder) else tree


SETTINGS = Settings(todo=False)


def write(root: Path, cells: Sequence[Cell]) -> None:
    for cell in cells:
        folder = root / cell.folder
        code = {"uses.py": READS if cell.code.text else ""}  # configuration is not alone
        write_files(folder, code | {cell.code.path: cell.code.text, cell.place.path: ""})
        (folder / cell.place.path).write_bytes(cell.encode(cell.text))


def migrated(root: Path, cells: Sequence[Cell]) -> Iterator[tuple[Cell, str, set[str]]]:
    """Yield each cell's text and rules with findings; a second migration changes nothing."""
    files = sorted(one for one in root.rglob("*") if one.is_file())
    outcomes = run(files, SETTINGS)
    lists = [one.outcome for one in outcomes if one.path.name != "stays.py"]
    assert not [problem for one in lists for problem in one.problems]
    for one in outcomes:
        one.path.write_bytes(one.outcome.after)
    assert not [one.path for one in run(files, SETTINGS) if one.changed]
    found = {
        one.path: {finding.rule for finding in one.outcome.findings if finding.cls == "manual"}
        for one in outcomes
    }
    for cell in cells:
        path = root / cell.folder / cell.place.path
        data = path.read_bytes()
        encoding = "utf-16" if data.startswith(codecs.BOM_UTF16_LE) else "utf-8-sig"
        text = data.decode(encoding).replace("\r\n", "\n")
        assert data == cell.encode(text), cell
        yield cell, text, found.get(path, set())


def cells_of(places: Sequence[Place], first: int, step: int) -> list[Cell]:
    """Return some cells of the product of places, forms and code: one of `step`."""
    cells = []
    for number, (place, form, code) in [*enumerate(product(places, FORMS, CODES))][first::step]:
        beside = "numpy" if number % 2 else code.package
        encodings = [*ENCODINGS, wide] if place.read is in_lines else ENCODINGS
        if "Databricks" in place.text:  # nothing may precede its header
            encodings = ENCODINGS[:2]
        encode = encodings[number % len(encodings)]
        cells.append(Cell(f"c{number}", place, form, code, False, beside, encode))
    return cells


def check(root: Path, cells: Sequence[Cell]) -> None:
    """Assert that requirements become those that code needs, and that nothing else changes."""
    for cell, text, _ in migrated(root, cells):
        before = content(cell.place.read(cell.text), lambda old, of=cell: expected(of, old))
        assert content(cell.place.read(text), lambda one: [plain(one)]) == before, text


def steps(few: int, most: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("step", [few, pytest.param(most, marks=pytest.mark.long)])


@steps(23, 1)
@pytest.mark.parametrize("name", PLACES)
def test_listed_requirement_becomes_the_one_that_code_needs(
    name: str, step: int, tmp_path: Path
) -> None:
    cells = cells_of([PLACES[name]], [*PLACES].index(name) % step, step)
    write(tmp_path, cells)
    check(tmp_path, cells)


@steps(61, 3)
@pytest.mark.parametrize("name", SHELLS)
def test_installing_command_installs_what_code_needs(name: str, step: int, tmp_path: Path) -> None:
    places = [with_command(name, one) for one in INSTALLING]
    cells = cells_of(places, [*SHELLS].index(name) % step, step)
    write(tmp_path, cells)
    check(tmp_path, cells)


def test_requirement_is_unchanged_if_no_code_uses_petastorm(tmp_path: Path) -> None:
    unused = Code("import numpy\n")
    places = [*PLACES.values(), *(with_command(name, INSTALLING[0]) for name in SHELLS)]
    cells = [Cell(f"c{n}", place, FORMS[2], unused) for n, place in enumerate(places)]
    write(tmp_path, cells)
    for cell, text, _ in migrated(tmp_path, cells):
        assert text == cell.text


@steps(3, 1)
@pytest.mark.parametrize("name", SHELLS)
def test_command_that_does_not_install_petastorm_by_pip_is_unchanged(
    name: str, step: int, tmp_path: Path
) -> None:
    shell = SHELLS[name]
    cells = [
        Cell(f"c{number}", Place(shell.path, text, shell.read), "", CODES[0])
        for number, command in enumerate(OTHERS[[*SHELLS].index(name) % step :: step])
        for text in [shell.text.replace("COMMAND", shell.write(command))]
    ]
    write(tmp_path, cells)
    for cell, text, _ in migrated(tmp_path, cells):
        assert text == cell.text


#: Files that need Petastorm itself, because of something that mdstorm does not have.
STAYING = {
    "import": ("stays.py", "from petastorm.reader import ArrowReaderWorker\n"),
    "module": ("stays.py", "import petastorm.workers_pool.thread_pool\n"),
    "import in function": ("stays.py", "def f():\n    from petastorm.hdfs import namenode\n"),
    "version": ("stays.py", "import petastorm\nassert petastorm.__version__ >= '0.9'\n"),
    "name of module": ("stays.py", "import importlib\nimportlib.import_module('petastorm.hdfs')\n"),
    "name of root": ("stays.py", "p = __import__('petastorm')\np.workers_pool\n"),
    "estimators": ("stays.py", "from horovod.spark.torch import TorchEstimator\n"),
    "script in words": ("stays.py", "run(['petastorm-copy-dataset.py', 'a', 'b'])\n"),
    "script in command": ("stays.py", "os.system('petastorm-throughput.py a && x')\n"),
    "module in words": (
        "stays.py",
        "run([sys.executable, '-m', 'petastorm.tools.copy_dataset', 'a'])\n",
    ),
    "module in command": ("stays.py", "run('python -m petastorm.tools.copy_dataset a')\n"),
    "code in command": ("stays.py", "os.system('python -c \"import petastorm.hdfs\"')\n"),
    "pickles": (
        "stays.py",
        "class U(Unpickler):\n    def find_class(self, m, n): m == 'petastorm.x'\n",
    ),
    "syntax error": ("stays.py", "from petastorm import make_reader\nprint 'x'\n"),
    "ignored": ("stays.py", f"{READS}# mdstorm: ignore-file\n"),
    "script": ("run.sh", "set -e\npetastorm-copy-dataset.py a b\n"),
    "module in script": ("run.sh", "python3 -m petastorm.tools.copy_dataset a\n"),
    "code in script": ("run.sh", "python3 -c 'from petastorm.hdfs import x'\n"),
    "configuration": ("conf/stays.yaml", "reader:\n  _target_: petastorm.reader.Worker\n"),
    "entry point": ("setup.cfg", "[options.entry_points]\nx = a = petastorm.tools.copy:main\n"),
    "R": ("stays.R", 'library(reticulate)\np <- import("petastorm")\n'),
    "R in a notebook": ("stays.Rmd", '```{r}\np <- reticulate::import("petastorm")\n```\n'),
}
NAMES_OF_PLACES = ["requirements", "tox", "project", "optional in poetry", "conda", "job in JSON"]


@steps(2, 1)
@pytest.mark.parametrize("name", STAYING)
def test_petastorm_stays_required_until_nothing_needs_it(
    name: str, step: int, tmp_path: Path
) -> None:
    path, text = STAYING[name]
    places = [*enumerate(NAMES_OF_PLACES)][[*STAYING].index(name) % step :: step]
    cells = [
        Cell(f"c{number}", PLACES[place], FORMS[number + 2], CODES[number % 2], True)
        for number, place in places
    ]
    write(tmp_path, cells)
    for cell in cells:
        write_files(tmp_path / cell.folder, {path: text})
    check(tmp_path, cells)
    for cell in cells:
        (tmp_path / cell.folder / path).unlink()
    check(tmp_path, [cell._replace(stays=False) for cell in cells])


#: Code that makes the words of a requirement; those with a version from elsewhere are left.
WHOLE = ["'petastorm'", "'petastorm==0.12'", "'petastorm[torch]'", "('petastorm>=0.11')"]
JOINED = [
    "f'petastorm=={V}'",
    "f'{NAME}=={V}'",
    "f'{NAME}[torch]'",
    "'petastorm==' + V",
    "NAME + '==' + V",
    "'petastorm==%s' % V",
    "'%s==%s' % ('petastorm', V)",
    "'petastorm=={}'.format(V)",
    "'=='.join(['petastorm', V])",
    "'petastorm' '==0.12'",
    "NAME",
    "('numpy' if X == 1 else 'petastorm==0.12')",
    "('petastorm==0.12' if V else 'numpy')",
]
TAKERS = [
    "session.install({})",
    "session.install('numpy', {}, silent=True)",
    "setup(install_requires=['numpy', {}])",
    "run([sys.executable, '-m', 'pip', 'install', '-q', {}])",
    "R = [{}]\nTask(requirements=R)",
    "R = ['numpy']\nR.append({})\ncomponent(packages_to_install=R)",
    "R = ['numpy'] + [{}]\nTask(requirements=list(R))",
    "X = {}\nsession.install(X)",
    "def of():\n    return ['numpy', {}]\nTask(requirements=of())",
    "ray.init(runtime_env={{'pip': [{}]}})",
]


@pytest.mark.parametrize("written", [*WHOLE, *JOINED])
def test_code_that_installs_is_rewritten_or_reported(written: str, tmp_path: Path) -> None:
    head = "V = '0.12.1'\nNAME = 'petastorm'\n" if written in JOINED else ""
    texts = [f"{head}{taker.format(written)}\n" for taker in TAKERS]
    places = [Place("installs.py", text, in_code) for text in texts]
    cells = [Cell(f"c{number}", place, "", CODES[0]) for number, place in enumerate(places)]
    write(tmp_path, cells)
    for cell, text, rules in migrated(tmp_path, cells):
        if text == cell.text and written in JOINED:
            assert "PM403" in rules
        else:
            before = content(in_code(cell.text), lambda old, of=cell: expected(of, old))
            assert content(in_code(text), lambda one: [plain(one)]) == before, text
