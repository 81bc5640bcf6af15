"""Random worlds draw rows by weights as often as they should, for any loader, store and world.

Each program draws a store, weights, a choice of rows, an epoch size and a loader. The model has two
parts. The draws of an epoch are those that the trace of a single rank names; random chains of
worlds, with peeks, copies and resumes, have to read exactly these. How often each row is drawn has
to follow from its weight: ⌊e⌋ or ⌈e⌉ times if e is expected.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake
from tests.kit.chains import Chain

from mdstorm import convert, make_batch_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.order.draws import Draws
from mdstorm_backend.order.weighting import RowWeights

ROWS, PER_SHARD = 223, 31
IDS = np.arange(ROWS)
#: Some rows are never drawn, and some far more often than others.
WEIGHTS = np.where(IDS % 7 == 3, 0, np.random.default_rng(0).random(ROWS) ** 4)
#: Sorted like a table that is partitioned by class.
LABELS = np.array(["many"] * 200 + ["few"] * 20 + ["rare"] * 3)
TABLE = pa.table({"id": IDS, "weight": WEIGHTS, "label": LABELS, "turn": IDS % 2})


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("weights")
    found = {store: root / store for store in ("parquet", "mds", "delta")}
    found["parquet"].mkdir()
    for number, part in enumerate((TABLE.slice(0, 90), TABLE.slice(90))):
        pq.write_table(part, found["parquet"] / f"{number}.parquet", row_group_size=PER_SHARD)
    groups = WriterProperties(max_row_group_size=PER_SHARD)
    write_deltalake(str(found["delta"]), TABLE, writer_properties=groups)
    convert(str(found["parquet"]), str(found["mds"]), shard_size=900)
    return found


@dataclass
class Program:
    """How often rows are drawn, and who reads them."""

    seed: int
    stores: dict[str, Path]
    options: dict[str, Any] = field(default_factory=dict)
    chosen: npt.NDArray[np.int64] = field(default_factory=lambda: IDS)

    def __post_init__(self) -> None:
        draw = self.draw = random.Random(self.seed)
        self.kind = [*KINDS][self.seed % len(KINDS)]
        self.store = "mds" if self.kind == "dataset" else draw.choice([*self.stores])
        weighting = draw.choice(["column", "array", "classes", "alternating", "equal"])
        self.epoch_size = draw.choice([None, 30, 111, 400])
        weights = {"column": WEIGHTS, "array": 1 + IDS % 5, "equal": np.ones(ROWS)}
        self.weights = weights.get(weighting, self.weights_of_classes(weighting))
        self.options |= {
            "column": {"weights": "weight"},
            "array": {"weights": self.weights},
            "classes": {"balance": "label"},
            "alternating": {"balance": "turn"},
            "equal": {},
        }[weighting]
        if weighting == "equal" and (self.kind == "dataset" or self.epoch_size is None):
            self.options |= {"weights": self.weights}
        if self.epoch_size is not None:
            self.options |= {"epoch_size": self.epoch_size}
        if draw.random() < 0.3:
            self.options |= {"rows": slice(draw.randint(0, 30), 200 + draw.randint(0, 20))}
            self.chosen = IDS[self.options["rows"]]
        if draw.random() < 0.3:
            self.options |= {"where": [("id", ">=", 50)]}
            self.chosen = self.chosen[self.chosen >= 50]
        if weighting in ("classes", "alternating"):
            self.weights = self.weights_of_classes(weighting)
        self.shuffle = draw.choice(["default", "default", "queue", "none"])

    def weights_of_classes(self, weighting: str) -> npt.NDArray[np.float64]:
        """Return weights by which each class of the chosen rows has the same sum."""
        classes = LABELS if weighting == "classes" else IDS % 2
        found = np.zeros(ROWS)
        for one in np.unique(classes[self.chosen]):
            rows = self.chosen[classes[self.chosen] == one]
            found[rows] = 1 / len(rows)
        return found

    def __str__(self) -> str:
        return f"{ {k: v for k, v in vars(self).items() if k not in ('weights', 'chosen')} }"

    @property
    def size(self) -> int:
        return self.epoch_size or len(self.chosen)

    @property
    def expected(self) -> npt.NDArray[np.float64]:
        """How often each row is expected in an epoch."""
        weights = np.zeros(ROWS)
        weights[self.chosen] = self.weights[self.chosen]
        found: npt.NDArray[np.float64] = weights / weights.sum() * self.size
        return found

    def make(self, rank: int, ranks: int, batch_size: int) -> Any:
        return KINDS[self.kind](self, rank, ranks, batch_size)

    def converter(self) -> SparkDatasetConverter:
        path = self.stores[self.store]
        if self.store != "mds":
            return make_spark_converter(path.as_uri())
        dataset = open_dataset(path)
        return SparkDatasetConverter(dataset.url, dataset.file_urls, ROWS)

    def of_readers(self, rank: int, ranks: int) -> dict[str, Any]:
        share = {"num_epochs": 1, "seed": 1 + self.seed, "cur_shard": rank, "shard_count": ranks}
        return share | {"shuffle_row_groups": self.shuffle != "none"} | self.options

    def queue(self) -> dict[str, Any]:
        return {"shuffling_queue_capacity": 60} if self.shuffle == "queue" else {}

    def ids(self, batch: Any) -> list[int]:
        """Return the numbers of the rows in a batch, whose values must be those of the table."""
        found = batch if isinstance(batch, dict) else batch._asdict()
        numbers = np.asarray(found["id"])
        assert np.array_equal(np.asarray(found["turn"]), numbers % 2)
        assert np.array_equal(np.asarray(found["weight"]), WEIGHTS[numbers])
        return [int(number) for number in numbers]


def dataset(program: Program, rank: int, ranks: int, size: int) -> Any:
    options: dict[str, Any] = {"world": (rank, ranks), **program.options}
    shuffle = {"shuffle": program.shuffle != "none", "shuffle_seed": 1 + program.seed}
    if program.draw.random() < 0.5:
        is_shuffled, window = shuffle["shuffle"], 60 if program.shuffle == "queue" else 0
        options["order"] = ExactOrder(1 + program.seed, bool(is_shuffled), window=window)
    else:
        options |= shuffle | ({"shuffle_block_size": 60} if program.shuffle == "queue" else {})
    path = str(program.stores["mds"])
    return StreamingDataLoader(StreamingDataset(local=path, **options), size)


def torch_loader(program: Program, rank: int, ranks: int, size: int) -> Any:
    options = program.of_readers(rank, ranks) | program.queue()
    return program.converter().make_torch_dataloader(size, **options)


def over_reader(kind: Any) -> Callable[[Program, int, int, int], Any]:
    def made(program: Program, rank: int, ranks: int, size: int) -> Any:
        url = program.stores[program.store].as_uri()
        options = program.of_readers(rank, ranks)
        # Only lists can hold text in PyTorch.
        options |= {"schema_fields": ["id", "weight", "turn"]}
        return kind(make_batch_reader(url, **options), size, **program.queue())

    return made


KINDS: dict[str, Callable[[Program, int, int, int], Any]] = {
    "dataset": dataset,
    "make_torch_dataloader": torch_loader,
    "DataLoader": over_reader(DataLoader),
    "BatchedDataLoader": over_reader(BatchedDataLoader),
}


def check_counts(program: Program, drawn: list[int]) -> None:
    """Check how often each row comes in an epoch."""
    counts, expected = np.bincount(drawn, minlength=ROWS), program.expected
    assert len(drawn) == program.size, program
    wrong = (counts < np.floor(expected - 1e-6)) | (counts > np.ceil(expected + 1e-6))
    assert not wrong.any(), (program, np.flatnonzero(wrong), counts[wrong], expected[wrong])


def check(program: Program) -> None:
    is_reader = program.kind not in ("dataset", "make_torch_dataloader")
    chain = Chain(
        program.seed,
        program.make,
        program.ids,
        copies=not is_reader,
        close=lambda loader: loader.reader.stop() if is_reader else None,
    )
    chain.run()
    seen, loader = Counter[int](), program.make(0, 1, 10)
    for epoch in range(chain.epochs):
        loader.set_epoch(epoch) if not is_reader else loader.reader.set_epoch(epoch)
        drawn = loader.trace().rows(slice(None)).tolist()
        check_counts(program, drawn)
        seen.update(drawn)
    assert chain.seen == seen, (program, chain.steps)


@pytest.mark.parametrize(
    "seeds",
    [
        range(8),
        *(pytest.param(range(n, n + 60), marks=pytest.mark.long) for n in range(8, 248, 60)),
    ],
    ids=str,
)
def test_chains_of_worlds_read_the_draws_of_each_epoch(
    stores: dict[str, Path], seeds: range
) -> None:
    for seed in seeds:
        program = Program(seed, stores)
        try:
            check(program)
        except Exception as error:
            error.add_note(f"program {program}")
            raise


@pytest.mark.parametrize(
    "seeds",
    [range(3), *(pytest.param(range(n, n + 20), marks=pytest.mark.long) for n in (3, 23, 43))],
    ids=str,
)
def test_tensorflow_resumes_draws_on_other_ranks(stores: dict[str, Path], seeds: range) -> None:
    for seed in seeds:
        program = Program(4 * seed + 1, stores)  # a converter's
        before, after = program.draw.randint(1, 3), program.draw.randint(1, 3)

        def ranks(count: int, program: Program = program) -> list[Any]:
            make = program.converter().make_tf_dataset
            return [make(5, **program.of_readers(rank, count)) for rank in range(count)]

        seen, most = Counter[int](), (program.size - 1) // (5 * before)  # not to the end
        taken = min(program.draw.randint(1, 2), most)
        for one in (begun := ranks(before)):
            seen.update(number for batch in one.take(taken) for number in program.ids(batch))
        state = json.loads(json.dumps(begun[-1].state_dict(batches=taken)))
        for one in ranks(after):
            one.load_state_dict(state)
            seen.update(number for batch in one for number in program.ids(batch))
        check_counts(program, [*seen.elements()])


@pytest.mark.parametrize("kind", KINDS)
def test_trace_names_the_rows_that_each_rank_reads(stores: dict[str, Path], kind: str) -> None:
    for seed in range([*KINDS].index(kind), 12, 4):
        program = Program(seed, stores)
        ranks = program.draw.randint(1, 3)
        loaders = [program.make(rank, ranks, 7) for rank in range(ranks)]
        trace = loaders[0].trace()
        read = [[program.ids(batch) for batch in loader] for loader in loaders]
        assert {len(batches) for batches in read} == {trace.num_batches()}, program
        for rank, batches in enumerate(read):
            rows = [row for batch in batches for row in batch]
            assert trace.rows(range(len(batches)), rank).tolist() == rows, program
            last = len(batches) - 1
            assert trace.rows(last, rank).tolist() == batches[last], program
        times = Counter[tuple[int, int, int]](
            (row, number, rank)
            for rank, batches in enumerate(read)
            for number, rows in enumerate(batches)
            for row in rows
        )
        columns = trace.find(range(ROWS)).select(["row", "batch", "rank"]).to_pydict()
        assert Counter(zip(*columns.values(), strict=True)) == times, program


def test_shares_of_classes_are_within_chance(stores: dict[str, Path]) -> None:
    """Each class comes as often as it should, also in small epochs of classes that alternate."""
    converter = make_spark_converter(stores["parquet"].as_uri())
    for column, classes in (("label", LABELS), ("turn", IDS % 2)):
        loader = converter.make_torch_dataloader(111, balance=column, epoch_size=111, seed=1)
        names, shares = np.unique(classes), []
        for batch in islice(loader, 40):
            found = classes[batch["id"].numpy()]
            shares.append([np.mean(found == name) for name in names])
        even = 1 / len(names)
        chance = np.sqrt(even * (1 - even) / 111)
        assert np.std(shares, axis=0).max() <= 1.2 * chance
        assert np.abs(np.mean(shares, axis=0) - even).max() <= 4 * chance / np.sqrt(40)


def test_shards_are_visited_as_often_as_their_draws_need() -> None:
    """Products of sums, sizes and rows exceed 64 bits."""
    values = np.full(400_000, 43_383_509, np.uint32)
    values[::100] = 2**32 - 1
    values[:100_000] = 2**32 - 1
    draws = Draws(RowWeights.of(values), np.arange(0, 400_001, 50_000), 10**8, True, "")
    share = values.reshape(-1, 50_000).sum(axis=1, dtype=np.float64) / values.sum(dtype=np.float64)
    assert draws.visits.tolist() == np.ceil(share * 10**8 / 50_000).tolist()
