"""Definitions of clusters and jobs."""

import pytest
from tests.migrate.checks import check_noop, check_rewrite


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"package":"petastorm[tf]<1", "e": 1}', '{"package":"mdstorm[tf]", "e": 1}'),
        ('{"dependencies": ["petastorm", "numpy"]}', '{"dependencies": ["mdstorm", "numpy"]}'),
    ],
)
def test_json_is_rewritten(before: str, after: str) -> None:
    check_rewrite(before, after, "job.json", unsafe=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- pypi: {package: petastorm==1.0}\n", "- pypi: {package: mdstorm}\n"),
        ('- pypi:\n    package: "petastorm"  # c\n', '- pypi:\n    package: "mdstorm"  # c\n'),
        ("requirements:\n  - petastorm==0.1\n  - a\n", "requirements:\n  - mdstorm\n  - a\n"),
        ("run: |\n  pip install petastorm\n", "run: |\n  pip install mdstorm\n"),
    ],
)
def test_yaml_is_rewritten(before: str, after: str) -> None:
    check_rewrite(before, after, "databricks.yml", unsafe=True)


@pytest.mark.parametrize(
    "text",
    ["name: petastorm\n", "format: petastorm\n", "paths:\n  - petastorm\n"],
)
def test_values_that_are_only_called_so_stay(text: str) -> None:
    check_noop(text, "conf.yaml")


@pytest.mark.parametrize("text", ["package: petastorm\n", '[{"package": "petastorm"}]\n'])
def test_packages_that_are_no_libraries_stay(text: str) -> None:
    check_noop(text, "mkdocs.yml")


@pytest.mark.parametrize(
    "text",
    [
        'script: ["pip install {}", "pytest -m petastorm"]\n',
        'script: ["pip install a", "pytest -m petastorm", "pip install {}"]\n',
        'command: ["pip", "install", "numpy", "{}"]\n',
    ],
)
def test_strings_of_a_list_are_commands_or_words_of_one(text: str) -> None:
    check_rewrite(text.format("petastorm==0.12.1"), text.format("mdstorm"), ".gitlab-ci.yml")


@pytest.mark.parametrize(
    "text",
    [
        "script:\n  - pytest -m petastorm\n",
        "- name: import petastorm\n",
        "v: petastorm\nlibraries:\n  - whl: /x/petastorm.whl\n",
    ],
)
def test_other_values_stay(text: str) -> None:
    check_noop(text, "ci.yml", unsafe=True)
