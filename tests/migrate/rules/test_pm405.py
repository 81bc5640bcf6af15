"""Pipfile."""

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[packages]\npetastorm = "*"\n', '[packages]\nmdstorm = "*"\n'),
        ('[packages]\npetastorm = "==0.12.1"\n', '[packages]\nmdstorm = "*"\n'),
        (
            '[dev-packages]\n"petastorm" = {extras = ["torch"], version = "==0.9"}\n',
            '[dev-packages]\n"mdstorm" = {extras = ["torch"], version = "*"}\n',
        ),
    ],
)
def test_packages_are_renamed(before: str, after: str) -> None:
    check_rewrite(before, after, "Pipfile")


def test_scripts_stay() -> None:
    check_noop('[scripts]\npetastorm = "python x.py"\n', "Pipfile")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('[packages]\npetastorm = {git = "https://github.com/uber/petastorm.git"}\n', "Pipfile"),
        ('[packages]\npetastorm = {path = "../fork"}\n', "Pipfile"),
        (
            "[tool.poetry.dependencies.petastorm]\n"
            'git = "https://github.com/uber/petastorm.git"\nrev = "master"\n',
            "pyproject.toml",
        ),
    ],
)
def test_a_repository_is_spoken_of_once(text: str, path: str) -> None:
    assert len(migrate(text, path=path).findings) == 1
