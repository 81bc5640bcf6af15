"""Lists, installs and code of projects whose only hosts are too old for mdstorm."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.migrate.checks import invoke
from tests.migrate.run.written import after

from mdstorm_migrate.cli.migrate import migrate

pytestmark = pytest.mark.usefixtures("inside")

CODE = "from petastorm import make_reader\n"
MOVED = CODE.replace("petastorm", "mdstorm")
LIST = "petastorm==0.12.1\n"
OLD_JOB = "tasks:\n  - new_cluster:\n      spark_version: 12.2.x-cpu-ml-scala2.12\n"
NEW_JOB = OLD_JOB.replace("12.2", "14.3")
NOTEBOOK = (
    "# Databricks notebook source\n# MAGIC %pip install petastorm==0.12.1\n\n"
    f"# COMMAND ----------\n\n{CODE}"
)
OLD_IMAGE = "FROM python:3.8-slim\n"
STAGES = (
    "FROM python:3.9-slim AS lint\nRUN pip install flake8\n"
    "FROM python:3.11-slim\nCOPY requirements.txt .\nRUN pip install -r requirements.txt\n"
)
DAG = """run = DatabricksSubmitRunOperator(
    task_id="train",
    json={"new_cluster": {"spark_version": "11.3.x-scala2.12"}},
)
"""
SDK = 'cluster = ClusterSpec(spark_version="11.3.x-gpu-ml-scala2.12", num_workers=2)\n'


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("job.yml", OLD_JOB),
        ("cluster.json", '{"spark_version": "10.4.x-scala2.12"}\n'),
        ("Dockerfile", "FROM python:3.8-slim\n"),
        ("Dockerfile", "FROM python:3.8-slim\nCOPY . /app\nWORKDIR /app\n"),
        (".github/workflows/ci.yml", "strategy: {matrix: {python: ['3.7', '3.8']}}\n"),
        ("tox.ini", "[tox]\nenvlist = py37,py38,lint\n"),
        ("deploy.yml", "image: pytorch/pytorch:1.7.1-cuda11.0-cudnn8-runtime\n"),
        ("dag.py", DAG),
        ("launch.py", SDK),
        ("pipeline.py", '@dsl.component(base_image="python:3.8")\ndef train(): ...\n'),
        ("pipeline.py", 'B = "python:3.8"\n@dsl.component(base_image=B)\ndef train(): ...\n'),
    ],
)
def test_what_an_old_host_runs_waits_with_it(host: str, text: str) -> None:
    files = {
        host: text,
        "requirements.txt": LIST,
        "init/setup.sh": "pip install petastorm==0.12.1\n",
        "libraries.json": '{"libraries": [{"pypi": {"package": "petastorm==0.12.1"}}]}\n',
        "src/train.py": CODE,
        "src/nb.py": NOTEBOOK,
    }
    changed = after(files)
    assert {name: changed[name] for name in files if name != host} == {
        name: files[name] for name in files if name != host
    }
    changed = after(files, "--unsafe")
    assert changed["requirements.txt"] == "mdstorm\n"
    assert changed["src/train.py"] == MOVED
    assert "%pip install mdstorm" in changed["src/nb.py"]
    if not host.endswith(".json"):  # which has no comments
        assert changed[host] != text  # a newer Python, or a TODO


@pytest.mark.parametrize(
    "files",
    [
        {"old.yml": OLD_JOB, "new.yml": NEW_JOB},
        {"ci.yml": "python-version: ['3.8', '3.11']\n"},
        {"tox.ini": "[tox]\nenvlist = py38,py311\n"},
        {
            "tests/test_image.py": 'IMAGE = "python:3.7"\n',
            "notes.txt": "python3.8 -m pip install x\n",
        },
        {".pre-commit-config.yaml": "default: {language_version: python3.8}  # pip\n"},
        {"old/requirements.txt": LIST, "old/Dockerfile": "FROM python:3.8\n"},
        {"old/environment.yml": "dependencies: \n- python=3.8\n- pip:\n  - petastorm\n"},
    ],
    ids=["two jobs", "matrix", "tox", "tests", "tools", "other folder", "other environment"],
)
def test_one_host_that_is_new_enough_lets_a_list_move(files: dict[str, str]) -> None:
    changed = after({**files, "requirements.txt": LIST, "src/train.py": CODE})
    assert changed["requirements.txt"] == "mdstorm\n"
    assert changed["src/train.py"] == MOVED


@pytest.mark.parametrize(
    "files",
    [
        {
            "old/requirements.txt": "flask\n",
            "old/Dockerfile": f"{OLD_IMAGE}RUN pip install flask\n",
        },
        {"old/requirements.txt": "x\n", "Dockerfile": f"{OLD_IMAGE}COPY old .\nCMD gunicorn x\n"},
        {"old/Dockerfile": f"{OLD_IMAGE}COPY . .\n", "old/.python-version": "3.8.12\n"},
        {"jobs/job.yml": OLD_JOB},
        {"job.yml": f"{OLD_JOB}      python_file: other.py\n", "other.py": "print(1)\n"},
        {".gitlab-ci.yml": "image: python:3.8\nscript:\n  - flake8\n"},
        {"lint.sh": "python3.8 -m pip install flake8\nflake8 src/train.py\n"},
        {"Dockerfile": STAGES},
    ],
    ids=["service", "copied", "versions", "job", "program", "linter", "script", "stage"],
)
def test_an_old_host_that_runs_nothing_of_the_project_is_left_alone(files: dict[str, str]) -> None:
    changed = after({**files, "requirements.txt": LIST, "src/train.py": CODE}, "--unsafe")
    assert changed == {**files, "requirements.txt": "mdstorm\n", "src/train.py": MOVED}
    Path("requirements.txt").write_text(LIST)
    Path("src/train.py").write_text(CODE)
    assert after(files) == files
    assert Path("requirements.txt").read_text() == "mdstorm\n"
    assert Path("src/train.py").read_text() == MOVED


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("docker/Dockerfile", f'{OLD_IMAGE}COPY . .\nCMD ["python", "/app/src/train.py"]\n'),
        ("docker/Dockerfile", f"{OLD_IMAGE}CMD python -m src.train\n"),
        ("jobs/job.yml", f"{OLD_JOB}  spark_python_task: {{python_file: ../src/train.py}}\n"),
        (".github/workflows/a.yml", "container: {image: 'python:3.8'}\nrun: bash bin/run.sh\n"),
        ("dags/dag.py", f'{DAG}notebook_path = "src/train"\n'),
    ],
)
def test_a_program_waits_for_the_old_python_that_runs_it(host: str, text: str) -> None:
    files = {
        host: text,
        "requirements.txt": LIST,
        "bin/run.sh": "python src/train.py\n",
        "src/train.py": "import readers\n",
        "src/readers.py": CODE,
        "src/other.py": CODE,
    }
    changed = after(files)
    assert changed["src/readers.py"] == CODE
    assert changed["src/other.py"] == MOVED
    assert changed["requirements.txt"] == "mdstorm\n"
    assert after(files, "--unsafe")["src/readers.py"] == MOVED


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("docker/Dockerfile", f"{OLD_IMAGE}COPY requirements.txt /tmp/\n"),
        ("docker/Dockerfile", f"{OLD_IMAGE}RUN pip install -r requirements.txt\n"),
        ("ci/job.yml", "image: python:3.8\nscript:\n  - pip install -r requirements.txt\n"),
        (".gitlab-ci.yml", "image: python:3.8\nscript:\n  - pytest\n"),
        ("Dockerfile", STAGES.replace("3.11", "3.8")),
    ],
)
def test_a_list_and_its_code_wait_for_the_old_python_that_installs_it(host: str, text: str) -> None:
    files = {host: text, "requirements.txt": LIST, "src/train.py": CODE}
    assert after(files) == files


def test_a_project_waits_for_the_image_that_has_it_editable() -> None:
    setup = 'setup(name="x", install_requires=["petastorm"])\n'
    image = f"{OLD_IMAGE}COPY . /src\nRUN pip install -e /src\n"
    files = {"docker/Dockerfile": image, "setup.py": setup, "x/a.py": CODE}
    assert after(files) == files


def test_libraries_wait_for_the_runtimes_of_the_jobs_below() -> None:
    libraries = '{"libraries": [{"pypi": {"package": "petastorm==0.12.1"}}]}\n'
    files = {"jobs/job.yml": OLD_JOB, "one.json": libraries, "b/two.json": libraries}
    changed = after(files)
    assert changed["one.json"] == libraries
    assert "mdstorm" in changed["b/two.json"]


def test_code_that_no_list_serves_waits_for_its_host() -> None:
    files = {"job.yml": OLD_JOB, "src/train.py": CODE}
    assert after(files)["src/train.py"] == CODE
    done = invoke(migrate, "-v", "--no-diff", "-j", "1", ".")
    assert "`job.yml` runs a Python that mdstorm does not" in done.stdout + done.stderr
    assert after(files, "--unsafe")["src/train.py"] == MOVED
    Path("job.yml").write_text(NEW_JOB)
    Path("src/train.py").write_text(CODE)
    assert after({"src/train.py": CODE})["src/train.py"] == MOVED


def test_code_that_names_its_own_old_image_waits() -> None:
    pipeline = f'@component(base_image="python:3.8")\ndef train():\n    {CODE}'
    changed = after({"pipeline.py": pipeline})["pipeline.py"]
    assert CODE in changed
    assert "TODO(mdstorm): PM412" in changed


def test_a_notebook_and_an_init_script_wait_for_the_job_that_names_them() -> None:
    names = "  notebook_task: {notebook_path: ../src/a}\n  destination: /Shared/init/a.sh\n"
    files = {
        "jobs/a.yml": f"{OLD_JOB}{names}",
        "jobs/b.yml": f"{NEW_JOB}{names.replace('/a', '/b')}",
        "src/a.py": NOTEBOOK,
        "src/b.py": NOTEBOOK,
        "init/a.sh": "pip install petastorm\n",
        "init/b.sh": "pip install petastorm\n",
    }
    changed = after(files)
    assert changed["src/a.py"] == NOTEBOOK
    assert "%pip install mdstorm" in changed["src/b.py"]
    assert changed["init/a.sh"] == "pip install petastorm\n"
    assert changed["init/b.sh"] == "pip install mdstorm\n"


def test_a_list_waits_with_the_code_that_it_is_for() -> None:
    files = {
        "run.sbatch": "#!/bin/bash\nmodule load python/3.8\nsrun python train.py\n",
        "requirements.txt": LIST,
        "train.py": CODE,
    }
    changed = after(files)
    assert changed["train.py"] == CODE
    assert changed["requirements.txt"] == LIST
    assert after({**files, "other.py": CODE})["requirements.txt"] == "mdstorm\n"


@pytest.mark.parametrize("name", ["requirements.txt", "Makefile", "src/requirements.txt"])
def test_a_list_keeps_petastorm_for_code_that_names_an_old_python_itself(name: str) -> None:
    pipe = f'{CODE}op = create_component_from_func(run, base_image="python:3.7")\n'
    text = "deps:\n\tpip install petastorm==0.11.4\n" if name == "Makefile" else LIST
    files = {name: text, "src/p/pipe.py": pipe}
    assert after(files)[name] == text
    both = after({**files, "src/q/train.py": CODE})
    assert both["src/q/train.py"] == MOVED
    assert "mdstorm" in both[name]
    assert "petastorm==" in both[name]


def test_a_notebook_waits_where_the_clusters_of_the_project_are_too_old() -> None:
    cluster = '{"spark_version": "%s", "libraries": [{"pypi": {"package": "petastorm"}}]}\n'
    old = after({"conf/cluster.json": cluster % "13.3.x-gpu-ml-scala2.12", "nb/a.py": NOTEBOOK})
    assert old["nb/a.py"] == NOTEBOOK
    new = after({"conf/cluster.json": cluster % "14.3.x-gpu-ml-scala2.12", "nb/a.py": NOTEBOOK})
    assert "%pip install mdstorm" in new["nb/a.py"]


@pytest.mark.parametrize(
    "files",
    [
        {"Pipfile": '[packages]\npetastorm = "*"\n[requires]\npython_version = "3.8"\n'},
        {"requirements.txt": LIST, ".python-version": "3.8\n"},
        {"requirements.txt": f"{LIST}-c limits.txt\n", "limits.txt": "numpy==1.20\n"},
    ],
    ids=["pipfile", "python", "pin"],
)
def test_an_image_is_told_beside_what_else_holds_a_list(files: dict[str, str]) -> None:
    copied = next(iter(files))
    files |= {"Dockerfile": f"{OLD_IMAGE}COPY {copied} .\n", "src/train.py": CODE}
    assert after(files) == files
    changed = after(files, "--unsafe")
    assert "python:3.10-slim" in changed["Dockerfile"]
    assert "3.8" not in changed[copied] + changed.get(".python-version", "")
    newer = {**files, "Dockerfile": files["Dockerfile"].replace("3.8", "3.11")}
    assert after(newer, "--unsafe")["Dockerfile"] == newer["Dockerfile"]


@pytest.mark.parametrize("command", ["poetry install", "uv sync --dev", "tox", "uv run pytest"])
def test_pythons_of_a_job_that_installs_the_project_by_other_tools_are_found(command: str) -> None:
    job = f"matrix:\n  python: ['3.8', '3.10']\nsteps:\n  - run: {command}\n"
    project = '[project]\nname = "a"\ndependencies = ["petastorm"]\n'
    files = {".github/workflows/ci.yml": job, "pyproject.toml": project, "a.py": CODE}
    changed = after(files, "--unsafe")
    assert "python: ['3.10']" in changed[".github/workflows/ci.yml"]


@pytest.mark.parametrize("command", ["tox -e lint", "# poetry install", "uv sync-docs"])
def test_other_commands_install_no_project(command: str) -> None:
    job = f"matrix:\n  python: ['3.8', '3.10']\nsteps:\n  - run: {command}\n"
    project = '[project]\nname = "a"\ndependencies = ["petastorm"]\n'
    files = {".github/workflows/ci.yml": job, "pyproject.toml": project, "a.py": CODE}
    assert after(files, "--unsafe")[".github/workflows/ci.yml"] == job


def test_an_old_runtime_is_told_of_until_it_is_newer() -> None:
    job = '{{"spark_version": "{}.x-scala2.12", "libraries": [{{"pypi": {{"package": "{}"}}}}]}}\n'
    Path("job.json").write_text(job.format("12.2", "petastorm"))
    Path("a.py").write_text(CODE)
    assert invoke(migrate, ".", "-w", "--unsafe").exit_code == 0
    assert Path("job.json").read_text() == job.format("12.2", "mdstorm")
    result = invoke(migrate, ".", "--check")
    assert result.exit_code == 1
    assert "job.json:1:" in result.output
    Path("job.json").write_text(job.format("15.4", "mdstorm"))
    assert invoke(migrate, ".", "--check").exit_code == 0
