"""Parts of modules that are looked up at run time."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("import petastorm.pytorch as p\ngetattr(p, name)\n", "p"),
        ("import petastorm\nvars(petastorm.reader)[x]\n", "petastorm.reader"),
        ("import petastorm\nos.path.dirname(petastorm.__file__)\n", "petastorm.__file__"),
        ("import petastorm\nregister_pickle_by_value(petastorm)\n", "petastorm"),
        ('import petastorm\nrun(env={"py_modules": [ours, petastorm]})\n', "petastorm"),
        ("import petastorm\nmods = [petastorm]\nrun(py_modules=mods)\n", "petastorm"),
    ],
)
def test_their_file_waits(text: str, fragment: str) -> None:
    check_noop(text)
    check_finding(text, "PM123", fragment)


@pytest.mark.parametrize(
    "text",
    [
        "import petastorm\ngetattr(petastorm, 'make_reader')\n",
        "from petastorm.reader import Reader\ngetattr(Reader, name)\n",
    ],
)
def test_names_that_are_spelt_move(text: str) -> None:
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


@pytest.mark.parametrize(
    "text",
    [
        'import petastorm\nlogger.info("{} at {}", petastorm.__version__, petastorm.__file__)\n',
        "import petastorm\nprint(f'{os.path.dirname(petastorm.__file__)!r}')\n",
        'import petastorm\nprint("at %s" % petastorm.__file__)\n',
    ],
)
def test_places_that_are_only_shown_move(text: str) -> None:
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


@pytest.mark.parametrize(
    "line",
    [
        "print(zip_it(petastorm.__file__))",
        'command = "zip {}".format(petastorm.__file__)',
        "print('x', file=petastorm.__file__)",
    ],
)
def test_places_that_go_further_wait(line: str) -> None:
    check_noop(f"import petastorm\n{line}\n")
    check_finding(f"import petastorm\n{line}\n", "PM123", "petastorm.__file__")
