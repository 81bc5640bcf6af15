"""Random programs with Keras on TensorFlow; rows are counted by value."""

import json
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from tests.kit.frameworks import import_framework
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import each_once
from tests.slow.trainers.programs.support import converter_of

keras: Any = import_framework("keras")
tf: Any = import_framework("tensorflow")


class Rows:
    """The training rows, and the rows of each validation."""

    def __init__(self) -> None:
        self.trained: list[int] = []
        self.validated: list[list[int]] = []

    def record(self, numbers: Any, *, training: bool) -> None:
        (self.trained if training else self.validated[-1]).extend(numbers.tolist())


class Recorder(keras.layers.Layer):  # type: ignore[misc]
    """A layer that returns `values` unchanged, and records the row numbers."""

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.rows = rows

    def call(self, number: Any, values: Any, training: bool = False) -> Any:
        tf.numpy_function(lambda found: self.rows.record(found, training=training), [number], [])
        return values


class StopError(Exception):
    """Raised when the job is stopped."""


class Stop(keras.callbacks.Callback):  # type: ignore[misc]
    """Counts batches, stops after a number of them, and begins a new record for each validation."""

    def __init__(self, rows: Rows, batches: int | None) -> None:
        super().__init__()
        self.rows, self.batches, self.taken = rows, batches, 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.taken += 1
        if self.taken == self.batches:
            raise StopError

    def on_test_begin(self, logs: Any = None) -> None:
        self.rows.validated.append([])


class Program:
    """Runs of `fit` that stop at random batches, and resume with new datasets and models."""

    def __init__(self, url: str, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.url, self.batch_size = url, draw.randint(60, 400)
        self.num_epochs = draw.choice([1, 1, 2, None])
        self.options = {
            "shuffling_queue_capacity": draw.choice([0, 200]),
            "seed": draw.choice([None, 7]),
        }
        #: Arguments of `fit`.
        self.given: dict[str, Any] = {}
        if self.num_epochs is None or draw.random() < 0.4:
            self.given["steps_per_epoch"] = draw.randint(1, 12)
        self.validates = draw.random() < 0.5
        if self.validates and draw.random() < 0.4:
            self.given["validation_steps"] = draw.randint(1, 3)
        self.steps: list[Any] = [dict(vars(self))]
        self.trained: list[int] = []

    def data(self, num_epochs: int | None) -> Any:
        return converter_of(self.url).make_tf_dataset(
            batch_size=self.batch_size,
            num_epochs=num_epochs,
            features=["number", "x"],
            labels="label",
            **self.options,
        )

    def fit(self, state: Any, epochs: int, stop: int | None) -> Any:
        """Train, and return the state after the last batch."""
        rows, dataset = Rows(), self.data(self.num_epochs)
        number = keras.Input((), dtype="int64", name="number")
        x = keras.Input((), name="x")
        values = keras.layers.Reshape((1,))(Recorder(rows)(number, x))
        model = keras.Model({"number": number, "x": x}, keras.layers.Dense(1)(values))
        model.compile("sgd", "mse", weighted_metrics=[])
        if state is not None:
            dataset.load_state_dict(json.loads(json.dumps(state)))
        given, counted = dict(self.given), Stop(rows, stop)
        if self.validates:
            given["validation_data"] = self.data(1)
        self.steps.append(("fit", epochs, stop))
        read_before = len(self.trained)
        with suppress(StopError):
            model.fit(
                dataset, epochs=epochs, verbose=0, shuffle=False, callbacks=[counted], **given
            )
        self.trained += rows.trained
        for found in rows.validated:
            assert not Counter(found) - each_once(ROWS), self.steps
            assert "validation_steps" in given or len(found) == ROWS, self.steps
        taken = counted.taken
        for in_pass in self.batches_of_passes(read_before):
            if taken <= in_pass:
                return dataset.state_dict(batches=taken)
            taken -= in_pass

    def batches_of_passes(self, read_before: int) -> Any:
        """Yield how many batches are left after `read_before` rows, then how many a pass has."""
        if self.num_epochs is None:
            yield 1 << 30
            return
        whole = self.num_epochs * ROWS
        left = -read_before % whole or whole
        while True:
            yield -(-left // self.batch_size)
            left = whole

    def run(self) -> None:
        state = None
        for _ in range(self.draw.randint(0, 3)):
            state = self.fit(state, self.draw.randint(1, 3), self.draw.randint(1, 12))
        self.fit(state, 2, None)
        epochs = -(-len(self.trained) // ROWS)
        for epoch in range(epochs):
            found = self.trained[epoch * ROWS : (epoch + 1) * ROWS]
            assert len(set(found)) == len(found), (epoch, self.steps)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("seed", range(100))
def test_random_programs_train_on_each_row_once_an_epoch(url: str, seed: int) -> None:
    Program(url, seed).run()
