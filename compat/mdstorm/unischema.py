"""`Unischema`, a dataset's fields with their NumPy types, shapes and codecs.

The names, signatures and pickles are the same as in ``petastorm.unischema``.
"""

from __future__ import annotations

import re
from collections import OrderedDict, namedtuple
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mdstorm import _schema
from mdstorm._petastorm_names import other_names
from mdstorm._schema import UnischemaField
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, RowArgumentError
from mdstorm_backend.base import choose_among, require, warn_user
from mdstorm_backend.display import Described, Description
from mdstorm_backend.format import Column

__all__ = [
    "Unischema",
    "UnischemaField",
    "dict_to_spark_row",
    "insert_explicit_nulls",
    "match_unischema_fields",
]

__getattr__ = other_names(__name__)

#: Private in Petastorm, but used by programs.
_field_spark_dtype = _schema.spark_type
_numpy_and_codec_from_arrow_type = _schema.numpy_type_of
_numpy_to_spark_mapping = _schema.numpy_to_spark_mapping

#: Headings of the table shown in notebooks.
FIELDS = ("field", "type", "shape", "codec", "may be null")
#: Maximum number of fields in a schema's one-line representation.
_IN_LINE = 8
#: Name of inferred schemas, as in Petastorm.
_INFERRED = "inferred_schema"
_ELEMENTS = (
    'Elements of "fields" must be either a string (regular expressions) or an instance of '
    "UnischemaField class."
)


class Unischema(Described):
    """An ordered set of fields.

    Every field is also an attribute, such as ``schema.id``, unless the name is already taken.

    Parameters
    ----------
    name : str
        Name of the schema. Rows are namedtuples of type ``<name>_view``.
    fields : iterable of UnischemaField
        The fields, in the same order as in the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mdstorm.codecs import NdarrayCodec, ScalarCodec
    >>> from pyspark.sql.types import LongType
    >>> schema = Unischema(
    ...     "Signals",
    ...     [
    ...         UnischemaField("id", np.int64, (), ScalarCodec(LongType()), False),
    ...         UnischemaField("signal", np.float32, (None, 2), NdarrayCodec(), False),
    ...     ],
    ... )
    >>> list(schema.fields)
    ['id', 'signal']
    >>> list(schema.create_schema_view(["id"]).fields)
    ['id']
    """

    def __init__(self, name: str, fields: Iterable[UnischemaField]) -> None:
        self._name = name
        self._fields: OrderedDict[str, UnischemaField] = OrderedDict()
        # Not `hasattr`, which would make the message of `__getattr__` for each field.
        taken = set(dir(self))
        for field in fields:
            if not isinstance(field, UnischemaField):
                raise ArgumentTypeError(
                    f"Schema {name!r} takes UnischemaField objects, found {field!r} of type "
                    f"{type(field).__name__}"
                )
            _schema.check_field(field)
            self._fields[field.name] = field
            if field.name in taken:
                warn_user(
                    f"Can not create dynamic property {field.name} because it conflicts with an "
                    f"existing property of Unischema; use .fields[{field.name!r}]"
                )
            else:
                setattr(self, field.name, field)
                taken.add(field.name)

    def _mdstorm_description(self, *, full: bool) -> Description:
        line = [repr(self._name), *list(self._fields)[:_IN_LINE]]
        if len(self._fields) > _IN_LINE:
            line.append(f"… {len(self._fields)} fields")
        facts = [("name", self._name), ("fields", f"{len(self._fields):,}")]
        return Description(line, facts, FIELDS, shown_fields(self) if full else ())

    def __getattr__(self, name: str) -> UnischemaField:
        if name.startswith("_"):  # also while an object is unpickled, which has no fields yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(
            f"the schema {self._name!r} has no field {name!r}{choose_among(name, self._fields)}"
        )

    @property
    def fields(self) -> OrderedDict[str, UnischemaField]:
        """The fields by name, in order."""
        return self._fields

    def create_schema_view(self, fields: Iterable[UnischemaField | str]) -> Unischema:
        """Return a schema with a subset of the fields, named ``<name>_view``.

        Parameters
        ----------
        fields : iterable of UnischemaField or str
            Fields in this schema, and regular expressions that match full names. The given fields
            come first, followed by the fields that match the expressions, in schema order.

        Raises
        ------
        InvalidArgumentError
            If a field is not in this schema, or an element is neither a field nor a string; also
            ValueError.
        """
        if isinstance(fields, (str, UnischemaField)):
            raise InvalidArgumentError(f"{_ELEMENTS} Give a list: [{fields!r}]")
        given, patterns = [], []
        for field in fields:
            if isinstance(field, str):
                patterns.append(field)
            elif not isinstance(field, UnischemaField):
                raise InvalidArgumentError(f"{_ELEMENTS} Found {field!r}")
            elif field.name not in self._fields:
                raise InvalidArgumentError(
                    f"field {field.name!r} does not belong to the schema {self}"
                )
            else:
                given.append(self._fields[field.name])
        matched = match_unischema_fields(self, patterns)
        return Unischema(f"{self._name}_view", dict.fromkeys([*given, *matched]))

    def make_namedtuple(self, **kwargs: Any) -> Any:
        """Return a row with values given by name."""
        return self._get_namedtuple()(**kwargs)

    def make_namedtuple_tf(self, *args: Any, **kwargs: Any) -> Any:
        """Return a row with values given by position or by name."""
        return self._get_namedtuple()(*args, **kwargs)

    def _get_namedtuple(self) -> type[tuple[Any, ...]]:
        """Return the row type, which is shared by all schemas with the same name and fields."""
        return row_type(self._name, tuple(self._fields))

    def as_spark_schema(self) -> Any:
        """Return the `pyspark.sql.types.StructType` of the stored columns.

        Raises
        ------
        InvalidArgumentError
            If a field has no codec and Spark cannot store its type directly; also ValueError.
        """
        require("pyspark")
        from pyspark.sql.types import StructField, StructType

        fields = self._fields.values()
        return StructType([StructField(f.name, _schema.spark_type(f), f.nullable) for f in fields])

    @classmethod
    def from_arrow_schema(
        cls, parquet_dataset: Any, omit_unsupported_fields: bool = True
    ) -> Unischema:
        """Infer a schema from the columns of a Parquet dataset.

        Parameters
        ----------
        parquet_dataset : pyarrow.parquet.ParquetDataset, pyarrow.Schema, or ParquetDataset
            Any object with an Arrow schema in its ``schema`` or ``arrow_schema`` attribute.
        omit_unsupported_fields : bool
            Whether to leave out columns of unsupported types and issue a warning.

        Raises
        ------
        InvalidArgumentError
            If a column has an unsupported type and `omit_unsupported_fields` is False; also
            ValueError.
        """
        fields = _schema.fields_of_arrow(
            parquet_dataset, omit_unsupported_fields=omit_unsupported_fields
        )
        return Unischema(_INFERRED, fields)

    def __str__(self) -> str:
        lines = [
            f"  UnischemaField({field.name!r}, {_type_name(field.numpy_dtype)}, {field.shape}, "
            f"{field.codec}, {field.nullable}),\n"
            for field in self._fields.values()
        ]
        return f"Unischema({self._name}, [\n{''.join(lines)}])"


def infer_unischema(columns: Iterable[Column], name: str = _INFERRED) -> Unischema:
    """Infer a schema from a dataset's columns with `fields_of_columns`."""
    return Unischema(name, _schema.fields_of_columns(columns))


def match_unischema_fields(schema: Unischema, field_regex: Sequence[str]) -> list[UnischemaField]:
    """Return the fields whose full name matches one of the regular expressions, in schema order.

    Parameters
    ----------
    schema : Unischema
        The schema.
    field_regex : sequence of str
        Regular expressions.
    """
    patterns = [re.compile(pattern) for pattern in field_regex]
    matched = [
        field
        for name, field in schema.fields.items()
        if any(pattern.fullmatch(name) for pattern in patterns)
    ]
    left_out = schema.fields.keys() - {field.name for field in matched}
    warn_of_prefixes(schema.fields, left_out, field_regex)
    return matched


def insert_explicit_nulls(unischema: Unischema, row_dict: dict[str, Any]) -> None:
    """Set fields missing from a row to None, in place.

    Raises
    ------
    InvalidArgumentError
        If a missing field is not nullable; also ValueError.
    """
    for name, field in unischema.fields.items():
        if name not in row_dict:
            if not field.nullable:
                raise InvalidArgumentError(
                    f"Field {name} is not found in the row_dict, but is not nullable. Give it a "
                    "value, or declare it nullable"
                )
            row_dict[name] = None


def dict_to_spark_row(unischema: Unischema, row_dict: dict[str, Any]) -> Any:
    """Encode a row for a Spark DataFrame with the schema ``unischema.as_spark_schema()``.

    Parameters
    ----------
    unischema : Unischema
        The schema.
    row_dict : dict of str to object
        A value for every field; nullable fields can be missing. The dict is not modified.

    Returns
    -------
    pyspark.sql.Row
        The encoded values in schema order.

    Raises
    ------
    RowArgumentError
        If an argument has the wrong type; also TypeError and AssertionError.
    InvalidArgumentError
        If fields are missing or unknown; also ValueError.
    EncodingError
        If a value does not fit its field, or is None in a field that is not nullable; also
        ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> from mdstorm.codecs import ScalarCodec
    >>> from pyspark.sql.types import LongType
    >>> field = UnischemaField("id", np.int64, (), ScalarCodec(LongType()), False)
    >>> dict_to_spark_row(Unischema("Numbers", [field]), {"id": np.int64(7)})
    Row(id=7)
    """
    if not isinstance(unischema, Unischema):
        raise RowArgumentError(f"unischema must be a Unischema, not {unischema!r}")
    if not isinstance(row_dict, dict):
        raise RowArgumentError(f"row_dict must be a dict, not {row_dict!r}")
    from pyspark.sql import Row

    row = dict(row_dict)
    insert_explicit_nulls(unischema, row)
    if row.keys() != unischema.fields.keys():
        raise InvalidArgumentError(
            f"Dictionary fields {', '.join(sorted(map(str, row)))} do not match schema fields "
            f"{', '.join(unischema.fields)}: unknown "
            f"{', '.join(sorted(map(str, row.keys() - unischema.fields.keys())))}"
        )
    values = [_schema.encoded(field, row[name]) for name, field in unischema.fields.items()]
    return Row(*unischema.fields)(*values)


def shown_fields(schema: Unischema) -> list[tuple[str, ...]]:
    """Return the rows of a table that describes the fields, with `FIELDS` as its headings."""
    return [
        (
            field.name,
            _type_name(field.numpy_dtype),
            ", ".join("any" if size is None else f"{size}" for size in field.shape) or "scalar",
            "" if field.codec is None else type(field.codec).__name__,
            "yes" if field.nullable else "no",
        )
        for field in schema.fields.values()
    ]


def _type_name(numpy_dtype: Any) -> str:
    if numpy_dtype is np.bool_:
        return "bool_"  # the name in NumPy 1; NumPy 2 calls the type "bool"
    return getattr(numpy_dtype, "__name__", None) or str(numpy_dtype)


def warn_of_prefixes(
    names: Collection[str], left_out: Iterable[str], expressions: Iterable[str]
) -> None:
    """Warn about expressions that only match the beginning of a field name.

    Parameters
    ----------
    names : collection of str
        All names.
    left_out : iterable of str
        The names that no expression matches.
    expressions : iterable of str
        Regular expressions.
    """
    void = [e for e in expressions if not any(re.fullmatch(e, name) for name in names)]
    affected = [name for name in sorted(left_out) if any(re.match(e, name) for e in void)]
    if affected:
        warn_user(
            "schema_fields behavior has changed. A regular expression has to match the whole name "
            f"of a field, and {', '.join(map(repr, void))} match none: end them in .* to get "
            f"{', '.join(affected)}"
        )


@lru_cache(maxsize=512)
def row_type(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """Return the namedtuple type for a schema's rows, which are pickled with its name and fields.

    Raises
    ------
    InvalidArgumentError
        If a name is not an identifier, begins with an underscore or is a keyword; also ValueError.
    """
    try:
        base = namedtuple(f"{name}_view", fields)  # type: ignore[misc]
    except ValueError as error:
        raise InvalidArgumentError(
            f"{error}. Rows are namedtuples: leave the field out with schema_fields, or rename it"
        ) from error
    members = {
        "__slots__": (),
        "__module__": "mdstorm.unischema",
        "__reduce__": lambda row: (_restore_row, (name, fields, tuple(row))),
        "_from_compatible_tensor_list": _made_of_tensors,
    }
    return type(base.__name__, (base,), members)


def _made_of_tensors(types: Any, tensors: Sequence[Any]) -> Any:
    from mdstorm_backend.loaders.tf import made_of

    return made_of(types, tensors)


def _restore_row(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return row_type(name, fields)(*values)
