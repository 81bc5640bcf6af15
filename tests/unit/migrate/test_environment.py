"""Unsupported versions of Python, Databricks Runtime and packages are found in any file."""

from pathlib import Path

from tests.kit.migrating import each

from mdstorm_migrate.environment import (
    Condition,
    conditions_of,
    required,
    supported_pythons,
    versions_in,
)
from mdstorm_migrate.sources import find_source


def broken(path: str, text: str, *extras: str) -> list[Condition]:
    """Return mdstorm's environment requirements that a file does not meet."""
    source = find_source(Path(path), text.encode())
    assert source is not None
    file = source.read(text.encode(), Path(path))
    versions = versions_in(file, file.documents)
    return list(conditions_of(Path(path), versions, required(frozenset(extras))))


def found(path: str, text: str, *extras: str) -> list[tuple[str, int | None]]:
    return [(one.subject, one.line) for one in broken(path, text, *extras)]


@each(
    ("Dockerfile", "# x\nFROM python:3.8-slim\n", 2),
    ("Dockerfile", "FROM registry.io/library/python:3.7\n", 1),
    ("Dockerfile", "FROM ubuntu\nRUN apt-get install -y \\\n  curl python3.8\n", 3),
    ("Dockerfile", "FROM rayproject/ray:2.9.3-py38\n", 1),
    ("job.yml", "image: host/pytorch-training:1.13.1-gpu-py39-cu117-ubuntu20.04\n", 1),
    ("ci.yml", "- task: UsePythonVersion@0\n  inputs:\n    versionSpec: '3.8'\n", 3),
    ("ci.yml", "matrix:\n  py39: {python.version: '3.9'}\n", 2),
    ("ci.yml", "image: python:3.8\n", 1),
    ("Jenkinsfile", "pipeline {\n  agent { docker { image 'python:3.8' } }\n", 2),
    ("devcontainer.json", '{\n  "image": "host/devcontainers/python:3.9"\n}\n', 2),
    ("python_env.yaml", 'python: "3.8.10"\n', 1),
    (".travis.yml", 'python:\n  - "3.8"\n  - "3.10"\n', 2),
    ("noxfile.py", '@nox.session(python=["3.9", "3.11"])\ndef f(session): ...\n', 1),
    ("ci.yml", "with:\n  python-version: '3.8'\n", 2),
    ("ci.yml", 'matrix:\n  python-version: ["3.8", "3.11"]\n', 2),
    ("ci.yml", "python-version:\n  - 3.9\n  - 3.12\n", 2),
    ("environment.yml", "dependencies:\n  - python=3.8\n", 2),
    ("environment.yml", "dependencies:\n  - python>=3.6,<3.9\n", 2),
    ("setup.sh", "conda create -n x python=3.7 pip\n", 1),
    ("setup.py", "setup(\n  python_requires='>=3.6,<3.9')\n", 2),
    ("setup.cfg", "[options]\npython_requires = ~=3.8.1\n", 2),
    ("pyproject.toml", '[project]\nrequires-python = "<3.10"\n', 2),
    ("pyproject.toml", '[tool.poetry.dependencies]\npython = "~3.8"\n', 2),
    ("setup.py", "setup(python_requires='>=3.6')\n", 1),
    ("setup.cfg", "[options]\npython_requires = >=3.8\n", 2),
    ("tox.ini", "[tox]\nenvlist = lint, py39-torch, py311\n", 2),
    ("tox.ini", "[tox]\nenv_list =\n    lint\n    py{39,311}\n", 4),
    ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.8"\n', 2),
    ("pyproject.toml", '[project]\nrequires-python = ">=3.9"\n', 2),
    (".python-version", "3.8.10\n", 1),
    ("runtime.txt", "python-3.9.1\n", 1),
)
def test_unsupported_python_is_reported(path: str, text: str, line: int) -> None:
    assert found(path, text) == [("python", line)]


@each(
    ("job.yml", "image: ray:2.9.3-py311\n- task: NodeTool@0\n  inputs: {versionSpec: '3.8'}\n"),
    ("Dockerfile", "FROM python:3.11\n# FROM python:3.8\n"),
    ("ci.yml", "python-version: ['3.10', '3.13']\n"),
    ("setup.py", "setup(python_requires='>=3.10')\n"),
    ("setup.cfg", "[options]\n# python_requires = <3.8\n"),
    ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.10"\n'),
    ("environment.yml", "dependencies:\n  - python>=3.8\n"),
    ("ci.yml", "run: python 3.8-script.py\n"),
    ("tox.ini", "[tox]\nenvlist = py3, py310, py{311,312}-x38\n[testenv]\ndeps = py39\n"),
    *(
        ("requirements.txt", f"numpy{pin}\n")
        for pin in ("==1.26.*", "~=1.19", ">=1,<=1.23.5", ">2", "")
    ),
    ("requirements.txt", "# numpy==1.19\nmy-numpy==1.0\nnumpy-x<1\n"),
)
def test_supported_python_and_numpy_are_not_reported(path: str, text: str) -> None:
    assert found(path, text) == []


def test_unsupported_databricks_runtime_is_reported() -> None:
    text = '{"new_cluster": {\n  "spark_version": "10.4.x-cpu-ml-scala2.12"}}'
    assert found("job.json", text) == [("runtime", 2)]
    assert found("job.json", text.replace("10.4", "15.4")) == []


@each(
    ("requirements.txt", "numpy==1.19.5\n"),
    ("requirements.txt", "numpy >=1.18, <1.23\n"),
    ("environment.yml", "dependencies:\n  - numpy=1.19=py38_0\n"),
    ("Dockerfile", "RUN pip install 'numpy~=1.19.0' petastorm\n"),
    ("setup.py", "setup(install_requires=['numpy<1.20'])\n"),
    ("pyproject.toml", '[tool.poetry.dependencies]\nnumpy = "~1.19"\n'),
    ("pyproject.toml", '[tool.poetry.dependencies]\nnumpy = {version = "1.19.5"}\n'),
    ("job.json", '{"pypi": {"package": "numpy==1.19"}}'),
)
def test_incompatible_pin_is_reported_and_newer_is_not(path: str, text: str) -> None:
    assert [one for one, _ in found(path, text)] == ["pin"]
    newer = text.replace("1.19", "1.26").replace("1.20", "1.27").replace("1.23", "2.5")
    assert found(path, newer) == []


def test_pin_for_unsupported_python_is_not_reported() -> None:
    text = 'pyarrow==1.0 ; python_version < "3.8"\npyarrow==1.0; python_version < "3.12"\n'
    assert found("requirements.txt", text) == [("pin", 2)]


def test_finding_quotes_pin_as_written() -> None:
    (one,) = broken("pyproject.toml", '[tool.poetry.dependencies]\nnumpy = "~1.19"\n')
    assert one.message.startswith('`numpy = "~1.19"`; mdstorm needs numpy')


def test_pin_of_extra_dependency_is_reported_only_if_extra_is_used() -> None:
    assert found("requirements.txt", "torch==1.7.1\n") == []
    assert found("requirements.txt", "torch==1.7.1\n", "torch") == [("pin", 1)]


def test_required_versions_match_metadata() -> None:
    assert "3.9" not in supported_pythons()
    assert "3.10" in supported_pythons()
    assert "torch" not in required(frozenset())
    assert "2.0.1" in required(frozenset({"torch"}))["torch"]
