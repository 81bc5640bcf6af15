"""Encodings, shards, compression, hashes, caches, and files in remote storage."""

import json
import os
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from streaming import MDSWriter, StreamingDataset
from streaming.base.compression import compress, decompress, get_compression_extension
from streaming.base.hashing import get_hash, is_hash
from streaming.base.storage import CloudDownloader, CloudUploader
from streaming.base.util import (
    bytes_to_int,
    clean_stale_shared_memory,
    get_list_arg,
    merge_index,
    number_abbrev_to_int,
)
from streaming.base.world import World


def _numbers(out: str | tuple[str, str], count: int = 30, start: int = 0, **settings: Any) -> None:
    with MDSWriter(out=out, columns={"n": "int32", "text": "str"}, **settings) as writer:
        for i in range(start, start + count):
            writer.write({"n": i, "text": "x" * (i % 7)})


def _index(folder: str | Path) -> Any:
    return json.loads((Path(folder) / "index.json").read_text())


def compressed_files_kept(folder: Path) -> Any:
    _numbers(str(folder / "remote"), compression="zstd", size_limit=250)
    found = []
    for keep in (False, True):
        local = folder / f"cache{keep}"
        dataset = StreamingDataset(
            remote=str(folder / "remote"), local=str(local), batch_size=4, keep_zip=keep
        )
        assert len(list(dataset)) == 30
        found.append(sorted(name for name in os.listdir(local) if name.startswith("shard")))
    return found


def a_hash_that_is_not_there(folder: Path) -> Any:
    _numbers(str(folder / "remote"), hashes=["sha1"])
    found = []
    for name in ("md5", "no_such_hash"):
        try:
            dataset = StreamingDataset(
                remote=str(folder / "remote"),
                local=str(folder / name),
                batch_size=4,
                validate_hash=name,
            )
            dataset[0]
        except ValueError:
            found.append("ValueError")
    return found


def a_small_cache(folder: Path) -> Any:
    _numbers(str(folder / "remote"), count=60, size_limit=250)
    local = folder / "cache"
    dataset = StreamingDataset(
        remote=str(folder / "remote"),
        local=str(local),
        batch_size=4,
        shuffle=True,
        cache_limit="8kb",
        predownload=8,
    )
    ids = [sample["n"] for sample in dataset]
    size = sum(path.stat().st_size for path in local.glob("shard*"))
    return [ids, size <= 8 << 10]


def a_pair_of_places(folder: Path) -> Any:
    found = []
    for keep in (True, False):
        local, remote = folder / f"local{keep}", folder / f"remote{keep}"
        _numbers((str(local), str(remote)), keep_local=keep)
        kept = sorted(os.listdir(local)) if local.exists() else []
        found.append([kept, sorted(os.listdir(remote))])
    return found


def a_directory_that_is_not_empty(folder: Path) -> Any:
    _numbers(str(folder / "data"))
    try:
        _numbers(str(folder / "data"))
    except FileExistsError:
        _numbers(str(folder / "data"), count=3, exist_ok=True)
        return len(StreamingDataset(local=str(folder / "data"), batch_size=1))
    return None


def _convert(part: int, root: str) -> int:
    _numbers(os.path.join(root, f"{part:02}"), count=5, start=10 * part)
    return part


def parts_written_by_processes(folder: Path) -> Any:
    root = str(folder / "merged")
    with Pool(processes=2) as pool:
        done = sorted(pool.imap_unordered(partial(_convert, root=root), range(3)))
    merge_index(root, keep_local=True)
    dataset = StreamingDataset(local=root, batch_size=1)
    names = [shard["raw_data"]["basename"] for shard in _index(root)["shards"]]
    return [done, names, [sample["n"] for sample in dataset]]


def files_to_and_fro(folder: Path) -> Any:
    local, remote = folder / "local", folder / "remote"
    local.mkdir()
    (local / "notes.txt").write_text("kept")
    uploader = CloudUploader.get((str(local), str(remote)), keep_local=True, exist_ok=True)
    uploader.upload_file("notes.txt")
    CloudDownloader.direct_download(
        str(remote / "notes.txt"), str(folder / "deep" / "copy.txt"), timeout=5
    )
    return [
        (uploader.local == str(local), uploader.remote == str(remote)),
        [os.path.relpath(path, folder) for path in uploader.list_objects()],
        (folder / "deep" / "copy.txt").read_text(),
        (remote / "notes.txt").read_text(),
    ]


def sizes_in_words(folder: Path) -> Any:
    return [
        *(bytes_to_int(text) for text in ("7", "12b", "1.5kb", " 64 MB", 2.9)),
        *(number_abbrev_to_int(text) for text in ("7", "12k", "1.5m", " 3 B ", 2.9)),
        get_list_arg("a,b"),
        get_list_arg(""),
    ]


def hashes_and_compressions(folder: Path) -> Any:
    data = b"storm" * 10
    names = ("zstd:3", "gz", "bz2", "br:1", "snappy")
    return [
        [get_hash(name, data) for name in ("md5", "sha256", "xxh64")],
        [is_hash(name) for name in ("sha1", "crc")],
        [decompress(name, compress(name, data)) == data for name in names],
        [get_compression_extension(name) for name in names],
    ]


def cleaning_up_before_a_run(folder: Path) -> Any:
    clean_stale_shared_memory()
    _numbers(str(folder / "data"), count=4)
    return [sample["n"] for sample in StreamingDataset(local=str(folder / "data"), batch_size=2)]


def the_world_of_one_process(folder: Path) -> Any:
    world = World.detect()
    four = World(num_nodes=2, ranks_per_node=2, workers_per_rank=3, worker=8)
    return [dict(sorted(w.to_json().items())) for w in (world, four, four.replicate(2))]
