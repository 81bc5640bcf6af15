"""Random chains of TensorFlow datasets, each resuming the previous one, read each row once."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.compat.spark.converters import converter_of

from mdstorm import TransformSpec
from mdstorm.predicates import in_lambda
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend.errors import NoDataAvailableError

#: Loops without Keras may resume within an epoch.
pytestmark = pytest.mark.filterwarnings("ignore:the number of batches in an epoch of this dataset")

ROWS = 203


@pytest.fixture(scope="module")
def converters(tmp_path_factory: pytest.TempPathFactory) -> list[SparkDatasetConverter]:
    """The same rows stored as MDS, and as Parquet read in place."""
    directory, columns = tmp_path_factory.mktemp("chains"), {"number": range(ROWS)}
    stored = converter_of(directory / "mds", columns, {"number": "long"}, tasks=7)
    pq.write_table(pa.table(columns), directory / "rows.parquet", row_group_size=30)
    return [stored, make_spark_converter(f"file://{directory / 'rows.parquet'}")]


def peek_in_python(dataset: Any) -> None:
    next(iter(dataset), None)


def peek_in_take(dataset: Any) -> None:
    list(dataset.take(1))


def peek_in_map(dataset: Any) -> None:
    next(iter(dataset.map(lambda batch: batch)), None)


def read_in_python(dataset: Any, batches: int) -> list[Any]:
    return list(islice(dataset, batches))


def read_in_take(dataset: Any, batches: int) -> list[Any]:
    return list(dataset.take(batches))


def read_ahead(dataset: Any, batches: int) -> list[Any]:
    return list(islice(dataset.prefetch(2), batches))


PEEKS = [lambda dataset: None, peek_in_python, peek_in_take, peek_in_map]
READS = [read_in_python, read_in_take, read_ahead]


@dataclass
class Chain:
    """The arguments shared by all datasets in a chain, and the rows read so far."""

    converter: SparkDatasetConverter
    draw: random.Random
    arguments: dict[str, Any]
    #: If None, each link has a random number of ranks. Some arguments require a fixed number.
    world_size: int | None
    batch_size: int | None
    #: Whether all ranks resume from the state of one rank.
    share_state: bool
    rows: Counter[int] = field(default_factory=Counter)
    states: list[Any] = field(default_factory=lambda: [None])

    def link(self, batches: int | None) -> bool:
        """Read `batches` batches (None: all) on each rank; return False if too few rows remain."""
        size = self.world_size or self.draw.randint(1, 4)
        options = {**self.arguments, "batch_size": self.batch_size or self.draw.randint(1, 90)}
        states, counts = [], []
        shared = self.draw.choice(self.states)
        for rank in range(size):
            dataset = self.converter.make_tf_dataset(
                cur_shard=rank, shard_count=size, prefetch=self.draw.choice([None, 0, 3]), **options
            )
            state = shared if self.share_state else self.states[rank % len(self.states)]
            if state is not None:
                try:
                    dataset.load_state_dict(json.loads(json.dumps(state)))
                except NoDataAvailableError:  # fewer rows than ranks remain
                    assert rank == 0
                    return False
            self.draw.choice(PEEKS)(dataset)
            if batches is None:
                found = list(dataset)
            else:
                found = self.draw.choice(READS)(dataset, batches)
                states.append(dataset.state_dict(batches=len(found)))
            counts.append(len(found))
            self.rows.update(n for batch in found for n in batch.number.numpy().tolist())
        assert len(set(counts)) == 1 or not self.share_state
        self.states = states
        return True


def chain_of(seed: int, converters: list[SparkDatasetConverter]) -> tuple[Chain, Counter[int]]:
    """Return a random chain and the rows it should read in total."""
    draw = random.Random(seed)
    arguments: dict[str, Any] = {
        "num_epochs": draw.choice([1, 1, 2]),
        "seed": draw.randint(0, 9),
        "shuffle_row_groups": draw.random() < 0.5,
        "shuffling_queue_capacity": draw.choice([0, 50]),
    }
    world_size, batch_size, share_state = None, None, True
    expected = range(ROWS)
    change = draw.choice(["none", "none", "function", "predicate"])
    if change != "none":
        world_size, batch_size = draw.randint(1, 4), draw.randint(2, 90)
    if change == "function":
        arguments["transform_spec"] = TransformSpec(lambda frame: frame[frame["number"] % 10 != 3])
        expected = [number for number in expected if number % 10 != 3]
    if change == "predicate":
        arguments["predicate"] = in_lambda(["number"], lambda numbers: numbers % 3 != 0)
        expected = [number for number in expected if number % 3 != 0]
        share_state = False
    chain = Chain(draw.choice(converters), draw, arguments, world_size, batch_size, share_state)
    return chain, Counter(list(expected) * arguments["num_epochs"])


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 200))]
)
@pytest.mark.filterwarnings("ignore:what a filter leaves of .* on this rank had ended")
def test_random_chains_read_each_row_once(
    converters: list[SparkDatasetConverter], seed: int
) -> None:
    chain, expected = chain_of(seed, converters)
    for _ in range(chain.draw.randint(1, 3)):
        if chain.rows != expected:
            chain.link(chain.draw.randint(1, 4))
            assert not chain.rows - expected
    while chain.rows != expected and not chain.link(None):
        pass
    assert chain.rows == expected
