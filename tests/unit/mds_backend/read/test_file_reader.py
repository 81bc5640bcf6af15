"""How far ahead of use `FileReader` requests files."""

from collections.abc import Iterator
from threading import Event

import pyarrow as pa
import pytest

from mdstorm_backend.base.work_ahead import WorkAhead
from mdstorm_backend.errors import InvalidArgumentError, MissingFileError
from mdstorm_backend.read import Block, FileReader
from mdstorm_backend.read.damage import record_skipped
from mdstorm_backend.read.stages import FileContents, run


class Blocks:
    """Endless blocks of one path each, which counts the blocks that were drawn."""

    def __init__(self) -> None:
        self.drawn = 0

    def __iter__(self) -> Iterator[Block]:
        while True:
            self.drawn += 1
            yield Block([1], batch={"image": pa.array([str(self.drawn)])})


def contents(block: Block) -> list[bytes]:
    found: list[bytes] = block.batch["image"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("size", "files_ahead", "threads", "drawn"),
    [
        (1, 10, 2, 11),  # as many as are requested ahead
        (1, 0, 0, 1),  # nothing without threads
        (64 << 20, 1000, 2, 4),  # 256 MiB
    ],
)
def test_blocks_are_drawn_up_to_a_number_or_size_of_files(
    size: int, files_ahead: int, threads: int, drawn: int
) -> None:
    reader = FileReader({"image": "path"}, lambda path: bytes(size), "url")
    for path in "abc":  # now the size is known
        reader.complete(Block([1], batch={"image": pa.array([path])}))
    blocks = Blocks()
    with WorkAhead(threads) as requests:
        ahead = reader.ahead(blocks, requests, files_ahead)
        for number in range(3):
            block = next(ahead)
            assert blocks.drawn == drawn + number
            reader.complete(block)
            assert len(contents(block)[0]) == size


def test_few_files_are_requested_while_their_size_is_unknown() -> None:
    may_answer, blocks = Event(), Blocks()

    def fetch(path: str) -> bytes:
        may_answer.wait()
        return path.encode()

    reader = FileReader({"image": "path"}, fetch, "url")
    with WorkAhead(2) as requests:
        ahead = reader.ahead(blocks, requests, 1000)
        first = next(ahead)
        assert blocks.drawn == 32
        may_answer.set()
        reader.complete(first)
        assert contents(first) == [b"1"]
        next(ahead)
        assert blocks.drawn > 32


def test_missing_files_are_an_error_unless_some_file_exists() -> None:
    def fetch(path: str) -> bytes:
        if path != "there":
            raise MissingFileError(f"{path} does not exist")
        return b""

    for paths, is_error in ((["a"] * 31, False), (["a"] * 32, True), (["there", *"a" * 40], False)):
        files = [FileContents(FileReader({"image": "path"}, fetch, "url"))]
        block = Block([len(paths)], batch={"image": pa.array(paths)})
        if is_error:
            with pytest.raises(InvalidArgumentError, match=r"none of the first 32 files"):
                run(files, block, skips=record_skipped)
        else:
            run(files, block, skips=record_skipped)
            assert contents(block) == [b""] * paths.count("there")
