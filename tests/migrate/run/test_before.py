"""The section "Before you run it", and how requirements follow the code of a project."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.migrate.checks import invoke, write_files

from mdstorm_migrate.cli.audit import audit
from mdstorm_migrate.cli.migrate import migrate

CODE = "from petastorm.pytorch import DataLoader\n"
#: mdstorm has no such thing, so what imports it stays.
STAYS = "from petastorm.reader import ArrowReaderWorker\n"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = name.replace("__", "/").replace("_txt", ".txt").replace("_py", ".py")
        write_files(root, {path: text})


def section(root: Path, *options: str) -> list[str]:
    """Return the lines of the section, with paths below the project."""
    _, _, rest = invoke(migrate, *options, root).stderr.partition("before you run it:\n")
    lines = [line.strip() for line in rest.splitlines() if line.startswith("  ")]
    return [line.replace(f"{root}/", "") for line in lines]


def test_where_mdstorm_comes_from_is_said_first_until_it_is_given(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE, requirements_txt="petastorm\n")
    assert section(tmp_path)[0].startswith("mdstorm is not on a package index yet")
    assert section(tmp_path, "--index", "https://host/simple") == []
    assert section(tmp_path, "--requirement", "mdstorm @ https://host/mdstorm.whl") == []


def test_what_nothing_installs_is_said_with_the_extras_of_the_code(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE)
    assert 'nothing here installs mdstorm: install "mdstorm[torch]"' in section(tmp_path)
    (tmp_path / "requirements.txt").write_text("mdstorm[torch]\n")
    assert not any("nothing here" in line for line in section(tmp_path))


def test_the_environment_is_named_and_holds_nothing_back(tmp_path: Path) -> None:
    requirements = "petastorm==0.11\nnumpy==1.19.5\ntorch==1.7.1\n"
    write(tmp_path, src__a_py=CODE, requirements_txt=requirements)
    (tmp_path / "Dockerfile").write_text("FROM python:3.7\nRUN pip install -r requirements.txt\n")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "ci.yml").write_text("python-version: 3.8\n")
    lines = section(tmp_path)[1:]
    assert [line.split(": ")[0] for line in lines] == [
        ".github/workflows/ci.yml:1",
        "Dockerfile:1",
        "requirements.txt:2",
        "requirements.txt:3",
    ]
    assert invoke(migrate, "-w", tmp_path).exit_code == 0
    assert (tmp_path / "src" / "a.py").read_text() == CODE.replace("petastorm", "mdstorm")
    after = (tmp_path / "requirements.txt").read_text()
    assert after == requirements.replace("petastorm==0.11", "mdstorm")


def test_extras_of_a_list_need_their_versions_even_if_no_code_uses_them(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE, requirements_txt="petastorm[tf]==0.11\ntensorflow<2.11\n")
    needs = "requirements.txt:2: `tensorflow<2.11`; mdstorm needs tensorflow"
    assert any(line.startswith(needs) for line in section(tmp_path))


def test_guides_to_newer_libraries_are_named_where_code_uses_these(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE)
    assert not any("ruff check" in line for line in section(tmp_path))
    write(tmp_path, a_py=f"import numpy as np\n{CODE}")
    assert any("ruff check --select NPY,PD" in line for line in section(tmp_path))


def test_files_that_name_petastorm_still_are_listed_once_each(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE, b_py=f"{STAYS}x = 1\n{STAYS}")
    read = 'from petastorm import make_reader\nmake_reader(u, hdfs_driver="libhdfs")\n'
    private = "from petastorm.unischema import _fullmatch\n"
    write(tmp_path, c_py=f'{read}BACKENDS = ["petastorm"]\n', d_py=read + private)
    write_files(tmp_path, {"README.md": f"Petastorm:\n\n```\n{CODE}```\n"})
    assert section(tmp_path)[-4:] == [
        "README.md:4: Petastorm is still mentioned here",
        "b.py:1: Petastorm is still mentioned here, and on 1 more line",
        "c.py:3: Petastorm is still mentioned here",
        "d.py:3: Petastorm is still mentioned here",
    ]


def test_a_file_that_waits_for_another_is_listed_as_well(tmp_path: Path) -> None:
    codec = (
        "from petastorm.codecs import DataframeColumnCodec\nclass Own(DataframeColumnCodec): ...\n"
    )
    field = "from petastorm.unischema import UnischemaField\nfrom a import Own\n"
    write(tmp_path, a_py=codec, b_py=f"{field}F = UnischemaField('x', int, (), Own(), False)\n")
    write(tmp_path, c_py="from petastorm import make_reader\nfrom b import F\nmake_reader(F)\n")
    named = [line.partition(":")[0] for line in section(tmp_path) if "still mentioned" in line]
    assert named == ["a.py", "b.py", "c.py"]


def test_code_that_takes_what_objects_of_mdstorm_lack_is_named(tmp_path: Path) -> None:
    write(tmp_path, a_py="sizes = [size(u) for u in f().file_urls]\n", b_py="x\nr._workers_pool\n")
    assert section(tmp_path) == []
    write(tmp_path, c_py=CODE)
    assert section(tmp_path)[-2:] == [
        "a.py:1: `file_urls`: a converter's are MDS shards now, not Parquet files",
        "b.py:2: `_workers_pool`: mdstorm's readers do not have it",
    ]


def test_code_that_installs_and_pages_say_what_they_run_in(tmp_path: Path) -> None:
    create = "CondaDependencies.create(python_version='3.8', pip_packages=['petastorm'])\n"
    write(tmp_path, a_py=create, b_py=CODE)
    assert any("a.py:1: Python 3.8;" in line for line in section(tmp_path))
    write(tmp_path, a_py="x = 1\n", b_py="x = 1\n")
    write_files(tmp_path, {"page.qmd": f"```{{python}}\n{CODE}```\n"})
    assert 'nothing here installs mdstorm: install "mdstorm[torch]"' in section(tmp_path)


def notebook(*cells: str) -> str:
    code = [{"cell_type": "code", "source": one, "metadata": {}, "outputs": []} for one in cells]
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


def test_lines_of_notebooks_are_those_of_their_cells(tmp_path: Path) -> None:
    install = "pip install petastorm numpy==1.19\n"
    (tmp_path / "a.ipynb").write_text(notebook("x = 1", f"%{install}{CODE}"))
    (tmp_path / "b.ipynb").write_text(notebook("x = 1", f"y = 2\n{STAYS}"))
    write(tmp_path, c_py=f"# Databricks notebook source\n# MAGIC %{install}\n{CODE}")
    found = section(tmp_path)
    assert [one.partition(";")[0] for one in found if "numpy==1.19" in one] == [
        "a.ipynb:cell 2:1: `numpy==1.19`",
        "c.py:2: `numpy==1.19`",
    ]
    assert "b.ipynb:cell 2:2: Petastorm is still mentioned here" in found


def test_projects_beside_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, ours__a_py=CODE, ours__requirements_txt="petastorm\n")
    write(tmp_path, theirs__requirements_txt="numpy==1.19\n")
    assert [line for line in section(tmp_path) if "theirs" in line] == []


@pytest.mark.parametrize("prefix", ["", "../link/"])
def test_files_named_by_any_path_are_those_of_their_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    repository = tmp_path / "r"
    subprocess.run(["git", "init", "-q", repository], check=True)
    write(repository, a_py=CODE, b_py="x.file_urls\n", requirements_txt="petastorm\n")
    (repository / "Dockerfile").write_text("FROM python:3.7\n")
    (tmp_path / "link").symlink_to(repository)
    monkeypatch.chdir(repository)
    named = [f"{prefix}{name}" for name in ("a.py", "b.py", "requirements.txt")]
    lines = section(Path(named.pop()), *named)[1:]
    expected = [f"{repository}/Dockerfile:1", f"{prefix}b.py:1"]
    assert [line.partition(": ")[0] for line in lines] == expected


def test_nothing_is_said_where_nothing_uses_petastorm(tmp_path: Path) -> None:
    write(tmp_path, a_py="import numpy\n", requirements_txt="numpy==1.19\n")
    assert "before you run it" not in invoke(migrate, tmp_path).stderr


@pytest.mark.parametrize("command", [migrate, audit])
def test_the_section_is_in_reports_and_audits(tmp_path: Path, command: object) -> None:
    (tmp_path / "p").mkdir()
    write(tmp_path / "p", a_py=CODE, requirements_txt="petastorm\nnumpy==1.19\n")
    report = tmp_path / "report.json"
    invoke(command, "--report", report, tmp_path / "p")  # type: ignore[arg-type]
    found = json.loads(report.read_text())["conditions"]
    assert [one["subject"] for one in found] == ["from", "pin"]
    page = tmp_path / "report.html"
    if command is migrate:
        invoke(migrate, "--report", page, tmp_path / "p")
        assert "Before you run it" in page.read_text()
    assert "before you run it:" in invoke(audit, tmp_path / "p").stdout
    assert invoke(audit, "--fail-on", "environment", tmp_path / "p").exit_code == 1


def after(root: Path, name: str = "requirements.txt") -> str:
    invoke(migrate, "-w", "--no-diff", "--no-todo", root)
    first = (root / name).read_text()
    invoke(migrate, "-w", "--no-diff", "--no-todo", root)
    assert (root / name).read_text() == first
    return first


def test_a_list_gets_the_extras_and_what_came_through_petastorm(tmp_path: Path) -> None:
    code = "import pandas\nimport six\nfrom petastorm.tf_utils import make_petastorm_dataset\n"
    write(tmp_path, src__a_py=code, requirements_txt="petastorm==0.11\nboto3\n")
    assert after(tmp_path) == "pandas\nsix\nmdstorm[tf]\nboto3\n"
    code = "import pandas\nfrom petastorm.spark import make_spark_converter\n"
    write(tmp_path, src__a_py=code, requirements_txt="petastorm\n")
    assert after(tmp_path) == "mdstorm[spark]\n"  # which brings pandas
    (tmp_path / "requirements.txt").write_text("petastorm\n")
    write(tmp_path, src__a_py=f"{code}make_spark_converter(spark.table('t'))\n")
    assert after(tmp_path) == "pandas\nmdstorm\n"  # the host has made the session
    (tmp_path / "requirements.txt").write_text("petastorm\n")
    write(tmp_path, src__b_py="spark = SparkSession.builder.getOrCreate()\n")
    assert after(tmp_path) == "mdstorm[spark]\n"


@pytest.mark.parametrize(
    ("session", "installed"),
    [("None", "mdstorm"), ("SparkSession.builder.getOrCreate()", '"mdstorm[spark]"')],
)
def test_a_notebook_installs_spark_where_it_builds_its_session(
    tmp_path: Path, session: str, installed: str
) -> None:
    code = f"from petastorm.spark import make_spark_converter\nprint('pyspark')\nx = {session}"
    (tmp_path / "a.ipynb").write_text(notebook("%pip install petastorm", code))
    cells = json.loads(after(tmp_path, "a.ipynb"))["cells"]
    assert "".join(cells[0]["source"]) == f"%pip install {installed}"


def test_constraints_require_nothing_more(tmp_path: Path) -> None:
    write(tmp_path, a_py=f"import pandas\n{CODE}", constraints_txt="petastorm==0.11\n")
    assert after(tmp_path, "constraints.txt") == "mdstorm\n"


def test_what_is_listed_already_is_not_required_again(tmp_path: Path) -> None:
    code = f"import pandas\n{CODE}from petastorm.spark import make_spark_converter\n"
    listed = "petastorm\ntorch==2.2\npandas\npyspark\n"
    write(tmp_path, a_py=code, requirements_txt=listed)
    assert after(tmp_path) == listed.replace("petastorm", "mdstorm")


def test_pandas_is_required_for_transforms_also_where_databricks_runs_the_code(
    tmp_path: Path,
) -> None:
    code = "from petastorm import TransformSpec\ndbutils.widgets.get('x')\n"
    write(tmp_path, a_py=code, requirements_txt="petastorm\n")
    assert after(tmp_path) == "pandas\nmdstorm\n"


def test_nothing_is_required_beside_the_value_of_a_key(tmp_path: Path) -> None:
    text = 'from {0} import TransformSpec\nENV = {{"PIP_PACKAGES": "{0}"}}\n'
    write(tmp_path, a_py=text.format("petastorm"))
    assert after(tmp_path, "a.py") == text.format("mdstorm")


@pytest.mark.parametrize("head", ["# Databricks notebook source\n", "import pyspark\n"])
def test_a_cluster_of_databricks_has_pandas_and_spark(head: str, tmp_path: Path) -> None:
    text = '{{"spark_version": "15.4.x", "libraries": [{{"pypi": {{"package": "{}"}}}}]}}\n'
    (tmp_path / "job.json").write_text(text.format("petastorm==0.11"))
    write(tmp_path, a_py=f"{head}import pandas\nimport torch\n{CODE}")
    assert after(tmp_path, "job.json") == text.format("mdstorm[torch]")


@pytest.mark.parametrize(
    ("name", "text", "beside"),
    [
        ("requirements.txt", "petastorm==0.11\nx\n", "mdstorm[torch]\npetastorm==0.11\nx\n"),
        ("a.sh", "pip install petastorm x\n", 'pip install "mdstorm[torch]" petastorm x\n'),
        (
            "setup.py",
            "setup(install_requires=['petastorm>=0.9', 'x'])\n",
            "setup(install_requires=['mdstorm[torch]', 'petastorm>=0.9', 'x'])\n",
        ),
        (
            "setup.cfg",
            "[options]\ninstall_requires =\n    petastorm\n    x\n",
            "[options]\ninstall_requires =\n    petastorm\n    mdstorm[torch]\n    x\n",
        ),
        (
            "pyproject.toml",
            '[project]\ndependencies = [\n    "petastorm",\n    "x",\n]\n',
            '[project]\ndependencies = [\n    "mdstorm[torch]",\n    "petastorm",\n    "x",\n]\n',
        ),
        (
            "Pipfile",
            '[packages]\npetastorm = "*"\nx = "*"\n',
            '[packages]\nmdstorm = {version = "*", extras = ["torch"]}\npetastorm = "*"\nx = "*"\n',
        ),
        (
            "environment.yml",
            "dependencies:\n- pip:\n  - petastorm\n  - x\n",
            "dependencies:\n- pip:\n  - mdstorm[torch]\n  - petastorm\n  - x\n",
        ),
        (
            ".pre-commit-config.yaml",
            "additional_dependencies: [petastorm, x]\n",
            'additional_dependencies: ["mdstorm[torch]", petastorm, x]\n',
        ),
    ],
)
def test_petastorm_leaves_from_beside_mdstorm_with_the_last_import(
    tmp_path: Path, name: str, text: str, beside: str
) -> None:
    (tmp_path / name).write_text(text)
    write(tmp_path, a_py=CODE, b_py=STAYS)
    assert after(tmp_path, name) == beside
    assert after(tmp_path, name) == beside
    write(tmp_path, b_py=CODE)
    left = re.sub(r"\n[ -]*\"?petastorm.*|'petastorm\S* | petastorm,?(?= x)", "", f"\n{beside}")
    assert after(tmp_path, name) == left[1:]


@pytest.mark.parametrize("code", [STAYS, "import numpy\n"])
def test_what_else_says_petastorm_stays_with_its_requirement(tmp_path: Path, code: str) -> None:
    text = '[tool.poetry.dependencies]\npetastorm = "*"\n[tool.poetry.extras]\nx = ["petastorm"]\n'
    command = "python -m petastorm.tools.copy_dataset a b\n"
    write(tmp_path, a_py=code)
    write_files(tmp_path, {"pyproject.toml": text, "copy.sh": command})
    assert after(tmp_path, "copy.sh") == command
    assert after(tmp_path, "pyproject.toml") == text
    write(tmp_path, a_py=CODE)
    assert after(tmp_path, "copy.sh") == command.replace("petastorm", "mdstorm")
    assert 'x = ["mdstorm"]' in after(tmp_path, "pyproject.toml")


def test_a_table_of_petastorm_leaves_whole(tmp_path: Path) -> None:
    rest = '[tool.poetry.dependencies]\nmdstorm = "*"\n{}[build-system]\nrequires = []\n'
    table = '[tool.poetry.dependencies.petastorm]\nversion = "*"\n\n'
    write(tmp_path, a_py=CODE)
    (tmp_path / "pyproject.toml").write_text(rest.format(table))
    assert after(tmp_path, "pyproject.toml") == rest.format("")


def test_petastorm_stays_for_estimators_of_horovod_that_import_it(tmp_path: Path) -> None:
    code = "from horovod.spark.keras import KerasEstimator\n"
    write(tmp_path, a_py=code, requirements_txt="horovod\npetastorm\n")
    assert after(tmp_path) == "horovod\npetastorm\n"
    write(tmp_path, horovod__spark__keras_py=CODE)  # this is Horovod
    assert after(tmp_path) == "horovod\nmdstorm[torch]\n"


def test_a_requirement_that_no_code_of_the_repository_uses_stays(tmp_path: Path) -> None:
    write(tmp_path, a_py="import numpy\n", requirements_txt="petastorm==0.11\n")
    assert after(tmp_path) == "petastorm==0.11\n"


def test_each_list_of_a_monorepo_serves_the_code_below_it(tmp_path: Path) -> None:
    write(tmp_path, a__a_py=CODE, a__requirements_txt="petastorm\n")
    write(tmp_path, b__b_py=STAYS, b__requirements_txt="petastorm\n")
    assert after(tmp_path, "a/requirements.txt") == "mdstorm[torch]\n"
    assert (tmp_path / "b" / "requirements.txt").read_text() == "petastorm\n"
