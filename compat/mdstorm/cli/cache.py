"""``mdstorm cache``: list and clear the shard cache, and a converter's copies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import click

from mdstorm._spark import (
    ENVIRONMENT_VARIABLE,
    KeptCopy,
    checked_directory,
    delete_dir,
    list_copies,
    unfinished_copies,
)
from mdstorm.cli import CommandGroup, examples, format_option, write_json, write_table
from mdstorm_backend.cache import CachedDataset, cache_root, clear_cached, list_cached
from mdstorm_backend.display import counted, human_bytes
from mdstorm_backend.errors import InvalidArgumentError, StorageError
from mdstorm_backend.storage import Location, normalize_url
from mdstorm_backend.write import remove_dataset

__all__ = ["cache"]


def _existing(ctx: click.Context, parameter: click.Parameter, directory: str) -> str:
    """Return a directory as a local path or URL, or raise StorageError if it is missing."""
    location = Location.of(directory)
    if directory != cache_root() and location.describe() is None:
        raise StorageError(f"there is nothing at {location.url}: check the path", url=location.url)
    return location.path if location.is_in_file_tree else location.url


_directory_option = click.option(
    "--directory",
    metavar="DIRECTORY",
    default=cache_root,
    callback=_existing,
    help="A cache directory, a directory of cache directories, or a converter's parent cache "
    "directory. The default is MDSTORM_CACHE_DIR, or a directory in the system's temporary "
    "directory.",
)


def _copies_below(parent: str) -> list[KeptCopy]:
    """List the copies in a parent cache directory, or raise StorageError if it does not exist."""
    url = checked_directory(parent, "parent cache directory")
    if Location.of(url).describe() is None:
        raise StorageError(f"there is nothing at {url}: check the URL", url=url)
    return list_copies(url)


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _duration(ctx: click.Context, parameter: click.Parameter, text: str) -> timedelta:
    """Parse a duration such as ``7d``."""
    match = re.fullmatch(r"(\d+)([smhdw])", text)
    if match is None:
        raise click.BadParameter(f"found {text!r}: pass a number and s, m, h, d or w, such as 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "mdstorm cache ls",
        "mdstorm cache clear s3://bucket/events",
        "mdstorm cache ls --parent s3://bucket/copies",
        "mdstorm cache rm --parent s3://bucket/copies --unused --older-than 7d",
    ),
)
def cache() -> None:
    """List or clear the local copies of remote shards, and the copies of DataFrames."""


@cache.command(
    epilog=examples(
        "mdstorm cache ls --format json", "mdstorm cache ls --parent s3://bucket/copies"
    )
)
@_directory_option
@click.option(
    "--parent",
    metavar="URL",
    help="List the finished copies of DataFrames in this parent cache directory of a converter. By "
    "default, shards are listed.",
)
@format_option
def ls(directory: str, parent: str | None, format_: str) -> None:
    """List the datasets with cached shards, least recently used first.

    Unfinished copies of DataFrames, left behind by killed jobs, are listed last. With --parent, the
    finished copies are listed instead, with their keys and whether a process is using them.
    """
    if parent is not None:
        _list_copies(parent, format_)
        return
    cached = [*list_cached(directory), *unfinished_copies(directory)]
    if format_ == "json":
        write_json([_to_json(one) for one in cached])
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
        for one in cached
    ]
    write_table(directory, names, rows, numbers=("shards", "bytes"))
    click.echo(_size(cached))


@cache.command(epilog=examples("mdstorm cache clear s3://bucket/events --yes"))
@click.argument("url", required=False)
@_directory_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def clear(url: str | None, directory: str, yes: bool) -> None:
    """Remove all cached shards, or only the shards of the dataset at URL.

    Only files created by the cache are removed, except those that another process is downloading.
    Without URL, unfinished copies of DataFrames, left behind by killed jobs, are also removed.
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


def _list_copies(parent: str, format_: str) -> None:
    copies = _copies_below(parent)
    if format_ == "json":
        write_json([_copy_to_json(copy) for copy in copies])
        return
    names = ["key", "shards", "bytes", "converted", "last use", "in use", "copy"]
    rows = [
        (
            copy.key or "",
            f"{copy.shards:,}",
            human_bytes(copy.bytes),
            *(f"{when.astimezone():%Y-%m-%d %H:%M}" for when in (copy.converted, copy.last_use)),
            "yes" if copy.is_in_use else "no",
            copy.url,
        )
        for copy in copies
    ]
    write_table(parent, names, rows, numbers=("shards", "bytes"))
    click.echo(_copies_size(copies))


@cache.command(
    epilog=examples("mdstorm cache rm --parent s3://bucket/copies --unused --older-than 7d")
)
@click.option(
    "--parent",
    metavar="URL",
    required=True,
    envvar=ENVIRONMENT_VARIABLE,
    help=f"The converter's parent cache directory; by default {ENVIRONMENT_VARIABLE}.",
)
@click.option("--unused", is_flag=True, help="Remove the copies that no process uses.")
@click.option(
    "--older-than",
    metavar="DURATION",
    default="0s",
    show_default=True,
    callback=_duration,
    help="Remove only copies that have not been used for this long, such as 12h, 7d or 2w.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def rm(parent: str, unused: bool, older_than: timedelta, yes: bool) -> None:
    """Remove the copies of DataFrames that no process is using, even if they have a cache_key.

    A copy counts as in use for five minutes after the last process using it has ended. Only files
    that mdstorm wrote are removed.
    """
    if not unused:
        raise InvalidArgumentError("pass --unused to remove the copies that no process uses")
    now = datetime.now(timezone.utc)
    to_remove = [
        copy
        for copy in _copies_below(parent)
        if not copy.is_in_use and now - copy.last_use >= older_than
    ]
    if not to_remove:
        click.echo(
            "no copies to remove: all are in use, or were used within the time of --older-than",
            err=True,
        )
        return
    if not yes:
        click.confirm(f"Remove {_copies_size(to_remove)}?", abort=True, err=True)
    left = {copy.url for copy in _copies_below(parent) if copy.is_in_use}  # in use by now
    to_remove = [copy for copy in to_remove if copy.url not in left]
    for copy in to_remove:
        delete_dir(copy.url)
    click.echo(f"removed {_copies_size(to_remove)}")


def _copies_size(found: Sequence[KeptCopy]) -> str:
    names = "1 copy" if len(found) == 1 else f"{len(found):,} copies"
    return f"{names}, {human_bytes(sum(copy.bytes for copy in found))}"


def _copy_to_json(copy: KeptCopy) -> dict[str, object]:
    return {
        **vars(copy),
        "converted": copy.converted.isoformat(),
        "last_use": copy.last_use.isoformat(),
        "is_in_use": copy.is_in_use,
    }


def _size(found: list[CachedDataset]) -> str:
    shards, size = sum(one.shards for one in found), sum(one.bytes for one in found)
    return f"{counted(shards, 'shard')} of {counted(len(found), 'dataset')}, {human_bytes(size)}"


def _to_json(one: CachedDataset) -> dict[str, object]:
    return {**vars(one), "last_use": one.last_use.isoformat() if one.last_use else None}
