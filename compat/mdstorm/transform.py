"""`TransformSpec`, a user-defined function on rows and the schema changes it makes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from mdstorm._petastorm_names import other_names
from mdstorm._schema import UnischemaField
from mdstorm.errors import InvalidArgumentError
from mdstorm.unischema import Unischema
from mdstorm_backend.base import check_flag, check_function, check_list, did_you_mean, warn_user
from mdstorm_backend.display import Described

__all__ = [
    "EditedField",
    "TransformSpec",
    "edit_field",
    "transform_schema",
]

__getattr__ = other_names(__name__)

#: A tuple of name, NumPy type, shape (None or -1 means a dimension of any size), and nullability.
EditedField = tuple[str, Any, tuple[int | None, ...], bool]


def edit_field(
    name: str, numpy_dtype: Any, shape: tuple[int | None, ...], nullable: bool = False
) -> EditedField:
    """Return an ``edit_fields`` entry for a column that a transform adds or changes."""
    return (name, numpy_dtype, shape, nullable)


class TransformSpec(Described):
    """A function on rows, and a declaration of the columns that the function returns.

    Parameters
    ----------
    func : callable, optional
        Takes a pandas DataFrame with rows from one shard, and returns a DataFrame with any number
        of rows. With `keeps_rows`, its rows may be from several shards. Cells in array columns are
        `numpy.ndarray` objects, strings are Python objects, dates are `datetime.date`, and
        timestamps are ``datetime64[ns]``. With `mdstorm.make_reader`, it takes and returns one row
        as a dict.
    edit_fields : sequence of (tuple or UnischemaField), optional
        Columns that `func` adds or changes, each as ``(name, numpy_dtype, shape, nullable)``. A
        codec before `nullable`, as in the fields of a schema, is ignored.
    removed_fields : sequence of str, optional
        Columns to drop.
    selected_fields : sequence of str, optional
        Columns to keep, in this order. Cannot be combined with `removed_fields`.
    keeps_rows : bool, default False
        Whether `func` returns one row for each row that it gets, in their order. Loaders are then
        numbered and resumed as without a function: they have a length, and a state resumes on any
        number of ranks. A result with another number of rows, or whose index shows that rows were
        moved, raises `TransformError`. A new index, as from ``reset_index`` or
        ``ignore_index=True``, hides moved rows, and a resumed loader then loses rows.
        Row functions, as in `mdstorm.make_reader`, always keep rows.

    Raises
    ------
    InvalidArgumentError
        If both `removed_fields` and `selected_fields` are given, or an edited field is not such a
        tuple.
    ArgumentTypeError
        If an argument has the wrong type.

    Notes
    -----
    The signature, the attributes and the column order are the same as in
    ``petastorm.transform.TransformSpec``, except for `keeps_rows`, which Petastorm does not have.

    Examples
    --------
    A function on the rows of a shard, which adds one column and drops another:

    >>> def double(rows):
    ...     return rows.assign(twice=rows["x"] * 2).drop(columns=["x"])
    >>> spec = TransformSpec(
    ...     double, edit_fields=[("twice", "float32", (), False)], removed_fields=["x"]
    ... )
    """

    #: For subclasses and pickles that were written for Petastorm's signature.
    keeps_rows = False

    def __init__(
        self,
        func: Callable[[Any], Any] | None = None,
        edit_fields: Sequence[EditedField | UnischemaField] | None = None,
        removed_fields: Sequence[str] | None = None,
        selected_fields: Sequence[str] | None = None,
        *,
        keeps_rows: bool = False,
    ) -> None:
        if removed_fields is not None and selected_fields is not None:
            raise InvalidArgumentError(
                "User can only specify one of removed_fields and selected_fields: name the columns "
                "to drop or the columns to keep, not both"
            )
        check_function("func", func)
        check_list("edit_fields", edit_fields)
        check_list("removed_fields", removed_fields)
        check_list("selected_fields", selected_fields)
        check_flag("keeps_rows", keeps_rows)
        self.func = func
        self.edit_fields = list(edit_fields or [])
        self.removed_fields = list(removed_fields or [])
        self.selected_fields = None if selected_fields is None else list(selected_fields)
        self.keeps_rows = bool(keeps_rows)
        self._mdstorm_edited()

    def _mdstorm_edited(self) -> dict[str, EditedField]:
        """Return the declarations in `edit_fields` by name.

        Raises
        ------
        InvalidArgumentError
            If a declaration is neither a field nor a tuple of name, dtype, shape and nullability.
        """
        return {field[0]: field for field in map(_edited, self.edit_fields)}

    def _mdstorm_columns_of(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the columns after the transform, with edited columns last."""
        edited = self._mdstorm_edited()
        left_out = {*self.removed_fields, *edited}
        result = [name for name in columns if name not in left_out]
        result += [name for name in edited if name not in self.removed_fields]
        if self.selected_fields is None:
            return tuple(result)
        return tuple(name for name in self.selected_fields if name in result)


def transform_schema(schema: Unischema, transform_spec: TransformSpec) -> Unischema:
    """Return the schema of the rows that a transform returns.

    Parameters
    ----------
    schema : Unischema
        Schema of the input rows.
    transform_spec : TransformSpec
        The transform. Removed or selected fields that do not exist are ignored with a warning.

    Returns
    -------
    Unischema
        A schema named ``<name>_transformed`` with the remaining fields in order, followed by the
        edited fields, which have no codec. With `TransformSpec.selected_fields`, only those fields
        in that order.

    Raises
    ------
    InvalidArgumentError
        If an edited field is not a tuple of name, dtype, shape and nullability.
    """
    edited = {
        name: UnischemaField(name, dtype, shape, None, nullable)
        for name, dtype, shape, nullable in transform_spec._mdstorm_edited().values()
    }
    warn_of_unknown("remove_fields", transform_spec.removed_fields, schema.fields)
    left_out = {*transform_spec.removed_fields, *edited}
    fields = {name: field for name, field in schema.fields.items() if name not in left_out}
    fields.update(edited)
    selected = transform_spec.selected_fields
    if selected is not None:
        warn_of_unknown("selected_fields", selected, fields)
        fields = {name: fields[name] for name in selected if name in fields}
    return Unischema(f"{schema._name}_transformed", fields.values())


def _edited(field: Any) -> EditedField:
    if isinstance(field, UnischemaField):
        return field.name, field.numpy_dtype, _with_none(field.shape), field.nullable
    is_whole = isinstance(field, (tuple, list)) and len(field) in (4, 5)
    if not is_whole or not isinstance(field[2], (tuple, list)):
        raise InvalidArgumentError(
            f"edit_fields holds {field!r}: pass each field as a tuple (name, NumPy type, shape, "
            "nullable), as returned by edit_field(name, numpy_dtype, shape, nullable); the shape "
            "of a scalar is ()"
        )
    name, numpy_dtype, shape, *_, nullable = field  # a codec may come before `nullable`
    return str(name), numpy_dtype, _with_none(shape), nullable


def _with_none(shape: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return a shape with None for a dimension of any size, which NumPy's users write as -1."""
    return tuple(None if size == -1 else size for size in shape)


def warn_of_unknown(argument: str, fields: Sequence[str], names: Collection[str]) -> None:
    """Warn about fields that are listed in a TransformSpec but do not exist."""
    unknown = [name for name in fields if name not in names]
    if unknown:
        warn_user(
            f"{argument} specified some field names that are not part of the schema. These field "
            f"names will be ignored: {', '.join(unknown)}{did_you_mean(unknown[0], names)}"
        )
