"""PM112: repartitioning before the conversion, which mdstorm does not need."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule

CODE = "PM112"
TITLE = "Repartitioning is no longer needed to shard"
CLASS: Class = "note"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a note for each DataFrame that is repartitioned in the call that converts it.

    There is none for ``coalesce``, because merging many tiny partitions is useful.
    """
    for call, path in module.calls:
        if path.rpartition(".")[2] != "make_spark_converter" or not call.args:
            continue
        frame = call.args[0]
        method = frame.func if isinstance(frame, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr == "repartition":
            what = (
                ".repartition() can be removed: mdstorm shards by rows, no matter how they are "
                "partitioned"
            )
            yield Finding(CODE, CLASS, *module.span(frame), what)
