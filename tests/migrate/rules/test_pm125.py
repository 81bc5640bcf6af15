"""Files that use both libraries."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    "text",
    [
        "import mdstorm\nimport petastorm\nfrom mdstorm import make_reader as new\n"
        "from petastorm import make_reader as old\nfrom petastorm.pytorch import DataLoader\n",
        "import mdstorm\nimport petastorm\nfor lib in (petastorm, mdstorm):\n    lib.run()\n",
        "import mdstorm, petastorm\nold = petastorm.spark.make_spark_converter(df)\n"
        "new = mdstorm.spark.make_spark_converter(df)\n",
        "def old():\n    from petastorm.reader import make_reader\n    return make_reader\n"
        "def new():\n    from mdstorm import make_reader\n    return make_reader\n",
        "from importlib import import_module\n"
        "libs = [import_module(name) for name in ('petastorm', 'mdstorm')]\n",
        "import importlib\nold = importlib.import_module('petastorm.spark')\n"
        "new = importlib.import_module('mdstorm.spark')\n",
    ],
)
def test_what_compares_the_two_stays(text: str) -> None:
    check_noop(text)
    (found,) = migrate(text).findings
    assert (found.rule, found.cls) == ("PM125", "manual")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # half migrated by hand
            "from mdstorm import make_reader\nfrom petastorm import TransformSpec\n",
            "from mdstorm import make_reader\nfrom mdstorm import TransformSpec\n",
        ),
        (  # what mdstorm lacks stays beside it
            "from petastorm.unischema import Unischema, _NamedtupleCache\n",
            "from petastorm.unischema import _NamedtupleCache\n"
            "from mdstorm.unischema import Unischema\n",
        ),
        (
            "import petastorm\nold = petastorm.__version__ < '0.9'\npetastorm.make_reader(u)\n",
            "import petastorm\nimport mdstorm\nold = petastorm.__version__ < '0.9'\n"
            "mdstorm.make_reader(u)\n",
        ),
        (
            "def f():\n    import petastorm\n    return petastorm.__version__ < '0.9'\n"
            "def g():\n    import petastorm\n    return petastorm.__version__\n",
            "def f():\n    import petastorm\n    return petastorm.__version__ < '0.9'\n"
            "def g():\n    import mdstorm\n    return mdstorm.__version__\n",
        ),
    ],
)
def test_what_is_half_migrated_goes_on(before: str, after: str) -> None:
    for one in (before, after):
        result = check_rewrite(one, after, todo=False, unsafe=True)
        assert not [found for found in result.findings if found.rule == "PM125"]


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import mdstorm as petastorm\nexcept ImportError:\n    import petastorm\n"
        "petastorm.make_reader\n",
        "try:\n    from mdstorm import make_reader\nexcept ImportError:\n"
        "    from petastorm import make_reader\n",
        "if NEW:\n    from mdstorm import make_reader\nelse:\n"
        "    from petastorm import make_reader\n",
    ],
)
def test_a_fallback_uses_one_of_the_two(text: str) -> None:
    result = check_noop(text)
    assert not [found for found in result.findings if found.rule == "PM125"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # whether the library is there says nothing of its use
            "import pytest\nold = pytest.importorskip('petastorm', minversion='0.9')\n"
            "pytest.importorskip('petastorm.pytorch')\nimport petastorm as p\nprint(p)\n",
            "import pytest\nold = pytest.importorskip('petastorm', minversion='0.9')\n"
            "pytest.importorskip('mdstorm.pytorch')\nimport mdstorm as p\nprint(p)\n",
        ),
        (
            "from mdstorm import make_reader\nif find_spec('mdstorm.pytorch'):\n"
            "    from petastorm import pytorch\n    print(pytorch)\n",
            "from mdstorm import make_reader\nif find_spec('mdstorm.pytorch'):\n"
            "    from mdstorm import pytorch\n    print(pytorch)\n",
        ),
    ],
)
def test_to_ask_for_a_library_is_no_use_of_it(before: str, after: str) -> None:
    for one in (before, after):
        result = check_rewrite(one, after, todo=False, unsafe=True)
        assert not [found for found in result.findings if found.rule == "PM125"]


def test_what_asks_for_both_stays() -> None:
    text = "HAS = {'old': find_spec('petastorm'), 'new': find_spec('mdstorm')}\n"
    check_noop(text)
    assert [found.rule for found in migrate(text).findings] == ["PM125"]
