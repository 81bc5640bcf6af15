"""Files that exchange objects of Petastorm's move together, or not at all."""

from collections.abc import Sequence
from pathlib import Path

from tests.migrate.checks import each, write_files

from mdstorm_migrate.run.outcome import Settings
from mdstorm_migrate.run.together import run

#: A file that stays: mdstorm has no workers to subclass.
WORKER = "from petastorm.reader import ArrowReaderWorker\n"
#: Something private that stays, and lets the rest of the file move.
KEEPS = "from petastorm.unischema import _NamedtupleCache\n"
HEAD = "# Databricks notebook source\n"
READS = "from petastorm import make_reader\n"


def migrated(
    root: Path, files: dict[str, str], *, write: bool = False, names: Sequence[str] = ()
) -> dict[str, str]:
    """Return what each file becomes, without TODO comments; those that stay are left out."""
    write_files(root, files)
    paths = sorted(root / name for name in names or files)
    found = run(paths, Settings(todo=False), write=write)
    return {
        one.path.relative_to(root).as_posix(): one.outcome.after.decode()
        for one in found
        if one.changed
    }


SCHEMA = "from petastorm.unischema import Unischema\n\nSCHEMA = Unischema('S', [])\n"
TAKES_SCHEMA = "from schema import SCHEMA\n"
TAKES_B = "from b import SCHEMA\n"
EXPORTS = f"{WORKER}VERSION = '1'\ndef export(s): ArrowReaderWorker(s)\n"
MEETS = f"{TAKES_SCHEMA}from work import export\nexport(SCHEMA)\n"
RUNS_BOTH = (
    "# MAGIC %run ./schema\n\n# COMMAND ----------\n\n# MAGIC %run ./work\n\n"
    "# COMMAND ----------\n\nexport(SCHEMA)\n"
)
MEETS_IN_MODULES = "import schema\nimport work\ns = schema.SCHEMA\nwork.export(s)\n"


@each(
    # objects of a file that moves would reach one that stays
    ({"schema.py": SCHEMA, "work.py": WORKER + TAKES_SCHEMA}, []),
    ({"p/schema.py": SCHEMA, "p/work.py": WORKER + "from .schema import SCHEMA\n"}, []),
    # in a notebook that names neither, and runs both
    ({"schema.py": SCHEMA, "work.py": EXPORTS, "main.py": HEAD + RUNS_BOTH}, []),
    ({"p/schema.py": SCHEMA, "p/work.py": WORKER + "from p import schema\n"}, []),
    ({"p/schema.py": SCHEMA, "p/q/work.py": WORKER + "from ..schema import *\n"}, []),
    ({"schema.py": SCHEMA, "work.py": WORKER + "import schema as s\n"}, []),
    ({"schema.py": f"{SCHEMA}# mdstorm: ignore-file\n", "t.py": READS + TAKES_SCHEMA}, []),
    # by way of a file that is looked at before what it takes is known
    ({"a.py": WORKER + TAKES_B, "b.py": READS + TAKES_SCHEMA, "schema.py": SCHEMA}, []),
    # the other way
    (
        {
            "work.py": WORKER + "class Mine(ArrowReaderWorker): pass\n",
            "train.py": READS + "from work import Mine\nmake_reader(Mine())\n",
        },
        [],
    ),
    # nothing of Petastorm's is exchanged
    ({"work.py": EXPORTS, "train.py": READS + "from work import VERSION\n"}, ["train.py"]),
    # by way of a package that does not mention Petastorm
    (
        {
            "lib/__init__.py": "from .schema import SCHEMA\nfrom .names import N\n",
            "lib/schema.py": SCHEMA,
            "lib/names.py": READS + "N = 1\n",
            "work.py": WORKER + "from lib import SCHEMA, N\n",
        },
        ["lib/names.py"],
    ),
    # a module of the project's own, of the library's name, imported in a function
    (
        {
            "p/__init__.py": "",
            "p/petastorm.py": "def helper(): ...\n",
            "p/a.py": f"{READS}def load():\n    from .petastorm import helper\n    helper()\n",
            "p/work.py": f"{WORKER}from .a import load\n",
        },
        ["p/a.py"],
    ),
    # two files that meet in a third
    ({"schema.py": SCHEMA, "work.py": EXPORTS, "main.py": MEETS}, []),
    ({"schema.py": SCHEMA, "work.py": EXPORTS, "main.py": MEETS_IN_MODULES}, []),
    (
        {
            "train.py": READS + "def train(url): make_reader(url)\n",
            "work.py": EXPORTS,
            "main.py": "from train import train\nfrom work import export\n"
            "def main(args):\n    train(args.url)\n    export(args.url)\nmain(1)\n",
        },
        ["train.py"],
    ),
    # a file that cannot be parsed stays, whatever it gives
    (
        {
            "work.py": READS + "print 'x'\n",
            "train.py": READS + "from work import anything\n",
            "other.py": READS,
        },
        ["other.py"],
    ),
    ({"job.json": '{"petastorm": ', "train.py": f"{READS}getLogger('petastorm')\n"}, ["train.py"]),
    # requirements wait for no code, also where both are in one file
    (
        {
            "setup.py": f"{WORKER}from setuptools import setup\n"
            "setup(name='x', install_requires=['petastorm'])\n",
            "train.py": READS,
        },
        ["setup.py", "train.py"],
    ),
    # notebooks share all names
    (
        {
            "nb/utils.py": f"{HEAD}{SCHEMA}",
            "nb/train.py": f"{HEAD}# MAGIC %run ./utils\n{WORKER}SCHEMA\n",
            "nb/other.py": f"{HEAD}{READS}",
        },
        ["nb/other.py"],
    ),
    # of files with one name, the neighbour is meant
    (
        {
            "schema.py": SCHEMA,
            "a/schema.py": SCHEMA,
            "b/schema.py": SCHEMA,
            "a/work.py": WORKER + "from schema import SCHEMA\n",
        },
        ["b/schema.py", "schema.py"],
    ),
)
def test_what_meets_something_that_stays_waits(
    files: dict[str, str], moving: list[str], tmp_path: Path
) -> None:
    assert sorted(migrated(tmp_path, files)) == moving


def test_the_reason_is_said(tmp_path: Path) -> None:
    (tmp_path / "schema.py").write_text(SCHEMA)
    (tmp_path / "work.py").write_text(WORKER + "from schema import SCHEMA\n")
    first, _ = run(sorted(tmp_path.iterdir()), Settings())
    (finding,) = first.outcome.findings
    assert (finding.cls, finding.rule) == ("review", "PM101")
    assert finding.message.endswith(
        f"; only --unsafe applies it, because `{tmp_path}/work.py` still uses Petastorm "
        "(`petastorm.reader.ArrowReaderWorker`) and shares objects with this file"
    )
    assert all(one.changed for one in run(sorted(tmp_path.iterdir()), Settings(unsafe=True)))


def test_a_name_that_notebooks_take_by_running_another_keeps_its_name(tmp_path: Path) -> None:
    files = {
        "utils.py": f"{HEAD}import petastorm\npetastorm.make_reader('u')\n",
        "train.py": f"{HEAD}# MAGIC %run ./utils\nr = petastorm.make_reader('v')\n",
    }
    after = migrated(tmp_path, files)
    assert after == {"utils.py": f"{HEAD}import mdstorm as petastorm\npetastorm.make_reader('u')\n"}


@each("", f"\n# COMMAND ----------\n\n{READS}")
def test_what_a_notebook_installs_for_those_that_run_it_stays(own: str, tmp_path: Path) -> None:
    install = f"{HEAD}# MAGIC %pip install petastorm==0.12\n{own}"
    train = f"{HEAD}# MAGIC %run ./utils\n\n# COMMAND ----------\n\n{KEEPS}{READS}"
    after = migrated(tmp_path, {"utils.py": install, "train.py": train}, write=True)
    moved = READS.replace("petastorm", "mdstorm")
    both = install.replace("petastorm==0.12", "mdstorm petastorm==0.12")
    assert after["utils.py"] == both.replace(READS, moved)
    assert migrated(tmp_path, {}, names=("utils.py", "train.py")) == {}


def test_what_meets_imports_that_wait_for_strings_waits(tmp_path: Path) -> None:
    patch = "@patch('petastorm.reader.Reader')\ndef test_it(reader): make_reader(SCHEMA)\n"
    files = {"schema.py": SCHEMA, "test_it.py": f"{READS}from schema import SCHEMA\n{patch}"}
    assert migrated(tmp_path, files) == {}


def test_a_group_is_written_as_a_whole(tmp_path: Path) -> None:
    files = {"schema.py": SCHEMA, "train.py": READS + "from schema import SCHEMA\n", "x.py": READS}
    write_files(tmp_path, files)
    (tmp_path / "schema.py").chmod(0o444)
    found = list(run(sorted(tmp_path.iterdir()), Settings(), write=True))
    assert [one.written for one in found] == [False, False, True]
    assert [str(problem) for one in found for problem in one.outcome.problems] == [
        "not written: the file is read-only",
        f"not written: {tmp_path}/schema.py, which must move together with it, cannot be written",
    ]
    assert (tmp_path / "train.py").read_text() == files["train.py"]


@each(
    ("package/other.py", "from .helper import petastorm\n"),
    ("package/deep/other.py", "from package.helper import (x,\n  petastorm as p)\n"),
    ("script.py", "import package.helper\npackage.helper.petastorm.make_reader(url)\n"),
    ("package/other.py", "from . import x, helper as h\nh.petastorm.make_reader(url)\n"),
    ("package/other.py", "from .helper import *\npetastorm.make_reader(url)\n"),
    ("test_helper.py", "mock.patch('package.helper.petastorm.make_reader')\n"),
)
def test_a_name_that_other_files_take_keeps_its_name(
    importer: str, text: str, tmp_path: Path
) -> None:
    used = "import petastorm\npetastorm.make_reader\n"
    files = {"package/__init__.py": "", "package/helper.py": used, importer: text}
    after = migrated(tmp_path, files)["package/helper.py"]
    assert after == used.replace("petastorm\n", "mdstorm as petastorm\n", 1)
    files[importer] = text.replace("helper", "helpers")
    assert migrated(tmp_path, files)["package/helper.py"] == used.replace("petastorm", "mdstorm")
