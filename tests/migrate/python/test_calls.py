"""Which calls are of Petastorm's functions."""

import pytest

from mdstorm_migrate.api import migrate

CALL = "make_reader(url, foo=3)\n"


def is_taken_for_petastorm(code: str) -> bool:
    return any(found.rule == "PM113" for found in migrate(code + CALL).findings)


@pytest.mark.parametrize(
    "code",
    [
        "from petastorm import make_reader\n",
        "from petastorm import make_reader\nmake_reader = partial(make_reader, seed=3)\n",
        "try:\n    from petastorm import make_reader\n"
        "except ImportError:\n    def make_reader(url): raise\n",
        "make_reader = None\nif url:\n    from petastorm import make_reader\n",
    ],
)
def test_what_is_imported_is(code: str) -> None:
    assert is_taken_for_petastorm(code)


@pytest.mark.parametrize(
    "code",
    [
        "from petastorm import make_reader\ndef make_reader(url, foo): ...\n",
        "from petastorm import make_reader\nclass make_reader(object): ...\n",
        "import petastorm\nmake_reader = wrap(petastorm.make_reader)\n",
    ],
)
def test_what_the_file_defines_itself_is_not(code: str) -> None:
    assert not is_taken_for_petastorm(code)


def test_an_import_before_its_global_statement_binds_the_global() -> None:
    code = (
        "def load():\n    import petastorm\n    global petastorm\n"
        "print(petastorm.hdfs, petastorm.make_reader)\n"
    )
    assert not migrate(code, todo=False).changed


def test_a_name_that_two_imports_bind_differently_stays_bound() -> None:
    code = "import petastorm.spark as petastorm\nimport petastorm\neval('petastorm.reader')\n"
    after = migrate(code, todo=False).output
    assert "import mdstorm as petastorm\n" in after
