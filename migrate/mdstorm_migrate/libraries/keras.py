"""Names that Keras removed, alone and within TensorFlow."""

from __future__ import annotations

from mdstorm_migrate.libraries.removed import Removed, all_of, joined

#: The first release of TensorFlow with Keras 3.
_IN_3 = "TensorFlow 2.16"
_OF_TENSORFLOW = joined(
    all_of(
        "tensorflow.keras.utils",
        "multi_gpu_model",
        Removed("TensorFlow 2.4", "use `tf.distribute.MirroredStrategy`"),
    ),
    all_of(
        "tensorflow.keras.utils",
        "np_utils",
        Removed("TensorFlow 2.0", "call `tf.keras.utils.to_categorical`"),
    ),
    all_of(
        "tensorflow.keras.layers",
        "CuDNNLSTM CuDNNGRU",
        Removed("TensorFlow 2.0", "use `LSTM` or `GRU`, which use cuDNN by themselves"),
    ),
    all_of(
        "tensorflow.keras.backend",
        "get_session set_session",
        Removed("TensorFlow 2.0", "use those of `tf.compat.v1.keras.backend`"),
    ),
    all_of(
        "tensorflow.keras.layers",
        "experimental",
        Removed(_IN_3, "take the layers from `tf.keras.layers`"),
    ),
    all_of(
        "tensorflow.keras.layers",
        "DenseFeatures",
        Removed(_IN_3, "use preprocessing layers, or `tf.keras.utils.FeatureSpace`"),
    ),
    all_of(
        "tensorflow.keras.layers",
        "LocallyConnected1D LocallyConnected2D",
        Removed(_IN_3, "write such a layer, or use the package `tf_keras`"),
    ),
    all_of(
        "tensorflow.keras.optimizers",
        "experimental",
        Removed(_IN_3, "take the optimizers from `tf.keras.optimizers`"),
    ),
    all_of(
        "tensorflow.keras.mixed_precision",
        "experimental",
        Removed(
            "TensorFlow 2.9",
            "use `Policy`, `set_global_policy` and `LossScaleOptimizer` of "
            "`tf.keras.mixed_precision`",
        ),
    ),
    all_of(
        "tensorflow.keras.backend",
        "learning_phase set_learning_phase placeholder function",
        Removed(_IN_3, "pass `training=` to the model, or use the package `tf_keras`"),
    ),
)

_ALONE = joined(
    all_of(
        "keras.utils",
        "np_utils",
        Removed("Keras 3.0", "call `keras.utils.to_categorical`"),
    ),
    all_of(
        "keras.utils",
        "multi_gpu_model",
        Removed("Keras 2.4", "use `tf.distribute.MirroredStrategy`"),
    ),
    all_of(
        "keras.backend",
        "tensorflow_backend",
        Removed("Keras 2.4", "use `tf.compat.v1.keras.backend`"),
    ),
    all_of(
        "keras.layers",
        "CuDNNLSTM CuDNNGRU",
        Removed("Keras 3.0", "use `LSTM` or `GRU`, which use cuDNN by themselves"),
    ),
)

NAMES = joined(_OF_TENSORFLOW, _ALONE)
