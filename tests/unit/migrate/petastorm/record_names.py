"""Record the names that star imports of Petastorm's modules give, from its source.

    python tests/unit/migrate/petastorm/record_names.py DIRECTORY

The directory contains the package `petastorm`, as in an unpacked wheel. The source is read, because
Petastorm's modules import libraries that no longer install together.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

RECORDED = Path(__file__).with_name("star_names.json")


def modules_of(root: Path) -> dict[str, list[ast.stmt]]:
    """Return the statements at module level of each module."""
    found = {}
    for path in sorted((root / "petastorm").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if "tests" not in parts:
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = [*flat(ast.parse(path.read_text("utf-8")).body)]
    return found


def flat(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, and those in branches of them."""
    for one in statements:
        yield one
        for part in ("body", "orelse", "finalbody"):
            if isinstance(one, ast.If | ast.Try | ast.With):
                yield from flat(getattr(one, part, ()))


def loaded_with(module: str, modules: dict[str, list[ast.stmt]]) -> set[str]:
    """Return the modules that importing one of them loads."""
    loaded: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name in modules and name not in loaded:
            loaded.add(name)
            todo.append(name.rpartition(".")[0])
            for one in modules[name]:
                match one:
                    case ast.Import(names=names):
                        todo += [alias.name for alias in names]
                    case ast.ImportFrom(module=str(source), names=names, level=level):
                        # Only packages, not their modules, have relative imports.
                        source = f"{name}.{source}" if level else source
                        todo += [source, *(f"{source}.{alias.name}" for alias in names)]
    return loaded


def star_names(module: str, modules: dict[str, list[ast.stmt]]) -> set[str]:
    """Return the names that ``from module import *`` binds."""
    found = {
        name.rpartition(".")[2]
        for name in loaded_with(module, modules)
        if name.rpartition(".")[0] == module
    }
    for one in modules[module]:
        match one:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.ImportFrom(module="__future__"):
                pass
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {alias.asname or alias.name.partition(".")[0] for alias in names}
            case ast.Assign(targets=targets):
                inner = (node for target in targets for node in ast.walk(target))
                found |= {node.id for node in inner if isinstance(node, ast.Name)}
    return {name for name in found if not name.startswith("_")}


if __name__ == "__main__":
    source = modules_of(Path(sys.argv[1]))
    found = {module: " ".join(sorted(star_names(module, source))) for module in sorted(source)}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
