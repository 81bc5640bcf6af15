"""Requirements that code assembles from Petastorm's name and version stay true.

Expressions are made of all ways to join texts, and evaluated before and after the migration with
two stand-in packages of different versions. Afterwards, a requirement names a library with a
version that it has.
"""

import sys
import types
from collections.abc import Iterator
from string import Template
from typing import Any

import pytest
from packaging.requirements import InvalidRequirement, Requirement

from mdstorm_migrate.api import migrate

VERSIONS = {"petastorm": "0.12.1", "mdstorm": "7.8.9"}
HEADS = {
    "import": ("import petastorm\n", "petastorm.__version__"),
    "alias": ("import petastorm as p\n", "p.__version__"),
    "from": ("from petastorm import __version__\n", "__version__"),
    "from as": ("from petastorm import __version__ as v\n", "v"),
    "variable": ("import petastorm\nv = petastorm.__version__\n", "v"),
    "part": ("import petastorm\n", "'.'.join(petastorm.__version__.split('.')[:2])"),
}
#: Ways to join ``N``, the name, ``OP``, a comparator, and ``V``, an expression of the version.
JOINS = [
    "f'NOP{V}'",
    "f'{\"N\"}OP{V}'",
    "'NOP' + V",
    "'N' + 'OP' + V",
    "('N' 'OP' + V)",
    "'NOP%s' % V",
    "'%sOP%s' % ('N', V)",
    "'%(n)sOP%(v)s' % {'n': 'N', 'v': V}",
    "'NOP{}'.format(V)",
    "'{}OP{}'.format('N', V)",
    "'{n}OP{v}'.format(n='N', v=V)",
    "'{0}OP{1}'.format(*('N', V))",
    "'NOP{v}'.format_map({'v': V})",
    "'NOP{v}'.format(**{'v': V})",
    "'OP'.join(['N', V])",
    "'OP'.join(('N', V))",
    "''.join(['N', 'OP', V])",
    "''.join(('NOP', V))",
    "str.join('OP', ['N', V])",
    "str.format('NOP{}', V)",
    "format_map('NOP{v}', {'v': V})",
    "Template('NOP$v').substitute(v=V)",
    "Template('NOP${v}').safe_substitute({'v': V})",
    "'NOP?'.replace('?', V)",
    "bytes('NOP' + V, 'ascii').decode()",
]
COMPARATORS = ["==", "~=", ">=", "==="]
#: What the text is given to.
TAKES = [
    "show({})\n",
    "install_requires = ['numpy', {}]\nshow(*install_requires)\n",
    "reqs = []\nreqs.append({})\nshow(*reqs)\n",
    "run(['pip', 'install', {}])\n",
    "def pin():\n    return {}\nshow(pin())\n",
]
MOVES = "from petastorm import make_reader\n"


def run(text: str) -> list[str]:
    """Run a program with the stand-in packages, and return the texts that it shows."""
    found: list[str] = []
    names: dict[str, Any] = {
        "show": lambda *texts: found.extend(texts),
        "run": lambda words: found.extend(words[2:]),
        "Template": Template,
        "format_map": lambda text, values: text.format_map(values),
    }
    exec(compile(text, "program.py", "exec"), names)
    return found


@pytest.fixture(autouse=True)
def stand_ins() -> Iterator[None]:
    """Make two packages importable that have versions, and a function."""
    real = {one: sys.modules.pop(one) for one in [*sys.modules] if one.split(".")[0] in VERSIONS}
    for library, version in VERSIONS.items():
        module = sys.modules[library] = types.ModuleType(library)
        vars(module).update(__version__=version, make_reader=library)
    yield
    for library in VERSIONS:
        del sys.modules[library]
    sys.modules |= real


def is_true(text: str) -> bool:
    """Whether a requirement names a library with a version that it has."""
    try:
        found = Requirement(text)
    except InvalidRequirement:
        return False
    return found.name not in VERSIONS or found.specifier.contains(VERSIONS[found.name])


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))]
)
@pytest.mark.parametrize("head", HEADS)
def test_assembled_requirement_names_a_version_of_its_library(head: str, first: int) -> None:
    imports, version = HEADS[head]
    wrong = []
    for number, join in enumerate(JOINS, first):
        comparator, take = COMPARATORS[number % 4], TAKES[number % 5]
        text = join.replace("OP", comparator).replace("N", "petastorm").replace("V", version)
        program = f"{imports}{MOVES}{take.format(text)}"
        try:
            before = run(program)
        except SyntaxError:
            continue  # quotation marks within those of an f-string
        result = migrate(program, todo=False)
        after = run(result.output)
        if all(map(is_true, before)) and not (after and all(map(is_true, after))):
            wrong.append((program, result.output))
    assert wrong == []
