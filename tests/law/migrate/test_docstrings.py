"""Examples in docstrings use the library of the code that they document.

Programs have examples in each place and form in which `doctest` finds them. It finds them before
and after the migration, and they are run with two stand-in packages.
"""

import doctest
import sys
import types
from itertools import product
from typing import Any

import pytest
from tests.unit.migrate.test_lookups import stand_ins

from mdstorm_migrate.api import migrate

#: Where a docstring is: code with ``DOC``, and its indentation.
PLACES = {
    "module": ("DOC\n", ""),
    "module after comment": ("#!/usr/bin/env python\n# text\n\nDOC\n", ""),
    "function": ("def f():\n    DOC\n", "    "),
    "decorated": ("def d(f): return f\n@d\ndef f():\n    DOC\n    return 1\n", "    "),
    "async": ("async def f():\n    DOC\n", "    "),
    "class": ("class C:\n    DOC\n    x = 1\n", "    "),
    "method": ("class C:\n    def f(self):\n        DOC\n", "        "),
    "static": ("class C:\n    @staticmethod\n    def f():\n        DOC\n", "        "),
    "property": ("class C:\n    @property\n    def f(self):\n        DOC\n", "        "),
    "nested": ("class C:\n    class D:\n        DOC\n", "        "),
    "in branch": ("if True:\n    def f():\n        DOC\n", "        "),
    "__test__": ("__test__ = {'a': DOC}\n", ""),
    "__doc__": ("__doc__ = DOC\n", ""),
    "__doc__ of function": ("def f(): ...\nf.__doc__ = DOC\n", ""),
}
#: How it is written: what precedes ``EXAMPLE``, and what follows it.
FORMS = {
    "lines": ('"""Text.\n\nEXAMPLE\n"""', False),
    "first": ('"""EXAMPLE\n"""', False),
    "prose with backslashes": ('"""Text \\\\d.\n\nEXAMPLE\n"""', False),
    "apostrophes": ("'''Text.\n\nEXAMPLE\n\nMore.\n'''", False),
    "raw": ('r"""Text \\d.\n\nEXAMPLE\n"""', False),
    "capital": ('R"""Text \\d.\n\nEXAMPLE\n"""', False),
    "unicode": ('u"""Téxt.\n\nEXAMPLE\n"""', False),
    "continued": ('"""\\\nText.\n\nEXAMPLE\n"""', False),
    "block": ('"""Text::\n\n    .. code::\n\nEXAMPLE\n"""', False),
    "escaped": ('"Text.\\n\\nEXAMPLE\\n"', True),
    "joined": ('"""Text.\n\n""" """EXAMPLE\n"""', False),
}
EXAMPLES = [
    ">>> from petastorm import make_reader\n>>> show(make_reader)",
    ">>> from petastorm import make_reader as m  # doctest: +SKIP\n>>> show(m)",
    ">>> import petastorm\n>>> show(petastorm.reader.make_reader)",
    ">>> import petastorm.reader as r; show(r.make_reader)",
    ">>> import petastorm.spark as s\n>>> for x in [s]:\n...     show(x.make_spark_converter)",
    ">>> from petastorm import (make_reader,\n...                        Reader)\n>>> show(Reader)",
    ">>> if True:\n...     from petastorm.reader import Reader as make\n>>> show(make)",
    ">>> import os\n>>> x = 1; from petastorm.reader import Reader\n>>> show(Reader)",
    ">>> from petastorm.hdfs import namenode\n>>> show(namenode.make_reader)",
    ">>> def f():\n...     from petastorm import Reader\n...     return Reader\n>>> show(f())",
    ">>> from petastorm \\\n...     import make_reader\n>>> show(make_reader)",
    ">>> import petastorm as p\n1\n>>> show(p.make_reader)\n",
]
MOVES = "from petastorm import make_reader as own\n"


def run(text: str) -> list[str]:
    """Run a program, and the examples that `doctest` finds in it; return what they show."""
    found: list[str] = []
    module = types.ModuleType("program")
    with stand_ins():
        sys.modules["program"] = module
        try:
            exec(compile(text, "program.py", "exec"), vars(module))
            found.append(str(module.own))  # type: ignore[attr-defined]
            for test in doctest.DocTestFinder(recurse=True).find(module, "program"):
                names: dict[str, Any] = {"show": lambda value: found.append(str(value))}
                for one in test.examples:
                    exec(compile(one.source, "example.py", "exec"), names)
        finally:
            del sys.modules["program"]
    return found


def program(place: str, form: str, example: str) -> str:
    code, indentation = PLACES[place]
    text, is_escaped = FORMS[form]
    text = text.replace("\n", f"\n{indentation}")
    lines = example.replace("\n", f"\n{indentation}").rstrip()
    if form == "block":
        lines = f"    {lines}".replace("\n", "\n    ")
    if is_escaped:
        lines = lines.replace("\\", "\\\\").replace("\n", "\\n")
    elif form not in ("raw", "capital"):
        lines = lines.replace("\\", "\\\\")
    before, _, after = code.partition("DOC")
    return f"{before}{text.replace('EXAMPLE', lines)}{after}{MOVES}"


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 6))]
)
@pytest.mark.parametrize("place", PLACES)
def test_examples_use_the_library_of_their_code(place: str, first: int) -> None:
    wrong = []
    cases = [*product(FORMS, EXAMPLES)][([*PLACES].index(place) + first) % 12 :: 12]
    for form, example in cases:
        text = program(place, form, example)
        try:
            before = run(text)
        except ValueError:
            continue  # doctest cannot parse it
        assert len(before) > 1
        result = migrate(text, todo=False)
        assert result.errors == ()
        after = run(result.output)
        moved = [one.replace("petastorm", "mdstorm") for one in before]
        is_reported = {one.cls for one in result.findings} & {"manual", "review"}
        if after != moved and not (after[1:] == before[1:] and is_reported):
            wrong.append((form, result.output))
    assert wrong == []
