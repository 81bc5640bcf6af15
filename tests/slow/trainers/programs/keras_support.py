"""A Keras model for any backend that records the row numbers of its inputs."""

import json
import os

from support import record

if "TF_CONFIG" in os.environ:
    # Keras 3.15's `fit` fails under MultiWorkerMirroredStrategy with any dataset.
    import tf_keras as keras
else:
    import keras


class Recorder(keras.layers.Layer):
    """A layer that returns `values` unchanged, and records the row numbers."""

    #: Name of the part under which rows are recorded.
    part = "rows"

    def call(self, number, values):
        backend = keras.backend.backend()
        if backend == "tensorflow":
            import tensorflow as tf

            tf.numpy_function(self._note, [number], [])
        elif backend == "jax":
            import jax

            jax.debug.callback(self._note, number)
        elif number.device.type != "meta":
            self._note(number.cpu())
        return values

    def _note(self, numbers):
        record(numbers, Recorder.part)


def make_model():
    """Return a compiled model with the inputs ``number`` and ``x``."""
    number = keras.Input((), dtype="int64", name="number")
    x = keras.Input((), name="x")
    values = keras.layers.Reshape((1,))(Recorder()(number, x))
    model = keras.Model({"number": number, "x": x}, keras.layers.Dense(1)(values))
    model.compile("sgd", "mse", weighted_metrics=[])
    return model


class Steps(keras.callbacks.Callback):
    """Records the number of steps in each epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self._steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self._steps += 1

    def on_epoch_end(self, epoch, logs=None):
        record([self._steps], f"{Recorder.part}.steps")


class PreemptionError(Exception):
    """Raised when a job is preempted."""


class Checkpoint(keras.callbacks.Callback):
    """Saves the dataset's state, as users do with the weights, and stops after 4 steps."""

    def __init__(self, dataset, steps_per_batch=1):
        super().__init__()
        self.dataset = dataset
        self.steps_per_batch = steps_per_batch
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1  # over all epochs
        if self.steps == 4:
            batches = self.steps // self.steps_per_batch
            self.state = json.dumps(self.dataset.state_dict(batches=batches))
            raise PreemptionError


def fit_until_stopped(model, dataset, steps_per_batch=1, **arguments):
    """Train until the job is preempted, and return the dataset's state."""
    checkpoint = Checkpoint(dataset, steps_per_batch)
    try:
        model.fit(dataset, verbose=0, shuffle=False, callbacks=[checkpoint], **arguments)
    except PreemptionError:
        return json.loads(checkpoint.state)
