"""Code moves with the lists that install Petastorm for it, or waits with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.migrate.checks import invoke
from tests.migrate.run.written import after

from mdstorm_migrate.cli.migrate import migrate

pytestmark = pytest.mark.usefixtures("inside")

HELD = "petastorm==0.12.1\npyarrow==10.0.0\n"
CODE = "from petastorm import make_reader\n"
MOVED = "from mdstorm import make_reader\n"


def test_code_and_its_list_wait_for_a_pin_and_move_together() -> None:
    files = {
        "requirements.txt": HELD,
        "src/a.py": CODE,
        "mypy.ini": "[mypy-petastorm.*]\nignore_missing_imports = True\n",
    }
    assert after(files) == files
    changed = after(files, "--unsafe")
    assert changed["src/a.py"] == MOVED
    assert "mdstorm" in changed["requirements.txt"]
    assert "[mypy-mdstorm.*]" in changed["mypy.ini"]


@pytest.mark.parametrize(
    "other",
    [
        {"job.yml": "libraries:\n  - pypi:\n      package: petastorm==0.12.1\n"},
        {"base.requirements.txt": "mdstorm[torch]\n"},
    ],
    ids=["moves", "is there"],
)
def test_one_list_that_installs_mdstorm_is_enough(other: dict[str, str]) -> None:
    changed = after({"requirements.txt": HELD, "a.py": CODE, **other})
    assert changed["a.py"] == MOVED
    assert changed["requirements.txt"] == HELD


def test_hooks_of_pre_commit_free_no_code_and_wait_with_it() -> None:
    hooks = (
        "repos:\n  - repo: https://github.com/pre-commit/mirrors-mypy\n    rev: v1.0\n    hooks:\n"
        "      - id: mypy\n        additional_dependencies: [petastorm==0.12.1]\n"
    )
    files = {".pre-commit-config.yaml": hooks, "requirements.txt": HELD, "src/a.py": CODE}
    assert after(files) == files
    changed = after({**files, "requirements.txt": "petastorm\n"})
    assert changed["src/a.py"] == MOVED
    assert "additional_dependencies: [mdstorm]" in changed[".pre-commit-config.yaml"]


def test_code_goes_with_the_list_that_bazel_has_beside_vendored_code() -> None:
    for path in ("third_party/requirements.in", "third_party/python/requirements.in"):
        assert after({path: "petastorm\n", "a.py": CODE}) == {path: "mdstorm\n", "a.py": MOVED}
        held = {path: HELD, "a.py": CODE}
        assert after(held) == held
        Path(path).unlink()
    vendored = {"third_party/lib/requirements.txt": "petastorm\n"}
    assert after(vendored) == vendored


def test_a_list_keeps_petastorm_for_pages_that_are_made_of_its_docstrings() -> None:
    page = {"docs/reader.md": "# Reader\n\n::: petastorm.reader.make_reader\n"}
    docs = {"requirements-docs.txt": "mkdocstrings\npetastorm\n", **page}
    assert after(docs) == docs
    code = {"requirements.txt": "petastorm\n", "a.py": CODE}
    changed = after({**docs, **code})
    assert changed == {
        **docs,
        "requirements-docs.txt": "mkdocstrings\nmdstorm\npyarrow<15\nnumpy<2\npetastorm\n",
        "requirements.txt": "mdstorm\n",
        "a.py": MOVED,
    }
    Path("requirements-docs.txt").unlink()
    assert (
        after({**page, **code})["requirements.txt"] == "mdstorm\npyarrow<15\nnumpy<2\npetastorm\n"
    )
    plain = {"docs/reader.md": "See {py:func}`petastorm.reader.make_reader`.\n"}
    assert after({**plain, **code})["requirements.txt"] == "mdstorm\n"


def test_the_tests_of_a_recipe_stay_with_what_it_requires() -> None:
    recipe = (
        "package:\n  name: x\nrequirements:\n  run:\n    - petastorm\n"
        "test:\n  imports:\n    - petastorm\n"
    )
    files = {"recipe/meta.yaml": recipe, "a.py": "from petastorm.reader import ArrowReaderWorker\n"}
    assert after(files)["recipe/meta.yaml"] == recipe


def test_a_name_that_another_project_of_the_run_takes_keeps_its_name() -> None:
    used = "import petastorm\npetastorm.make_reader\n"
    files = {
        "lib/setup.py": "from setuptools import setup\nsetup(name='lib')\n",
        "lib/lib/__init__.py": "from . import api\n",
        "lib/lib/api.py": used,
        "app/test_app.py": "import lib\nmock.patch.object(lib.api.petastorm, 'make_reader')\n",
    }
    changed = after(files)
    assert changed["lib/lib/api.py"] == used.replace("petastorm", "mdstorm as petastorm", 1)


def test_what_runs_a_program_beside_code_is_no_list_of_that_code() -> None:
    files = {
        "requirements.txt": "petastorm\npyspark==3.2.1\n",
        "scripts/convert.py": "from petastorm.spark import make_spark_converter\n",
        "scripts/run.sh": "python -m petastorm.benchmark.cli file:///x\n",
        "bench/a.py": CODE,
    }
    assert after(files) == files


def test_what_an_extra_brought_in_stands_where_that_extra_stood() -> None:
    setup = "[options.extras_require]\na =\n    petastorm[torch]\nb =\n    petastorm[tf]\n"
    changed = after({"setup.cfg": setup, "a.py": f"{CODE}from torchvision import transforms\n"})
    assert changed["setup.cfg"] == (
        "[options.extras_require]\na =\n    mdstorm[torch]\n    torchvision\nb =\n    mdstorm[tf]\n"
    )


def test_what_this_command_is_told_installs_nothing() -> None:
    told = '[tool.mdstorm.migrate]\nrequirement = "mdstorm>=0.1"\n'
    files = {"requirements.txt": HELD, "a.py": CODE, "pyproject.toml": told}
    assert after(files) == files


def test_each_part_of_a_repository_has_lists_of_its_own() -> None:
    changed = after(
        {
            "one/requirements.txt": HELD,
            "one/a.py": CODE,
            "two/requirements.txt": "petastorm\n",
            "two/b.py": CODE,
        }
    )
    assert (changed["one/a.py"], changed["two/b.py"]) == (CODE, MOVED)


def test_a_notebook_waits_for_what_it_installs_itself() -> None:
    head = "# Databricks notebook source\n# MAGIC %pip install"
    cell = "\n# COMMAND ----------\n\n"
    held = f"{head} petastorm==0.12.1 pyarrow==10.0.0\n{cell}{CODE}"
    files = {"n.py": held, "m.py": f"{head} petastorm\n{cell}{CODE}"}
    changed = after(files)
    assert changed["n.py"] == held
    assert MOVED in changed["m.py"]


def test_what_the_whole_run_shares_waits_with_the_rest() -> None:
    key = 'spark.conf.set("petastorm.spark.converter.parentCacheDirUrl", "file:///tmp")\n'
    files = {"one/requirements.txt": HELD, "one/a.py": CODE, "b.py": key}
    assert after(files)["b.py"] == key


@pytest.mark.parametrize(
    "estimator",
    [
        "import horovod.spark.keras as hvd\n",
        "from horovod.spark.torch import TorchEstimator\n",
        "from horovod.spark import lightning\n",
        "from horovod.spark.common.store import Store\n",
    ],
)
def test_petastorm_stays_for_horovods_estimators_which_import_it(estimator: str) -> None:
    listed = {"requirements.txt": "horovod\npetastorm==0.12.1\n"}
    changed = after({**listed, "est.py": estimator, "a.py": CODE})
    assert changed["a.py"] == MOVED
    assert (
        changed["requirements.txt"] == "horovod\nmdstorm\npyarrow<15\nnumpy<2\npetastorm==0.12.1\n"
    )


def test_where_estimators_alone_import_petastorm_nothing_takes_its_place() -> None:
    files = {
        "requirements.txt": "horovod\npetastorm==0.12.1\n",
        "est.py": "import horovod.spark.keras as hvd\n",
    }
    assert after(files) == files
    changed = after({**files, "est.py": "import horovod.spark\n", "a.py": CODE})
    assert changed["requirements.txt"] == "horovod\nmdstorm\n"


@pytest.mark.parametrize("path", ["Makefile", "ci.yml", "pyproject.toml", "Dockerfile"])
def test_commands_stay_with_the_code_of_the_project(path: str) -> None:
    command = "python -m {}.benchmark.cli"
    texts = {
        "Makefile": f"bench:\n\t{command}\n",
        "ci.yml": f"steps:\n  - run: {command}\n",
        "pyproject.toml": f'[tool.hatch.envs.a.scripts]\nx = "{command}"\n',
        "Dockerfile": f"FROM a\nRUN pip install petastorm\nCMD {command}\n",
    }
    files = {path: texts[path].format("petastorm"), "requirements.txt": "petastorm\n"}
    stays = {**files, "a.py": "from petastorm.reader import Ventilator\n"}
    assert after(stays)[path] == files[path]
    assert "python -m mdstorm.benchmark" in after({**files, "a.py": CODE})[path]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("i/Dockerfile", 'FROM a\nRUN {pip}\nCMD ["python", "-m", "{module}"]\n'),
        (".gitlab-ci.yml", "a:\n  script:\n    - {pip}\n    - python -m {module}\n"),
        ("tox.ini", "[testenv]\ncommands =\n  {pip}\n  python -m {module}\n"),
    ],
)
def test_commands_wait_for_the_install_of_their_own_file(path: str, text: str) -> None:
    pip, module = "pip install petastorm pyarrow==10.0.0", "petastorm.benchmark.cli"
    held = text.format(pip=pip, module=module)
    files = {path: held, "requirements.txt": "petastorm\n", "a.py": CODE}
    changed = after(files)
    assert changed["a.py"] == MOVED
    assert changed[path] == files[path]
    assert "mdstorm.benchmark.cli" in after(files, "--unsafe")[path]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("env.toml", '[tool.x]\npackages = ["{0}"]\n[scripts]\na = "python -m {1}"\n'),
        ("Dockerfile", "FROM a\nRUN conda install {0}\nCMD python -m {1}\n"),
        ("ci.yml", "a:\n  script:\n    - pip install {0}@https://a.b/c.whl\n    - python -m {1}\n"),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["{0} @ git+https://a.b/c.git"]\n'
            '[tool.hatch.envs.a.scripts]\na = "python -m {1}"\n',
        ),
        ("tox.ini", "[testenv]\ndeps =\n  {0} @ git+https://a.b/c\ncommands = python -m {1}\n"),
    ],
)
def test_commands_wait_for_an_install_that_is_left_to_people(path: str, text: str) -> None:
    held = text.format("petastorm", "petastorm.benchmark.cli")
    changed = after({path: held}, "--no-todo")
    assert changed[path] == held
    assert "python -m mdstorm.benchmark.cli" in after({path: held}, "--unsafe")[path]


COMPILED = (
    "# This file is autogenerated by pip-compile\n#    pip-compile {0}\n"
    "petastorm==0.12.1\n    # via -r {0}\npyarrow==11.0.0\n    # via petastorm\ntorch==2.1\n"
)


def test_the_pins_of_what_is_compiled_from_a_list_hold_nothing() -> None:
    code = "import torch\n" + CODE
    files = {"requirements.in": "petastorm\ntorch\n", "a.py": code}
    compiled = COMPILED.format("requirements.in")
    changed = after({**files, "requirements.txt": compiled})
    assert changed["requirements.in"] == "mdstorm\ntorch\n"
    assert MOVED in changed["a.py"]
    assert "petastorm==0.12.1" in changed["requirements.txt"]


def test_the_pin_that_holds_mdstorm_beside_petastorm_is_named() -> None:
    files = {
        "requirements.txt": HELD,
        "a.py": CODE,
        "b.py": "import petastorm\nprint(petastorm.__version__ < '1')\n",
    }
    for name, text in files.items():
        Path(name).write_text(text)
    found = invoke(migrate, "-v", "-j", "1", ".").stderr
    assert "than `pyarrow==10.0.0`" in found
    assert "beside Petastorm, which code still imports" in found
