import contextlib
from contextlib import ExitStack

from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader


def open_all(stack: ExitStack, urls):
    return [stack.enter_context(DataLoader(make_batch_reader(u, num_epochs=1, shuffle_row_groups=False),
                                           batch_size=3)) for u in urls]


def main(spark, directory):
    urls = []
    for i in range(2):
        spark.range(i * 10, i * 10 + 7, 1, 1).write.parquet(f"{directory}/part{i}")
        urls.append(f"file://{directory}/part{i}")
    result = {}
    with ExitStack() as stack:
        for url, loader in zip("ab", open_all(stack, urls)):
            result[url] = [b["id"].tolist() for b in loader]
    with contextlib.closing(iter([1])) if False else contextlib.nullcontext():
        reader = make_batch_reader(urls[0])
        try:
            result["rows"] = sum(len(x.id) for x in reader)
        finally:
            reader.stop(); reader.join()
    return result
