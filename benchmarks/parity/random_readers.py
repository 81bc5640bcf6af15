"""Run random programs with readers, loaders and converters on Petastorm or on mdstorm.

    random_readers.py petastorm|mdstorm DATASETS_FOLDER RESULTS_FILE NUMBER…

A number is a program's seed, so both libraries run the same programs. Rows come from the datasets
that `datasets.py` wrote with both libraries, batches from Parquet files that the program itself
writes. Results are written to RESULTS_FILE (JSON), in their own order if both libraries have the
same order, and otherwise as sorted rows.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import LIBRARY, ROWS, ROWS_PER_BLOCK, ngram, schema, selectors, start_session
from random_results import described, play_all, sorted_rows

library = import_module(LIBRARY)
predicates, pytorch = import_module(f"{LIBRARY}.predicates"), import_module(f"{LIBRARY}.pytorch")
tf_utils, spark = import_module(f"{LIBRARY}.tf_utils"), import_module(f"{LIBRARY}.spark")
TransformSpec = import_module(f"{LIBRARY}.transform").TransformSpec

#: Fields that loaders reject, or return differently: see docs/differences.md.
NOT_LOADED = {"part", "u16_codec", "u16_plain", *(f"float16_{number}" for number in range(4))}
#: Columns of plain Parquet: numbers, other types, columns with nulls in each row group, and arrays.
TYPES = ["int8", "int16", "int32", "int64", "uint8", "float32", "float64", "bool_"]
NO_NUMBERS = ["string", "binary", "date32"]
HOLES = {"hole": pa.int32(), "gap": pa.float64(), "blank": pa.string()}
ARRAYS = {"vector": pa.list_(pa.float32()), "numbers": pa.list_(pa.int64())}
SQL = {
    "an_int": "cast(id * 7 as int)",
    "a_long": "id * 3000000001",
    "a_float": "cast(id / 7 as float)",
    "a_double": "id / 3",
    "a_boolean": "id % 3 = 0",
    "an_array": "array(id / 3, -id / 7, cast(id as double))",
}


class Program:
    """A random program, which depends only on its number.

    Parameters
    ----------
    number : int
        The seed.
    datasets, folder : Path
        The directory that `datasets.py` wrote, and an empty directory.
    """

    def __init__(self, number: int, datasets: Path, folder: Path) -> None:
        self.draw, self.datasets, self.folder = random.Random(number), datasets, folder
        # Petastorm's thread pool sometimes ends before the first row.
        self.arguments: dict[str, Any] = {"reader_pool_type": "dummy", "shuffle_row_groups": False}
        self.is_ordered = True

    def maybe(self, share: float, ordered: bool = True, **arguments: Any) -> bool:
        """Add arguments to a share of the programs; `ordered` means that rows keep their order."""
        is_chosen = self.draw.random() < share
        if is_chosen:
            self.arguments |= arguments
            self.is_ordered &= ordered
        return is_chosen

    def some(self, names: list[str]) -> list[str]:
        return self.draw.sample(names, self.draw.randint(1, 5))

    def play(self) -> Any:
        play = self.draw.choice([self.rows, self.rows, self.batches, self.batches, self.converter])
        items = play()
        return described(items) if self.is_ordered else sorted_rows(items)

    def rows(self) -> list[Any]:
        """Read a dataset written by Petastorm or mdstorm, using `make_reader`."""
        name, consume = self.draw.choice(["blocks", "parts"]), self.consumer()
        self.is_ordered = name == "blocks"  # files in partitions have random names
        url = (self.datasets / self.draw.choice(["petastorm", "mdstorm"]) / name).as_uri()
        fields, is_read = schema().fields, consume == self.read
        loadable = (f.name for f in fields.values() if not (f.nullable or None in f.shape))
        names = self.some(list(fields) if is_read else sorted({*loadable} - NOT_LOADED))
        names = list(dict.fromkeys(["id", *names, *(["part", "flag"] if is_read else [])]))
        self.arguments["schema_fields"] = names
        if is_read and self.maybe(0.2):
            time, length = fields["id"], self.draw.randint(1, 3)
            offsets = {n: [time, fields[self.draw.choice(names)]] for n in range(length)}
            grams = ngram.NGram(offsets, self.draw.randint(1, 4), time, self.draw.random() < 0.6)
            with library.make_reader(url, **{**self.arguments, "schema_fields": grams}) as reader:
                return list(reader)
        self.maybe(0.3, predicate=self.predicate(is_read))
        self.maybe(0.2, rowgroup_selector=self.selector())
        self.maybe(0.2, shuffle_row_drop_partitions=self.draw.randint(1, 3), ordered=False)
        self.maybe(0.3, transform_spec=self.transform(change_row, names))
        return self.consumed(consume, partial(library.make_reader, url))

    def batches(self) -> list[Any]:
        """Read plain Parquet files with `make_batch_reader`."""
        consume, group = self.consumer(), self.draw.choice([3, 6, 15])
        possible = [*TYPES, *ARRAYS, *((*NO_NUMBERS, *HOLES) if consume == self.read else ())]
        names = self.some(possible)
        is_hive, rows = consume == self.read and self.maybe(0.3), 0
        for number in range(self.draw.randint(1, 3)):
            directory = self.folder / (f"part=p{number}" if is_hive else "")
            directory.mkdir(exist_ok=True)
            start, rows = rows, rows + group * self.draw.randint(1, 4)
            table = table_of(names, start, rows)
            pq.write_table(table, directory / f"part-{number}.parquet", row_group_size=group)
        names = ["id", *names]
        if not self.maybe(0.3, schema_fields=names) and is_hive:
            names = [*names, "part"]
        # Select whole row groups, because Petastorm reads integers in partial ones as floats.
        stop = self.draw.randrange(0, rows, group)
        self.maybe(0.3, predicate=predicates.in_lambda(["id"], lambda ids: ids < stop))
        self.maybe(0.3, transform_spec=self.transform(change_frame, names))
        if "predicate" not in self.arguments:  # Petastorm would pair values from different rows
            self.maybe(0.2, shuffle_rows=True, ordered=False)
        return self.consumed(consume, partial(library.make_batch_reader, self.folder.as_uri()))

    def converter(self) -> list[Any]:
        """Convert a DataFrame and load it."""
        partitions, count = self.draw.choice([1, 1, 3]), self.draw.randint(12, 60)
        self.is_ordered = partitions == 1
        names = self.draw.sample(list(SQL), 3)
        session = start_session()
        session.conf.set(
            spark.SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, self.folder.as_uri()
        )
        frame = session.range(0, count, 1, partitions)
        frame = frame.selectExpr("id", *(f"{SQL[name]} as {name}" for name in names))
        dtype, codec = (self.draw.choice(some) for some in (["float32", None], ["gzip", None]))
        converter = spark.make_spark_converter(frame, compression_codec=codec, dtype=dtype)
        assert len(converter) == count
        self.arguments |= {"batch_size": self.draw.randint(1, 20), "num_epochs": 1}
        if not self.maybe(0.3, transform_spec=self.transform(change_frame, ["id", *names])):
            self.maybe(0.2, schema_fields=["id", names[0]])
        self.maybe(0.3, num_epochs=self.draw.randint(1, 3))
        self.maybe(0.2, shuffling_queue_capacity=self.draw.randint(2, 50), ordered=False)
        kind = self.draw.choice(["make_torch_dataloader", "make_tf_dataset"])
        return self.all_shards(getattr(converter, kind), partitions)

    def predicate(self, has_texts: bool) -> Any:
        some = {self.draw.randrange(ROWS) for _ in range(12)}
        thirds = predicates.in_lambda(["id"], lambda id_: id_ % 3 == 0)
        simple = [predicates.in_set(some, "id"), predicates.in_negate(thirds), thirds]
        if has_texts:
            part = predicates.in_pseudorandom_split([0.3, 0.7], self.draw.randrange(2), "part")
            flagged = predicates.in_lambda(["id", "flag"], lambda id_, flag: bool(id_ % 3 or flag))
            simple += [part, flagged, predicates.in_set({"p 1", "p 2"}, "part")]
        one, other = self.draw.sample(simple, 2)
        how = self.draw.choice([all, any, None])
        return predicates.in_reduce([one, other], how) if how else one

    def selector(self) -> Any:
        numbers = [self.draw.randrange(ROWS + ROWS_PER_BLOCK) for _ in range(3)]
        one = selectors.SingleIndexSelector("ids", numbers[:2])
        other = selectors.SingleIndexSelector("words", [f"wörd {numbers[2]}"])
        kinds = [selectors.IntersectIndexSelector, selectors.UnionIndexSelector]
        return self.draw.choice([one, self.draw.choice(kinds)([one, other])])

    def transform(self, change: Callable[..., Any], names: list[str]) -> Any:
        """Return a transform that changes a field, adds one, and may remove some."""
        left_out = {"removed_fields": names[-1:]}, [*names[:-1], "extra"]
        selected = {"selected_fields": ["id", "extra"]}, ["id", "extra"]
        options, kept = self.draw.choice([({}, [*names, "extra"]), left_out, selected])
        edited = [("extra", np.float32, (), False)]
        return TransformSpec(partial(change, kept), edit_fields=edited, **options)

    def consumer(self) -> Callable[..., list[Any]]:
        return self.draw.choice([self.read, self.read, self.read, self.load, self.tensors])

    def consumed(self, consume: Callable[..., list[Any]], make: Callable[..., Any]) -> list[Any]:
        """Read with additional random arguments; cached data is read twice."""
        self.maybe(0.3, num_epochs=self.draw.randint(1, 3))
        self.maybe(0.2, shuffle_row_groups=True, seed=5, ordered=False)
        sizes = {"cache_size_limit": 10**9, "cache_row_size_estimate": 1000}
        settings = {"cache_location": str(self.folder / "_cache"), **sizes}
        settings["cache_extra_settings"] = {"cleanup": False}
        if {"predicate", "shuffle_row_drop_partitions"} & {*self.arguments}:
            return consume(make)
        is_cached = self.maybe(0.3, cache_type="local-disk", **settings)
        return consume(make) + (consume(make) if is_cached else [])

    def read(self, make: Callable[..., Any]) -> list[Any]:
        """Iterate over a reader, or over the readers of all shards."""
        return self.all_shards(make, 2)

    def all_shards(self, make: Callable[..., Any], count: int) -> list[Any]:
        is_shared, found = self.maybe(0.2, ordered=False), []
        for shard in range(count if is_shared else 1):
            share = {"cur_shard": shard, "shard_count": count} if is_shared else {}
            with make(**self.arguments, **share) as items:
                found += list(items)
        return found

    def load(self, make: Callable[..., Any]) -> list[Any]:
        """Iterate over a PyTorch loader."""
        options: dict[str, Any] = {}
        kinds = [pytorch.DataLoader, pytorch.BatchedDataLoader, pytorch.InMemBatchedDataLoader]
        kind = self.draw.choice(kinds)
        if kind is pytorch.InMemBatchedDataLoader:
            options = {"num_epochs": self.draw.randint(1, 3), "shuffle": self.maybe(0.5), "seed": 5}
        elif self.maybe(0.3, ordered=False):
            options = {"shuffling_queue_capacity": self.draw.randint(2, 40)}
        with kind(make(**self.arguments), self.draw.randint(1, 20), **options) as batches:
            return list(batches)

    def tensors(self, make: Callable[..., Any]) -> list[Any]:
        """Iterate over a TensorFlow dataset."""
        with make(**self.arguments) as reader:
            return list(tf_utils.make_petastorm_dataset(reader))


def table_of(names: list[str], start: int, stop: int) -> pa.Table:
    """Return rows numbered from `start` to `stop`, in columns of several types."""
    columns: dict[str, Any] = {"id": pa.array(range(start, stop), pa.int64())}
    for name in names:
        if name in ARRAYS:
            columns[name] = pa.array([[i, -i, 3] for i in range(start, stop)], ARRAYS[name])
        elif name in HOLES:
            values = pa.array([None if i % 3 == 1 else i for i in range(start, stop)], pa.int32())
            columns[name] = values.cast(HOLES[name])
        else:
            values = pa.array([i % 100 for i in range(start, stop)], pa.int32())
            texts = values.cast(pa.string()) if name == "binary" else values
            columns[name] = texts.cast(getattr(pa, name)())
    return pa.table(columns)


def change_row(kept: list[str], row: dict[str, Any]) -> dict[str, Any]:
    row["id"], row["extra"] = row["id"] + 1000, np.float32(row["id"] / 2)
    return {name: row[name] for name in kept}


def change_frame(kept: list[str], frame: Any) -> Any:
    frame["extra"] = (frame["id"] / 2).astype("float32")
    frame["id"] = frame["id"] + 1000
    return frame[kept]


if __name__ == "__main__":
    play_all(lambda number, folder: Program(number, Path(sys.argv[2]), folder).play())
