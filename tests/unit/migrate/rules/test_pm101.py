"""PM101: imports from Petastorm."""

from tests.kit.migrating import check_moves, check_noop, check_rewrite, each

from mdstorm_migrate.api import migrate


@each(
    "from petastorm.pytorch import DataLoader as PetastormDataLoader  # noqa\n",
    "from petastorm.spark import (SparkDatasetConverter,\n\n   make_spark_converter , )",
    "from petastorm.spark import SparkDatasetConverter, \\\r\n\tmake_spark_converter\r\n",
    "import os, petastorm.spark as ps, sys\n",
    "x = 1; from petastorm import make_reader; y = 2\n",
    "from petastorm import *\nmake_reader(url)\n",
    "if TYPE_CHECKING:\n    from petastorm.reader import Reader\n",
    # names from the second module, some of which the first module imports
    "from petastorm.transform import *\nfrom petastorm.unischema import *\n"
    "Unischema('x', [UnischemaField()]), TransformSpec()\n",
    # the import of a module and its patches are renamed together
    "import petastorm.reader\nmonkeypatch.setattr(petastorm.reader, 'make_reader', None)\n"
    "monkeypatch.setattr('petastorm.reader.make_reader', None)\n",
    # code that was partly migrated by hand
    "from mdstorm import make_reader\nfrom petastorm import TransformSpec\n",
    # an import that only checks whether the library is installed does not keep its name
    "try:\n    import petastorm\n    found = True\nexcept ImportError:\n    found = False\n",
    # what runs in any case is not a fallback
    "try:\n    import mdstorm\nexcept ImportError:\n    pass\nfinally:\n"
    "    from petastorm import make_reader\n",
    # nor is a fallback for a module of the project
    "try:\n    from .mdstorm import x\nexcept ImportError:\n    from petastorm import *\n",
    # branches that import different names are not fallbacks
    "if new:\n    from mdstorm import make_reader\n"
    "else:\n    from petastorm.pytorch import DataLoader\n"
    "try:\n    from mdstorm import TransformSpec\n"
    "    from petastorm.predicates import in_set\nfinally:\n    pass\n",
)
def test_renamed_import_keeps_layout_and_uses(text: str) -> None:
    check_moves(text)


def test_module_with_spaces_around_its_dots_is_renamed_as_a_whole() -> None:
    check_rewrite("import petastorm . spark \\\n  as ps\n", "import mdstorm.spark \\\n  as ps\n")


@each(
    # mdstorm has only some of the imported names
    (
        "from petastorm.reader import Reader, Ventilator as Pool, make_reader\n",
        "from petastorm.reader import Ventilator as Pool\n"
        "from mdstorm.reader import Reader, make_reader\n",
    ),
    # a name is imported from the module that defines it
    ("from petastorm.reader import NullCache\n", "from mdstorm.cache import NullCache\n"),
    (
        "    if x: from petastorm.reader import Reader, Ventilator; y\n".strip() + "\n",
        "if x: from petastorm.reader import Ventilator; from mdstorm.reader import Reader; y\n",
    ),
    (
        "def f():\n\tfrom petastorm.reader import (Reader,  # a\n\t\tVentilator)  # b\n",
        "def f():\n\tfrom petastorm.reader import (Ventilator)\n"
        "\tfrom mdstorm.reader import (Reader  # a\n)  # b\n",
    ),
    (
        "from petastorm.reader import (  # a\n    Reader,  # b\n    Ventilator,  # c\n)  # d\n",
        "from petastorm.reader import (  # a\n    Ventilator,  # c\n)\n"
        "from mdstorm.reader import (  # a\n    Reader,  # b\n)  # d\n",
    ),
    (
        "from petastorm.reader import (\n    Reader,\n    Ventilator,  # b\n    # c\n)\n",
        "from petastorm.reader import (\n    Ventilator,  # b\n    # c\n)\n"
        "from mdstorm.reader import (\n    Reader,\n    # c\n)\n",
    ),
    (
        "from petastorm . reader import Reader, \\\n    Ventilator as V\n",
        "from petastorm.reader import Ventilator as V\nfrom mdstorm.reader import Reader\n",
    ),
    # the version comparison stays on Petastorm
    (
        "import petastorm\nold = petastorm.__version__ < '0.9'\npetastorm.make_reader(u)\n",
        "import petastorm\nimport mdstorm\nold = petastorm.__version__ < '0.9'\n"
        "mdstorm.make_reader(u)\n",
    ),
)
def test_import_with_missing_name_is_split_with_unsafe(before: str, after: str) -> None:
    if "petastorm" in after:
        check_noop(before)  # objects of the two libraries may not be compatible
    check_rewrite(before, after, todo=False, unsafe=True)


@each(
    "from .petastorm import make_reader\n",
    "from petastorm_tools import make_reader\n",
    "from petastorm.hdfs import EmptyResultError\n",
    "import petastorm.spark as ps\nps.make_spark_converter(df)\nps._private(df)\n",
    "from petastorm.hdfs import *\n",
    "from petastorm.reader import *\nNullCache()\n",  # not a public name of petastorm.reader
    "import torch\n# from petastorm import make_reader\n",
    # handwritten fallbacks
    "try:\n    from mdstorm import make_reader\n"
    "except ImportError:\n    from petastorm import make_reader\n",
    "try:\n    import mdstorm as petastorm\nexcept ImportError:\n    import petastorm\n"
    "petastorm.make_reader(url)\n",
    "try:\n    import mdstorm\n    api = mdstorm\n"
    "except ImportError:\n    import petastorm\n    api = petastorm\n",
    "if new:\n    from mdstorm import make_reader\nelse:\n    from petastorm import make_reader\n",
    "if old:\n    from petastorm import make_reader\nelse:\n    from mdstorm import make_reader\n",
    "try:\n    from mdstorm import make_reader\nexcept ImportError:\n    make_reader = None\n"
    "if make_reader is None:\n    from petastorm import make_reader\n",
    "try:\n    api = import_module('mdstorm')\n"
    "except ImportError:\n    api = import_module('petastorm')\n",
)
def test_import_without_counterpart_or_with_fallback_is_unchanged(text: str) -> None:
    check_noop(text)


@each(
    # names that are bound twice
    "try:\n    import petastorm\nexcept ImportError:\n    petastorm = None\nprint(petastorm)\n",
    "try:\n    import petastorm\nexcept ImportError:\n    import stand_in as petastorm\n"
    "petastorm.make_reader(url)\n",
    # names that other files import
    "import petastorm\n",
    "import petastorm\npetastorm.make_reader\n__all__ = ['petastorm']\n",
    "import petastorm\npetastorm.make_reader\n__all__: list[str] = ['petastorm']\n",
    "import petastorm\npetastorm.make_reader\n__all__ += ['petastorm']\n",
    # names that are looked up at run time
    'import petastorm\npetastorm.make_reader\neval("petastorm.make_reader(url)")\n',
    "import petastorm\ntimeit.timeit('petastorm.spark', globals=globals())\n",
    "import petastorm\n@pytest.mark.skipif('petastorm is None')\ndef test(): petastorm.spark\n",
    'import petastorm\npetastorm.make_reader\nglobals()["petastorm"]\n',
    'import petastorm\npetastorm.make_reader\n"petastorm" in dir()\n',
)
def test_dynamically_used_import_keeps_bound_name(text: str) -> None:
    check_rewrite(text, text.replace("import petastorm\n", "import mdstorm as petastorm\n"))


def test_import_in_package_init_keeps_bound_name() -> None:
    text = "import petastorm\npetastorm.make_reader\n"
    check_rewrite(text, text.replace("petastorm\n", "mdstorm as petastorm\n", 1), "a/__init__.py")


@each(
    (
        "import petastorm.reader, petastorm.codecs\n",
        "import mdstorm.reader, mdstorm as petastorm, mdstorm.codecs\n",
    ),
    (
        "import petastorm\npetastorm = 2\nimport petastorm.reader\n",
        "import mdstorm as petastorm\npetastorm = 2\n"
        "import mdstorm.reader\nimport mdstorm as petastorm\n",
    ),
    (
        "import petastorm\ndel petastorm\nimport petastorm.reader\n",
        "import mdstorm as petastorm\ndel petastorm\n"
        "import mdstorm.reader\nimport mdstorm as petastorm\n",
    ),
    (
        "if x:\n    import petastorm\nelse:\n    import petastorm.reader\n",
        "if x:\n    import mdstorm as petastorm\n"
        "else:\n    import mdstorm.reader\n    import mdstorm as petastorm\n",
    ),
    (
        'import petastorm.spark\n__all__ = ["petastorm"]\n',
        'import mdstorm.spark\nimport mdstorm as petastorm\n__all__ = ["petastorm"]\n',
    ),
)
def test_name_used_by_eval_stays_bound_after_each_import(before: str, after: str) -> None:
    use = "eval('petastorm.reader')\n"
    check_rewrite(f"{before}{use}", f"{after}{use}")


@each("module.py", "stubs.pyi", "window.pyw")
def test_python_file_suffixes_are_all_rewritten(name: str) -> None:
    check_rewrite("from petastorm import make_reader", "from mdstorm import make_reader", name)


def test_star_import_that_provides_numpy_is_unchanged() -> None:
    text = "from petastorm.unischema import *\nUnischemaField('a', np.int32, ())\n"
    check_noop(text)
    check_moves(f"import numpy as np\n{text}")


@each(
    "import mdstorm\nimport petastorm\nfor lib in (petastorm, mdstorm):\n    lib.run()\n",
    "import mdstorm, petastorm\nold = petastorm.spark.make_spark_converter(df)\n"
    "new = mdstorm.spark.make_spark_converter(df)\n",
    "def old():\n    from petastorm.reader import make_reader\n    return make_reader\n"
    "def new():\n    from mdstorm import make_reader\n    return make_reader\n",
)
def test_file_that_imports_from_both_libraries_needs_manual_review(text: str) -> None:
    check_noop(text)
    found = [one for one in migrate(text).findings if one.cls == "manual"]
    assert [one.rule for one in found] == ["PM101"]
