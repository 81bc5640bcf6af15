import os
from contextlib import ExitStack
from functools import partial

from petastorm import make_batch_reader
from petastorm.fs_utils import FilesystemResolver

opened = partial(make_batch_reader, num_epochs=1, reader_pool_type="dummy")


def names(pieces):
    return sorted(os.path.basename(piece.path)[:10] for piece in pieces)


def main(spark, directory):
    url = "file://" + directory + "/t"
    spark.range(0, 6, 1, 2).write.parquet(directory + "/t")
    with ExitStack() as stack:
        reader = stack.enter_context(opened(url))
        dataset = reader.dataset
        pieces = dataset.pieces
        found = {"pieces": names(pieces), "rows": sum(len(batch.id) for batch in reader)}
    resolver = FilesystemResolver(url)
    filesystem = resolver.filesystem()
    path = resolver.get_dataset_path()
    inside = [name for _, _, files in filesystem.walk(path) for name in files if name.startswith("part")]
    listed = [one for one in filesystem.ls(path) if one.endswith(".parquet")]
    found["files"] = [len(inside), len(listed), filesystem.exists(path), filesystem.isfile(path)]
    with filesystem.open(listed[0], "rb") as file:
        found["magic"] = file.read(4).decode()
    return found
