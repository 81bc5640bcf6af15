"""PM118: ``isinstance`` of a loader's class, which loaders of the converter are not."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule

CODE = "PM118"
TITLE = "Loaders of the converter are torch's, not Petastorm's"
CLASS: Class = "manual"
KIND = "python"

#: Classes that objects of `make_torch_dataloader` and `make_tf_dataset` have in Petastorm alone.
_CLASSES = frozenset(
    [
        "BatchedDataLoader",
        "DataLoader",
        "LoaderBase",
        "TFDatasetContextManager",
        "TorchDatasetContextManager",
    ]
)
#: Those that a file may make itself.
_MADE = _CLASSES | {"InMemBatchedDataLoader"}


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each test of such a class, unless the file makes loaders itself."""
    made = {path.rpartition(".")[2] for _, path in module.calls}
    for call in module.scopes.calls:
        if not (isinstance(call.func, ast.Name) and call.func.id == "isinstance"):
            continue
        for node in _classes(call):
            path = module.resolve(node, module.scopes.scopes[call])
            name = (path or "").rpartition(".")[2]
            if path is not None and name in _CLASSES and not made & _MADE:
                what = f"what the converter makes is no `{name}` in mdstorm"
                remedy = (
                    f"{what}: a loader is a `torch.utils.data.DataLoader`, a dataset a "
                    "`tf.data.Dataset`; test for that as well"
                )
                yield Finding(CODE, CLASS, *module.span(node), what, remedy)


def _classes(call: ast.Call) -> Iterator[ast.expr]:
    for node in call.args[1:2]:
        match node:
            case ast.Tuple(elts=elements):
                yield from elements
            case ast.BinOp(left=left, right=right):
                yield from (left, right)
            case _:
                yield node
