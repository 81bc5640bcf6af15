"""``mdstorm trace``: the rows of a batch after a checkpoint, and where a row comes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import click
import pyarrow as pa

from mdstorm import cli
from mdstorm.cli.datasets import one_line, plain
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import require
from mdstorm_backend.datasets import ChosenRows
from mdstorm_backend.loaders import trace_of_state

__all__ = ["trace"]
#: Column for the numbers of the rows.
_NUMBER = "__row__"


@click.command(
    epilog=cli.examples(
        "mdstorm trace step-300.pt --dataset /data/events --batch-size 32 --batch 40",
        "mdstorm trace step-300.pt --dataset /data/events --batch-size 32 --row 12345",
        "mdstorm trace state.json --dataset /data/mds --batch-size 8 --batch 4 --format parquet",
    )
)
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--dataset", "url", required=True, help="URL of the dataset; it has no default.")
@click.option("--batch", type=click.IntRange(min=0), help="Show its rows; no batch by default.")
@click.option("--row", type=click.IntRange(min=0), help="Show where it comes; no row by default.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    help="Of the loader; there is no default, except for a reader's state.",
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
@cli.storage_option
def trace(
    checkpoint: Path,
    url: str,
    batch: int | None,
    row: int | None,
    batch_size: int | None,
    drop_last: bool,
    num_workers: int,
    rank: int,
    ranks: int | None,
    columns: list[str] | None,
    format_: str,
    output: str | None,
    storage_options: dict[str, Any],
) -> None:
    """Show the rows of a batch after CHECKPOINT, or in which batch a row comes.

    CHECKPOINT is a file of torch.save or JSON that contains a state. Batches are counted from 0,
    from where the state resumes. Only the rows that are shown are read.
    """
    from mdstorm._datasets import open_stored

    if (batch is None) == (row is None):
        raise click.UsageError("pass either --batch or --row")
    state = _state_of(checkpoint)
    if batch_size is None and "row" not in state["mdstorm"]:
        raise click.UsageError("pass the loader's --batch-size, which its state does not contain")
    dataset = open_stored(url, storage_options=storage_options)
    found = trace_of_state(
        state,
        dataset,
        batch_size=batch_size or 1,
        drop_last=drop_last,
        num_workers=num_workers,
        ranks=ranks,
    )
    if row is not None:
        where, (shard, within) = found.where(row), found.shard_and_row(row)
        if format_ == "json":
            cli.write_json({"row": row, **where._asdict(), "shard": shard, "row_in_shard": within})
        else:
            stored = f"row {row} (row {within} of shard {shard})"
            click.echo(f"{stored} comes in batch {where.batch} of rank {where.rank}")
        return
    numbers = found.rows(batch or 0, rank)
    table = ChosenRows(dataset, numbers).to_table(columns)
    table = table.add_column(0, _NUMBER, pa.array(numbers))
    if format_ in ("parquet", "csv"):
        _write(table, output or f"batch-{batch}.{format_}", format_)
    elif format_ == "json":
        cli.write_json([plain(one) for one in table.to_pylist()])
    else:
        values = (map(one_line, one.values()) for one in table.to_pylist())
        cli.write_table(f"{url}: batch {batch} of rank {rank}", table.column_names, values)


def _state_of(checkpoint: Path) -> Mapping[str, Any]:
    """Return the state in a checkpoint, which contains exactly one."""
    found = [
        state for state in _states_in(_read(checkpoint)) if isinstance(state["mdstorm"], Mapping)
    ]
    if any(state != found[0] for state in found[1:]) or not found:
        raise InvalidArgumentError(
            f"{checkpoint} contains {len(found)} states of mdstorm, where one is needed: save "
            "state_dict() of the loader as JSON, and pass that file"
        )
    return found[0]


def _read(checkpoint: Path) -> Any:
    """Read a checkpoint, without executing code in it."""
    with checkpoint.open("rb") as file:
        is_json = file.read(1) == b"{"
    try:
        if is_json:
            return json.loads(checkpoint.read_bytes())
        return require("torch").load(checkpoint, map_location="cpu", weights_only=True)
    except (ValueError, RuntimeError, EOFError, UnpicklingError) as error:
        raise InvalidArgumentError(
            f"{checkpoint} cannot be read as JSON or by torch.load(weights_only=True): save "
            "state_dict() of the loader as JSON, and pass that file"
        ) from error


def _states_in(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if {"mdstorm", "sample_in_epoch"} <= value.keys():
            yield value
            return
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    for one in value:
        yield from _states_in(one)


def _write(table: pa.Table, path: str, format_: str) -> None:
    if format_ == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, path)
    else:
        from pyarrow import csv

        try:
            csv.write_csv(table, path)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(
                f"{path} cannot hold all columns ({error}): pass --columns or --format parquet"
            ) from error
    click.echo(f"{path}: {table.num_rows} rows")
