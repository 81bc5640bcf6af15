"""``mdstorm cache``: list and clear the shard cache."""

from __future__ import annotations

import click

from mdstorm._spark.deletion import unfinished_copies
from mdstorm.cli import Group, examples, format_option, write_json, write_table
from mdstorm_backend.cache import CachedDataset, cache_root, clear_cached, list_cached
from mdstorm_backend.display import counted, human_bytes
from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage import Location, normalize_url
from mdstorm_backend.write import remove_dataset

__all__ = ["cache"]


def _existing(ctx: click.Context, parameter: click.Parameter, directory: str) -> str:
    """Return a directory as a local path or URL; raise StorageError if a chosen one is missing."""
    location = Location.of(directory)
    if directory != cache_root() and location.describe() is None:
        raise StorageError(f"there is nothing at {location.url}: check the path", url=location.url)
    return location.path if location.is_in_file_tree else location.url


_directory_option = click.option(
    "--directory",
    metavar="DIRECTORY",
    default=cache_root,
    callback=_existing,
    help="A cache directory, or a directory of them, or a converter's parent cache directory; by "
    "default MDSTORM_CACHE_DIR, or a directory in the system's directory for temporary files.",
)


@click.group(
    cls=Group, epilog=examples("mdstorm cache ls", "mdstorm cache clear s3://bucket/events")
)
def cache() -> None:
    """List or clear the local copies of remote shards."""


@cache.command(epilog=examples("mdstorm cache ls --format json"))
@_directory_option
@format_option
def ls(directory: str, format_: str) -> None:
    """List the datasets with cached shards, least recently used first.

    Unfinished copies of DataFrames, left behind by killed jobs, are listed last.
    """
    found = [*list_cached(directory), *unfinished_copies(directory)]
    if format_ == "json":
        write_json([_to_json(one) for one in found])
        return
    names = ["dataset", "shards", "bytes", "last use", "directory"]
    rows = [
        (
            one.url,
            f"{one.shards:,}",
            human_bytes(one.bytes),
            one.last_use.astimezone().strftime("%Y-%m-%d %H:%M") if one.last_use else "",
            one.directory,
        )
        for one in found
    ]
    write_table(directory, names, rows, numbers=("shards", "bytes"))
    click.echo(_size(found))


@cache.command(epilog=examples("mdstorm cache clear s3://bucket/events --yes"))
@click.argument("url", required=False)
@_directory_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def clear(url: str | None, directory: str, yes: bool) -> None:
    """Remove cached shards: all of them, or those of the dataset at URL.

    Only files that the cache created are removed, and none that another process is downloading.
    Without URL, unfinished copies of DataFrames, left behind by killed jobs, are removed, too.
    """
    wanted = None if url is None else normalize_url(url)
    found = [one for one in list_cached(directory) if wanted is None or one.url == wanted]
    unfinished = unfinished_copies(directory) if wanted is None else []
    if not (found := [*found, *unfinished]):
        click.echo("nothing is cached", err=True)
        return
    if not yes:
        click.confirm(f"Remove {_size(found)}?", abort=True, err=True)
    removed = clear_cached(directory, url)
    for copy in unfinished:
        remove_dataset(Location.of(copy.directory))
        removed += copy.bytes
    click.echo(f"removed {human_bytes(removed)}")


def _size(found: list[CachedDataset]) -> str:
    shards, size = sum(one.shards for one in found), sum(one.bytes for one in found)
    return f"{counted(shards, 'shard')} of {counted(len(found), 'dataset')}, {human_bytes(size)}"


def _to_json(one: CachedDataset) -> dict[str, object]:
    return {**vars(one), "last_use": one.last_use.isoformat() if one.last_use else None}
