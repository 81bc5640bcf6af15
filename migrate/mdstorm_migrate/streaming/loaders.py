"""One call of ``make_torch_dataloader``, and the expression that takes its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mdstorm_migrate.module import PythonModule
from mdstorm_migrate.streaming.shards import ADVICE, come_from_environment

__all__ = ["TRANSFORMED", "LoaderCall", "loader_call"]

#: The class that takes the place of ``TransformSpec``.
TRANSFORMED = "TransformedBatch"

#: Arguments about how Petastorm reads, of which the outcome does not depend.
_DROPPED = frozenset(
    {
        "convert_early_to_numpy",
        "hdfs_driver",
        "reader_pool_type",
        "results_queue_size",
        "shuffling_queue_capacity",
        "storage_options",
        "zmq_copy_buffers",
    }
)
_TAKEN = frozenset(
    {
        "batch_size",
        "cur_shard",
        "num_epochs",
        "seed",
        "shard_count",
        "shard_seed",
        "shuffle_row_groups",
        "transform_spec",
        "workers_count",
    }
)
#: A call that is written: its name and its arguments.
_Call: TypeAlias = "tuple[str, list[_Call | str]]"

#: Petastorm's default.
_BATCH_SIZE = "32"
_LONGEST = 88

_REPEATABLE = (
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.BinOp,
    ast.operator,
    ast.expr_context,
)
_PURE = frozenset({"int", "len", "max", "min"})


@dataclass
class LoaderCall:
    """What is known of a call.

    Attributes
    ----------
    call : ast.Call
    obstacles : list of (ast.AST, str)
        What has no counterpart, and why.
    given : dict of str to ast.expr
        Its arguments that matter.
    shards : list of ast.keyword
        Those that the environment gives.
    """

    call: ast.Call
    obstacles: list[tuple[ast.AST, str]] = field(default_factory=list)
    given: dict[str, ast.expr] = field(default_factory=dict)
    shards: list[ast.keyword] = field(default_factory=list)

    @property
    def transform(self) -> ast.expr | None:
        """What transforms rows."""
        return self.given.get("transform_spec")

    @property
    def epochs(self) -> ast.expr | None:
        """The number of epochs if it is not 1."""
        value = self.given.get("num_epochs")
        is_one = isinstance(value, ast.Constant) and value.value == 1 and value.value is not True
        return None if is_one else value or ast.Constant(None)

    def helpers(self) -> Iterator[str]:
        """Yield the names of helpers that the expression needs."""
        yield from ("nullcontext", "StreamingDataset", "StreamingDataLoader")
        if self.epochs is not None:
            yield "epochs_of"

    def expression(self, module: PythonModule, place: str, specs: Sequence[ast.expr]) -> str:
        """Return what takes the place of the call.

        Parameters
        ----------
        module : PythonModule
        place : {"local", "remote"}
            Where the dataset is.
        specs : sequence of ast.expr
            What is called in the module to make transforms, also in the call itself.
        """
        assert isinstance(self.call.func, ast.Attribute)
        texts = {name: module.source_of(value) for name, value in self.given.items()}
        if self.transform is not None:
            texts["transform_spec"] = _with_makers(module, self.transform, specs)
        size = f"batch_size={texts.get('batch_size', _BATCH_SIZE)}"
        dataset = [f"{place}={module.source_of(self.call.func.value)}", size]
        has_queue = texts.get("shuffling_queue_capacity", "0") != "0"
        shuffle = "True" if has_queue else texts.get("shuffle_row_groups", "True")
        if shuffle != "False":
            dataset.append(f"shuffle={shuffle}")
        if (seed := texts.get("seed", texts.get("shard_seed", "None"))) != "None":
            dataset.append(f"shuffle_seed={seed}")
        loader: list[_Call | str] = [f"StreamingDataset({', '.join(dataset)})", size]
        if "workers_count" in texts and texts.get("reader_pool_type") not in ("'dummy'", '"dummy"'):
            loader.append(f"num_workers={texts['workers_count']}")
        if self.transform is not None:
            loader.append(f"collate_fn={texts['transform_spec']}")
        return self._laid_out(module, ("StreamingDataLoader", loader))

    def _laid_out(self, module: PythonModule, node: _Call) -> str:
        if self.epochs is not None:
            is_endless = isinstance(self.epochs, ast.Constant) and self.epochs.value is None
            node = "epochs_of", [node, *([] if is_endless else [module.source_of(self.epochs)])]
        node = "nullcontext", [node]
        start, _ = module.span(self.call)
        lines = module.document.lines
        text = _on_one_line(node)
        if start - lines.start_of(start) + len(text) <= _LONGEST:
            return text
        indent = lines.newline + lines.indent_of(start)
        return _on_lines(node, indent, "\t" if "\t" in indent else "    ")


def _with_makers(module: PythonModule, node: ast.expr, specs: Sequence[ast.expr]) -> str:
    """Return the source of `node`, which makes batches where it made transforms."""
    start, stop = module.span(node)
    text = ""
    for first, last in sorted(map(module.span, specs)):
        if start <= first < stop:
            text += module.text[start:first] + TRANSFORMED
            start = last
    return text + module.text[start:stop]


def _on_one_line(node: _Call | str) -> str:
    if isinstance(node, str):
        return node
    name, arguments = node
    return f"{name}({', '.join(map(_on_one_line, arguments))})"


def _on_lines(node: _Call | str, indent: str, step: str) -> str:
    """Return a call with a line for each argument, as formatters write it."""
    if isinstance(node, str):
        return node
    name, arguments = node
    written = [_on_lines(one, indent + step, step) for one in arguments]
    comma = "," if len(written) > 1 else ""
    inner = f",{indent}{step}".join(written)
    return f"{name}({indent}{step}{inner}{comma}{indent})"


def loader_call(module: PythonModule, call: ast.Call) -> LoaderCall:
    """Return what is known of a call of ``make_torch_dataloader``."""
    found = LoaderCall(call)
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        found.obstacles.append((call, "what the loader is given cannot be told apart here"))
        return found
    for keyword in call.keywords:
        name, value = keyword.arg or "", keyword.value
        if name not in _TAKEN | _DROPPED:
            found.obstacles.append((keyword, f"MosaicML Streaming has nothing for `{name}`"))
        if not (name == "transform_spec" and _is_none(value)):
            found.given[name] = value
    _check_shards(module, found)
    size = found.given.get("batch_size")
    if size is not None and not _is_repeatable(size):
        reason = "the batch size is needed twice: give it a name"
        found.obstacles.append((size, reason))
    return found


def _check_shards(module: PythonModule, found: LoaderCall) -> None:
    shard, count = found.given.get("cur_shard"), found.given.get("shard_count")
    given = [one for one in found.call.keywords if one.arg in ("cur_shard", "shard_count")]
    if come_from_environment(module, shard, count, module.scopes.scopes[found.call]):
        found.shards = given
    else:
        found.obstacles.append((given[0], ADVICE))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_repeatable(node: ast.expr) -> bool:
    """Whether it can be written twice: it does nothing but give a number."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            if not (isinstance(one.func, ast.Name) and one.func.id in _PURE and not one.keywords):
                return False
        elif not isinstance(one, _REPEATABLE):
            return False
    return True
