"""Pipfile."""

import pytest
from tests.migrate.checks import check_noop, check_rewrite


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
