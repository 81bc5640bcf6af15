"""Where other users may write to a cache directory, links in it lead to no file of the user."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.mds_backend.cache.shards import cache, contents, files_in, make_shards

from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity, Record
from mdstorm_backend.cache.space import clear_cached, list_cached
from mdstorm_backend.errors import StorageError

NAME = "shard.00000.mds"
MINE = b"my own notes, which are longer than a record of the cache is" * 10

#: Puts a link to a file or directory of the user in place of something in the cache.
Redirect = Callable[[CacheDirectory, Path], object]


def replaced(path: str, link: Callable[..., object], target: Path) -> None:
    if os.path.lexists(path):
        os.unlink(path)
    link(target, path)


@contextmanager
def named_links(local: Path) -> Iterator[None]:
    """Allow an error that names the file."""
    try:
        yield
    except StorageError as error:
        assert f"{local}/.mdstorm" in str(error)  # noqa: PT017


def notes(directory: CacheDirectory, mine: Path) -> None:
    """Move the bookkeeping files to the user's directory, and put a link in their place."""
    for name in os.listdir(directory.notes):
        if not (mine.parent / name).exists():
            os.rename(os.path.join(directory.notes, name), mine.parent / name)
    os.rename(directory.notes, f"{directory.path}/old")
    os.symlink(mine.parent, directory.notes)


REDIRECTS: dict[str, Redirect] = {
    **{
        f"{link.__name__} for {what}": lambda directory, mine, what=what, link=link: replaced(
            directory.record(NAME) if what == "record" else os.path.join(directory.notes, what),
            link,
            mine,
        )
        for link in (os.symlink, os.link)
        for what in ("record", "ledger", "dataset.json", "index", "users", "x.part", "x.shard")
    },
    "symlink for .mdstorm": notes,
}


@pytest.mark.parametrize("redirect", REDIRECTS.values(), ids=REDIRECTS)
def test_using_and_clearing_a_cache_leaves_files_behind_links(
    redirect: Redirect, source: Path, local: Path, tmp_path: Path
) -> None:
    infos = make_shards(source, 2, compression="zstd")
    options = {"directory": local, "limit": 2600}
    first = cache(source, **options)
    assert bytes(first.open(infos[0])) == contents(infos)[0]
    first.discard(infos[0])
    (tmp_path / "home").mkdir()
    mine = tmp_path / "home" / "download.part"
    mine.write_bytes(MINE)
    redirect(CacheDirectory(str(local)), mine)
    for info, content in zip(infos, contents(infos), strict=True):
        with named_links(local):
            assert bytes(cache(source, **options).open(info)) == content
    list_cached(str(local))
    for _ in range(2):
        with named_links(local):
            clear_cached(str(local))
    assert mine.read_bytes() == MINE


def test_record_of_a_link_does_not_remove_the_file_behind_it(
    source: Path, local: Path, tmp_path: Path
) -> None:
    (info,) = make_shards(source, 1)
    cache(source, directory=local).open(info)
    mine = tmp_path / "home" / "file"
    mine.parent.mkdir()
    mine.write_bytes(MINE)
    (local / "inside").symlink_to(mine.parent)
    record = Record(files={"inside/file": FileIdentity.of(mine.stat())})
    Path(CacheDirectory(str(local)).record("inside/file")).write_bytes(record.to_bytes())
    clear_cached(str(local))
    assert mine.read_bytes() == MINE
    assert files_in(local) == []


def test_pipe_in_place_of_a_record_raises_error(source: Path, local: Path) -> None:
    (info,) = make_shards(source, 1)
    first = cache(source, directory=local)
    first.open(info)
    record = CacheDirectory(str(local)).record(NAME)
    os.unlink(record)
    os.mkfifo(record)
    assert bytes(cache(source, directory=local).open(info)) == contents([info])[0]
    (local / NAME).unlink()
    with pytest.raises(StorageError, match="not a plain file"):
        cache(source, directory=local).open(info)
