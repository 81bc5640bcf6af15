"""Pins beside mdstorm."""

import json

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "requirements.txt",
            "numpy==1.20.3\npetastorm==0.12.1\npyarrow<11  # parquet\n",
            "numpy>=1.23.5,<2\nmdstorm\npyarrow>=14.0.1  # parquet\n",
        ),
        (
            "pyproject.toml",
            '[project]\nrequires-python = ">=3.7"\ndependencies = [\n'
            '    "click==7.1.2",\n    "petastorm==0.9",\n]\n',
            '[project]\nrequires-python = ">=3.10"\ndependencies = [\n'
            '    "click>=8.0.4",\n    "mdstorm",\n]\n',
        ),
        (
            "setup.py",
            'setup(python_requires=">=3.7", install_requires=["petastorm", "numpy<1.22"])\n',
            'setup(python_requires=">=3.10", install_requires=["mdstorm", "numpy>=1.23.5,<2"])\n',
        ),
        (
            "environment.yml",
            "dependencies:\n  - python=3.8\n  - numpy=1.20\n  - pip:\n    - petastorm\n",
            "dependencies:\n  - python=3.10\n  - numpy>=1.23.5,<2\n  - pip:\n    - mdstorm\n",
        ),
        (
            "Dockerfile",
            "FROM python:3.8-slim\nRUN pip install petastorm==0.12 pyarrow==8.0.0\n",
            'FROM python:3.10-slim\nRUN pip install mdstorm "pyarrow>=14.0.1"\n',
        ),
        (
            ".github/workflows/ci.yml",
            "        python-version: 3.8\n      - run: pip install petastorm\n",
            '        python-version: "3.10"\n      - run: pip install mdstorm\n',
        ),
        (
            "tox.ini",
            "[tox]\nenvlist = py38, py311\n[testenv]\ndeps =\n    petastorm\n",
            "[tox]\nenvlist = py311\n[testenv]\ndeps =\n    mdstorm\n",
        ),
        (
            "requirements.txt",
            "petastorm[torch]\ntorchvision==0.14.1\n",
            "mdstorm[torch]\ntorchvision>=0.15.2,<1\n",
        ),
    ],
)
def test_a_pin_that_conflicts_gives_way_together_with_petastorm(
    path: str, before: str, after: str
) -> None:
    check_rewrite(before, after, path, unsafe=True)
    check_noop(before, path)


@pytest.mark.parametrize(
    "text",
    [
        "petastorm\nnumpy>=1.19\npandas==1.1.5\ntorch==1.13.1\n",
        "petastorm\nmlflow==1.20.2\nflask>=1\nscipy==1.8.1\n",
        'petastorm\nnumpy==1.19.5; python_version < "3.8"\n',
        "petastorm\n# numpy==1.20\nnumpy-financial==1.0\nnumpy==${NUMPY}\n",
    ],
)
def test_others_stay(text: str) -> None:
    assert migrate(text, path="requirements.txt").output == text.replace("petastorm", "mdstorm")


def test_pins_without_petastorm_are_none_of_ours() -> None:
    check_noop("# no petastorm here\nnumpy==1.20\n".replace("petastorm", "p"), "requirements.txt")


@pytest.mark.parametrize(
    ("path", "text", "fragment"),
    [
        (
            "job.yml",
            "spark_version: 10.4.x-scala2.12\nlibraries:\n- pypi: {package: petastorm==0.9}\n",
            "10.4",
        ),
        ("requirements.txt", "petastorm[tf]\ntensorflow-gpu==2.4.1\n", "==2.4.1"),
    ],
)
def test_what_only_the_user_can_tell_is_a_finding(path: str, text: str, fragment: str) -> None:
    check_finding(text, "PM412", fragment, path)
    check_noop(text, path)


def test_markers_of_old_pythons_keep_petastorm() -> None:
    check_noop('petastorm==0.9; python_version < "3.8"\n', "requirements.txt")


@pytest.mark.parametrize(
    "environment",
    [
        'ray.init(runtime_env={"pip": PINS})\n',
        'runtime_env = {"env_vars": {}, "pip": PINS}\n',
        "component(packages_to_install=PINS)\n",
    ],
)
def test_lists_of_packages_in_code_are_read_with_what_the_code_uses(environment: str) -> None:
    pins = '["petastorm==0.12.1", "torch==1.13.1", "pyarrow==10.0.1", "tensorflow==2.9.0"]'
    text = "from petastorm.pytorch import DataLoader\n" + environment.replace("PINS", pins)
    result = migrate(text, path="train.py")
    spans = [text[one.start : one.stop] for one in result.findings if one.rule == "PM412"]
    assert spans == ["==1.13.1", "==10.0.1", "==2.9.0"]
    notes = [text[one.start : one.stop] for one in result.findings if one.cls == "note"]
    assert notes == ["==2.9.0"]  # the code does not use that part


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ('REQUIRED = ["petastorm==0.11.4", "pyarrow>=1,<3"]\nrun(REQUIRED)\n', True),
        ('setup(install_requires=("petastorm[torch]", "pyarrow<3"))\n', True),
        ('NAMES = ["petastorm", "pyarrow<3"]\n', False),
        ('NAMES = ["petastorm", "pyarrow<3"]\nray.init(runtime_env={"pip": NAMES})\n', True),
        ('NAMES = ["petastorm", "pyarrow<3"]\nsetup(install_requires=NAMES)\n', True),
        ('A = ["petastorm==0.11.4"]\nB = ["pyarrow<3"]\n', False),
        ('A = ["petastorm==0.11.4", "pyarrow<20"]\n', False),
    ],
)
def test_lists_in_code_with_a_version_of_petastorm_are_read(text: str, is_told: bool) -> None:
    findings = migrate(text, path="trainer.py").findings
    assert any(one.rule == "PM412" for one in findings) == is_told


def test_a_dictionary_that_lists_no_packages_pins_nothing() -> None:
    text = 'a = ["petastorm==0.12.1"]\nb = {"seen": ["pyarrow==10.0.1"], "pip": "pyarrow==1.0"}\n'
    assert not [one for one in migrate(text, path="a.py").findings if one.rule == "PM412"]


def test_pythons_of_nox() -> None:
    text = """import nox
@nox.session(tags=["x"], python=["3.9", "3.11"])
def tests(session):
    session.install("petastorm==0.12.1")
"""
    check_finding(text, "PM412", '"3.9", "3.11"', "noxfile.py")
    newer = text.replace("3.9", "3.12")
    assert "PM412" not in {one.rule for one in migrate(newer, path="noxfile.py").findings}


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize(
    ("path", "head"),
    [("pyproject.toml", "tool.poetry.dependencies"), ("Pipfile", "packages")],
)
@pytest.mark.parametrize(
    ("extra", "pin", "needed"),
    [("torch", 'torch = "^1.12"', ">=2.0.1"), ("tf", 'tensorflow = "~2.10"', ">=2.14.1,<3")],
)
def test_extras_in_tables_count(
    path: str, head: str, table: bool, extra: str, pin: str, needed: str
) -> None:
    before = f'[{head}]\n{pin}\npetastorm = {{version = "^0.11", extras = ["{extra}"]}}\n'
    if table:
        before = f'[{head}]\n{pin}\n[{head}.petastorm]\nversion = "0.11"\nextras = ["{extra}"]\n'
    check_noop(before, path)
    after = migrate(before, path=path, unsafe=True).output
    assert f'= "{needed}"' in after
    assert "petastorm" not in after


def test_pins_of_parts_that_no_code_uses_are_noted() -> None:
    text = "petastorm==0.11.4\npyspark==3.2.1\ntensorflow==2.8.0\ntorch==1.12\n"
    result = check_rewrite(text, text.replace("petastorm==0.11.4", "mdstorm"), "requirements.txt")
    assert [(one.cls, one.message) for one in result.findings if one.rule == "PM412"] == [
        ("note", "mdstorm's Spark part needs pyspark>=3.5, if the code uses it"),
        ("note", "mdstorm's TensorFlow part needs tensorflow>=2.14.1, if the code uses it"),
        ("note", "mdstorm's PyTorch part needs torch>=2.0.1, if the code uses it"),
    ]


def test_a_pin_of_spark_conflicts_where_the_same_code_writes_with_it() -> None:
    text = """def write():
    from petastorm.etl.dataset_metadata import materialize_dataset

PythonVirtualenvOperator(python_callable=write, requirements=["petastorm", "pyspark==3.2.1"])
"""
    check_finding(text, "PM412", "==3.2.1", "dag.py")


def test_the_python_of_an_environment_in_code_is_told() -> None:
    text = """from petastorm import make_reader
conda_env = {"dependencies": ["python=3.8.10", "pip", {"pip": ["petastorm==0.11.4"]}]}
"""
    result = migrate(text, path="log.py")
    (finding,) = [one for one in result.findings if one.rule == "PM412"]
    assert result.source[finding.start : finding.stop] == "=3.8.10"
    assert "from mdstorm import" in result.output  # the code itself runs elsewhere
    newer = migrate(text.replace("=3.8.10", ">=3.8,<3.12"), path="log.py")
    assert "PM412" not in {one.rule for one in newer.findings}


def test_a_range_of_pythons_is_refused_by_those_that_resolve_for_all_of_it() -> None:
    for spec, who in ((">=3.8", "Poetry, uv and PDM"), ("<3.10", "no installer")):
        text = f'[project]\nrequires-python = "{spec}"\ndependencies = ["petastorm"]\n'
        said = [one.message for one in migrate(text, path="pyproject.toml").findings]
        assert any(f"or newer: {who}" in one for one in said)


def test_a_comment_requires_nothing() -> None:
    check_silence("# petastorm is vendored\npyarrow==8.0.0\n", "requirements.txt")


@pytest.mark.parametrize(
    "place",
    ["pip_packages=[{}]", "f(conda_packages=[{}])", "c.add_pip_package({})", "{{'pypi': [{}]}}"],
)
def test_pins_in_arguments_that_list_packages_are_told(place: str) -> None:
    call = place if "(" in place or "{{" in place else f"f({place})"
    text = call.format('"petastorm==0.12.0", "pyarrow==3.0.0"') + "\n"
    check_finding(text, "PM412", "==3.0.0", "submit.py")


@pytest.mark.parametrize(
    ("tag", "is_old"),
    [
        ("9.x", True),
        ("10.4-LTS", True),
        ("8.x-gpu", True),
        ("13.x", True),
        ("14.x", False),
        ("14.3-LTS", False),
    ],
)
def test_images_of_runtimes_without_a_minor_version_count(tag: str, is_old: bool) -> None:
    text = f"FROM databricksruntime/standard:{tag}\nRUN pip install petastorm\n"
    result = migrate(text, path="Dockerfile", todo=False)
    assert [one.cls for one in result.findings if one.rule == "PM412"] == ["manual"] * is_old
    assert ("mdstorm" in result.output) is not is_old


@pytest.mark.parametrize(
    ("version", "is_told"), [("3.6.9", True), ("2.7.15+", True), ("3.10.4", False), ("", False)]
)
def test_an_old_python_that_a_notebook_was_run_with_is_noted(version: str, is_told: bool) -> None:
    cell = {"cell_type": "code", "source": "from petastorm import make_reader\n"}
    metadata = {"language_info": {"name": "python", "version": version}}
    text = json.dumps({"cells": [cell], "metadata": metadata, "nbformat": 4}, indent=1)
    result = migrate(text, path="n.ipynb")
    assert result.changed
    found = [one for one in result.findings if one.rule == "PM412"]
    assert [one.cls for one in found] == ["note"] * is_told
    for one in found:
        assert f'"version": "{version}"' in text.splitlines()[one.line - 1]
