"""Environments and recipes of conda."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

ENVIRONMENT = """\
name: train
dependencies:
  - python=3.8
  - pip
  - pip:
    - {}
    - numpy==1.19
"""


@pytest.mark.parametrize("path", ["environment.yml", "conda.yaml", "train-env.yml"])
@pytest.mark.parametrize("item", ["{}", '"{}"'])
def test_what_pip_installs_is_renamed(path: str, item: str) -> None:
    before, after = item.format("petastorm[torch]>=0.9"), item.format("mdstorm[torch]")
    check_rewrite(ENVIRONMENT.format(before), ENVIRONMENT.format(after), path)


@pytest.mark.parametrize("item", ["petastorm=0.12", "conda-forge::petastorm", "petastorm"])
def test_what_conda_installs_has_to_move_to_pip(item: str) -> None:
    text = f"dependencies:\n  - {item}\n  - pip:\n    - numpy\n"
    check_noop(text, "environment.yml")
    fragment = item.partition("::")[2] or item.partition("=")[0]
    check_finding(text, "PM404", fragment, "environment.yml")


def test_a_recipe_cannot_require_what_only_pip_has() -> None:
    text = "package:\n  name: x\nrequirements:\n  run:\n    - petastorm >=0.9\n"
    check_noop(text, "meta.yaml")
    check_finding(text, "PM404", "petastorm >=0.9", "meta.yaml")


@pytest.mark.parametrize(
    "text", ["name: petastorm\n", "# - petastorm\n", "prefix: /envs/petastorm\n"]
)
def test_other_lines_stay(text: str) -> None:
    check_noop(text, "environment.yml")
