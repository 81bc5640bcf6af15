"""Conda's environments."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate

PATH = "environment.yml"


def test_what_pip_installs_is_renamed() -> None:
    check_rewrite(
        'dependencies:\n  - pip:\n    - petastorm==0.11.3  # why\n    - "petastorm[tf]>=0.9"\n',
        'dependencies:\n  - pip:\n    - mdstorm  # why\n    - "mdstorm[tf]"\n',
        PATH,
    )


@pytest.mark.parametrize("item", ["petastorm=0.11", "petastorm", "conda-forge::petastorm"])
def test_what_conda_installs_has_to_move(item: str) -> None:
    text = f"dependencies:\n  - pip:\n    - numpy\n  - {item}\n"
    check_finding(text, "PM404", "petastorm", PATH)


def test_names_that_only_contain_it_are_left_alone() -> None:
    text = "name: petastorm\ndependencies:\n  - pip:\n    - petastorm-extra\n    - my-petastorm\n"
    check_rewrite(text, text, PATH)


def test_a_comment_stands_under_the_dash_of_its_item() -> None:
    text = "dependencies:\n  - petastorm\n"
    output = migrate(text, path=PATH).output
    assert output.startswith("dependencies:\n  # TODO(mdstorm): PM404: take")
    assert output.endswith("\n  - petastorm\n")


def test_lists_in_brackets_are_read_as_others() -> None:
    check_rewrite(
        'dependencies:\n  - pip: [petastorm-tools==1.0, "petastorm [tf] >=0.12"]\n',
        'dependencies:\n  - pip: [petastorm-tools==1.0, "mdstorm[tf]"]\n',
        PATH,
    )
    check_rewrite(
        "dependencies: [python, {pip: [petastorm==0.1, x]}]\n",
        "dependencies: [python, {pip: [mdstorm, x]}]\n",
        PATH,
    )
    text = 'dependencies: [python, "conda-forge::petastorm=0.12"]  # [petastorm]\n'
    (found,) = check_noop(text, PATH).findings
    assert (found.rule, found.cls) == ("PM404", "manual")
