"""``Pipfile``."""

from tests.migrate.checks import check_finding, check_noop, check_rewrite


def test_packages_are_renamed_and_scripts_install_the_same() -> None:
    before = (
        '[packages]\npetastorm = "==0.12.1"\nnumpy = "<1.20"\n\n'
        '[dev-packages]\npetastorm = {version = "*", extras = ["tf"]}\n\n'
        '[scripts]\npetastorm = "pip install petastorm"\n'
    )
    after = (
        '[packages]\nmdstorm = "*"\nnumpy = "<1.20"\n\n'
        '[dev-packages]\nmdstorm = {version = "*", extras = ["tf"]}\n\n'
        '[scripts]\npetastorm = "pip install mdstorm"\n'
    )
    check_rewrite(before, after, "Pipfile")


def test_a_repository_needs_manual_review() -> None:
    text = '[packages]\npetastorm = {git = "https://host/petastorm.git"}\n'
    check_noop(text, "Pipfile")
    check_finding(text, "PM405", "petastorm", "Pipfile")
