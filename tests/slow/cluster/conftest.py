"""Fixtures for a network of hosts, a store on it, and a Spark cluster."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.small_datasets import array_of, write_dataset
from tests.slow.cluster.hosts import Host, Network
from tests.slow.cluster.standalone import Standalone
from tests.slow.cluster.store import Store

EXAMPLES = Path(__file__).parents[3] / "examples" / "many_machines"
PROGRAMS = Path(__file__).parent / "programs"

#: What a program prints for an epoch in which its ranks read each of 100,000 rows once.
EACH_ROW_ONCE = "100,000 rows, 0 lost, 0 doubled"


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Three hosts for executors and ranks, one for a driver, and one for a store."""
    try:
        network = Network(tmp_path_factory.mktemp("hosts"), "one two three driver store")
    except OSError as error:
        pytest.skip(f"needs the commands unshare and ip, and permission to use them ({error})")
    yield network
    network.close()


@pytest.fixture(scope="session")
def hosts(network: Network) -> list[Host]:
    """The two hosts that most tests use for executors and ranks."""
    return [network["one"], network["two"]]


@pytest.fixture(scope="session")
def store(network: Network) -> Iterator[Store]:
    store = Store(network["store"])
    yield store
    store.close()


@pytest.fixture(scope="session")
def spark_cluster(network: Network, hosts: list[Host], store: Store) -> Standalone:
    return Standalone(network["driver"], hosts, store.environment)


@dataclass(frozen=True)
class Numbers:
    """A dataset in the store, like the one written by the examples' ``write.py``."""

    url: str
    rows: int
    shard_bytes: list[int]


def stored_numbers(store: Store, directory: Path, name: str, rows: int) -> Numbers:
    """Write a dataset like the examples', in shards of 3,000 rows, to the store."""
    number = np.arange(rows)
    values = np.cos(number[:, None] * np.arange(1, 17)).astype(np.float32)
    columns = {
        "id": pa.array(number),
        "x": pa.FixedSizeListArray.from_arrays(values.ravel(), 16).cast(pa.list_(pa.float32())),
        "y": pa.array((2 * number / rows).astype(np.float32)),
    }
    fields = {"id": "long", "x": array_of("float"), "y": "float"}
    write_dataset(directory, pa.table(columns), fields, shard_size=1 << 18)
    for path in directory.iterdir():
        store.put(f"{name}/{path.name}", path.read_bytes())
    sizes = [path.stat().st_size for path in directory.glob("*.mds")]
    return Numbers(f"s3://bucket/{name}", rows, sizes)


@pytest.fixture(scope="session")
def numbers(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    """100,000 rows in about 30 shards."""
    return stored_numbers(store, tmp_path_factory.mktemp("numbers") / "data", "numbers", 100_000)


def epochs(output: str) -> list[str]:
    """Return the row counts that a program prints for its epochs."""
    # Ray may write a line of its own log after the text, without a line break in between.
    return re.findall(r"^(?:\[.*\])?epoch \d: ([^\x1b\n]*)", output, re.MULTILINE)
