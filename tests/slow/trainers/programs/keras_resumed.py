"""Keras resumes datasets whose number of batches is or is not known; argument: URL.

For each way of reading, records the number of steps in each epoch of `fit` under its name, and
prints whether `load_state_dict` warned.
"""

import sys
import warnings

from keras_support import Recorder, Steps, make_model
from support import converter_of, keep_all

from mdstorm import TransformSpec
from mdstorm.predicates import in_lambda

(url,) = sys.argv[1:]
converter = converter_of(url)

READ = {
    "plain": {},
    "filters": {"filters": [("number", ">=", 0)]},
    "predicate": {"predicate": in_lambda(["number"], lambda number: number >= 0)},
    "function": {"transform_spec": TransformSpec(keep_all)},
    "elastic": {"order": "elastic"},
}


def make(read):
    return converter.make_tf_dataset(
        batch_size=100, num_epochs=1, features=["number", "x"], labels="label", **READ[read]
    )


def resumed(read):
    """Return a dataset that resumes after 6 batches, and whether it warned."""
    taken = make(read)
    for _, _ in zip(range(6), taken, strict=False):
        state = taken.state_dict()
    again = make(read)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        again.load_state_dict(state)
    return again, any("Keras" in str(warning.message) for warning in found)


def fit(part, dataset, **arguments):
    Recorder.part = part
    with warnings.catch_warnings():  # Keras warns where an epoch ends
        warnings.simplefilter("ignore")
        make_model().fit(dataset, verbose=0, shuffle=False, callbacks=[Steps()], **arguments)


for read in READ:
    dataset, has_warned = resumed(read)
    print(f"{read} warned: {has_warned}")
    if has_warned:
        fit(read, dataset, epochs=1)
        fit(read, dataset, epochs=3, initial_epoch=1)
    else:
        fit(read, dataset, epochs=3)
fit("repeated", resumed("filters")[0].repeat(), epochs=2, steps_per_epoch=11)
