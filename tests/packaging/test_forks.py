"""A forked child does not continue with what functions of its parent have put into modules."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: What a child keeps on purpose.
KEPT = {
    ("deletion.py", "_handler"),  # the user's choice also holds for children
    ("renewed.py", "_thread"),  # a child notices that it has no such thread, and starts one
}


def assigned_and_reset(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the global names that a module's functions assign, and those its fork hooks reset."""
    assigned, reset = set[str](), set[str]()
    hooks = {
        ast.unparse(keyword.value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "os.register_at_fork"
        for keyword in call.keywords
        if keyword.arg == "after_in_child"
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            found = [node for node in ast.walk(function) if isinstance(node, ast.Global)]
            names = {name for node in found for name in node.names}
            (reset if function.name in hooks else assigned).update(names)
    return assigned, reset


def test_names_that_functions_assign_in_a_module_are_reset_after_a_fork() -> None:
    left = set()
    for path in (
        file for folder in ("compat", "mds_backend") for file in ROOT.glob(f"{folder}/**/*.py")
    ):
        source = path.read_bytes()
        if b" global " not in source:
            continue
        assigned, reset = assigned_and_reset(ast.parse(source))
        left |= {(path.name, name) for name in assigned - reset}
    assert left == KEPT
