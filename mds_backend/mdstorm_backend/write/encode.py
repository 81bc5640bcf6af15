"""Arrow columns to the values that MDS stores, a whole column at a time."""

from __future__ import annotations

import pyarrow as pa

from mdstorm_backend.base.errors import EncodingError, EncodingRangeError, MDStormError
from mdstorm_backend.format.encodings.encoded_column import EncodedColumn
from mdstorm_backend.format.schema import Column

__all__ = ["encode_column"]


def encode_column(column: Column, values: pa.Array, *, ragged: bool) -> EncodedColumn:
    """Encode some rows of a column.

    Parameters
    ----------
    column : Column
        Its plan: the encoding, and for arrays the dtype of the elements. Floating-point numbers of
        a Spark type are cast as Spark casts them; without one, every value must fit.
    values : pyarrow.Array
        The rows as Spark hands them over, or any other data of Arrow.
    ragged : bool
        Store arrays with their lengths even if all rows here have one length.

    Raises
    ------
    EncodingError
        If a value does not fit the encoding.
    """
    cast = column.spark_type is not None
    try:
        return column.parsed_encoding.encode_column(column.name, values, cast=cast, ragged=ragged)
    except MDStormError:
        raise
    except OverflowError as error:
        raise _refused(column, error, EncodingRangeError) from error
    except (ArithmeticError, TypeError, ValueError) as error:
        raise _refused(column, error, EncodingError) from error


def _refused(column: Column, error: Exception, kind: type[EncodingError]) -> EncodingError:
    return kind(
        f"column {column.name!r} holds a value that encoding {column.encoding!r} cannot hold: "
        f"{error}. Convert the column before, or choose another encoding",
        column=column.name,
        encoding=column.encoding,
    )
