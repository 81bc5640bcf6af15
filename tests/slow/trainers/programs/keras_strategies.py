"""Train with Keras and in loops under a TensorFlow strategy; arguments: URL STRATEGY."""

import os
import sys
import warnings

import tensorflow as tf
from support import converter_of, record

from mdstorm import make_batch_reader
from mdstorm.tf_utils import make_petastorm_dataset

url, name = sys.argv[1:]
if name == "MirroredStrategy":
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
else:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

from keras_support import (  # noqa: E402 - no ops may be created before the strategy
    Recorder,
    Steps,
    fit_until_stopped,
    make_model,
)

warnings.filterwarnings("error", message="Your input ran out of data")
converter = converter_of(url)


def make(**arguments):
    return converter.make_tf_dataset(
        batch_size=100,
        num_epochs=1,
        shuffling_queue_capacity=500,
        features=["number", "x"],
        labels="label",
        **arguments,
    )


def run(part, batches):
    """Iterate over the batches of a distributed dataset."""

    @tf.function
    def step(batch):
        def note(numbers):
            tf.numpy_function(lambda found: record(found, part), [numbers], [])

        strategy.run(note, [batch[0]["number"]])

    for batch in batches:
        step(batch)


shares = {"auto": {"cur_shard": "auto"}, "sharded by TensorFlow": {}}
for share, arguments in shares.items():
    with strategy.scope():
        model = make_model()
    Recorder.part = f"fit {share}"
    dataset = make(**arguments)
    model.fit(dataset, epochs=2, verbose=0, callbacks=[Steps()])
    Recorder.part = f"evaluate {share}"
    model.evaluate(make(**arguments), verbose=0)
    Recorder.part = f"resumed {share}"
    # TensorFlow splits each batch of a share into one part per worker, and uses one part per step.
    workers = strategy.num_replicas_in_sync if arguments and "TF_CONFIG" in os.environ else 1
    state = fit_until_stopped(model, make(**arguments), workers)
    dataset = make(**arguments)
    dataset.load_state_dict(state)
    with warnings.catch_warnings():  # the first epoch is incomplete, and Keras warns about it
        warnings.simplefilter("ignore")
        model.fit(dataset, verbose=0)
    model.fit(dataset, verbose=0)
    part = f"distribute {share}"
    run(part, strategy.experimental_distribute_dataset(make(**arguments)))

from_function = strategy.distribute_datasets_from_function(lambda _: make(cur_shard="auto"))
print("batches of a worker:", int(from_function.cardinality))
run("from function", from_function)

if name == "MultiWorkerMirroredStrategy":
    for seed in (None, 5):
        with make_batch_reader(url, seed=seed) as reader:
            try:
                batches = make_petastorm_dataset(reader).map(lambda row: ({"number": row.number},))
            except ValueError as error:
                print(error)
            else:
                run("of a reader", strategy.experimental_distribute_dataset(batches))
