"""`MDSWriter` and `merge_index` on every storage, over the protocols that they really speak."""

import pytest
from tests.mds_backend.small_datasets import write_ints
from tests.mds_backend.storage.conftest import Store

from mdstorm_backend import MDSWriter, merge_index, open_dataset
from mdstorm_backend.errors import DatasetExistsError


def write(store: Store, name: str, numbers: range, *, exist_ok: bool = False) -> None:
    how = {"compression": "zstd", "hashes": ["sha1"], "size_limit": 400, "exist_ok": exist_ok}
    options = {"storage_options": store.storage_options, **how}
    write_ints(f"{store.url}/{name}", numbers, **options)


def numbers_in(store: Store, name: str = "") -> list[int]:
    url = f"{store.url}/{name}".rstrip("/")
    dataset = open_dataset(url, storage_options=store.storage_options)
    return dataset.to_table()["n"].to_pylist()  # type: ignore[no-any-return]


def test_datasets_are_written_merged_and_replaced(store: Store) -> None:
    write(store, "b", range(60))
    write(store, "a", range(60, 90))
    merge_index(store.url, storage_options=store.storage_options)
    assert numbers_in(store) == [*range(60, 90), *range(60)]
    assert numbers_in(store, "b") == list(range(60))
    with pytest.raises(DatasetExistsError):
        write(store, "b", range(5))
    write(store, "b", range(5), exist_ok=True)
    assert numbers_in(store, "b") == list(range(5))


def test_what_fails_leaves_nothing(store: Store) -> None:
    writer = MDSWriter(
        columns={"n": "int"},
        out=f"{store.url}/failed",
        size_limit=200,
        storage_options=store.storage_options,
    )
    with pytest.raises(RuntimeError, match="mine"):
        fail_while_writing(writer)
    assert store.location.child("failed").list_names() == []


def fail_while_writing(writer: MDSWriter) -> None:
    with writer:
        for number in range(30):
            writer.write({"n": number})
        raise RuntimeError("mine")
