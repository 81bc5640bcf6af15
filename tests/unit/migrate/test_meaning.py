"""Random programs have the same meaning before and after their migration.

They run against two stand-in packages: one with all of Petastorm's names, including internal ones,
and one with mdstorm's names from the name table. The value of each name is the name itself, so a
program that prints names shows what it has imported.
"""

import sys
import types
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_migrate.api import migrate
from mdstorm_migrate.petastorm.names import HOMES, PUBLIC, renamed

_INTERNAL = {
    "petastorm.hdfs": {"Ventilator"},
    "petastorm.spark": {"_private"},
    "petastorm.reader": {"Ventilator"},
}


@pytest.fixture(scope="module", autouse=True)
def stand_ins() -> Iterator[None]:
    """Make the two stand-in packages importable."""
    public = {module: set(names) for module, names in PUBLIC.items()}
    petastorm = {
        module: public.get(module, set())
        | _INTERNAL.get(module, set())
        | set(HOMES.get(module, ()))
        for module in (*PUBLIC, *_INTERNAL)
    }
    made = {
        **_package(petastorm),
        **_package({renamed(module): names for module, names in public.items()}),
    }
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    sys.modules.update(made)
    yield
    for name in [name for name in sys.modules if _is_ours(name)]:
        del sys.modules[name]
    sys.modules.update(before)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in ("mdstorm", "petastorm")


def _package(names: dict[str, set[str]]) -> dict[str, types.ModuleType]:
    modules = {path: types.ModuleType(path) for path in sorted(names)}
    for path, module in modules.items():
        module.__path__ = []
        for name in names[path]:
            setattr(module, name, name)  # a name has the same value in every module
        above, _, last = path.rpartition(".")
        if above in modules:
            setattr(modules[above], last, module)
    return modules


IMPORTS = [
    "import petastorm",
    "import petastorm.spark",
    "import petastorm.reader, petastorm.pytorch as pp",
    "import petastorm.spark as ps",
    "import petastorm.hdfs",
    "from petastorm import make_reader, spark",
    "from petastorm import *",
    "from petastorm.reader import Reader, Ventilator as Pool, NullCache",
    "from petastorm.spark import (  # why\n{indent}    SparkDatasetConverter as C,\n{indent})",
    "from petastorm.hdfs import Ventilator",
    "from petastorm import predicates as p; import petastorm",
    "from petastorm import make_reader as spark, TransformSpec",
    "import petastorm.reader as reader, petastorm.spark.spark_dataset_converter",
    "import petastorm as petastorm",
    "from petastorm.pytorch import BatchDataLoader, DataLoader as C",
    "import importlib; ps = importlib.import_module('petastorm.spark')",
]
USES = [
    "show(petastorm.make_reader)",
    "show(petastorm.spark.make_spark_converter, petastorm.reader)",
    "show(petastorm.hdfs.Ventilator)",
    "show(f'{petastorm.TransformSpec}')",
    "show(ps.make_spark_converter)",
    "show(ps._private)",
    "show(pp.DataLoader)",
    "show(make_reader, spark.SparkDatasetConverter)",
    "show(Reader, Pool, NullCache)",
    "show(C, Ventilator)",
    "show(p.in_lambda)",
    "show([petastorm for petastorm in [1]])",
    "show((lambda petastorm: petastorm)(2), petastorm)",
    "mdstorm = 3; show(mdstorm)",
    "petastorm = None",
    "del petastorm",
    "show(eval('petastorm.make_reader'))",
    "show('petastorm' in globals())",
    "show([petastorm.make_reader for _ in [petastorm.TransformSpec]])",
    "show([(petastorm := one) for one in [petastorm.reader]], petastorm)",
    "show((lambda one=petastorm.make_reader: one)())",
    "show((lambda: petastorm.hdfs.Ventilator)())",
    "show(reader.Reader, TransformSpec)",
    "show(petastorm.spark.spark_dataset_converter.SparkDatasetConverter)",
    "import sys; show(sys.modules['petastorm.spark'].SparkDatasetConverter)",
    "show(getattr(petastorm, 'make_reader'), getattr(petastorm.spark, '_private', 0))",
    "from petastorm.spark import _private; show(_private)",
    "from petastorm.absent import nothing",
    "one: 'petastorm.reader.Reader' = petastorm.reader.Reader; show(one)",
    "show(BatchDataLoader)",
    "show([petastorm.reader for one in [1] if (petastorm := petastorm.spark)])",
    "show({one: petastorm.make_reader for one in [petastorm.spark]})",
    "show(globals()['petastorm'].make_reader)",
    "petastorm: 1",
    "petastorm: 1 = 2",
    "__all__ = ['petastorm', 'make_reader']",
]
HEADS = [
    "def f{}():",
    "def f{}(one=None, petastorm=None):",
    "def f{}(petastorm=petastorm):",
    "def f{}(*petastorm):",
    "def f{}(one: 'petastorm.Reader' = 3):",
    "def f{}():\n{indent}    global petastorm",
    "def f{}():\n{indent}    nonlocal petastorm",
    "class A{}:",
    "if True: # {}",
    "for petastorm in [1{}]:",
    "match 1{}:\n{indent}  case petastorm:",
    "match [1{}]:\n{indent}  case [petastorm, *one]:",
    "try: 1 / 0 # {}\n{indent}except ZeroDivisionError as petastorm:",
    "try: # {}",
    "@(lambda one: one)\n{indent}def f{}(one=0):",
]


@st.composite
def blocks(draw: st.DrawFn, indent: str = "") -> str:
    """Draw a block of statements, which may contain nested blocks."""
    statements = []
    for number in range(draw(st.integers(1, 3))):
        for imported in draw(st.lists(st.sampled_from(IMPORTS), max_size=2)):
            statements.append(imported.format(indent=indent))
        # Errors are shown, because a name that is unbound before the migration must also be unbound
        # after it.
        for use in draw(st.lists(st.sampled_from(USES), max_size=3)):
            statements.append(f"try: {use}\n{indent}except Exception as e: show(type(e).__name__)")
        if len(indent) < 8 and draw(st.booleans()):
            head = draw(st.sampled_from(HEADS))
            # Star imports are allowed only at module level.
            body = draw(blocks(indent + "    ")).replace("import *", "import make_reader")
            name = f"{len(indent)}{number}"
            end = f"\n{indent}f{name}()" if "def" in head else ""
            end = f"\n{indent}except ImportError: petastorm = 0" if head == "try: # {}" else end
            statements.append(f"{head.format(name, indent=indent)}\n{body}{end}")
    return "\n".join(f"{indent}{statement}" for statement in statements) or f"{indent}pass"


def _shown(text: str) -> list[str]:
    found: list[str] = []

    def show(*values: object) -> None:
        names = (one.__name__ if isinstance(one, types.ModuleType) else one for one in values)
        found.extend(str(name).replace("petastorm", "mdstorm") for name in names)

    try:
        exec(compile(text, "<program>", "exec"), {"show": show})
    except Exception as error:
        found.append(type(error).__name__)
    return found


@given(blocks())
def test_migrated_program_prints_same_output(text: str) -> None:
    result = migrate(text)
    assert not result.errors, result.errors
    assert _shown(result.output) == _shown(text)
    assert migrate(result.output).output == result.output
