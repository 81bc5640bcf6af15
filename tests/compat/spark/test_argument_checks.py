"""Wrong arguments are reported by the call itself, before any file is opened."""

import numpy as np
import pytest

from mdstorm.errors import InvalidArgumentError
from mdstorm.spark import SparkDatasetConverter


def test_numpy_integers_are_integers(ten: SparkDatasetConverter) -> None:
    with ten.make_torch_dataloader(
        batch_size=np.int64(4),  # type: ignore[arg-type]
        num_epochs=np.int64(1),  # type: ignore[arg-type]
        workers_count=np.int32(2),  # type: ignore[arg-type]
        shuffling_queue_capacity=np.int64(20),  # type: ignore[arg-type]
        seed=np.int64(5),
    ) as loader:
        numbers = [n for batch in loader for n in batch["number"].tolist()]
    assert sorted(numbers) == list(range(10))


def test_files_of_another_dataset_are_refused(ten: SparkDatasetConverter) -> None:
    url = f"{ten.cache_dir_url}/part-1-2.00000.mds"
    for urls, text in [([ten.file_urls[0], url], "is none of the .* shards"), ([], "is empty")]:
        other = SparkDatasetConverter(ten.cache_dir_url, urls, 5)
        with pytest.raises(InvalidArgumentError, match=text):
            other.make_torch_dataloader().__enter__()
        with pytest.raises(InvalidArgumentError, match=text):
            other.make_tf_dataset()
