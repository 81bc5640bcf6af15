"""Readers are made where they are used: other processes cannot be sent one."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.compat.readers import batch_reader, row_reader, write_parquet

from mdstorm.errors import NotPicklableError
from mdstorm.pytorch import DataLoader


@pytest.mark.parametrize("make", [batch_reader, row_reader])
def test_pickling_says_where_to_make_it(make: Any, tmp_path: Path) -> None:
    reader = make(write_parquet(tmp_path, {"a": [1, 2]}))
    name = "make_batch_reader" if make is batch_reader else "make_reader"
    for sent in (reader, DataLoader(reader), {"in": reader}):
        with pytest.raises(NotPicklableError, match=rf"in the worker.* {name}\(url"):
            pickle.dumps(sent)


def test_a_function_for_spark_that_holds_one_is_refused_with_that_text(
    spark: Any, tmp_path: Path
) -> None:
    reader = batch_reader(write_parquet(tmp_path, {"a": [1, 2]}))

    def use(batches: Any) -> Any:
        next(reader)
        yield from batches

    with pytest.raises(Exception, match="Create it in the worker"):
        spark.range(1).mapInArrow(use, "id long").collect()


@pytest.mark.filterwarnings("ignore:Got pickle error")  # of newer versions of torch
def test_a_data_loader_with_spawned_workers_refuses_it(tmp_path: Path) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    reader = batch_reader(write_parquet(tmp_path, {"a": [1, 2]}))
    dataset = torch_data.ChainDataset([reader])
    loader = torch_data.DataLoader(dataset, num_workers=1, multiprocessing_context="spawn")
    with pytest.raises(NotPicklableError, match="worker of a DataLoader"):
        iter(loader)
