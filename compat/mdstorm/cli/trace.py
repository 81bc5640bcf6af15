"""``mdstorm trace``: the rows of batches after a checkpoint, and where rows come."""

from __future__ import annotations

import json
import os
import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import click
import numpy as np
import pyarrow as pa

from mdstorm import cli
from mdstorm.cli.datasets import one_line, plain
from mdstorm.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.base import require
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.loaders import Trace, trace_of_state
from mdstorm_backend.storage import Location

__all__ = ["trace"]
#: Column for the numbers of the rows.
_NUMBER = "__row__"
#: A larger batch is a mistake, for which the elastic order would allocate gigabytes.
_MOST_ROWS = 1 << 24
_CONDITION = re.compile(r"\s*(\S+)\s*(==|=|!=|<=|>=|<|>|\bnot in\b|\bin\b)\s*(.+?)\s*")


def _batches(text: str) -> range:
    """Return the numbers that a number such as 40, or a range such as 300:340, means."""
    first, colon, stop = text.partition(":")
    if not first.isdecimal() or (colon and not stop.isdecimal()):
        raise click.BadParameter(f"{text!r} is not a number such as 40 or a range such as 300:340")
    return range(int(first), int(stop) if colon else int(first) + 1)


def _condition(text: str) -> tuple[str, str, Any]:
    """Return a column, an operator and a value, which is text unless it is a Python literal."""
    if (found := _CONDITION.fullmatch(text)) is None:
        raise click.BadParameter(f"{text!r} is not a condition such as 'customer = 17'")
    column, operator, value = found.groups()
    try:
        return column, operator, literal_eval(value)
    except (ValueError, SyntaxError):
        return column, operator, value


@click.command(
    epilog=cli.examples(
        "mdstorm trace step-300.pt --dataset /data/events --batch-size 32 --batch 40",
        "mdstorm trace step-300.pt --dataset /data/events --key train --row 12345 --row 777",
        "mdstorm trace step-300.pt --dataset /data/events --where 'customer = 17'",
        "mdstorm trace state.json --dataset /data/mds --batch 300:340 --format parquet",
    )
)
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--dataset", "url", required=True, help="URL of the dataset; it has no default.")
@click.option(
    "--batch",
    type=_batches,
    metavar="NUMBER",
    help="Show its rows, or those of a range such as 300:340; no batch by default.",
)
@click.option(
    "--row",
    type=click.IntRange(min=0),
    multiple=True,
    help="Show where it comes; may be repeated; no row by default.",
)
@click.option(
    "--where",
    type=_condition,
    metavar="CONDITION",
    multiple=True,
    help="Show where rows come that match, such as 'customer = 17'; may be repeated; no rows by "
    "default.",
)
@click.option("--key", help="Key of the state in the checkpoint; by default its only one.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1, max=_MOST_ROWS),
    help="Of the loader; by default as in the state, if that contains it.",
)
@click.option("--drop-last", is_flag=True, help="The loader drops batches that are not full.")
@click.option(
    "--num-workers",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the loader, if it reads in the elastic order.",
)
@click.option(
    "--loader-rows",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File of numpy.save or JSON with the loader's rows=; by default it has none.",
)
@click.option(
    "--loader-where",
    type=_condition,
    metavar="CONDITION",
    multiple=True,
    help="Of the loader's where=; may be repeated; by default it has none.",
)
@click.option(
    "--rank", type=click.IntRange(min=0), default=0, show_default=True, help="Of --batch."
)
@click.option("--ranks", type=click.IntRange(min=1), help="By default those of the checkpoint.")
@cli.columns_option("Names of the columns to show, separated by commas; by default all.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json", "parquet", "csv"]),
    default="table",
    show_default=True,
    help="Format of the standard output, or of the file.",
)
@click.option("-o", "--output", help="File for parquet and csv; batch-N.FORMAT by default.")
@cli.version_options("the dataset")
@cli.storage_option
def trace(
    checkpoint: Path,
    url: str,
    batch: range | None,
    row: Sequence[int],
    where: Sequence[Any],
    key: str | None,
    batch_size: int | None,
    drop_last: bool,
    num_workers: int,
    loader_rows: Path | None,
    loader_where: Sequence[Any],
    rank: int,
    ranks: int | None,
    columns: list[str] | None,
    format_: str,
    output: str | None,
    version: int | str | None,
    timestamp: str | None,
    storage_options: dict[str, Any],
) -> None:
    """Show the rows of batches after CHECKPOINT, or in which batches rows come.

    CHECKPOINT is a file of torch.save or JSON that contains a state. Batches are counted from 0,
    from where the state resumes. Only the rows that are shown are read.
    """
    from mdstorm._datasets import open_dataset

    if sum([batch is not None, bool(row), bool(where)]) != 1:
        raise click.UsageError("pass either --batch or --row or --where")
    as_of: dict[str, Any] = {"version": version, "timestamp": timestamp}
    dataset = open_dataset(url, storage_options=storage_options, **as_of)
    traced = _traced(
        _state_of(checkpoint, key),
        dataset,
        batch_size=batch_size,
        drop_last=drop_last,
        num_workers=num_workers,
        ranks=ranks,
        rows=None if loader_rows is None else _numbers_in(loader_rows),
        where=list(loader_where) or None,
    )
    if batch is None:
        table = _times(traced, np.array(row) if row else dataset.numbers(list(where)))
        title, name = f"{url}: where rows come after {checkpoint}", "rows"
    else:
        numbers = traced.rows(batch, rank)
        table = dataset.to_table(columns, rows=numbers)
        table = table.add_column(0, _NUMBER, pa.array(numbers))
        shown = f"{batch.start}" if len(batch) == 1 else f"{batch.start}:{batch.stop}"
        title, name = f"{url}: batch {shown} of rank {rank}", f"batch-{shown.replace(':', '-')}"
    if format_ in ("parquet", "csv"):
        _write(table, output or f"{name}.{format_}", format_)
    elif format_ == "json":
        cli.write_json([plain(one) for one in table.to_pylist()])
    else:
        values = (map(one_line, one.values()) for one in table.to_pylist())
        cli.write_table(title, table.column_names, values)


def _traced(state: Mapping[str, Any], dataset: SampleDataset, **loader: Any) -> Trace:
    """Return the rows of a pass over a dataset, whose fields the loader decoded or did not."""
    try:
        return trace_of_state(state, dataset, **loader)
    except StateMismatchError:
        if dataset.stored is dataset:
            raise
        return trace_of_state(state, dataset.stored, **loader)


def _times(found: Trace, rows: Any) -> pa.Table:
    """Return when rows come, and the shard and row of each in the files."""
    if len(rows) == 1:
        found.where(int(rows[0]))  # the error gives the reason if the row does not come
    table = found.find(rows)
    places = [found.shard_and_row(row) for row in table["row"].to_pylist()]
    for number, name in enumerate(("shard", "row_in_shard")):
        table = table.append_column(name, pa.array([one[number] for one in places], pa.int64()))
    return table


def _state_of(checkpoint: Path, key: str | None) -> Mapping[str, Any]:
    """Return the state in a checkpoint, or the one of several that has a key."""
    states = {
        ".".join(path): state
        for path, state in _states_in(_read_checkpoint(checkpoint))
        if isinstance(state["mdstorm"], Mapping)
    }
    if key is not None:
        chosen = {path: one for path, one in states.items() if f".{key}." in f".{path}."}
        if not chosen:
            raise InvalidArgumentError(
                f"{checkpoint} has no state of mdstorm under the key {key!r}, only under "
                f"{list(states)}: pass one of these"
            )
        states = chosen
    if not states:
        raise InvalidArgumentError(
            f"{checkpoint} contains no state of mdstorm: save state_dict() of the loader as JSON, "
            "and pass that file"
        )
    state, *others = states.values()
    if any(other != state for other in others):
        raise InvalidArgumentError(
            f"{checkpoint} contains {len(states)} different states of mdstorm, under "
            f"{list(states)}: choose one with --key"
        )
    return state


def _read_checkpoint(checkpoint: Path) -> Any:
    """Read a checkpoint, without executing code in it."""
    try:
        content = checkpoint.read_bytes()
        if content.removeprefix(b"\xef\xbb\xbf")[:1] == b"{":
            return json.loads(content.decode("utf-8-sig"))
        return require("torch").load(checkpoint, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except (ValueError, RuntimeError, EOFError, LookupError, OSError, UnpicklingError) as error:
        raise InvalidArgumentError(
            f"{checkpoint} cannot be read as JSON or by torch.load(weights_only=True), which loads "
            "no pickled objects: save the state alone, torch.save(loader.state_dict(), path), and "
            f"pass that file ({type(error).__name__})"
        ) from error


def _states_in(value: Any) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield each state in nested dicts and lists, and the keys that lead to it."""
    seen: set[int] = set()
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, Mapping):
            if {"mdstorm", "sample_in_epoch"} <= one.keys():
                yield path, one
                continue
            items: Any = one.items()
        elif isinstance(one, (list, tuple)):
            items = enumerate(one)
        else:
            continue
        if id(one) not in seen:  # a checkpoint may refer to itself
            seen.add(id(one))
            waiting += [((*path, str(key)), item) for key, item in items]


def _numbers_in(path: Path) -> Any:
    """Return the numbers of rows, or the mask, in a file of numpy.save or JSON."""
    try:
        return np.load(path) if path.suffix == ".npy" else np.array(json.loads(path.read_bytes()))
    except ValueError as error:
        raise InvalidArgumentError(
            f"{path} cannot be read as numbers of rows ({error}): write it with numpy.save, or as "
            "a list in JSON"
        ) from error


def _write(table: pa.Table, path: str, format_: str) -> None:
    content = pa.BufferOutputStream()
    if format_ == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, content)
    else:
        from pyarrow import csv

        try:
            csv.write_csv(table, content)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(
                f"{path} cannot hold all columns ({error}): pass --columns or --format parquet"
            ) from error
    folder, name = os.path.split(path)
    if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/stdout
        Path(path).write_bytes(content.getvalue())
    else:
        Location.of(folder or ".").write(name, [content.getvalue()])
    click.echo(f"{path}: {table.num_rows} rows")
