"""`tf_tensors` and n-grams as tensors, in graph mode."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.compat.readers import row_reader, write_parquet

from mdstorm.ngram import NGram
from mdstorm.tf_utils import RANDOM_SHUFFLING_QUEUE_SIZE, make_namedtuple_tf_ngram, tf_tensors
from mdstorm.unischema import Unischema, UnischemaField

v1 = tf.compat.v1


def test_a_queue_shuffles_rows(ten: str) -> None:
    with row_reader(ten) as reader, tf.Graph().as_default(), v1.Session() as session:
        row = tf_tensors(reader, shuffling_queue_capacity=10, min_after_dequeue=5)
        assert session.graph.get_operation_by_name(RANDOM_SHUFFLING_QUEUE_SIZE)
        coordinator = tf.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator)
        found = [int(session.run(row).number) for _ in range(10)]
        coordinator.request_stop()
        coordinator.join(threads)
    assert sorted(found) == list(range(10))


def test_values_are_those_of_rows(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "types", {"raw": [b"a\0"], "array": [[1.0, 2.0]]})
    with row_reader(url) as reader, tf.Graph().as_default(), v1.Session() as session:
        row = session.run(tf_tensors(reader))
    assert (row.raw, row.array.tolist()) == (b"a\0", [1.0, 2.0])


class TestNGrams:
    ngram = NGram({0: ["time"], 2: ["time", "value"]}, 1, "time")

    def test_are_dicts_of_namedtuples(self, tmp_path: Path) -> None:
        url = write_parquet(tmp_path / "sequence", {"time": range(4), "value": np.arange(4) / 2})
        with (
            row_reader(url, schema_fields=self.ngram) as reader,
            tf.Graph().as_default(),
            v1.Session() as session,
        ):
            tensors = tf_tensors(reader)
            assert list(tensors) == [0, 1, 2]
            first = session.run({offset: row for offset, row in tensors.items() if row})
        assert (int(first[0].time), int(first[2].time), float(first[2].value)) == (0, 2, 1.0)

    @pytest.mark.parametrize("by_name", [False, True])
    def test_are_put_together_of_values(self, by_name: bool) -> None:
        fields = [UnischemaField("time", np.int64, ()), UnischemaField("value", np.float64, ())]
        schema = Unischema("S", fields)
        ngram = NGram({0: [fields[0]], 1: fields}, 1, fields[0])
        values: dict[str, Any] = {"0": {"time": 1}, "1": {"time": 2, "value": 3.0}}
        result = (
            make_namedtuple_tf_ngram(schema, ngram, **values)
            if by_name
            else make_namedtuple_tf_ngram(schema, ngram, 1, 2, 3.0)
        )
        assert {offset: row._asdict() for offset, row in result.items()} == {
            0: {"time": 1},
            1: {"time": 2, "value": 3.0},
        }
