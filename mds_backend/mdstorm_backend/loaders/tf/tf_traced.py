"""Datasets that call Python, with functions traced once and reused by all datasets of a kind.

To make a `tf.data` dataset that calls Python, TensorFlow traces a dozen functions, which takes
longer than reading a small table, and keeps them until the process ends. So the functions are
traced once for each kind of dataset, and receive the number of the object whose methods they call.
Only a dataset keeps its object and its functions, and only TensorFlow's iterators keep the dataset.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias

import tensorflow as tf

#: Type of the numbers that Python and TensorFlow exchange.
NUMBER = tf.TensorSpec((), tf.int64)
#: Returns the object for a number. Datasets refer to the object by number, and call its methods.
Find: TypeAlias = Callable[[Any], Any]
#: Makes a dataset from `Find`, the flat specs of its elements, the kind, the object's number, and
#: other numbers that are known only after tracing.
Build: TypeAlias = Callable[..., Any]

#: Number of kinds whose functions are kept for reuse. A dataset keeps its functions in any case.
_KINDS_KEPT = 64
_sources: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = count()


def traced_dataset(
    source: object, build: Build, signature: Any, kind: Hashable = None, numbers: Sequence[int] = ()
) -> Any:
    """Return a dataset whose functions are traced once for all datasets of its kind.

    Parameters
    ----------
    source : object
        Its methods are called while the dataset is read. Only the dataset keeps it alive.
    build : callable
        Makes the dataset: ``build(find, specs, kind, number, *numbers)``. Must be a module-level
        function that calls only methods of ``find(number)``.
    signature : structure of TypeSpec
        The elements of the dataset; the elements that `build` makes are flat tuples.
    kind : hashable
        Anything else that changes what TensorFlow runs.
    numbers : sequence of int
        Numbers for `build`, passed as tensors.
    """
    specs = tuple(tf.nest.flatten(signature))
    if tf.executing_eagerly():
        traced = traced_function(build, specs, kind, len(numbers))
        number = next(_numbers)
        _sources[number] = source
        variant = traced(*(tf.constant(n, tf.int64) for n in (number, *numbers)))
    else:
        # In graph mode, the graph has its own functions, and keeps both them and the object.
        traced, variant = None, _variant(build, lambda _: source, specs, kind, [0, *numbers])
    dataset = tf.data.experimental.from_variant(variant, signature)
    dataset._mdstorm_kept = source, traced
    return dataset


@lru_cache(maxsize=_KINDS_KEPT)
def traced_function(build: Build, specs: tuple[Any, ...], kind: Hashable, count: int) -> Any:
    """Return the function that makes datasets of a kind, traced once while it is kept.

    Parameters
    ----------
    build : callable
        Makes the dataset.
    specs : tuple of TypeSpec
        The flat elements of the dataset.
    kind : hashable
        Anything else that changes what TensorFlow runs.
    count : int
        How many other numbers `build` takes.

    Returns
    -------
    concrete function
        Called with the object's number and `count` other numbers, it returns a variant tensor.
    """

    def made(*numbers: Any) -> Any:
        return _variant(build, _find, specs, kind, numbers)

    # Use a concrete function, because `tf.config.run_functions_eagerly` does not apply to it.
    function = tf.function(made, autograph=False)
    return function.get_concrete_function(*[NUMBER] * (1 + count))


def _variant(
    build: Build, find: Find, specs: tuple[Any, ...], kind: Hashable, numbers: Sequence[Any]
) -> Any:
    # AutoGraph is slow to convert functions, and leaves files in the temporary folder.
    built = tf.autograph.experimental.do_not_convert(build)
    tensors = (tf.convert_to_tensor(number, tf.int64) for number in numbers)
    return tf.data.experimental.to_variant(built(find, specs, kind, *tensors))


def _find(number: Any) -> Any:
    return _sources[int(number)]
