"""Random choices of rows and columns return what pyarrow keeps, for any loader, order and world.

Each program draws a store, conditions, numbers of rows, columns, an order, a world and a loader.
The model is pyarrow's filter of the table in memory. The batches of all ranks must have the rows of
the model, with their values and numbers. Traces must list the rows of each batch before it is read,
and states resume with the remaining batches. Nulls matter only in chosen rows.
"""

import datetime as dt
import json
import pickle
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mdstorm import convert, make_batch_reader, make_reader
from mdstorm.errors import InvalidArgumentError, NoDataAvailableError, NullValueError
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset

ROWS, PER_SHARD = 73, 11
NUMBERS = range(ROWS)
TABLE = pa.table(
    {
        "id": pa.array(NUMBERS, pa.int64()),
        "hole": pa.array([None if n % 6 == 5 else n for n in NUMBERS], pa.int64()),
        "text": pa.array([None if n % 7 == 3 else "abcdef"[n % 6] for n in NUMBERS]),
        "half": pa.array([float("nan") if n % 10 == 9 else n / 2 for n in NUMBERS]),
        "day": pa.array([dt.date(2026, 1, 1) + dt.timedelta(n % 20) for n in NUMBERS]),
        "price": pa.array([Decimal(n % 30) / 4 for n in NUMBERS], pa.decimal128(6, 2)),
        "large": pa.array([n << 57 for n in NUMBERS], pa.uint64()),
        "flag": pa.array([n % 3 == 0 for n in NUMBERS]),
    }
)
#: Columns whose tensors or values are compared.
COMPARED = ["hole", "text", "half", "flag"]


def write(folder: Path, store: str) -> None:
    folder.mkdir()
    for number, table in enumerate((TABLE.slice(0, 40), TABLE.slice(40))):
        path = folder / ("part=" + "ab"[number]) if store == "partitions" else folder
        path.mkdir(exist_ok=True)
        pq.write_table(table, path / f"{number}.parquet", row_group_size=PER_SHARD)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("choices")
    found = {store: root / store for store in ("parquet", "partitions", "mds")}
    write(found["parquet"], "parquet")
    write(found["partitions"], "partitions")
    convert(str(found["parquet"]), str(found["mds"]), shard_size=900)
    return found


OPERATORS = ("=", "!=", "<", ">", "<=", ">=", "in", "not in")


def term(draw: random.Random, name: str, operator: str) -> tuple[str, str, Any]:
    values = [one for one in TABLE[name].to_pylist() if one is not None and one == one]
    if operator in ("in", "not in"):
        return name, operator, draw.sample(values, draw.randint(1, 40))
    if operator in ("=", "!=") and draw.random() < 0.3:
        return name, operator, None
    return name, operator, draw.choice(values)


def numbers_of(one: tuple[str, str, Any]) -> set[int]:
    """Return the rows that pyarrow keeps, if a comparison with None is a search for nulls."""
    name, operator, value = one
    if value is None:
        mask = TABLE[name].is_null() if operator == "=" else TABLE[name].is_valid()
        return set(TABLE.filter(mask)["id"].to_pylist())
    return set(TABLE.filter(expression_of([one]))["id"].to_pylist())


def expression_of(terms: list[tuple[str, str, Any]]) -> pc.Expression:
    """Return an expression whose literals have the types of the columns."""
    typed = []
    for name, operator, value in terms:
        type_ = TABLE[name].type
        of_type = pa.array(value, type_) if type(value) is list else pa.scalar(value, type_)
        typed.append(pq.filters_to_expression([(name, operator, of_type)]))
    return reduce(lambda one, other: one & other, typed)


@dataclass
class Program:
    """What is chosen, and who reads it."""

    seed: int
    stores: dict[str, Path]
    options: dict[str, Any] = field(default_factory=dict)
    chosen: list[int] = field(default_factory=lambda: [*NUMBERS])

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.kind = self.pick("kind", list(KINDS))
        is_engine = KINDS[self.kind] is engine
        self.store = "mds" if is_engine else self.pick("store", list(self.stores))
        self.choose_rows(self.pick("rows", ["all", "every third", "mask", "numbers", "small ones"]))
        self.choose_where(self.pick("where", ["none", "terms", "expression", "alternatives"]))
        # Only lists can hold text in PyTorch.
        names = [n for n in COMPARED if (n, self.kind) != ("text", "BatchedDataLoader")]
        some = self.draw.sample(names, self.draw.randint(0, len(names)))
        self.columns = ["id", *(name for name in names if name in some)]
        self.is_numbered = self.pick("row numbers", [False, True])
        self.ranks, self.epochs = self.pick("world", [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)])
        self.order = self.pick("order", ["in order", "shuffled", "rows", "elastic"])
        self.size = self.pick("size", [1, 4, 7, 100])

    def pick(self, axis: str, options: list[Any]) -> Any:
        """Draw one of the options, each in as many programs as the others."""
        block, number = divmod(self.seed, len(options))
        return random.Random(f"{axis} {block}").sample(options, len(options))[number]

    def choose_rows(self, form: str) -> None:
        if form == "every third":
            first, last = self.draw.randint(0, 30), self.draw.randint(40, ROWS)
            self.options["rows"] = slice(first, last, 3)
            self.chosen = [*range(first, last, 3)]
        elif form == "mask":
            self.options["rows"] = np.arange(ROWS) % 4 > 1
            self.chosen = [n for n in NUMBERS if n % 4 > 1]
        elif form != "all":
            self.chosen = self.draw.choices(NUMBERS, k=self.draw.randint(1, 60))
            is_small = form == "small ones"
            self.options["rows"] = np.array(self.chosen, np.uint8) if is_small else self.chosen

    def choose_where(self, form: str) -> None:
        names = ["large", *TABLE.column_names]
        first = self.pick("column", names), self.pick("operator", [*OPERATORS])
        others = ((self.draw.choice(names), self.draw.choice(OPERATORS)) for _ in range(2))
        one, other = term(self.draw, *first), term(self.draw, *next(others))
        if form == "terms":
            where, kept = [one], numbers_of(one)
        elif form == "expression":
            known = [each for each in (one, other) if each[2] is not None]
            where = expression_of(known or [("id", ">", 9)])
            kept = set(TABLE.filter(where)["id"].to_pylist())
        elif form == "alternatives":
            second = term(self.draw, *next(others))
            where = [[one], [other, second]]
            kept = numbers_of(one) | (numbers_of(other) & numbers_of(second))
        else:
            return
        self.options["where"] = where
        self.chosen = [number for number in self.chosen if number in kept]

    def __str__(self) -> str:
        return f"{vars(self)}"

    def null_count(self) -> int:
        return sum(n % 6 == 5 for n in self.chosen) * ("hole" in self.columns)

    def make(self, rank: int) -> Any:
        return KINDS[self.kind](self, rank)

    def ids(self, batch: Any) -> list[int]:
        """Return the numbers of the rows in a batch, whose values must be those of the table."""
        found = batch if isinstance(batch, dict) else batch._asdict()
        values = {name: plain(value) for name, value in found.items()}
        if self.is_numbered:
            assert values.pop("row") == values["id"], self
        assert sorted(values) == sorted(self.columns), self
        numbers = values["id"]
        for name in self.columns:
            expected = [TABLE[name][number].as_py() for number in numbers]
            assert list(map(str, map(known, values[name]))) == list(map(str, map(known, expected)))
        return numbers


def known(value: Any) -> Any:
    """Return a value in the form that all frameworks have in common; NaN is null."""
    value = value.decode() if isinstance(value, bytes) else value
    return (
        None if value is None or value != value else value if type(value) is str else float(value)
    )


def plain(values: Any) -> list[Any]:
    """Return a column of a batch, or the value of a sample, as a list."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return values if isinstance(values, list) else [values]


def engine(program: Program, rank: int) -> Any:
    world = rank, program.ranks
    options = {"num_epochs": program.epochs, "columns": program.columns, **program.options}
    if program.is_numbered:
        options |= {"row_numbers": "row", "columns": [*program.columns, "row"]}
    if program.order == "elastic":
        options |= {"shuffle": program.seed % 2 == 0, "batch_size": program.size, "world": world}
        options |= {"num_canonical_nodes": 1, "shuffle_seed": program.seed}
    else:
        is_shuffled, of_rows = program.order != "in order", program.order == "rows"
        options["order"] = ExactOrder(program.seed, is_shuffled, of_rows, 0, *world)
    dataset = StreamingDataset(local=str(program.stores["mds"]), **options)
    return StreamingDataLoader(dataset, program.size)


def of_readers(program: Program, rank: int) -> dict[str, Any]:
    options = {"num_epochs": program.epochs, "seed": program.seed, **program.options}
    options |= {"shuffle_row_groups": program.order != "in order"}
    options |= {"shuffle_rows": program.order == "rows", "schema_fields": program.columns}
    options |= {"order": "elastic"} if program.order == "elastic" else {}
    options |= {"row_numbers": "row"} if program.is_numbered else {}
    if program.order != "elastic":
        options["shuffle_row_drop_partitions"] = 1 + program.seed % 2
    return options | {"cur_shard": rank, "shard_count": program.ranks}


def reader(make: Callable[..., Any], over: Any = None) -> Callable[[Program, int], Any]:
    def made(program: Program, rank: int) -> Any:
        opened = make(program.stores[program.store].as_uri(), **of_readers(program, rank))
        return opened if over is None else over(opened, program.size)

    return made


def converter(method: str) -> Callable[[Program, int], Any]:
    def made(program: Program, rank: int) -> Any:
        url = program.stores[program.store]
        found = make_spark_converter(url.as_uri())
        if program.store == "mds":
            dataset = open_dataset(url)
            found = SparkDatasetConverter(dataset.url, dataset.file_urls, ROWS)
        return getattr(found, method)(program.size, **of_readers(program, rank))

    return made


#: How states are saved and restored.
FORMS: dict[str, Callable[[Any], Any]] = {
    "JSON": lambda state: json.loads(json.dumps(state)),
    "pickle": lambda state: pickle.loads(pickle.dumps(state)),  # noqa: S301
}
KINDS: dict[str, Callable[[Program, int], Any]] = {
    "StreamingDataLoader": engine,
    "make_reader": reader(make_reader),
    "make_batch_reader": reader(make_batch_reader),
    "DataLoader": reader(make_batch_reader, DataLoader),
    "BatchedDataLoader": reader(make_reader, BatchedDataLoader),
    "make_torch_dataloader": converter("make_torch_dataloader"),
}


def check(program: Program) -> None:
    seen = Counter[int]()
    for rank in range(program.ranks):
        loader = program.make(rank)
        traced = loader.trace()
        taken, whole, state = program.draw.randint(0, 3), [], loader.state_dict()
        for batch in loader:
            whole.append(program.ids(batch))
            state = loader.state_dict() if len(whole) <= taken else state
        seen.update(number for numbers in whole for number in numbers)
        if program.kind != "make_reader":
            found = [traced.rows(n, rank).tolist() for n in range(len(whole))]
            assert found == whole, program
        if taken < len(whole):
            resumed = program.make(rank)
            resumed.load_state_dict(FORMS[program.pick("form", [*FORMS])](state))
            assert [program.ids(batch) for batch in resumed] == whole[taken:], program
    expected = Counter(program.chosen * program.epochs)
    if program.order == "elastic":  # which repeats rows so that ranks have equally many
        assert not expected - seen, program
        assert {*seen} == {*expected}, program
    else:
        assert seen == expected, program


def outcome(program: Program) -> str:
    try:
        check(program)
    except (NoDataAvailableError, InvalidArgumentError):
        return "fewer rows than ranks"
    except NullValueError as error:
        return "nulls" if "hole" in str(error) else f"refused, {error}"
    except Exception as error:
        error.add_note(f"program {program}")
        raise
    return "read"


@pytest.mark.filterwarnings("ignore:Currently make_reader", "ignore:Trying to partition")
@pytest.mark.parametrize(
    "seeds",
    [
        range(24),
        *(pytest.param(range(n, n + 64), marks=pytest.mark.long) for n in range(24, 280, 64)),
    ],
    ids=str,
)
def test_chosen_rows_are_those_of_pyarrow(stores: dict[str, Path], seeds: range) -> None:
    for seed in seeds:
        program = Program(seed, stores)
        possible = {"fewer rows than ranks"} if len(program.chosen) < program.ranks else {"read"}
        possible |= {"read"} if program.order == "elastic" and program.chosen else set()
        # Readers and lists of `DataLoader` may hold nulls. Rows that are not chosen never matter.
        possible |= {"nulls"} if program.null_count() else set()
        assert outcome(program) in possible, program
