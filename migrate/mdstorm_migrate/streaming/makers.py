"""One call of ``make_spark_converter``, and the expression that takes its place."""

from __future__ import annotations

import ast

from mdstorm_migrate.module import PythonModule

__all__ = ["maker_expression", "maker_obstacle"]

_MAKER_ARGUMENTS = frozenset({"compression_codec", "df", "dtype", "parquet_row_group_size_bytes"})
#: By `dtype` of ``make_spark_converter``: what ``write_mds`` is given.
_FLOATS = {"float32": "", None: ", floats=None", "float64": ', floats="double"'}


def maker_expression(module: PythonModule, call: ast.Call, directory: str) -> str:
    """Return what writes the frame below the directory of a name."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    frame = module.source_of(call.args[0] if call.args else given["df"])
    dtype = given.get("dtype", ast.Constant("float32"))
    assert isinstance(dtype, ast.Constant)
    return f"write_mds({frame}, {directory}{_FLOATS[dtype.value]})"  # type: ignore[index]


def maker_obstacle(call: ast.Call) -> str | None:
    """Return why a call cannot be turned; None if it can."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    frames = [*call.args, *([given["df"]] if "df" in given else [])]
    if (
        len(frames) != 1
        or isinstance(frames[0], ast.Starred)
        or not given.keys() <= _MAKER_ARGUMENTS
    ):
        return "what the converter is given cannot be told apart here"
    dtype = given.get("dtype")
    if dtype is not None and not (isinstance(dtype, ast.Constant) and dtype.value in _FLOATS):
        return "its dtype cannot be told"
    return None
