"""What migrated code gets: imports, and functions for what Petastorm did on the way."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from mdstorm_migrate.module import PythonModule

__all__ = ["HELPERS", "Helper", "block_of", "imports_of", "taken_names"]


@dataclass(frozen=True)
class Helper:
    """A function or a class of the migrated code, or just names that it imports.

    Attributes
    ----------
    name : str
    imports : tuple of str
        Import statements that it needs, or that its uses need.
    code : str
        Empty if there is nothing to define.
    """

    name: str
    imports: tuple[str, ...] = ()
    code: str = ""


_WRITE = '''\
def write_mds(df, parent, floats="float"):
    """Write a Spark DataFrame as an MDS dataset of its own below `parent`; return its directory.

    Floating-point columns become `floats`; None leaves them as they are.
    """
    columns = []
    for name, kind in df.dtypes:
        column = df[f"`{name}`"]
        if kind == "vector":
            from pyspark.ml.functions import vector_to_array

            column, kind = vector_to_array(column), "array<double>"
        is_array = kind.startswith("array<")
        item = kind.removeprefix("array<").removesuffix(">") if is_array else kind
        if item in ("float", "double"):
            item = floats or item
        elif not is_array:
            # MDS has no booleans, and dataframe_to_mds() takes short integers for unsigned ones.
            item = {"boolean": "tinyint", "tinyint": "int", "smallint": "int"}.get(kind, kind)
        columns.append(column.cast(f"array<{item}>" if is_array else item).alias(name))
    out = f"{parent.removeprefix('file://').rstrip('/')}/{uuid.uuid4().hex}"
    dataframe_to_mds(df.select(columns), mds_kwargs={"out": out, "compression": None})
    return out
'''

_EPOCHS = '''\
def epochs_of(loader, count=None):
    """Yield the batches of `count` epochs, one after the other; without an end if it is None."""
    epoch = 0
    while count is None or epoch < count:
        yield from loader
        epoch += 1
'''

_COLLATE = '''\
class TransformedBatch:
    """Makes a batch of samples: a pandas DataFrame that `func` changes, then tensors."""

    def __init__(self, func=None, edit_fields=None, removed_fields=None, selected_fields=None):
        self.func = func
        self.edited = {name: (dtype, shape) for name, dtype, shape, *_ in edit_fields or ()}
        self.removed = frozenset(removed_fields or ())
        self.selected = selected_fields

    def __call__(self, samples):
        columns = {name: [sample[name] for sample in samples] for name in samples[0]}
        frame = pd.DataFrame({name: self.series(values) for name, values in columns.items()})
        if self.func is not None:
            frame = self.func(frame)
        names = list(frame) if self.selected is None else self.selected
        kept = [name for name in names if name not in self.removed]
        return {name: default_collate(self.values(name, frame[name])) for name in kept}

    @staticmethod
    def series(values):
        is_number = isinstance(values[0], np.generic)
        return pd.Series(np.array(values)) if is_number else pd.Series(values, dtype=object)

    def values(self, name, series):
        if name not in self.edited:
            return list(series.to_numpy())
        dtype, shape = self.edited[name]
        arrays = [np.array(value, dtype) for value in series]
        return arrays if None in shape else [array.reshape(shape) for array in arrays]
'''

#: What a plan may ask for, in the order in which it is written.
HELPERS = {
    helper.name: helper
    for helper in (
        Helper(
            "write_mds",
            ("import uuid", "from streaming.base.converters import dataframe_to_mds"),
            _WRITE,
        ),
        Helper("epochs_of", (), _EPOCHS),
        Helper(
            "TransformedBatch",
            (
                "import numpy as np",
                "import pandas as pd",
                "from torch.utils.data import default_collate",
            ),
            _COLLATE,
        ),
        Helper("nullcontext", ("from contextlib import nullcontext",)),
        Helper("shutil", ("import shutil",)),
        Helper("StreamingDataset", ("from streaming import StreamingDataset",)),
        Helper("StreamingDataLoader", ("from streaming import StreamingDataLoader",)),
    )
}


def imports_of(names: Iterable[str]) -> list[str]:
    """Return the import statements for some helpers: first those of the standard library."""
    found = {line for name in names for line in HELPERS[name].imports}
    both = {line for line in found if line.startswith("from streaming import ")}
    if len(both) > 1:
        found = found - both | {"from streaming import StreamingDataLoader, StreamingDataset"}

    def position(line: str) -> tuple[bool, bool, str]:
        module = line.split()[1].partition(".")[0]
        return module not in sys.stdlib_module_names, line.startswith("from"), line

    return sorted(found, key=position)


def block_of(names: Iterable[str]) -> list[str]:
    """Return the definitions of some helpers, each without the newline at its end."""
    wanted = set(names)
    return [
        one.code.removesuffix("\n") for one in HELPERS.values() if one.name in wanted and one.code
    ]


def taken_names(module: PythonModule, names: Iterable[str] = ()) -> list[str]:
    """Return which of some names, and of those that new code uses, mean something else already."""
    imported = _imported_targets()
    defined = [*(one.name for one in HELPERS.values() if one.code), *names]
    taken = [name for name in defined if re.search(rf"\b{name}\b", module.text)]
    for name, target in imported.items():
        bindings = module.scopes.module.bindings.get(name, ())
        taken += [name] if any(binding.target != target for binding in bindings) else []
    return taken


@lru_cache(maxsize=1)
def _imported_targets() -> dict[str, str]:
    """Return what new imports bind, with the dotted paths that it stands for."""
    found = {}
    for line in (line for one in HELPERS.values() for line in one.imports):
        match = re.fullmatch(r"(?:from (\S+) )?import (\S+)(?: as (\S+))?", line)
        assert match is not None
        module, name, alias = match.groups()
        found[alias or name] = f"{module}.{name}" if module else name
    return found
