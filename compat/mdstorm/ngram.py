"""`NGram`, which reads consecutive rows of a sequence as one item.

The names and rules are the same as in ``petastorm.ngram``.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm._petastorm_names import other_names
from mdstorm._schema import UnischemaField
from mdstorm.errors import InvalidArgumentError, UnsortedTimestampsError
from mdstorm.unischema import Unischema, match_unischema_fields
from mdstorm_backend.base import is_integer
from mdstorm_backend.display import Described

__all__ = [
    "NGram",
]

__getattr__ = other_names(__name__)

#: A field, or a regular expression for field names.
_FieldOrPattern = UnischemaField | str


class NGram(Described):
    """A specification of n-grams of rows, passed to ``make_reader`` as ``schema_fields``.

    An n-gram is a dict that maps each offset to a row with the fields for that offset. It consists
    of consecutive rows in one shard or one piece of a shard. Each row's timestamp is at most
    `delta_threshold` after the previous row's timestamp.

    Parameters
    ----------
    fields : dict of int to list of (UnischemaField or str)
        For each offset, the fields, or regular expressions that match their full names. An n-gram
        has all offsets from the first to the last; offsets not listed here have no fields.
    delta_threshold : number or numpy.timedelta64
        The largest allowed difference between consecutive timestamps. For a field of timestamps,
        this is a number of microseconds or a `numpy.timedelta64`.
    timestamp_field : UnischemaField or str
        The field that rows are sorted by, or a regular expression that matches only its name.
    timestamp_overlap : bool
        Whether a row can be part of several n-grams. If not, each n-gram begins after the last
        timestamp of the previous n-gram.

    Raises
    ------
    InvalidArgumentError
        If an argument has the wrong type.

    Examples
    --------
    >>> fields = {-1: ["id", "ts"], 0: ["id"]}  # the row before, and the row itself
    >>> ngram = NGram(fields, delta_threshold=10, timestamp_field="ts")
    >>> ngram.length
    2
    """

    def __init__(
        self,
        fields: Mapping[int, list[_FieldOrPattern]],
        delta_threshold: float,
        timestamp_field: _FieldOrPattern,
        timestamp_overlap: bool = True,
    ) -> None:
        _check(fields, delta_threshold, timestamp_field, timestamp_overlap)
        self._fields = dict(fields)
        self._delta_threshold = delta_threshold
        self._timestamp_field = timestamp_field
        self.timestamp_overlap = timestamp_overlap

    @property
    def length(self) -> int:
        """Number of rows in an n-gram."""
        return max(self._fields) - min(self._fields) + 1

    @property
    def fields(self) -> dict[int, list[_FieldOrPattern]]:
        """The requested fields by offset."""
        return self._fields

    @property
    def delta_threshold(self) -> float:
        """The largest allowed difference between consecutive timestamps."""
        return self._delta_threshold

    @property
    def timestamp_field(self) -> _FieldOrPattern:
        """The field that rows are sorted by."""
        return self._timestamp_field

    def __eq__(self, other: object) -> bool:
        """Whether both n-grams request the same fields at the same offsets, as in Petastorm."""
        if not isinstance(other, NGram):
            return NotImplemented
        ours = {offset: set(fields) for offset, fields in self._fields.items()}
        return ours == {offset: set(fields) for offset, fields in other._fields.items()}

    __hash__ = None  # type: ignore[assignment]  # resolving patterns changes the fields

    def resolve_regex_field_names(self, schema: Unischema) -> None:
        """Replace regular expressions with the matching fields in a schema, in place.

        Raises
        ------
        InvalidArgumentError
            If an expression matches no field, or the one for the timestamp does not match exactly
            one field.
        """
        for pattern in {item for fields in self._fields.values() for item in fields}:
            if isinstance(pattern, str) and not match_unischema_fields(schema, [pattern]):
                raise InvalidArgumentError(
                    f"the fields of the n-gram contain {pattern!r}, which matches none of "
                    f"{list(schema.fields)}"
                )
        self._fields = {
            offset: self.convert_fields(schema, fields) for offset, fields in self._fields.items()
        }
        matched = self.convert_fields(schema, [self._timestamp_field])
        if len(matched) != 1:
            raise InvalidArgumentError(
                f"timestamp_field was matched to {'more than one' if matched else 'no'} unischema "
                f"field: {self._timestamp_field!r} matches {[field.name for field in matched]} of "
                f"{list(schema.fields)}. Pass a single field"
            )
        self._timestamp_field = matched[0]

    def convert_fields(
        self, unischema: Unischema, field_list: Sequence[_FieldOrPattern]
    ) -> list[Any]:
        """Return the fields in a list, followed by those that its regular expressions match."""
        given = [item for item in field_list if not isinstance(item, str)]
        patterns = [item for item in field_list if isinstance(item, str)]
        return list(dict.fromkeys([*given, *match_unischema_fields(unischema, patterns)]))

    def get_field_names_at_timestep(self, timestep: int) -> list[str]:
        """Return the names of the fields requested at an offset, if any."""
        return [_name(field) for field in self._fields.get(timestep, [])]

    def get_field_names_at_all_timesteps(self) -> list[_FieldOrPattern]:
        """Return the fields requested at any offset, without duplicates."""
        return list(dict.fromkeys(field for fields in self._fields.values() for field in fields))

    def get_schema_at_timestep(self, schema: Unischema, timestep: int) -> Unischema:
        """Return the schema for the row at an offset, with fields in the order of `schema`."""
        names = set(self.get_field_names_at_timestep(timestep))
        return schema.create_schema_view([f for f in schema.fields.values() if f.name in names])

    def form_ngram(
        self, data: Sequence[Mapping[str, Any]], schema: Unischema
    ) -> list[dict[int, dict[str, Any]]]:
        """Form n-grams from consecutive rows that are dicts.

        Parameters
        ----------
        data : sequence of dict
            Rows as dicts by field name, in timestamp order.
        schema : Unischema
            Schema of the rows.

        Returns
        -------
        list of dict
            Each n-gram as a dict from offset to a dict of the requested fields.

        Raises
        ------
        UnsortedTimestampsError
            If the timestamps are not in ascending order.
        """
        starts = self._mdstorm_starts([row[self._mdstorm_timestamp_name] for row in data])
        wanted = {
            offset: list(self.get_schema_at_timestep(schema, offset).fields)
            for offset in self._mdstorm_offsets
        }
        return [
            {
                offset: {name: data[start + step][name] for name in names}
                for step, (offset, names) in enumerate(wanted.items())
            }
            for start in starts
        ]

    def make_namedtuple(
        self, schema: Unischema, ngram_as_dicts: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, Any]:
        """Convert the rows in an n-gram from `form_ngram` to namedtuples."""
        return {
            offset: self.get_schema_at_timestep(schema, offset).make_namedtuple(**row)
            for offset, row in ngram_as_dicts.items()
        }

    def _mdstorm_of_columns(
        self, schema: Unischema, columns: Mapping[str, Sequence[Any]]
    ) -> Iterator[dict[int, Any]]:
        """Yield n-grams with a namedtuple at each offset.

        `columns` contains the values of each field and of the timestamp field in stored order.
        Raises UnsortedTimestampsError if the timestamps are not in ascending order.
        """
        starts = self._mdstorm_starts(columns[self._mdstorm_timestamp_name])
        rows = []
        for step, offset in enumerate(self._mdstorm_offsets):
            view = self.get_schema_at_timestep(schema, offset)
            chosen = [[columns[name][start + step] for start in starts] for name in view.fields]
            values = zip(*chosen, strict=True) if chosen else [()] * len(starts)
            rows.append(map(view._get_namedtuple()._make, values))  # type: ignore[attr-defined]
        for row in zip(*rows, strict=True):
            yield dict(zip(self._mdstorm_offsets, row, strict=True))

    def _mdstorm_with_first(self, name: str) -> NGram:
        """Return an n-gram whose first row also has the field `name`."""
        first = min(self._fields)
        fields = {**self._fields, first: [*self._fields[first], name]}
        return NGram(fields, self._delta_threshold, self._timestamp_field, self.timestamp_overlap)

    @property
    def _mdstorm_timestamp_name(self) -> str:
        return _name(self._timestamp_field)

    @property
    def _mdstorm_offsets(self) -> range:
        return range(min(self._fields), max(self._fields) + 1)

    def _mdstorm_starts(self, timestamps: Sequence[Any]) -> list[int]:
        """Return the index of each n-gram's first row, given the timestamps of consecutive rows.

        Timestamps are numbers, ``datetime64``, or objects that can be subtracted.

        Raises
        ------
        UnsortedTimestampsError
            If n-grams have several rows, and the timestamps are not in ascending order.
        InvalidArgumentError
            If the timestamps are strings.
        """
        count, steps = len(timestamps) - self.length + 1, self.length - 1
        if count <= 0:
            return []
        stamps = _as_array(timestamps)
        starts = np.arange(count)
        if steps:
            fit = _steps_fit(stamps, self._delta_threshold, self._mdstorm_timestamp_name)
            fitting = np.concatenate([[0], np.cumsum(fit)])
            starts = np.flatnonzero(fitting[steps:] - fitting[:-steps] == steps)
        if self.timestamp_overlap:
            return starts.tolist()  # type: ignore[no-any-return]
        apart: list[int] = []
        for start in starts.tolist():
            if not apart or stamps[start] > stamps[apart[-1] + steps]:
                apart.append(start)
        return apart


def _name(field: _FieldOrPattern) -> str:
    return field if isinstance(field, str) else field.name


def _check(fields: Any, delta_threshold: Any, timestamp_field: Any, timestamp_overlap: Any) -> None:
    if not isinstance(fields, Mapping) or not fields:
        raise InvalidArgumentError(
            f"Fields must be set and must be a dictionary. Found {fields!r}: pass a dict from "
            "offsets to lists of fields"
        )
    for offset, wanted in fields.items():
        if not is_integer(offset):
            raise InvalidArgumentError(
                f"Fields must have offsets as keys, which are integers; found {offset!r}"
            )
        if not isinstance(wanted, list):
            raise InvalidArgumentError(
                "Each field value must be a list of unischema fields/regular expression(s), found "
                f"{wanted!r} at offset {offset}"
            )
        if not all(isinstance(field, (UnischemaField, str)) for field in wanted):
            raise InvalidArgumentError(
                "All field values must be of type UnischemaField/regular expression, found "
                f"{wanted!r} at offset {offset}"
            )
    if not isinstance(delta_threshold, numbers.Number):
        raise InvalidArgumentError(f"delta_threshold must be a number. Found {delta_threshold!r}")
    if not isinstance(timestamp_field, (UnischemaField, str)):
        raise InvalidArgumentError(
            "timestamp_field must be set and must be of type UnischemaField or regular "
            f"expression. Found {timestamp_field!r}"
        )
    if not isinstance(timestamp_overlap, bool):
        raise InvalidArgumentError(
            f"timestamp_overlap must be set and must be of type bool. Found {timestamp_overlap!r}"
        )


def _as_array(timestamps: Sequence[Any]) -> npt.NDArray[Any]:
    """Return timestamps as an array, with dtype object if NumPy has no type for them."""
    array = np.asarray(timestamps)
    return array.astype(object) if array.dtype.kind not in "iufMO" else array


def _steps_fit(stamps: npt.NDArray[Any], threshold: float, name: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the steps between rows that are allowed within an n-gram."""
    unsorted = np.flatnonzero(~(stamps[:-1] <= stamps[1:]))
    if len(unsorted):
        first, second = stamps[unsorted[0]], stamps[unsorted[0] + 1]
        raise UnsortedTimestampsError(
            f"NGram assumes that the data is sorted by {name} field which is not the case: "
            f"{second} comes after {first}. Sort the rows of each row group when writing them, "
            f"df.sortWithinPartitions({name!r})"
        )
    if isinstance(stamps[0], (str, bytes)):
        raise InvalidArgumentError(
            f"timestamp_field {name} holds {stamps[0]!r}: pass a field of numbers or times"
        )
    steps = np.diff(stamps)
    if steps.dtype.kind == "m":
        if isinstance(threshold, np.timedelta64):
            # NumPy converts the steps and the threshold to a common unit.
            return np.asarray((steps <= threshold) & (steps >= np.zeros((), steps.dtype)), np.bool_)
        steps = steps.astype(np.int64)
    # Timestamps are sorted, so a negative step has overflowed its type.
    return np.asarray((steps <= threshold) & (steps >= 0), np.bool_)
