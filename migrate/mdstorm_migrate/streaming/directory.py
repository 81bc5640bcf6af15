"""Where datasets are written: the parent cache directory that the module sets in Spark's conf."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

from mdstorm_migrate.conf_writes import ConfWrite, conf_writes
from mdstorm_migrate.literals import string_value
from mdstorm_migrate.module import PythonModule

__all__ = ["Directory", "DirectoryError", "find_directory"]

_SCHEME = re.compile(r"([A-Za-z][\w+.-]*):")
_REMOTE = frozenset({"azure", "azure-dl", "gs", "hf", "oci", "s3"})


class DirectoryError(ValueError):
    """Why it cannot be told where to write."""


@dataclass(frozen=True)
class Directory:
    """The parent directory.

    Attributes
    ----------
    write : ConfWrite
        What sets it: a statement of its own.
    argument : {"local", "remote"}
        The argument of `StreamingDataset` for what lies in it.
    """

    write: ConfWrite
    argument: Literal["local", "remote"]


def find_directory(module: PythonModule, makers: list[ast.Call]) -> Directory:
    """Return the parent directory of the datasets that some calls write.

    Raises
    ------
    DirectoryError
        If there is none, or several, or it is not known where the calls stand, or MosaicML
        Streaming cannot write there.
    """
    writes = list(conf_writes(module))
    if len(writes) != 1:
        where = "several times in" if writes else "outside of"
        raise DirectoryError(f"the parent cache directory is set {where} this file")
    write = writes[0]
    statement = module.statement(write.call)
    if not (isinstance(statement, ast.Expr) and statement.value is write.call):
        raise DirectoryError("the parent cache directory is set within a larger expression")
    if not all(_is_known(module, write, maker) for maker in makers):
        raise DirectoryError("the parent cache directory is not known where the converter is made")
    scheme = _SCHEME.match(_beginning(module, write.value, write) or "")
    name = scheme[1].lower() if scheme is not None else "file"
    if name not in _REMOTE | {"file"}:
        raise DirectoryError(f"MosaicML Streaming does not write to {name}:")
    return Directory(write, "remote" if name in _REMOTE else "local")


def _is_known(module: PythonModule, write: ConfWrite, maker: ast.Call) -> bool:
    """Whether a name that is given a value where the conf is set is seen at a call."""
    home = module.scopes.scopes[write.call]
    scope = module.scopes.scopes[maker]
    while scope is not home and scope.parent is not None:
        scope = scope.parent
    return scope is home and not home.is_class and _may_precede(module, write.call, maker)


def _may_precede(module: PythonModule, first: ast.Call, second: ast.Call) -> bool:
    """Whether the value is there when a call of the same scope is made."""
    scopes = module.scopes.scopes
    return scopes[first] is not scopes[second] or module.span(first) < module.span(second)


def _beginning(module: PythonModule, value: ast.expr, write: ConfWrite) -> str | None:
    """Return how a string begins, if that is written here."""
    for _ in range(5):
        if isinstance(value, ast.BinOp):
            value = value.left
        elif isinstance(value, ast.JoinedStr) and value.values:
            value = value.values[0]
        elif isinstance(value, ast.Name):
            bindings = module.bindings(value.id, module.scopes.scopes[write.call])
            statement = module.scopes.parents.get(bindings[0].node) if len(bindings) == 1 else None
            if not isinstance(statement, ast.Assign):
                return None
            value = statement.value
        else:
            return string_value(value)
    return None
