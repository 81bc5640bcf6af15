"""Random programs full of scopes do the same before and after they are migrated.

They bind the name ``petastorm`` in every way that Python has, and run with stubs of both packages.
"""

from __future__ import annotations

import builtins
import random
import types
import warnings

import pytest

from mdstorm_migrate.api import migrate

NAMES = ["petastorm", "petastorm", "x", "x", "mdstorm"]
USES = [
    "petastorm.make_reader",
    "petastorm.make_batch_reader",
    "petastorm.spark.make_spark_converter",
    "petastorm.reader.make_reader",
    "petastorm",
    "globals()['petastorm'].make_reader",
    "eval('petastorm.make_reader')",
]
IMPORTS = [
    "import petastorm",
    "import petastorm.spark",
    "import petastorm as petastorm",
    "import petastorm.reader, petastorm.spark",
    "import petastorm.spark as x",
    "import petastorm.spark as petastorm",
    "from petastorm import make_reader as x",
    "from petastorm import spark",
]
SIGNATURES = ["", "petastorm=petastorm", "x=1", "*petastorm", "petastorm: 'petastorm.Reader' = 3"]
PATTERNS = ["petastorm", "petastorm.make_reader", "[petastorm, *x]", "{1: petastorm}"]
HANDLERS = ["except Exception as petastorm:", "except Exception as x:", "except NameError:"]


class Author:
    """Writes a program from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions = 0

    def program(self) -> str:
        head = self.random.choice(["import petastorm", "import petastorm.spark", "x = 1"])
        return "\n".join([head, *self.block(3, size=3)]) + "\n"

    def name(self) -> str:
        return self.random.choice(NAMES)

    def expression(self, depth: int = 2) -> str:
        kind = self.random.randrange(11) if depth else 0
        inner = [self.expression(depth - 1) for _ in range(2)] if kind > 4 else []
        match kind:
            case 5:
                return f"[{inner[0]} for {self.name()} in [{inner[1]}]]"
            case 6:
                return f"(lambda {self.name()}={inner[0]}: {inner[1]})()"
            case 7:
                return f"[{inner[0]} for q in [1] if ({self.name()} := {inner[1]})]"
            case 8:
                return f"{{q: {inner[0]} for q in [{inner[1]}]}}"
            case 9:
                return f"(lambda: {inner[0]})()"
            case 10:
                return f"({inner[0]}, {inner[1]})"
        return self.random.choice(USES)

    def block(self, depth: int, size: int = 0, is_function: bool = False) -> list[str]:
        lines = []
        if is_function and self.random.random() < 0.15:
            lines.append(self.random.choice(["global petastorm", "global x", "nonlocal petastorm"]))
        for _ in range(size or self.random.randrange(1, 4)):
            lines += self.statement(depth)
        return lines

    def indented(self, depth: int, is_function: bool = False) -> list[str]:
        return [f"    {line}" for line in self.block(depth - 1, is_function=is_function)]

    def statement(self, depth: int) -> list[str]:
        choose = self.random.choice
        match self.random.randrange(15) if depth else self.random.randrange(6):
            case 0 | 1 | 2:
                return [f"log({self.expression()})"]
            case 3:
                return [choose(IMPORTS)]
            case 4:
                return [f"{self.name()} = {self.expression()}"]
            case 5:
                return [choose(["del petastorm", "del x", "petastorm: 1", "petastorm: 1 = 2"])]
            case 6 | 7 | 8:
                self.functions += 1
                name = f"f{self.functions}"
                head = [f"@decorate({self.expression()})", f"def {name}({choose(SIGNATURES)}):"]
                return [*head, *self.indented(depth, is_function=True), f"run({name})"]
            case 9:
                return ["class C:", *self.indented(depth)]
            case 10:
                handler = [choose(HANDLERS), *self.indented(depth)]
                return ["try:", *self.indented(depth), *handler]
            case 11:
                return [f"for {self.name()} in [{self.expression()}]:", *self.indented(depth)]
            case 12:
                branch = ["else:", *self.indented(depth)]
                return [f"if {choose(['0', '1'])}:", *self.indented(depth), *branch]
            case 13:
                body = [f"    {line}" for line in self.indented(depth)]
                return [f"match {self.expression()}:", f"    case {choose(PATTERNS)} if 1:", *body]
        return ["log(getattr(petastorm, 'make_reader'))"]


def stub(root: str) -> types.SimpleNamespace:
    """Return what stands for a package; both are equal in what they show."""
    spark = types.SimpleNamespace(make_spark_converter="converter")
    reader = types.SimpleNamespace(make_reader="reader")
    return types.SimpleNamespace(
        make_reader="reader", make_batch_reader="batches", spark=spark, reader=reader
    )


def log_of(program: str) -> list[str] | None:
    """Run a program, and return what it logs and which errors it meets; None if it is none."""
    modules = {root: stub(root) for root in ("petastorm", "mdstorm")}
    log: list[str] = []

    def import_stub(name: str, *arguments: object) -> object:
        root, _, below = name.partition(".")
        is_from = len(arguments) > 2 and bool(arguments[2])
        return getattr(modules[root], below) if below and is_from else modules[root]

    def run(function: types.FunctionType) -> None:
        try:
            function()
        except Exception as error:
            log.append(type(error).__name__)

    def decorate(value: object) -> object:
        log.append(repr(value))
        return lambda function: function

    namespace = {
        "__builtins__": {**vars(builtins), "__import__": import_stub},
        "__name__": "program",
        "log": lambda value: log.append(repr(value).partition(" at 0x")[0]),
        "run": run,
        "decorate": decorate,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code = compile(program, "program", "exec")
        except SyntaxError:
            return None
    try:
        exec(code, namespace)
    except Exception as error:
        log.append(type(error).__name__)
    return log


def check(seeds: range) -> None:
    changed = 0
    for seed in seeds:
        program = Author(seed).program()
        before = log_of(program)
        if before is None:
            continue
        result = migrate(program, todo=False)
        assert not result.errors
        assert log_of(result.output) == before, f"seed {seed}:\n{program}\n{result.diff()}"
        changed += result.changed
    assert changed > len(seeds) / 3


def test_programs_do_the_same_after_they_are_migrated() -> None:
    check(range(1200, 1800))


@pytest.mark.long
def test_many_programs_do_the_same_after_they_are_migrated() -> None:
    check(range(2000, 9000))
