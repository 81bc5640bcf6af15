"""Installs of notebooks and scripts, judged together with the lists beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.migrate.checks import invoke
from tests.migrate.run.written import after

from mdstorm_migrate.cli.migrate import migrate

pytestmark = pytest.mark.usefixtures("inside")

HEAD = "# Databricks notebook source\n"
USE = "\n# COMMAND ----------\n\nfrom petastorm import make_reader\n"
INSTALL = f"{HEAD}# MAGIC %pip install petastorm==0.12.1\n"


@pytest.mark.parametrize(
    "files",
    [
        {"n.py": f"{INSTALL.rstrip()} -c c.txt\n{USE}", "c.txt": "pyarrow<11\n"},
        {"n.py": f"{INSTALL}# MAGIC %pip install -r reqs.txt\n{USE}", "reqs.txt": "numpy==1.20\n"},
        {
            "n.py": f"{INSTALL}# MAGIC %sh export PIP_CONSTRAINT=./pins/c.txt\n{USE}",
            "pins/c.txt": "pyarrow<11\n",
        },
        {"n.py": f"{INSTALL}# MAGIC %pip install numpy==1.20\n{USE}"},
        {"n.py": f'{INSTALL}\ndbutils.library.installPyPI("pyarrow", version="8.0.0")\n{USE}'},
        {
            "n.py": INSTALL,
            "pins.py": f"{HEAD}# MAGIC %pip install pyarrow==8.0.0\n",
            "train.py": f"{HEAD}# MAGIC %run ./pins\n\n# COMMAND ----------\n\n# MAGIC %run ./n\n",
        },
    ],
    ids=["constraints", "list", "variable", "other line", "call", "run"],
)
def test_an_install_waits_for_pins_that_refuse_it(files: dict[str, str]) -> None:
    assert "%pip install petastorm==0.12.1" in after(files)["n.py"]
    assert "%pip install mdstorm" in after(files, "--unsafe")["n.py"]


def test_a_list_waits_for_pins_of_a_notebook_that_installs_it() -> None:
    notebook = f'{HEAD}# MAGIC %pip install -r ../reqs.txt "fsspec==2022.1.0"\n{USE}'
    files = {"nbs/n.py": notebook, "reqs.txt": "petastorm\n"}
    assert after(files)["reqs.txt"] == "petastorm\n"
    changed = after(files, "--unsafe")
    assert changed["reqs.txt"] == "mdstorm\n"
    assert '"fsspec>=2023.5.0"' in changed["nbs/n.py"]


def test_an_install_that_nothing_refuses_is_exact() -> None:
    files = {
        "n.py": f"{INSTALL}# MAGIC %pip install -r reqs.txt\n{USE}",
        "reqs.txt": "numpy==1.26.4\n",
        "other.py": f"{HEAD}# MAGIC %pip install pyarrow==8.0.0\n",
    }
    changed = after(files)
    assert "%pip install mdstorm\n" in changed["n.py"]
    assert changed["other.py"] == files["other.py"]


def test_code_that_is_commented_out_needs_no_extra() -> None:
    old = "# from petastorm.tf_utils import tf_tensors\nx = 1  # not make_torch_dataloader\n"
    assert "%pip install mdstorm\n" in after({"a.py": INSTALL + USE + old})["a.py"]
    cells = [f"%pip install petastorm\n{old}", "from petastorm import make_reader"]
    book = {
        "cells": [
            {
                "cell_type": "code",
                "source": text.splitlines(keepends=True),
                "metadata": {},
                "outputs": [],
                "execution_count": None,
            }
            for text in cells
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    for indent in (None, 1):
        changed = after({"n.ipynb": json.dumps(book, indent=indent)})["n.ipynb"]
        assert "%pip install mdstorm\\n" in changed


@pytest.mark.parametrize("is_list", [True, False])
def test_extras_are_found_in_cells_of_one_string_or_of_lines(is_list: bool) -> None:
    use = "from petastorm import make_reader\nfrom petastorm import pytorch\n"
    cells = [
        {"cell_type": "code", "source": text.splitlines(keepends=True) if is_list else text}
        for text in ("%pip install petastorm\n", use)
    ]
    book = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4})
    assert r"%pip install \"mdstorm[torch]\"" in after({"n.ipynb": book})["n.ipynb"]


def test_what_the_list_of_a_notebook_brings_in_is_not_named_as_an_extra() -> None:
    use = USE + "from petastorm.pytorch import DataLoader\n"
    alone = after({"a.py": INSTALL + use})
    assert '%pip install "mdstorm[torch]"\n' in alone["a.py"]
    Path("a.py").unlink()
    listed = after(
        {"n.py": f"{INSTALL}# MAGIC %pip install -r reqs.txt\n{use}", "reqs.txt": "torch\n"}
    )
    assert "%pip install mdstorm\n" in listed["n.py"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.yml", "requirements: reqs.txt\nrun: pip install petastorm\n"),
        ("MLproject", 'conda_env: reqs.txt\ncommand: "pip install petastorm"\n'),
        ("job.json", '{"requirements": "reqs.txt", "pypi": {"package": "petastorm"}}\n'),
    ],
)
def test_definitions_wait_for_the_lists_that_they_name(name: str, text: str) -> None:
    files = {name: text, "reqs.txt": "pyarrow<11\n", "a.py": "from petastorm import make_reader\n"}
    assert "mdstorm" not in after(files)[name]
    assert "mdstorm" in after(files, "--unsafe")[name]


def test_a_version_in_a_variable_is_read_where_the_file_has_it() -> None:
    image = "ARG A=8.0.0\nRUN pip install petastorm pyarrow==${A}\n"
    files = {"Dockerfile": image, "a.py": "from petastorm import make_reader\n"}
    assert "RUN pip install petastorm" in after(files)["Dockerfile"]
    Path("Dockerfile").unlink()
    newer = {**files, "Dockerfile": image.replace("8.0.0", "17.0.0")}
    assert "RUN pip install mdstorm pyarrow==${A}" in after(newer)["Dockerfile"]


def test_jobs_of_databricks_bring_spark() -> None:
    code = "from petastorm.spark import make_spark_converter\n"
    job = '{"spark_version": "15.4.x-scala2.12", "pypi": {"package": "petastorm"}}\n'
    assert '"mdstorm"' in after({"job.json": job, "a.py": code})["job.json"]
    Path("job.json").unlink()
    assert after({"reqs.txt": "petastorm\n", "a.py": code})["reqs.txt"] == "mdstorm[spark]\n"


def test_a_fallback_alone_is_said_to_be_what_keeps_petastorm_beside_mdstorm() -> None:
    fallback = (
        "try:\n    from mdstorm import make_reader\n"
        "except ImportError:\n    from petastorm import make_reader\n"
    )
    Path("a.py").write_text(fallback)
    Path("requirements.txt").write_text("mdstorm\npetastorm==0.12.1\n")
    done = invoke(migrate, "--no-diff", "-v", ".")
    said = done.stdout + done.stderr
    assert (
        "a.py (as a fallback alone) still imports it; where mdstorm is installed, take that" in said
    )
    assert "must stay installed" not in said
    Path("b.py").write_text("from petastorm.reader import ArrowReaderWorker\n")
    done = invoke(migrate, "--no-diff", "-v", ".")
    said = done.stdout + done.stderr
    assert "take that out" not in said
    assert "file that still imports petastorm, which must stay installed" in said


@pytest.mark.parametrize(
    ("path", "text", "beside"),
    [
        ("Dockerfile", "RUN pip install petastorm[opencv]\n", " opencv-python mdstorm[images]"),
        ("a.sh", 'pip install "petastorm[opencv]"\n', ' opencv-python "mdstorm[images]"'),
        ("Pipfile", '[packages]\npetastorm = {extras = ["opencv"]}\n', 'opencv-python = "*"\n'),
    ],
)
def test_what_an_extra_brought_in_is_installed_by_commands_and_tables(
    path: str, text: str, beside: str
) -> None:
    code = "import cv2\nfrom petastorm import make_reader\n"
    assert beside in after({path: text, "use.py": code})[path]


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        (
            "uv run --with petastorm==0.12 pytest\n",
            'uv run --with pandas --with "mdstorm[torch]" pytest\n',
        ),
        ("uvx --with=petastorm x\n", 'uvx --with=pandas --with="mdstorm[torch]" x\n'),
        (
            "uv run --with numpy,petastorm x\n",
            'uv run --with pandas --with numpy,"mdstorm[torch]" x\n',
        ),
        (
            'RUN ["uv", "add", "x", "--with", "petastorm"]\n',
            'RUN ["uv", "add", "x", "--with", "pandas", "--with", "mdstorm[torch]"]\n',
        ),
        (
            'RUN ["uv", "tool", "install", "--with=petastorm", "x"]\n',
            'RUN ["uv", "tool", "install", "--with=pandas", "--with=mdstorm[torch]", "x"]\n',
        ),
    ],
)
def test_each_requirement_of_uv_run_has_an_option_of_its_own(before: str, changed: str) -> None:
    path = "Dockerfile" if before.startswith("RUN") else "a.sh"
    code = "import pandas\nfrom petastorm.pytorch import DataLoader\n"
    assert after({path: before, "use.py": code})[path] == changed


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        ("uv run --with petastorm x\n", "uv run --extra-index-url https://i --with mdstorm x\n"),
        (
            "uv tool install x \\\n--with petastorm\n",
            "uv tool install x \\\n--extra-index-url https://i --with mdstorm\n",
        ),
        (
            'RUN ["uv", "add", "--with", "petastorm"]\n',
            'RUN ["uv", "add", "--extra-index-url", "https://i", "--with", "mdstorm"]\n',
        ),
    ],
)
def test_an_index_stands_before_the_option_of_the_requirement(before: str, changed: str) -> None:
    path = "Dockerfile" if before.startswith("RUN") else "a.sh"
    assert after({path: before}, "--index", "https://i")[path] == changed


def test_what_conda_installs_stays_for_code_that_stays() -> None:
    text = "dependencies:\n  - petastorm\n  - pip:\n    - numpy\n"
    stays = "from petastorm.hdfs.namenode import HdfsNamenodeResolver\n"
    assert after({"environment.yml": text, "job.py": stays})["environment.yml"] == text
    moves = "from petastorm import make_reader\n"
    assert (
        "take petastorm out here"
        in after({"environment.yml": text, "job.py": moves})["environment.yml"]
    )


@pytest.mark.parametrize(
    ("code", "pin", "is_held"),
    [
        ("from petastorm import pytorch as pt, make_reader\n", "torch==1.13.1", True),
        ("from petastorm import (\n    make_reader,\n    pytorch,\n)\n", "torch==1.13.1", True),
        ("from petastorm import make_reader, \\\n    pytorch\n", "torch==1.13.1", True),
        ("from petastorm import tf_utils\n", "tensorflow==2.10.0", True),
        ("from petastorm import make_reader\nfrom x import pytorch\n", "torch==1.13.1", False),
        ("from petastorm import make_reader; pytorch = 1\n", "torch==1.13.1", False),
    ],
)
def test_modules_imported_from_the_package_use_their_library(
    code: str, pin: str, is_held: bool
) -> None:
    changed = after({"requirements.txt": f"petastorm==0.12.1\n{pin}\n", "x.py": code})
    assert ("petastorm" in changed["requirements.txt"]) == is_held


@pytest.mark.parametrize(("option", "brought"), [("--no-deps ", "opencv-python "), ("", "")])
def test_a_project_that_is_installed_without_its_requirements_brings_none(
    option: str, brought: str
) -> None:
    image = f"FROM python:3.11\nRUN pip install 'petastorm[opencv]'\nRUN pip install {option}-e .\n"
    files = {
        "Dockerfile": image,
        "setup.py": 'setup(install_requires=["opencv-python>=3.4", "petastorm>=0.12"])\n',
        "gen.py": "import cv2\nfrom petastorm import make_reader\n",
    }
    new = f"{brought}'mdstorm[images]'"
    assert after(files)["Dockerfile"] == image.replace("'petastorm[opencv]'", new)
    old = {**files, "Dockerfile": f"FROM python:3.8\nCOPY a.txt b\nRUN pip install {option}-e .\n"}
    assert after(old) == {**old, "Dockerfile": old["Dockerfile"]}


def test_a_job_waits_for_the_python_of_the_environment_that_it_names() -> None:
    code = "from petastorm import make_reader\n"
    files = {
        "job.yml": (
            "command: >-\n  pip install petastorm==0.11.3 &&\n  python job.py\n"
            "environment:\n  conda_file: envs/conda.yml\n"
        ),
        "envs/conda.yml": "dependencies:\n  - python=3.8\n  - pip:\n    - petastorm==0.11.3\n",
        "job.py": code,
    }
    assert after(files) == files
    changed = after({**files, "envs/conda.yml": files["envs/conda.yml"].replace("3.8", "3.11")})
    assert changed["job.py"] == code.replace("petastorm", "mdstorm")
    assert "pip install mdstorm" in changed["job.yml"]


def test_code_that_uses_spark_itself_keeps_its_own_pin() -> None:
    code = "from petastorm import make_reader\nfrom pyspark.sql import SparkSession\n"
    files = {"reqs.txt": "petastorm\npyspark==3.3.1\n", "a.py": code}
    assert after(files)["reqs.txt"] == "mdstorm\npyspark==3.3.1\n"
    Path("reqs.txt").unlink()
    tables = {**files, "a.py": f"{code}df.toPandas()\n"}
    assert after(tables)["reqs.txt"] == "pandas\nmdstorm\npyspark==3.3.1\n"
    Path("reqs.txt").unlink()
    alone = {"reqs.txt": "petastorm\n", "a.py": code}
    assert after(alone)["reqs.txt"] == "mdstorm[spark]\n"
    Path("reqs.txt").unlink()
    converted = {**files, "a.py": f"{code}from petastorm.spark import make_spark_converter\n"}
    assert after(converted)["reqs.txt"] == files["reqs.txt"]  # waits for Spark 3.5


def test_a_notebook_that_others_run_gets_the_extras_that_they_need() -> None:
    lab = f"{HEAD}# MAGIC %run ./setup_nb\n\n# COMMAND ----------\n\n{{}}"
    use = "from petastorm import make_reader\nfrom petastorm.pytorch import DataLoader\n"
    files = {"setup_nb.py": INSTALL, "lab.py": lab.format(use)}
    assert '%pip install "mdstorm[torch]"' in after(files)["setup_nb.py"]


@pytest.mark.parametrize(
    ("script", "is_joined"),
    [
        ("pip install --user petastorm==0.12.1\n", True),
        ("conda activate land\npip install petastorm==0.12.1\n", True),
        ("source ~/v/bin/activate\npip install petastorm==0.12.1\n", True),
        ("python -m venv v\nsource v/bin/activate\npip install petastorm==0.12.1\n", False),
        ("pip install petastorm==0.12.1\n", False),
    ],
)
def test_a_script_that_installs_into_another_ones_environment_waits_with_its_list(
    script: str, is_joined: bool
) -> None:
    files = {
        "requirements.txt": "petastorm==0.11.2\npyarrow<11\n",
        "scripts/run.sh": f"#!/bin/bash\n{script}python scripts/train.py\n",
        "scripts/train.py": "from petastorm.pytorch import DataLoader\n",
    }
    changed = after(files)
    assert (changed["scripts/train.py"] == files["scripts/train.py"]) == is_joined
    assert ("petastorm" in changed["scripts/run.sh"]) == is_joined
    if is_joined:
        changed = after(files, "--unsafe")
        assert changed["requirements.txt"] == "mdstorm[torch]\npyarrow>=14.0.1\n"
        assert "petastorm" not in changed["scripts/run.sh"]
