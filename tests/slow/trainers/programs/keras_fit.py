"""Keras in one process, on the backend set in KERAS_BACKEND; arguments: URL."""

import sys
import warnings

from keras_support import Recorder, Steps, fit_until_stopped, keras, make_model
from support import converter_of, record

warnings.filterwarnings("error", message="Your input ran out of data")
(url,) = sys.argv[1:]
converter = converter_of(url)


def make(num_epochs=1, labels="label", **arguments):
    return converter.make_tf_dataset(
        batch_size=100,
        num_epochs=num_epochs,
        shuffling_queue_capacity=500,
        features=["number", "x"],
        labels=labels,
        **arguments,
    )


def fit(part, dataset, *callbacks, **arguments):
    model = make_model()
    Recorder.part = part
    model.fit(dataset, verbose=0, shuffle=False, callbacks=[Steps(), *callbacks], **arguments)
    return model


def resume(part, **arguments):
    """Train until the job is preempted, and resume with the rest of the epoch."""
    Recorder.part = part
    state = fit_until_stopped(make_model(), make())
    again = make()
    again.load_state_dict(state)
    with warnings.catch_warnings():  # the epoch is incomplete, and Keras warns about it
        warnings.simplefilter("ignore")
        fit(part, again, **arguments)


class Validation(keras.callbacks.Callback):
    """Records validation rows separately."""

    def on_test_begin(self, logs=None):
        self.part, Recorder.part = Recorder.part, "validation"

    def on_test_end(self, logs=None):
        Recorder.part = self.part


model = fit("fit", make(), Validation(), epochs=2, validation_data=make())
Recorder.part = "evaluate"
model.evaluate(make(), verbose=0)
Recorder.part = "predict"
record([len(model.predict(make(labels=None), verbose=0))], "predicted")

fit("class weights", make(), class_weight={0: 1.0, 1: 2.0})
fit("sample weights", make(sample_weights="x"))
fit("two epochs in one", make(num_epochs=2))
fit("repeated", make().repeat(2))
fit("endless", make(num_epochs=None), epochs=2, steps_per_epoch=5)

resume("resumed", epochs=2)
if keras.backend.backend() == "jax":
    import jax

    jax.default_backend = lambda: "gpu"  # Keras then takes one batch ahead of use
resume("resumed, one batch ahead")

fit("uninterrupted, endless", make(num_epochs=None, seed=3), steps_per_epoch=11)
Recorder.part = "resumed, endless"
# Stops in the second epoch of `fit`, in the same iteration over the dataset.
state = fit_until_stopped(make_model(), make(num_epochs=None, seed=3), epochs=2, steps_per_epoch=3)
again = make(num_epochs=None, seed=3)
again.load_state_dict(state)
fit("resumed, endless", again, steps_per_epoch=7)
