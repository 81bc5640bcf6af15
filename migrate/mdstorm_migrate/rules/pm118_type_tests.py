"""PM118: ``isinstance`` tests for a class that the converter's loaders do not belong to."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule

CODE = "PM118"
TITLE = "Loaders of the converter are torch's, not Petastorm's"
CLASS: Class = "manual"
KIND = "python"

#: Classes of the loaders that Petastorm's converter returns, but mdstorm's does not.
_CLASSES = frozenset(
    [
        *("BatchedDataLoader", "DataLoader", "LoaderBase"),
        *("TFDatasetContextManager", "TorchDatasetContextManager"),
    ]
)


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each test for such a class, unless the file makes loaders itself."""
    made = {path.rpartition(".")[2] for _, path in module.calls}
    if made & {*_CLASSES, "InMemBatchedDataLoader"}:
        return
    for call in module.scopes.calls:
        if ast.unparse(call.func) == "isinstance":
            for node in (one for classes in call.args[1:2] for one in ast.walk(classes)):
                path = module.resolve(node, module.scopes.scopes[call])
                name = (path or "").rpartition(".")[2]
                if name in _CLASSES:
                    what = f"in mdstorm, the converter does not return a `{name}`"
                    remedy = (
                        f"{what}: loaders are `torch.utils.data.DataLoader` and datasets "
                        "`tf.data.Dataset`; also test for those"
                    )
                    yield Finding(CODE, CLASS, *module.span(node), what, remedy)
