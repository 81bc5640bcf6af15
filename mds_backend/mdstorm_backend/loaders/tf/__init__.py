"""TensorFlow: `tf.data` datasets of namedtuples."""
