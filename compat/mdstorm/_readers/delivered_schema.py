"""The `Unischema` of what a reader delivers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdstorm._schema.unischema import Unischema, UnischemaField
from mdstorm._transforms.transform_spec import TransformSpec
from mdstorm_backend.loaders.nulls import MASK_SUFFIX

__all__ = ["delivered_schema"]


def delivered_schema(
    unischema: Unischema, delivered: Sequence[str], *, chosen: bool, spec: TransformSpec | None
) -> Unischema:
    """Return the fields of what is delivered, named as Petastorm names such a schema.

    Parameters
    ----------
    unischema : Unischema
        All fields of the dataset.
    delivered : sequence of str
        Names of the columns that are delivered, in order.
    chosen : bool
        Whether the user named some of the fields.
    spec : TransformSpec or None
        The transform.

    Returns
    -------
    Unischema
        Nested columns, which Petastorm never reads, are objects.
    """
    edited = {} if spec is None else spec.edited()

    def field_of(name: str) -> UnischemaField:
        if name in edited:
            _, dtype, shape, nullable = edited[name]
            return UnischemaField(name, dtype, shape, None, nullable)
        if name in unischema.fields:
            return unischema.fields[name]
        if name.removesuffix(MASK_SUFFIX) in unischema.fields:
            return UnischemaField(name, np.bool_, (), None, False)
        return UnischemaField(name, np.object_, (), None, True)

    suffix = ("_view" if chosen else "") + ("" if spec is None else "_transformed")
    return Unischema(unischema._name + suffix, map(field_of, delivered))
