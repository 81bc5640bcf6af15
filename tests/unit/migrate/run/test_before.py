"""The section "Before you run it", and how requirements follow a project's code."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.kit.migrating import each, invoke, write_files

from mdstorm_migrate.cli.audit import audit
from mdstorm_migrate.cli.migrate import migrate

CODE = "from petastorm.pytorch import DataLoader\n"
#: A file whose import stays on Petastorm, because mdstorm does not have the class.
STAYS = "from petastorm.reader import ArrowReaderWorker\n"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = name.replace("__", "/").replace("_txt", ".txt").replace("_py", ".py")
        write_files(root, {path: text})


def section(root: Path, *options: str) -> list[str]:
    """Return the lines of the section "before you run it", with relative paths."""
    _, _, rest = invoke(migrate, *options, root).stderr.partition("before you run it:\n")
    lines = [line.strip() for line in rest.splitlines() if line.startswith("  ")]
    return [line.replace(f"{root}/", "") for line in lines]


def test_before_you_run_section_begins_with_missing_package_index_unless_one_is_given(
    tmp_path: Path,
) -> None:
    write(tmp_path, a_py=CODE, requirements_txt="petastorm\n")
    assert section(tmp_path)[0].startswith("mdstorm is not on a package index yet")
    assert section(tmp_path, "--index", "https://host/simple") == []
    assert section(tmp_path, "--requirement", "mdstorm @ https://host/mdstorm.whl") == []


def test_missing_package_index_is_reported_if_wheel_was_installed_from_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `pip install --find-links` writes no `direct_url.json`, just like an install from an index.
    write_files(
        tmp_path, {"site/mdstorm-0.1.0.dist-info/METADATA": "Name: mdstorm\nVersion: 0.1.0\n"}
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    write(tmp_path / "project", a_py=CODE, requirements_txt="petastorm\n")
    (line,) = section(tmp_path / "project")
    assert line.startswith("mdstorm is not on a package index yet")


def test_before_you_run_section_shows_install_command_if_nothing_requires_mdstorm(
    tmp_path: Path,
) -> None:
    write(tmp_path, a_py=CODE)
    assert 'nothing here installs mdstorm: install "mdstorm[torch]"' in section(tmp_path)
    (tmp_path / "requirements.txt").write_text("mdstorm[torch]\n")
    assert not any("nothing here" in line for line in section(tmp_path))


def test_unsupported_environment_is_reported_and_does_not_block_migration(tmp_path: Path) -> None:
    requirements = "petastorm==0.11\nnumpy==1.19.5\ntorch==1.7.1\n"
    write(tmp_path, src__a_py=CODE, requirements_txt=requirements)
    (tmp_path / "Dockerfile").write_text("FROM python:3.7\nRUN pip install -r requirements.txt\n")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "ci.yml").write_text("python-version: 3.8\n")
    *lines, _ = section(tmp_path)
    assert [line.split(": ")[0] for line in lines] == [
        ".github/workflows/ci.yml:1",
        "Dockerfile:1",
        "requirements.txt:2",
        "requirements.txt:3",
    ]
    assert "`numpy==1.19.5`; mdstorm needs numpy>=" in lines[-2]
    assert "`torch==1.7.1`; mdstorm needs torch>=" in lines[-1]
    assert invoke(migrate, "-w", tmp_path).exit_code == 0
    assert (tmp_path / "src" / "a.py").read_text() == CODE.replace("petastorm", "mdstorm")
    after = (tmp_path / "requirements.txt").read_text()
    assert after == requirements.replace("petastorm==0.11", "mdstorm")


def test_pin_is_reported_at_its_line_before_and_after_writing(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE, b_py=STAYS, requirements_txt="petastorm\nnumpy==1.19.5\n")
    for options, line in ((), 2), (("-w",), 3), ((), 3):
        lines = [one for one in section(tmp_path, *options) if "numpy==1.19.5" in one]
        assert [one.partition(": ")[0] for one in lines] == [f"requirements.txt:{line}"]


@each("s3fs==2023.1.0", "tensorflow-cpu==2.11.0")
def test_pin_of_another_build_or_of_a_file_system_is_reported(pin: str, tmp_path: Path) -> None:
    code = "from petastorm.tf_utils import make_petastorm_dataset\n"
    write(tmp_path, a_py=code, requirements_txt=f"petastorm\n{pin}\n")
    assert f"requirements.txt:2: `{pin}`" in invoke(migrate, tmp_path).stderr


@each("-r packages/lib/requirements.txt", "-e packages/lib")
def test_python_of_a_workflow_that_installs_a_list_in_a_subfolder_is_reported(
    option: str, tmp_path: Path
) -> None:
    workflow = "python-version: '3.9'\nrun: pip install {}\n"
    write(tmp_path / "packages" / "lib", a_py=CODE, requirements_txt="petastorm\n")
    options = {"a": option, "b": "-e packages/other"}
    for name, one in options.items():
        write_files(tmp_path, {f".github/workflows/{name}.yml": workflow.format(one)})
    said = invoke(migrate, tmp_path).stderr
    assert "a.yml:1: Python 3.9" in said
    assert "b.yml" not in said


def test_python_of_a_job_that_installs_only_other_packages_is_not_reported(tmp_path: Path) -> None:
    job = "  {}:\n    python-version: '{}'\n    steps:\n    - run: {}\n"
    lint = job.format("lint", "3.8", "pip install ruff")
    test = job.format("test", "3.9", "pip install -r requirements.txt")
    write(tmp_path, a_py=CODE, requirements_txt="petastorm\n")
    write_files(tmp_path, {".github/workflows/ci.yml": f"jobs:\n{lint}{test}"})
    assert [one for one in section(tmp_path) if "Python" in one] == [
        ".github/workflows/ci.yml:7: Python 3.9; mdstorm needs >=3.10"
    ]


def test_old_pin_is_reported_if_extra_is_required_but_unused(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE, requirements_txt="petastorm[tf]==0.11\ntensorflow<2.11\n")
    needs = "requirements.txt:2: `tensorflow<2.11`; mdstorm needs tensorflow"
    assert any(line.startswith(needs) for line in section(tmp_path))


def test_ruff_command_is_shown_if_code_uses_numpy(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE)
    assert not any("ruff check" in line for line in section(tmp_path))
    write(tmp_path, a_py=f"import numpy as np\n{CODE}")
    assert any("ruff check --select NPY`" in line for line in section(tmp_path))


def test_many_unsupported_runtimes_in_one_file_are_reported_on_one_line(tmp_path: Path) -> None:
    runtimes = "".join(f"  - spark_version: {n}.{m}.x\n" for n in range(4, 14) for m in range(9))
    write(tmp_path, a_py=CODE)
    write_files(tmp_path, {"clusters.yml": f"clusters:\n{runtimes}"})
    lines = [line for line in section(tmp_path) if "clusters.yml" in line]
    named = "Databricks Runtime 4.0, 4.1, 4.2 and 87 more"
    assert lines == [f"clusters.yml:2: {named}; mdstorm needs 14.3 or newer"]


@each(
    (
        "databricks.yml",
        "variables:\n  runtime:\n    default: {}\nspark_version: ${{var.runtime}}\n",
    ),
    ("job.yml", "x: &runtime '{}'\nnew_cluster:\n  spark_version: *runtime\n"),
    ("infra/policy.json", '{{"spark_version": {{"type": "fixed", "value": "{}"}}}}\n'),
)
def test_runtime_in_variable_or_policy_is_reported(name: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE, requirements_txt="petastorm\n")
    for runtime, number in (("13.3.x-gpu-ml-scala2.12", 1), ("15.4.x-scala2.12", 0)):
        write_files(tmp_path, {name: text.format(runtime)})
        lines = [one for one in section(tmp_path) if "Databricks Runtime" in one]
        assert len(lines) == number
    allowed = '{"spark_version": {"values": ["13.3.x-scala2.12", "15.4.x-scala2.12"]}}\n'
    write_files(tmp_path, {name: allowed})
    assert not any("Databricks Runtime" in one for one in section(tmp_path))


def test_generated_requirements_are_not_in_before_you_run_section(tmp_path: Path) -> None:
    head = "# This file is autogenerated by pip-compile with Python 3.11\n"
    write(tmp_path, a_py=CODE, requirements_txt=f"{head}numpy==1.19.5\npetastorm==0.12.1\n")
    assert not any("requirements.txt" in line for line in section(tmp_path))


def test_files_that_only_mention_petastorm_are_counted_and_with_verbose_listed(
    tmp_path: Path,
) -> None:
    write(tmp_path, a_py=CODE, **{f"f{number}_py": 'X = ["petastorm"]\n' for number in range(15)})
    assert section(tmp_path)[-1] == "15 files still mention Petastorm (shown with -v)"
    assert section(tmp_path, "-v")[-1] == "f9.py:1: Petastorm is still mentioned here"


@each(("print(load()._workers_pool)\n", 1), ("print(load().workers_pool)\n", 0))
def test_check_fails_if_something_breaks_at_a_place(use: str, code: int, tmp_path: Path) -> None:
    moved = CODE.replace("petastorm", "mdstorm")
    write(tmp_path, a_py=f'{moved}X = ["petastorm"]\n', b_py=use)
    assert invoke(migrate, "--check", tmp_path).exit_code == code


@each(
    ("opencv-python==4.6.0.66\ndbus-python==1.2.18\n", "requirements.txt"),
    ("- opencv-python: 3.4\n", "job.yml"),
)
def test_package_version_is_not_read_as_python_version(
    text: str, name: str, tmp_path: Path
) -> None:
    write(tmp_path, a_py=CODE)
    write_files(tmp_path, {name: text})
    assert not any("Python" in line for line in section(tmp_path))


def test_remaining_mentions_of_petastorm_are_listed_once_per_file(tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE, b_py=f"{STAYS}x = 1\n{STAYS}")
    read = 'from petastorm import make_reader\nmake_reader(u, hdfs_driver="libhdfs")\n'
    private = "from petastorm.unischema import _fullmatch\n"
    write(tmp_path, c_py=f'{read}BACKENDS = ["petastorm"]\n', d_py=read + private)
    write_files(tmp_path, {"README.md": f"Petastorm:\n\n```\n{CODE}```\n"})
    assert section(tmp_path, "-v")[-2:] == [
        "README.md:4: Petastorm is still mentioned here",
        "c.py:3: Petastorm is still mentioned here",
    ]


def test_unmigrated_files_are_not_also_listed_as_mentions(tmp_path: Path) -> None:
    codec = (
        "from petastorm.codecs import DataframeColumnCodec\nclass Own(DataframeColumnCodec): ...\n"
    )
    field = "from petastorm.unischema import UnischemaField\nfrom a import Own\n"
    write(tmp_path, a_py=codec, b_py=f"{field}F = UnischemaField('x', int, (), Own(), False)\n")
    write(tmp_path, c_py="from petastorm import make_reader\nfrom b import F\nmake_reader(F)\n")
    assert not any("still mentioned" in line for line in section(tmp_path))


def test_python_version_in_code_and_pages_is_reported(tmp_path: Path) -> None:
    create = "CondaDependencies.create(python_version='3.8', pip_packages=['petastorm'])\n"
    write(tmp_path, a_py=create, b_py=CODE)
    assert any("a.py:1: Python 3.8;" in line for line in section(tmp_path))
    write(tmp_path, a_py="x = 1\n", b_py="x = 1\n")
    write_files(tmp_path, {"page.qmd": f"```{{python}}\n{CODE}```\n"})
    assert 'nothing here installs mdstorm: install "mdstorm[torch]"' in section(tmp_path)


def notebook(*cells: str) -> str:
    code = [{"cell_type": "code", "source": one, "metadata": {}, "outputs": []} for one in cells]
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


def test_environment_conditions_in_notebook_have_cell_and_line(tmp_path: Path) -> None:
    install = "pip install petastorm numpy==1.19\n"
    (tmp_path / "a.ipynb").write_text(notebook("x = 1", f"%{install}{CODE}"))
    (tmp_path / "b.ipynb").write_text(notebook("x = 1", f'y = 2\nX = ["petastorm"]\n{CODE}'))
    write(tmp_path, c_py=f"# Databricks notebook source\n# MAGIC %{install}\n{CODE}")
    found = section(tmp_path, "-v")
    assert [one.partition(";")[0] for one in found if "numpy==1.19" in one] == [
        "a.ipynb:cell 2:1: `numpy==1.19`",
        "c.py:2: `numpy==1.19`",
    ]
    assert "b.ipynb:cell 2:2: Petastorm is still mentioned here" in found


def test_requirements_in_sibling_project_are_ignored(tmp_path: Path) -> None:
    write(tmp_path, ours__a_py=CODE, ours__requirements_txt="petastorm\n")
    write(tmp_path, theirs__requirements_txt="numpy==1.19\n")
    assert [line for line in section(tmp_path) if "theirs" in line] == []


@each("", "../link/")
def test_files_given_by_any_path_belong_to_their_repository(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "r"
    subprocess.run(["git", "init", "-q", repository], check=True)
    streams = "from streaming import StreamingDataset\n"
    write(repository, a_py=CODE, b_py=streams, requirements_txt="petastorm\n")
    (repository / "Dockerfile").write_text("FROM python:3.7\n")
    (tmp_path / "link").symlink_to(repository)
    monkeypatch.chdir(repository)
    named = [f"{prefix}{name}" for name in ("a.py", "b.py", "requirements.txt")]
    first, *_, last = section(Path(named.pop()), *named)
    expected = [f"{repository}/Dockerfile:1", f"{prefix}b.py:1"]
    assert [line.partition(": ")[0] for line in (first, last)] == expected


def test_before_you_run_section_is_omitted_without_petastorm(tmp_path: Path) -> None:
    write(tmp_path, a_py="import numpy\n", requirements_txt="numpy==1.19\n")
    assert "before you run it" not in invoke(migrate, tmp_path).stderr


@each(migrate, audit)
def test_environment_conditions_are_in_migrate_and_audit_reports(
    command: object, tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    write(tmp_path / "p", a_py=CODE, requirements_txt="petastorm\nnumpy==1.19\n")
    report = tmp_path / "report.json"
    invoke(command, "--report", report, tmp_path / "p")  # type: ignore[arg-type]
    found = json.loads(report.read_text())["conditions"]
    assert [one["subject"] for one in found] == ["pin", "from"]
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


READS = "from petastorm import make_reader\n"


@each(
    (  # packages that the code imports, and that Petastorm installed
        "import pandas\nimport six\nfrom petastorm.tf_utils import make_petastorm_dataset\n",
        "petastorm==0.11\nboto3\n",
        "pandas\nsix\nmdstorm[tf]\nboto3\n",
    ),
    (  # packages that are already listed are not added again
        f"import pandas\n{CODE}from petastorm.spark import make_spark_converter\n",
        "petastorm\nTorch==2.2\npandas\npyspark\n",
        "mdstorm\nTorch==2.2\npandas\npyspark\n",
    ),
    (  # transforms need pandas, even if Databricks runs the code
        "from petastorm import TransformSpec\ndbutils.widgets.get('x')\n",
        "petastorm\n",
        "pandas\nmdstorm\n",
    ),
    # OpenCV that no code imports decodes Petastorm's images
    (READS, "petastorm\nopencv-python-headless\n", "mdstorm[images]\nopencv-python-headless\n"),
    (READS, "petastorm\nopencv-python\nPillow\n", "mdstorm\nopencv-python\nPillow\n"),
    (f"import cv2\n{READS}", "petastorm\nopencv-python\n", "mdstorm\nopencv-python\n"),
    ("import numpy\n", "petastorm==0.11\n", "petastorm==0.11\n"),  # no code uses Petastorm
)
def test_requirements_get_extras_and_packages_that_code_uses(
    code: str, listed: str, required: str, tmp_path: Path
) -> None:
    write(tmp_path, src__a_py=code, requirements_txt=listed)
    assert after(tmp_path) == required


def test_transform_in_configuration_requires_pandas(tmp_path: Path) -> None:
    transform = "transform_spec:\n  _target_: petastorm.transform.TransformSpec\n"
    write(tmp_path, a_py=READS, conf_yaml=transform, requirements_txt="petastorm\n")
    assert after(tmp_path) == "pandas\nmdstorm\n"


@each(
    ("requirements.txt", "{}\ntorch==2.2  # x\nconda-forge::pandas\n"),
    ("pyproject.toml", '[tool.poetry.dependencies]\n{} = "*"\ntorch = "^2"\npandas = "*"\n'),
    ("setup.cfg", "[options]\ninstall_requires =\n    {}\n    torch>=2\n    pandas\n"),
    ("environment.yml", "dependencies:\n- pytorch\n- pandas=2\n- pip:\n  - {}\n"),
    ("job.json", '{{"pip": ["{}", "torch", "pandas"]}}\n'),
)
def test_package_that_list_names_is_not_required_again(
    name: str, text: str, tmp_path: Path
) -> None:
    write(tmp_path, a_py=f"import pandas\n{CODE}")
    write_files(tmp_path, {name: text.format("petastorm")})
    assert after(tmp_path, name) == text.format("mdstorm")


def test_spark_extra_is_added_unless_session_is_provided(tmp_path: Path) -> None:
    code = "import pandas\nfrom petastorm.spark import make_spark_converter\n"
    write(tmp_path, src__a_py=code, requirements_txt="petastorm\n")
    assert after(tmp_path) == "mdstorm[spark]\n"  # the extra requires pandas
    (tmp_path / "requirements.txt").write_text("petastorm\n")
    write(tmp_path, src__a_py=f"{code}make_spark_converter(spark.table('t'))\n")
    assert after(tmp_path) == "pandas\nmdstorm\n"  # Databricks creates the session
    (tmp_path / "requirements.txt").write_text("petastorm\n")
    runtime = f"from databricks.sdk.runtime import spark\n{code}"
    write(tmp_path, src__a_py=runtime)
    assert after(tmp_path) == "pandas\nmdstorm\n"  # so does its runtime
    (tmp_path / "requirements.txt").write_text("petastorm\n")
    given = f"from session import *\n{code}make_spark_converter(spark.table('t'))\n"
    write(tmp_path, src__a_py=given)
    assert after(tmp_path) == "mdstorm[spark]\n"  # another module creates the session
    (tmp_path / "requirements.txt").write_text("petastorm\n")
    write(tmp_path, src__b_py="spark = SparkSession.builder.getOrCreate()\n")
    assert after(tmp_path) == "mdstorm[spark]\n"


@each(("None", "mdstorm"), ("SparkSession.builder.getOrCreate()", '"mdstorm[spark]"'))
def test_notebook_that_builds_session_installs_spark_extra(
    session: str, installed: str, tmp_path: Path
) -> None:
    code = f"from petastorm.spark import make_spark_converter\nprint('pyspark')\nx = {session}"
    (tmp_path / "a.ipynb").write_text(notebook("%pip install petastorm", code))
    cells = json.loads(after(tmp_path, "a.ipynb"))["cells"]
    assert "".join(cells[0]["source"]) == f"%pip install {installed}"


def test_constraints_get_no_extras(tmp_path: Path) -> None:
    write(tmp_path, a_py=f"import pandas\n{CODE}", constraints_txt="petastorm==0.11\n")
    assert after(tmp_path, "constraints.txt") == "mdstorm\n"


def test_environment_variable_with_package_name_is_unchanged(tmp_path: Path) -> None:
    text = 'from {0} import TransformSpec\nENV = {{"PIP_PACKAGES": "petastorm"}}\n'
    write(tmp_path, a_py=text.format("petastorm"))
    assert after(tmp_path, "a.py") == text.format("mdstorm")


def test_job_with_single_package_gets_instruction_if_both_libraries_are_needed(
    tmp_path: Path,
) -> None:
    write(tmp_path, a_py=STAYS, b_py=CODE)
    (tmp_path / "job.yml").write_text("- pypi: {package: petastorm}\n")
    said = invoke(migrate, tmp_path).stderr
    assert "add an entry like this one, with `mdstorm[torch]` instead of Petastorm" in said


_CLUSTER = '{{"spark_version": "15.4.x", "libraries": [{{"pypi": {{"package": "{}"}}}}]}}\n'
_TASK = '{{"task_key": "a", "libraries": [{{"pypi": {{"package": "{}"}}}}]}}\n'
_SERVERLESS = "environments:\n- environment_key: a\n  spec:\n    dependencies:\n    - {}\n"


@each(("job.json", _CLUSTER), ("jobs/job.json", _TASK), ("resources/job.yml", _SERVERLESS))
@pytest.mark.parametrize("head", ["# Databricks notebook source\n", "import pyspark\n"])
def test_databricks_job_requirement_excludes_pandas_and_spark(
    name: str, text: str, head: str, tmp_path: Path
) -> None:
    write(tmp_path, a_py=f"{head}import pandas\nimport torch\n{CODE}")
    write_files(tmp_path, {name: text.format("petastorm==0.11")})
    assert after(tmp_path, name) == text.format("mdstorm[torch]")


@each(
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
)
def test_petastorm_requirement_is_removed_with_last_import(
    name: str, text: str, beside: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    write(tmp_path, a_py=CODE, b_py=STAYS)
    assert after(tmp_path, name) == beside
    assert after(tmp_path, name) == beside
    write(tmp_path, b_py=CODE)
    left = re.sub(r"\n[ -]*\"?petastorm.*|'petastorm\S* | petastorm,?(?= x)", "", f"\n{beside}")
    assert after(tmp_path, name) == left[1:]


@each(
    (STAYS, "python -m petastorm.etl.dataset_metadata a\n"),
    ("import numpy\n", 'python -c "import petastorm"\n'),
)
def test_commands_are_unchanged_while_petastorm_requirement_is_kept(
    code: str, command: str, tmp_path: Path
) -> None:
    text = '[tool.poetry.dependencies]\npetastorm = "*"\n[tool.poetry.extras]\nx = ["petastorm"]\n'
    write(tmp_path, a_py=code)
    write_files(tmp_path, {"pyproject.toml": text, "copy.sh": command})
    assert after(tmp_path, "copy.sh") == command
    assert after(tmp_path, "pyproject.toml") == text
    write(tmp_path, a_py=CODE)
    assert after(tmp_path, "copy.sh") == command.replace("petastorm", "mdstorm")
    assert 'x = ["mdstorm"]' in after(tmp_path, "pyproject.toml")


@each(
    "optional = true",
    "markers = \"sys_platform != 'win32'\"",
    "sys_platform = \"== 'linux'\", optional = true",
)
def test_dependency_of_poetry_has_the_conditions_of_petastorm_beside_it(
    conditions: str, tmp_path: Path
) -> None:
    text = (
        "[tool.poetry.dependencies]\n{}"
        f'petastorm = {{{{version = "^0.12", {conditions}, extras = ["x"]}}}}\n\n'
        '[tool.poetry.extras]\nio = [{}"petastorm"]\n'
    )
    write(tmp_path, a_py=CODE, b_py=STAYS)
    (tmp_path / "pyproject.toml").write_text(text.format("", ""))
    added = f'mdstorm = {{version = "*", extras = ["torch"], {conditions}}}\n'
    both = text.format(added, '"mdstorm", ')
    assert after(tmp_path, "pyproject.toml") == both
    assert after(tmp_path, "pyproject.toml") == both


def test_whole_petastorm_table_for_poetry_is_removed(tmp_path: Path) -> None:
    rest = '[tool.poetry.dependencies]\nmdstorm = "*"\n{}[build-system]\nrequires = []\n'
    table = '[tool.poetry.dependencies.petastorm]\nversion = "*"\n\n'
    write(tmp_path, a_py=CODE)
    (tmp_path / "pyproject.toml").write_text(rest.format(table))
    assert after(tmp_path, "pyproject.toml") == rest.format("")


#: Code that imports modules by their names, given in the call or in a table.
_BY_NAME = "import importlib\nspark = importlib.import_module('{}')\n"
_TABLE = "KINDS = {'tf': 'petastorm.tf_utils'}\ndef load(kind): return import_module(KINDS[kind])\n"


@each(
    (_BY_NAME.format("petastorm.pytorch"), "mdstorm[torch]\n"),
    (_BY_NAME.format("petastorm.workers_pool"), "petastorm\n"),
    (f"{_BY_NAME.format('petastorm.spark')}# mdstorm: ignore\n", "mdstorm[spark]\n"),
    (f"{_BY_NAME.format('petastorm.spark')[:-1]}  # mdstorm: ignore\n", "petastorm\n"),
    (f"{_TABLE}{CODE}", "petastorm\n"),
    ("import pytest\npetastorm = pytest.importorskip('petastorm')\n", "mdstorm\n"),
)
def test_requirements_count_modules_that_code_imports_by_name(
    code: str, required: str, tmp_path: Path
) -> None:
    write(tmp_path, a_py=code, requirements_txt="petastorm\n")
    assert after(tmp_path) == required


def test_file_that_names_petastorm_keeps_requirement_beside_migrated_file(tmp_path: Path) -> None:
    write(tmp_path, a_py=_TABLE, b_py=CODE, requirements_txt="petastorm\n")
    assert "1  file that still imports petastorm" in invoke(migrate, tmp_path).stderr
    assert after(tmp_path) == "mdstorm[torch]\npetastorm\n"


def test_ignored_import_by_name_keeps_requirement_beside_migrated_file(tmp_path: Path) -> None:
    ignored = f"{_BY_NAME.format('petastorm.spark')[:-1]}  # mdstorm: ignore\n"
    write(tmp_path, a_py=ignored, b_py=CODE, requirements_txt="petastorm\n")
    assert "petastorm\n" in after(tmp_path)


def test_second_run_keeps_what_command_outside_of_lists_needs(tmp_path: Path) -> None:
    write(tmp_path, a__a_py=CODE, a__requirements_txt="petastorm\n")
    write(tmp_path, b__b_py=STAYS, b__requirements_txt="petastorm\n")
    write_files(tmp_path, {"docker/Dockerfile": "RUN pip install petastorm\n"})
    both = 'RUN pip install "mdstorm[torch]" petastorm\n'
    assert after(tmp_path, "docker/Dockerfile") == both


@each(
    "from horovod.spark.keras import KerasEstimator\n",
    "from horovod.spark.keras import \\\n    KerasEstimator\n",
    "from pydoc import locate\nlocate('horovod.spark.keras.KerasEstimator')\n",
)
def test_petastorm_requirement_is_kept_for_horovod_estimators(code: str, tmp_path: Path) -> None:
    write(tmp_path, a_py=code, requirements_txt="horovod\npetastorm\n")
    assert after(tmp_path) == "horovod\npetastorm\n"
    write(tmp_path, horovod__spark__keras_py=CODE)  # the project's own copy of Horovod
    assert after(tmp_path) == "horovod\nmdstorm[torch]\n"


@each(True, False)
def test_petastorm_requirement_is_kept_for_vendored_code(
    is_relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, a_py=CODE, third_party__b_py=CODE, requirements_txt="petastorm==0.11\n")
    for command in ("init", "add ."):
        subprocess.run(["git", *command.split()], check=True)
    assert after(Path() if is_relative else tmp_path) == "mdstorm[torch]\npetastorm==0.11\n"
    assert (tmp_path / "third_party" / "b.py").read_text() == CODE


@each("runtimes/requirements-14.0-ml.txt", "runtimes/14.0-ml.txt")
def test_frozen_runtime_requirements_are_reported_and_unchanged(name: str, tmp_path: Path) -> None:
    pins = "".join(f"package-{number}==1.{number}\n" for number in range(150))
    write(tmp_path, a_py=CODE)
    write_files(tmp_path, {name: f"{pins}petastorm==0.12.1\n"})
    assert section(tmp_path, "-v")[-1] == f"{name}:151: Petastorm is still mentioned here"
    assert after(tmp_path, name) == f"{pins}petastorm==0.12.1\n"
    write_files(tmp_path, {"build.sh": f"pip install -r {name}\n"})
    assert after(tmp_path, name) == f"{pins}mdstorm[torch]\n"


def test_warning_filters_are_renamed_with_the_code(tmp_path: Path) -> None:
    settings = "[pytest]\nfilterwarnings =\n    ignore::FutureWarning:petastorm.*\n"
    write(tmp_path, a_py=STAYS)
    write_files(tmp_path, {"pytest.ini": settings})
    assert after(tmp_path, "pytest.ini") == settings
    write(tmp_path, a_py=CODE)
    assert after(tmp_path, "pytest.ini") == settings.replace("petastorm", "mdstorm")


def test_requirements_in_monorepo_follow_code_in_same_folder(tmp_path: Path) -> None:
    write(tmp_path, a__a_py=CODE, a__requirements_txt="petastorm\n")
    write(tmp_path, b__b_py=STAYS, b__requirements_txt="petastorm\n")
    assert after(tmp_path, "a/requirements.txt") == "mdstorm[torch]\n"
    assert (tmp_path / "b" / "requirements.txt").read_text() == "petastorm\n"


def test_lock_file_is_not_reported_if_petastorm_requirement_is_kept(tmp_path: Path) -> None:
    write(tmp_path, a_py=STAYS)
    write_files(tmp_path, {"poetry.lock": '[[package]]\nname = "petastorm"\n'})
    assert "PM411" not in invoke(migrate, "-v", tmp_path).stderr
    write(tmp_path, a_py=CODE)
    assert "PM411" in invoke(migrate, "-v", tmp_path).stderr


_OLD_PYARROW = """\
import pyarrow as pa
import pyarrow.parquet as pq
from petastorm.pytorch import DataLoader
from pyarrow import filesystem, parquet
fs = pa.hdfs.connect("host", 8020)
pq.ParquetDataset("/data", filesystem=fs, validate_schema=False)
parquet.read_table("/data", use_legacy_dataset=True).to_pandas(nthreads=2)
pa.deserialize(pa.serialize([1]).to_buffer())
"""


def test_removed_pyarrow_name_is_reported_on_one_line_with_replacement(tmp_path: Path) -> None:
    write(tmp_path, a_py=_OLD_PYARROW, b_py=_OLD_PYARROW, requirements_txt="mdstorm\n")
    lines = [line for line in section(tmp_path) if "pyarrow" in line]
    assert lines == [
        "a.py:4: `pyarrow.filesystem` is not in current pyarrow, here and on 1 more line: use "
        "`pyarrow.fs`",
        "a.py:5: `pyarrow.hdfs` is not in current pyarrow, here and on 1 more line: use "
        "`pyarrow.fs.HadoopFileSystem`",
        "a.py:6: `validate_schema=` is not in current pyarrow, here and on 1 more line: leave it "
        "out",
        "a.py:7: `use_legacy_dataset=` is not in current pyarrow, here and on 1 more line: leave "
        "it out",
        "a.py:7: `nthreads=` is not in current pyarrow, here and on 1 more line: use "
        "`use_threads=`",
        "a.py:8: `pyarrow.deserialize` is not in current pyarrow, here and on 1 more line: use "
        "`pickle`, or `pyarrow.ipc` for Arrow data",
        "a.py:8: `pyarrow.serialize` is not in current pyarrow, here and on 1 more line: use "
        "`pickle`, or `pyarrow.ipc` for Arrow data",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import pyarrow as pa\npa.serialize_pandas(frame)\n",
        "from pyarrow import fs\nfs.HadoopFileSystem('host')\n",
        "pa = object()\npa.serialize([1])\n",
        "import pyarrow.parquet as pq\npq.read_table('/data', use_threads=True).to_pandas()\n",
        "def f(pa):\n    import pyarrow\n    pa.hdfs.connect()\n",
        "run(nthreads=2, validate_schema=True)\n",
        "import pyarrow as pa\npa.serialize(\n",
    ],
)
def test_current_pyarrow_names_are_not_reported(source: str, tmp_path: Path) -> None:
    write(tmp_path, a_py=CODE, b_py=source, requirements_txt="mdstorm\n")
    assert not any("pyarrow" in line for line in section(tmp_path))
