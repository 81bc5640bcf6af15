"""Files that imports link, and files with names in strings, migrate together or not at all."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.kit.migrating import each, run, write_files

from mdstorm_migrate.audit import audit
from mdstorm_migrate.packaging import rewriting
from mdstorm_migrate.run.outcome import Settings

#: A file that cannot be migrated, because mdstorm does not have this class.
WORKER = "from petastorm.reader import ArrowReaderWorker\n"
#: A private name whose import stays on Petastorm, while the file's other imports are migrated.
KEEPS = "from petastorm.unischema import _NamedtupleCache\n"
HEAD = "# Databricks notebook source\n"
READS = "from petastorm import make_reader\n"


def migrated(
    root: Path, files: dict[str, str], *, write: bool = False, names: Sequence[str] = ()
) -> dict[str, str]:
    """Return the text of each migrated file without TODO comments; unchanged files are omitted."""
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

LOADER = f"{READS}def load(url): return make_reader(url)\n"
#: A patch that works the same if both files are migrated, and one that has no effect in mdstorm.
PATCH = "@patch('petastorm.make_reader')\ndef test(reader): load('u')\n"
INTERNAL = "@patch('petastorm.reader.Reader')\ndef test(reader): load('u')\n"
MOCK = "import sys\nsys.modules['petastorm'] = Mock()\n"
ASSIGNS = "import petastorm\npetastorm.reader.Reader.next = None\n"
SPHINX = "autodoc_mock_imports = ['petastorm', 'torch']\n"
FINDS = "import importlib\ndef f(n): return importlib.import_module(f'a.{n}')\n"
#: As in Hydra, code receives an instance of the class specified in the configuration.
YAML = "reader:\n  _target_: petastorm.{}\n"
RESOLVES = "from hydra.utils import instantiate\ndef reader(conf): return instantiate(conf)\n"
BY_NAME = f"from importlib import import_module\n{READS}work = import_module('{{}}')\n"
CONVERTS = (
    "from petastorm.spark import make_spark_converter\n"
    "def build(df): return make_spark_converter(df)\n"
)
IN_TEST = f"{READS}import pandas as pd\ndef test(conv): pd.read_parquet(conv.cache_dir_url)\n"


def notebook(*lines: str) -> str:
    """Return a notebook with one cell."""
    source = [f"{line}\n" for line in lines]
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(book, indent=1)


@each(
    # a file that stays on Petastorm would receive objects from a migrated file
    {"schema.py": SCHEMA, "work.py": WORKER + TAKES_SCHEMA},
    {"p/schema.py": SCHEMA, "p/work.py": WORKER + "from .schema import SCHEMA\n"},
    # two notebooks share objects in a third one, which runs both of them
    {"schema.py": SCHEMA, "work.py": EXPORTS, "main.py": HEAD + RUNS_BOTH},
    {"p/schema.py": SCHEMA, "p/work.py": WORKER + "from p import schema\n"},
    {"p/schema.py": SCHEMA, "p/q/work.py": WORKER + "from ..schema import *\n"},
    {"schema.py": SCHEMA, "work.py": WORKER + "import schema as s\n"},
    {"schema.py": f"{SCHEMA}# mdstorm: ignore-file\n", "t.py": READS + TAKES_SCHEMA},
    # files are linked through a file that also uses Petastorm
    {"a.py": WORKER + TAKES_B, "b.py": READS + TAKES_SCHEMA, "schema.py": SCHEMA},
    # a file that could be migrated receives objects from a file that stays on Petastorm
    {
        "work.py": WORKER + "class Mine(ArrowReaderWorker): pass\n",
        "train.py": READS + "from work import Mine\nmake_reader(Mine())\n",
    },
    # what a file imports does not matter, and files that no import links are migrated separately
    {"work.py": EXPORTS, "a.py": READS + "from work import VERSION\n", "b.py →": READS},
    # files are linked through a package that does not mention Petastorm
    {
        "lib/__init__.py": "from .schema import SCHEMA\n",
        "lib/schema.py": SCHEMA,
        "work.py": WORKER + "from lib import SCHEMA\n",
    },
    # the project's own module named petastorm, imported in a function, is not the library
    {
        "p/__init__.py": "",
        "p/petastorm.py": "def helper(): ...\n",
        "p/a.py": f"{WORKER}def load():\n    from .petastorm import helper\n    helper()\n",
        "p/b.py →": f"{READS}from .petastorm import helper\n",
    },
    # a third file imports two files
    {"schema.py": SCHEMA, "work.py": EXPORTS, "main.py": MEETS},
    {"schema.py": SCHEMA, "work.py": EXPORTS, "main.py": MEETS_IN_MODULES},
    # a file that cannot be parsed stays on Petastorm, and so do files that import from it
    {
        "work.py": READS + "print 'x'\n",
        "train.py": READS + "from work import anything\n",
        "other.py →": READS,
    },
    {"job.json": '{"petastorm": ', "train.py →": f"{READS}getLogger('petastorm')\n"},
    # requirements are migrated even if code in the same file cannot be
    {
        "setup.py →": f"{WORKER}from setuptools import setup\n"
        "setup(name='x', install_requires=['petastorm'])\n",
        "train.py →": READS,
    },
    # notebooks share all names through %run
    {
        "nb/utils.py": f"{HEAD}{SCHEMA}",
        "nb/train.py": f"{HEAD}# MAGIC %run ./utils\n{WORKER}SCHEMA\n",
        "nb/other.py →": f"{HEAD}{READS}",
    },
    # of several files with the same name, the closest one is imported
    {
        "schema.py →": SCHEMA,
        "a/schema.py": SCHEMA,
        "b/schema.py →": SCHEMA,
        "a/work.py": WORKER + "from schema import SCHEMA\n",
    },
    # a file that waits for an unrelated one holds the file that imports it
    {"work.py": WORKER, "conf.py": SPHINX, "lib.py": f"{READS}{FINDS}import conf\n"},
    # a plugin of pytest that replaces the library
    {
        "conftest.py": 'pytest_plugins = ["fixtures.stubs"]\n',
        "fixtures/stubs.py": "import sys\nfor n in ('petastorm',): sys.modules[n] = Mock()\n",
        "app.py": READS,
        "test_app.py": "import app\n",
    },
    # module names in strings: a patch and its target are migrated together
    {"src/p/loader.py →": LOADER, "tests/test_it.py →": f"from p import loader\n{PATCH}"},
    # a patch that has no effect in mdstorm stays on Petastorm, and so does its target
    {"loader.py": LOADER, "test_it.py": f"from loader import load\n{INTERNAL}"},
    {
        "p/loader.py": LOADER,
        "p/app.py": "from . import loader\n",
        "tests/test_it.py": f"from p.app import main\n{INTERNAL}",
        "other.py →": READS,
    },
    # mocks stay if the tested module stays on Petastorm; mocks in another test are migrated
    {
        "work.py": WORKER,
        "loader.py →": LOADER,
        "test_work.py": f"import work\n{MOCK}",
        "test_loader.py →": f"import loader\n{PATCH}",
    },
    # mocks in a conftest affect all tests in its folder
    {"tests/conftest.py": MOCK, "tests/test_it.py": "import work\n", "work.py": WORKER},
    {"tests/conftest.py →": MOCK, "a/test_it.py": "import a\n", "a.py →": READS},
    {
        "tests/conftest.py": INTERNAL,
        "tests/test_it.py": "import loader\n",
        "loader.py": LOADER,
        "other.py →": READS,
    },
    # patches in a helper affect code that is imported together with the helper
    {
        "fakes.py": f"{MOCK}sys.modules['petastorm.reader.worker'] = 1\n",
        "main.py": "import fakes\nimport loader\n",
        "loader.py": LOADER,
    },
    # assignments to attributes of Petastorm's classes have the same effect as patches
    {"fixes.py": ASSIGNS, "train.py": f"import fixes\n{READS}", "a.py →": READS},
    # code that imports modules by computed names may use the patched name
    {"app.py": FINDS, "test_app.py": f"import app\n{PATCH}", "work.py": WORKER},
    # Sphinx's mocks affect all code
    {"docs/conf.py →": SPHINX, "a.py →": READS},
    {"docs/conf.py": SPHINX, "a.py →": READS, "work.py": WORKER},
    # patches of the project's own names do not keep files on Petastorm
    {
        "loader.py →": LOADER,
        "work.py": WORKER,
        "test_it.py": "import loader\n@patch('loader.make_reader')\ndef test(r): ...\n",
    },
    # YAML moves if nothing stays on Petastorm
    {"c.yaml →": YAML.format("make_reader"), "main.py": RESOLVES, "train.py →": READS},
    {"c.yaml": YAML.format("make_reader"), "main.py": f"{RESOLVES}{WORKER}", "train.py →": READS},
    {"c.yaml": YAML.format("reader.ArrowReaderWorker"), "main.py": RESOLVES, "train.py →": READS},
    # files are linked through configuration, through names of modules in strings, and through the
    # package that an import runs first
    {"c.yaml": "r: {_target_: p.work.run}\n", "main.py": RESOLVES + READS, "p/work.py": EXPORTS},
    {"c.yaml": "r: {_target_: p.work.run}\n", "main.py →": READS, "p/work.py": EXPORTS},
    {"lib/work.py": EXPORTS, "main.py": BY_NAME.format("lib.work")},
    {"lib/work.py": EXPORTS, "lib/main.py": BY_NAME.format(".work")},
    *(
        {"p/__init__.py": lazy, "p/work.py": EXPORTS, "main.py": f"{READS}from p import export\n"}
        for lazy in (
            "def __getattr__(n): return getattr(import_module('.work', __name__), n)\n",
            "L = {'export': '.work'}\ndef __getattr__(n): return import_module(L[n], __name__).x\n",
            "__getattr__, __dir__, __all__ = lazy.attach(__name__, submodules=['work'])\n",
        )
    ),
    {
        "main.py": f"{READS}from load import load\n",
        "load.py": "KINDS = {'a': 'lib.work'}\ndef load(k): return import_module(KINDS[k])\n",
        "lib/work.py": EXPORTS,
    },
    {
        "p/__init__.py": "from . import work\n",
        "p/work.py": f"{EXPORTS}from .registry import READERS\n",
        "p/registry.py": "READERS = {}\n",
        "p/other.py →": f"{READS}from p.registry import READERS\n",
        "main.py": f"{READS}from p.registry import READERS\n",
    },
    # a fixture passes an object to a test
    {
        "lib.py": CONVERTS,
        "conftest.py": "from lib import build\n@pytest.fixture\ndef conv(): return build(1)\n",
        "test_it.py": IN_TEST,
        "test_other.py →": f"{READS}def test(url): make_reader(url)\n",
    },
    # files are linked through imports over several lines in code that does not name Petastorm
    *(
        {
            "lib.py": EXPORTS,
            name: text,
            "main.py": f"{READS}from mid import export\n",
        }
        for name, text in (
            ("mid.py", "from lib import \\\n    export\n"),
            ("mid.py", "from lib import (  # (a)\n    export,  # (b)\n)\n"),
            ("mid.ipynb", notebook("from lib import (", "    export,", ")", "export")),
            ("mid.ipynb", notebook("import os", "from lib import \\", "    export")),
        )
    ),
    # a Python configuration stays on Petastorm with the file that resolves its module names
    {
        "conf.py": "CONF = {'_target_': 'petastorm.make_reader'}\n",
        "main.py": f"from conf import CONF\n{RESOLVES}{WORKER}",
        "other.py →": READS,
    },
)
def test_file_stays_on_petastorm_if_imports_link_it_to_unmigrated_file(
    files: dict[str, str], tmp_path: Path
) -> None:
    """In the table, an arrow follows the name of each file that is migrated."""
    texts = {name.removesuffix(" →"): text for name, text in files.items()}
    moving = texts.keys() - files.keys()
    assert migrated(tmp_path, texts).keys() == moving


def test_finding_in_unmigrated_file_mentions_file_that_blocks_it(tmp_path: Path) -> None:
    (tmp_path / "schema.py").write_text(SCHEMA)
    (tmp_path / "work.py").write_text(WORKER + "from schema import SCHEMA\n")
    first, _ = run(sorted(tmp_path.iterdir()), Settings())
    (finding,) = first.outcome.findings
    assert (finding.cls, finding.rule) == ("review", "PM101")
    assert finding.message.endswith(
        "; needs review: `work.py` still uses Petastorm "
        "(`petastorm.reader.ArrowReaderWorker`), and imports link it to this file; "
        "--unsafe applies it"
    )
    assert all(one.changed for one in run(sorted(tmp_path.iterdir()), Settings(unsafe=True)))


def test_finding_for_logger_mentions_unrelated_file_that_keeps_petastorm(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(f"{READS}import logging\nlogging.getLogger('petastorm')\n")
    (tmp_path / "work.py").write_text(WORKER)
    first, _ = run(sorted(tmp_path.iterdir()), Settings())
    (finding,) = [one for one in first.outcome.findings if one.rule == "PM103"]
    assert finding.message.endswith(
        "needs review: `work.py` still uses Petastorm "
        "(`petastorm.reader.ArrowReaderWorker`); --unsafe applies it"
    )


def test_name_used_through_run_magic_stays_bound(tmp_path: Path) -> None:
    files = {
        "utils.py": f"{HEAD}import petastorm\npetastorm.make_reader('u')\n",
        "train.py": f"{HEAD}# MAGIC %run ./utils\nr = petastorm.make_reader('v')\n",
    }
    after = migrated(tmp_path, files)
    assert after == {"utils.py": f"{HEAD}import mdstorm as petastorm\npetastorm.make_reader('u')\n"}


@each("", f"\n# COMMAND ----------\n\n{READS}")
def test_install_command_keeps_petastorm_if_notebook_that_runs_it_needs_petastorm(
    own: str, tmp_path: Path
) -> None:
    install = f"{HEAD}# MAGIC %pip install petastorm==0.12\n{own}"
    train = f"{HEAD}# MAGIC %run ./utils\n\n# COMMAND ----------\n\n{KEEPS}{READS}"
    after = migrated(tmp_path, {"utils.py": install, "train.py": train}, write=True)
    moved = READS.replace("petastorm", "mdstorm")
    both = install.replace("petastorm==0.12", "mdstorm petastorm==0.12")
    assert after["utils.py"] == both.replace(READS, moved)
    assert migrated(tmp_path, {}, names=("utils.py", "train.py")) == {}


def test_install_command_serves_only_notebooks_that_run_it(tmp_path: Path) -> None:
    runs = f"{HEAD}# MAGIC %run ./env\n\n# COMMAND ----------\n\n"
    files = {f"{one}/env.py": f"{HEAD}# MAGIC %pip install petastorm\n" for one in "ab"}
    files |= {"a/train.py": runs + READS, "b/train.py": runs + WORKER}
    assert migrated(tmp_path, files) == {
        name: files[name].replace("petastorm", "mdstorm") for name in ("a/env.py", "a/train.py")
    }


def test_requirements_serve_notebook_named_setup(tmp_path: Path) -> None:
    train = f"{HEAD}# MAGIC %run ./setup\n\n# COMMAND ----------\n\nmake_reader('u')\n"
    files = {"setup.py": f"{HEAD}{READS}", "train.py": train, "requirements.txt": "petastorm\n"}
    after = migrated(tmp_path, files)
    moved = READS.replace("petastorm", "mdstorm")
    assert after == {"setup.py": f"{HEAD}{moved}", "requirements.txt": "mdstorm\n"}


def test_file_that_shares_objects_with_patching_test_is_not_migrated(tmp_path: Path) -> None:
    patch = "@patch('petastorm.reader.Reader')\ndef test_it(reader): make_reader(SCHEMA)\n"
    files = {"schema.py": SCHEMA, "test_it.py": f"{READS}from schema import SCHEMA\n{patch}"}
    assert migrated(tmp_path, files) == {}


def test_group_of_files_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    files = {"schema.py": SCHEMA, "train.py": READS + "from schema import SCHEMA\n", "x.py": READS}
    write_files(tmp_path, files)
    (tmp_path / "schema.py").chmod(0o444)
    found = list(run(sorted(tmp_path.iterdir()), Settings(), write=True))
    assert [one.written for one in found] == [False, False, True]
    assert [str(problem) for one in found for problem in one.outcome.problems] == [
        "not written: the file is read-only",
        "not written: schema.py, which must move together with it, cannot be written",
    ]
    assert (tmp_path / "train.py").read_text() == files["train.py"]


def test_file_whose_result_does_not_parse_holds_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "requirement_of", lambda *_: 'mdstorm" x')
    command = 'check_call(["pip", "install", "petastorm"])\n'
    files = {"schema.py": SCHEMA + command, "train.py": READS + "from schema import SCHEMA\n"}
    files["other.py"] = READS
    after = migrated(tmp_path, files)
    assert after == {"other.py": READS.replace("petastorm", "mdstorm")}


def test_messages_have_no_absolute_paths(tmp_path: Path) -> None:
    files = {
        "a/schema.py": f"{WORKER}{SCHEMA}",
        "b/train.py": f"{READS}from a.schema import SCHEMA\n",
        "requirements.txt": "petastorm\n",
    }
    write_files(tmp_path, files)
    found = run(sorted(tmp_path.rglob("*.*")), Settings())
    messages = [one.text for file in found for one in file.outcome.findings]
    assert any("../a/schema.py" in one for one in messages)
    assert not [one for one in messages if str(tmp_path) in one]


@each(
    ("package/other.py", "from .helper import petastorm\n"),
    ("package/deep/other.py", "from package.helper import (x,\n  petastorm as p)\n"),
    ("script.py", "import package.helper\npackage.helper.petastorm.make_reader(url)\n"),
    ("package/other.py", "from . import x, helper as h\nh.petastorm.make_reader(url)\n"),
    ("package/other.py", "from .helper import *\npetastorm.make_reader(url)\n"),
    ("package/other.py", "exec(open('helper.py').read())\npetastorm.make_reader(url)\n"),
    ("test_helper.py", "mock.patch('package.helper.petastorm.make_reader')\n"),
    ("test_helper.py", "mock.patch.multiple('package.helper', petastorm=Mock())\n"),
    ("test_it.py", "M = 'package.helper'\nmock.patch(f'{M}.petastorm.make_reader')\n"),
    ("test_it.py", "from package import helper as h\npatch.object(h, 'petastorm')\n"),
    ("test_it.py", "from package import helper\nvars(helper)['petastorm'].make_reader\n"),
)
def test_name_imported_by_other_files_stays_bound(importer: str, text: str, tmp_path: Path) -> None:
    used = "import petastorm\npetastorm.make_reader\n"
    files = {"package/__init__.py": "", "package/helper.py": used, importer: text}
    after = migrated(tmp_path, files)["package/helper.py"]
    assert after == used.replace("petastorm\n", "mdstorm as petastorm\n", 1)
    files[importer] = text.replace("helper", "helpers")
    assert migrated(tmp_path, files)["package/helper.py"] == used.replace("petastorm", "mdstorm")


def test_name_that_test_replaces_in_itself_stays_bound(tmp_path: Path) -> None:
    text = "import petastorm\npatch(f'{__name__}.petastorm')\npetastorm.make_reader(url)\n"
    after = migrated(tmp_path, {"test_it.py": text})["test_it.py"]
    assert after == text.replace("import petastorm", "import mdstorm as petastorm")


def test_patch_and_patched_file_are_written_together(tmp_path: Path) -> None:
    files = {"loader.py": LOADER, "test_it.py": f"import loader\n{PATCH}"}
    migrated(tmp_path, files)
    (tmp_path / "loader.py").chmod(0o444)
    paths = sorted(tmp_path.iterdir())
    found = list(run(paths, Settings(), write=True))
    assert [one.group for one in found] == [tuple(map(str, paths))] * 2
    assert not any(one.written for one in found)


def test_finding_in_unmigrated_file_mentions_test_that_patches_its_imports(tmp_path: Path) -> None:
    migrated(tmp_path, {"loader.py": LOADER, "test_it.py": f"import loader\n{INTERNAL}"})
    first, _ = run(sorted(tmp_path.iterdir()), Settings())
    (finding,) = first.outcome.findings
    assert finding.message.endswith(
        "; needs review: `test_it.py` names modules in strings that need review, "
        "and imports link it to this file; only tests hold it back, and they would stay on "
        "Petastorm; --unsafe applies it"
    )


def test_petastorm_requirement_is_kept_for_module_in_configuration(tmp_path: Path) -> None:
    yaml = YAML.format("reader.ArrowReaderWorker")
    files = {"c.yaml": yaml, "main.py": RESOLVES, "train.py": READS}
    after = migrated(tmp_path, {**files, "requirements.txt": "petastorm==0.12.1\n"})
    assert after["requirements.txt"] == "mdstorm\npetastorm==0.12.1\n"
    (tmp_path / "c.yaml").write_text(YAML.format("make_reader"))
    assert (
        migrated(tmp_path, {}, names=[*files, "requirements.txt"])["requirements.txt"]
        == "mdstorm\n"
    )


def test_audit_counts_files_blocked_by_other_files_as_review(tmp_path: Path) -> None:
    files = {"loader.py": LOADER, "test_it.py": f"import loader\n{INTERNAL}", "other.py": READS}
    migrated(tmp_path, files)
    found = audit(sorted(tmp_path.iterdir()), Settings())
    assert [file.effort for file in found.files] == ["review", "exact", "review"]


def _chain(count: int) -> dict[str, str]:
    """Return files that each import the schema from the previous one."""
    files = {f"m{n}.py": f"from m{n - 1} import SCHEMA\n" for n in range(1, count)}
    return files | {"m0.py": "from base import SCHEMA\n"}


def _star(count: int) -> dict[str, str]:
    """Return a file that imports from all others, and others that each import from it."""
    names = range(count - 1)
    hub = "from base import SCHEMA\n" + "".join(f"from m{n} import S{n}\n" for n in names)
    return {f"m{n}.py": f"from hub import SCHEMA\nS{n} = SCHEMA\n" for n in names} | {
        "hub.py": hub,
        f"m{count - 1}.py": "from hub import *\n",
    }


def _parts(count: int) -> dict[str, str]:
    """Return files with the same name in separate folders, each importing from the previous one."""
    files = {f"p{n}/part.py": f"from p{n - 1}.part import SCHEMA\n" for n in range(1, count)}
    last = f"from p{count - 1}.part import SCHEMA\n"
    return files | {"p0/part.py": "from base import SCHEMA\n", f"m{count - 1}.py": last}


@each(_chain, _star, _parts)
def test_file_that_stays_holds_files_that_many_imports_link_to_it(
    make: Callable[[int], dict[str, str]], tmp_path: Path
) -> None:
    work = f"{WORKER}from m19 import SCHEMA\n"
    files = {**make(20), "base.py": SCHEMA, "work.py": work, "other.py": SCHEMA}
    assert migrated(tmp_path, files).keys() == {"other.py"}
