"""``mdstorm convert``: convert datasets to MDS."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from mdstorm.cli import _common
from mdstorm_backend.base import require
from mdstorm_backend.display import counted, human_bytes
from mdstorm_backend.format import parse_size
from mdstorm_backend.spark import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["convert"]


@click.command(
    epilog=_common.examples(
        "mdstorm convert /data/parquet /data/mds",
        "mdstorm convert s3://bucket/table s3://bucket/mds --dtype float32 --compression zstd",
    )
)
@click.argument("source", metavar="SRC")
@click.argument("url", metavar="DST")
@_common.columns_option("Names of the columns to convert, separated by commas; by default all.")
@_common.dtype_option("Type of floating-point numbers; by default they keep theirs.")
@_common.decimals_option(
    "Type of decimals, and of the elements of arrays of them; by default decimal."
)
@click.option("--shard-size", metavar="SIZE", help="Largest size of a shard; 64mb by default.")
@click.option(
    "--keep-row-groups/--fill-shards",
    default=None,
    help="Whether each row group becomes a shard; by default for datasets of Petastorm.",
)
@click.option(
    "--compression",
    metavar="CODEC",
    help="zstd, gz, bz2, br or snappy, optionally with :LEVEL; by default none.",
)
@click.option(
    "--hash",
    "hashes",
    multiple=True,
    help="Hash of every file to record in the index; by default none.",
)
@click.option("--overwrite", is_flag=True, help="Replace the dataset at DST, once it is complete.")
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Resume an interrupted conversion.",
)
@click.option("--spark", is_flag=True, help="Convert with a Spark job, in Spark's order of rows.")
@_common.threads_option("Row groups to convert at a time")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@_common.version_options
@_common.storage_option
@_common.format_option
def convert(
    source: str,
    url: str,
    shard_size: str | None,
    hashes: tuple[str, ...],
    resume: bool,
    spark: bool,
    threads: int | None,
    quiet: bool,
    format_: str,
    **options: Any,
) -> None:
    """Convert the Parquet files, Delta table or Petastorm dataset at SRC to an MDS dataset at DST.

    Values and the order of rows are kept. An interrupted conversion resumes when you run it again.
    """
    from mdstorm._conversion import convert as convert_dataset

    size = None if shard_size is None else parse_size(shard_size)
    try:
        dataset = convert_dataset(
            source,
            url,
            shard_size=size,
            hashes=sorted(hashes),
            resume=resume,
            spark=_session() if spark else None,
            workers=threads,
            progress=False if quiet else None,
            **options,
        )
    except KeyboardInterrupt:
        goes_on = resume and not spark
        then = "run it again to go on where it stopped" if goes_on else "nothing was kept"
        raise KeyboardInterrupt(then) from None
    if quiet:
        return
    shards = len(dataset.index.shards)
    stored = sum(shard.stored.bytes for shard in dataset.index.shards)
    if format_ == "json":
        found = {
            "url": dataset.url,
            "rows": len(dataset),
            "shards": shards,
            "bytes": stored,
            "columns": {column.name: column.encoding for column in dataset.schema},
        }
        _common.write_json(found)
        return
    compared = {name: options[name] for name in ("dtype", "decimals", "version", "timestamp")}
    compared["columns"] = ",".join(options["columns"] or []) or None
    given = "".join(
        f"--{name} {shlex.quote(str(value))} "
        for name, value in compared.items()
        if value is not None
    )
    next_step = f"Compare with: mdstorm verify {given}--against {shlex.quote(source)}"
    if spark:  # Spark may have changed the order of rows
        next_step = "Check with: mdstorm verify"
    click.echo(
        f"{dataset.url}: {counted(len(dataset), 'row')} in {counted(shards, 'shard')}, "
        f"{human_bytes(stored)}. {next_step} {shlex.quote(url)}"
    )


def _session() -> SparkSession:
    require("pyspark")
    from pyspark.sql import SparkSession

    return start_session(SparkSession.builder.appName("mdstorm convert"))
