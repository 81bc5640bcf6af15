"""Imports form no cycles between folders or modules, even in functions.

Folders do not even import each other for type checkers. Modules of one folder may: an order makes
its plan, whose fields have the order's type. Tests import no private names.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "mdstorm": ROOT / "compat" / "mdstorm",
    "mdstorm_backend": ROOT / "mds_backend" / "mdstorm_backend",
    "mdstorm_migrate": ROOT / "migrate" / "mdstorm_migrate",
}


def modules(package: str) -> dict[str, Path]:
    """Return a package's files by module name."""
    root = PACKAGES[package]
    found = {}
    for path in root.rglob("*.py"):
        parts = [package, *path.relative_to(root).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def statements(path: Path) -> list[ast.Import | ast.ImportFrom | ast.If]:
    """Return the imports in a module, and its ``if`` statements."""
    nodes = ast.walk(ast.parse(path.read_bytes()))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom | ast.If)]


def import_nodes(path: Path) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in statements(path) if not isinstance(node, ast.If)]


@cache
def lines_for_type_checkers(path: Path) -> set[int]:
    """Return the lines of a module below ``if TYPE_CHECKING``."""
    tests = [
        node
        for node in statements(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {line for test in tests for line in range(test.lineno, test.body[-1].end_lineno + 1)}


def imported(path: Path, *, types: bool) -> list[str]:
    """Return everything that a module imports, including names that may be modules.

    If not `types`, imports only for type checkers are left out.
    """
    found = []
    left_out = () if types else lines_for_type_checkers(path)
    for node in import_nodes(path):
        if node.lineno in left_out:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        else:
            assert node.level == 0, "relative imports do not show which folder is meant"
            assert node.module is not None
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def folder(module: str, path: Path) -> str:
    """Return a module's folder; a module at the root of its package counts as a folder."""
    is_package = path.name == "__init__.py"
    return module if is_package or module.count(".") == 1 else module.rpartition(".")[0]


def arrows(package: str, place: Callable[[str, Path], str]) -> dict[str, dict[str, list[str]]]:
    """Return the imports between folders or modules, keyed by importing and imported place."""
    files = modules(package)
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, path in files.items():
        home = place(module, path)
        for name in imported(path, types=place is folder):
            target = name if name in files else name.rpartition(".")[0]
            if target in files and (other := place(target, files[target])) != home:
                found[home][other].append(f"{module} imports {target}")
    return found


def rings(graph: dict[str, dict[str, list[str]]]) -> list[list[str]]:
    """Return the groups of folders or modules that import each other, directly or indirectly."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in graph.get(waiting.pop(), {}):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach.get(other, ())))
        for name in graph
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def shown_rings(graph: dict[str, dict[str, list[str]]]) -> str:
    """Return the imports that form cycles, one cycle per paragraph."""
    return "\n\n".join(
        "\n".join(
            line
            for one in ring
            for other, lines in graph[one].items()
            if other in ring
            for line in lines
        )
        for ring in rings(graph)
    )


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("place", [folder, lambda module, path: module], ids=["folder", "module"])
def test_imports_between_folders_and_modules_form_no_cycle(
    package: str, place: Callable[[str, Path], str]
) -> None:
    assert shown_rings(arrows(package, place)) == ""


def test_mdstorm_imports_only_packages_and_top_level_modules_of_backend() -> None:
    engine = modules("mdstorm_backend").items()
    rooms = {n for n, path in engine if path.name == "__init__.py" or n.count(".") == 1}
    beyond = {
        f"{module} imports from {node.module}"
        for module, path in modules("mdstorm").items()
        for node in import_nodes(path)
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and node.module.startswith("mdstorm_backend.")
        and node.module not in rooms
    }
    assert not beyond


def test_folders_with_an_underscore_are_used_through_what_they_export() -> None:
    beyond = {
        line
        for targets in arrows("mdstorm", folder).values()
        for room, lines in targets.items()
        if room.startswith("mdstorm._")
        for line in lines
        if not line.endswith(f" imports {room}")
    }
    assert not beyond


#: Names of Petastorm and of MosaicML Streaming.
NAMES_OF_OTHERS = {"_encodings", "_main"}


def test_tests_import_no_name_that_begins_with_an_underscore() -> None:
    # The underscore of a folder, such as `mdstorm._spark`, is for users.
    files = {name for package in PACKAGES for name in modules(package)}
    private = {
        f"{path.relative_to(ROOT)} imports {node.module}.{alias.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        if b" _" in path.read_bytes()
        for node in import_nodes(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES
        for alias in node.names
        if alias.name.startswith("_")
        and f"{node.module}.{alias.name}" not in files
        and alias.name not in NAMES_OF_OTHERS
    }
    assert not private


def drawn_floors() -> dict[str, list[tuple[set[str], bool]]]:
    """Return the floors that ARCHITECTURE.md draws for each package, the top one first.

    A floor is its modules, and whether they may import each other.
    """
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Floors")[2]
    found: dict[str, list[tuple[set[str], bool]]] = {}
    for line in text.split("```")[1].splitlines():
        names = re.split(r"\s{2,}", line.strip())[0]
        if re.match(r"\w", line):
            package = found.setdefault(names, [])
        elif names:
            package.append((set(re.findall(r"\w+|…", names)), "│" not in names))
    return found


def linted_floors() -> dict[str, list[tuple[set[str], bool]]]:
    """Return the floors that lint checks, in the same form."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return {
        contract["containers"][0]: [
            (set(re.findall(r"\w+", floor)) - {"__main__"}, "|" not in floor)
            for floor in contract["layers"]
        ]
        for contract in contracts
        if contract["type"] == "layers"
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_floors_on_the_page_are_those_that_lint_checks(package: str) -> None:
    drawn, linted = drawn_floors()[package], linted_floors()[package]
    for (shown, may_import), (names, allowed) in zip(drawn, linted, strict=True):
        assert names >= shown - {"…"}, shown
        assert names == shown or "…" in shown, names ^ shown
        assert may_import is allowed, shown
