"""`make_batch_reader`: shuffling and sharding, in cases with predictable results."""

from typing import Any

from petastorm import make_batch_reader
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import batches, ids_of


def row_groups_are_shuffled_by_default(place: Place) -> Any:
    url = place.numbers(60, group=2)
    with make_batch_reader(url, reader_pool_type="dummy", seed=5) as reader:
        found = ids_of(list(reader))
    return [found != sorted(found), sorted(found) == ids_of(batches(url))]


def seed_zero_repeats_nothing(place: Place) -> Any:
    url = place.numbers(200, group=2)
    once, again = (ids_of(batches(url, shuffle_row_groups=True, seed=0)) for _ in range(2))
    return once == again


def shards_are_row_groups_in_turn(place: Place) -> Any:
    url = place.numbers(10, group=2)
    return [ids_of(batches(url, cur_shard=shard, shard_count=2)) for shard in range(2)]


def more_shards_than_row_groups(place: Place) -> Any:
    url = place.numbers(8, group=4)
    return error_of(
        lambda: ids_of(batches(url, cur_shard=1, shard_count=4)),
        "Number of row-groups in the dataset must be greater or equal to the number of",
    )


def shard_arguments_belong_together(place: Place) -> Any:
    url = place.numbers()
    wrong: list[dict[str, Any]] = [
        {"cur_shard": 0},
        {"shard_count": 2},
        {"cur_shard": 0, "shard_count": 0},
        {"cur_shard": 0.0, "shard_count": 2},
        {"cur_shard": 0, "shard_count": 2.0},
        {"cur_shard": "0", "shard_count": 2},
    ]
    return [error_of(lambda: batches(url, **arguments)) for arguments in wrong]  # noqa: B023


def parts_of_row_groups(place: Place) -> Any:
    return ids_of(batches(place.numbers(10, group=6), shuffle_row_drop_partitions=2))


def more_parts_than_rows(place: Place) -> Any:
    return ids_of(batches(place.numbers(5, group=3), shuffle_row_drop_partitions=4))
