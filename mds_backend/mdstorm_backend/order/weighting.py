"""`Weighting`: how often each row is drawn, as users state it, and `RowWeights`, as numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import cached_property, choose_among
from mdstorm_backend.base.checks import check_text, is_integer
from mdstorm_backend.base.plain_files import Buffer
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, NullValueError
from mdstorm_backend.order.chunk import Numbers

#: The largest weight. Sums of weights are exact, also those of 2^31 rows.
_LARGEST = (1 << 32) - 1
#: Rows whose weights are computed at a time.
_AT_A_TIME = 1 << 20
_HASH_BYTES = 16

#: Makes the content of a file from the values of a column, in pieces that follow each other.
Make = Callable[[Iterator[pa.Array]], bytes]


class WeighedRows(Protocol):
    """What an order has to know of a dataset whose rows it draws by weights."""

    url: str
    fingerprint: str

    @property
    def bounds(self) -> Numbers:
        """The number of each shard's first row, followed by the number of rows."""

    @property
    def nbytes(self) -> int:
        """Uncompressed bytes of all shards."""

    @property
    def all_rows(self) -> Any:
        """The dataset with all of its rows, if this one consists of chosen rows."""

    def stored_numbers(self, numbers: Any) -> Any:
        """Return the numbers that rows have in the whole dataset."""

    def keep_values(self, column: str, what: str, make: Make) -> Buffer:
        """Return what is made from a column, once on each machine; `what` describes it."""


@dataclass(frozen=True, eq=False)
class RowWeights:
    """The weights of all rows.

    Attributes
    ----------
    values : numpy.ndarray
        uint32, the weight of each row. Integers are kept as they are. Other numbers are scaled so
        that the largest weight is 2^32 - 1, and rounded. Only 0 becomes 0.
    hash : str
        Identifies the weights.
    """

    values: npt.NDArray[np.uint32]
    hash: str

    @classmethod
    def of(cls, values: npt.NDArray[np.uint32]) -> RowWeights:
        """Return the weights with their hash."""
        return cls(values, _hash_of(values.astype("<u4", copy=False)))

    @classmethod
    def from_bytes(cls, content: Buffer) -> RowWeights:
        """Return the weights from their bytes, which `values` shares."""
        return cls(
            np.frombuffer(content, "<u4", offset=_HASH_BYTES), bytes(content[:_HASH_BYTES]).decode()
        )

    def to_bytes(self) -> bytes:
        """Return the hash and the weights as bytes."""
        return b"".join((self.hash.encode(), self.values.astype("<u4", copy=False).data))


@dataclass(frozen=True)
class Weighting:
    """How often each row is drawn. By default, rows are drawn equally often.

    Attributes
    ----------
    weights : str, numpy.ndarray or None
        Column with the rows' weights, or a weight for each row of the dataset.
    balance : str or None
        Column whose values are drawn equally often.
    epoch_size : int or None
        Number of draws in an epoch, over all ranks; None for as many as there are rows.
    """

    weights: Any = field(default=None, compare=False)
    balance: str | None = None
    epoch_size: int | None = None

    @classmethod
    def of(cls, weights: Any, balance: str | None, epoch_size: Any) -> Weighting | None:
        """Return the weighting that arguments state, or None if they state none.

        Raises
        ------
        InvalidArgumentError
            If both `weights` and `balance` are given.
        """
        if weights is not None and balance is not None:
            raise InvalidArgumentError(
                f"balance={balance!r} determines the weights of the rows, and so does weights=: "
                "pass only one of them"
            )
        given = [one is not None for one in (weights, balance, epoch_size)]
        if not any(given):
            return None
        if weights is not None and not isinstance(weights, str):
            weights = checked_numbers("weights", weights)
        return cls(weights, balance, None if epoch_size is None else int(epoch_size))

    @property
    def argument(self) -> str:
        """The argument that states it, for messages."""
        if self.balance is not None:
            return f"balance={self.balance!r}"
        if self.weights is None:
            return f"epoch_size={self.epoch_size}"
        return f"weights={self.weights!r}" if isinstance(self.weights, str) else "weights="

    @property
    def column(self) -> str | None:
        """The column from which weights are computed."""
        return self.weights if isinstance(self.weights, str) else self.balance

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What a state contains: of an array, only its hash, in a list."""
        weights = self.weights
        if weights is not None and not isinstance(weights, str):
            weights = [_hash_of(weights)]
        return {"weights": weights, "balance": self.balance, "epoch_size": self.epoch_size}

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> Weighting:
        """Return the weighting of a state.

        Raises
        ------
        InvalidArgumentError
            If its weights were passed as an array, which a state does not contain.
        """
        weights, balance, epoch_size = map(settings.get, ("weights", "balance", "epoch_size"))
        if isinstance(weights, list):
            raise InvalidArgumentError(
                "the state was taken with an array as weights=, and does not contain it: create "
                "the loader with the array, and call its trace(state)"
            )
        for name, value in (("weights", weights), ("balance", balance)):
            check_column(name, value)
        check_epoch_size("epoch_size", epoch_size)
        return cls(weights, balance, epoch_size)

    def weights_of(self, rows: WeighedRows) -> RowWeights | None:
        """Return the weight of each row, or None if all are equal.

        Raises
        ------
        ArgumentTypeError
            If there is no such column, or its values cannot be weights or classes.
        InvalidArgumentError
            If a weight is negative or not finite, all of them are 0, or there are more or fewer
            weights than rows.
        NullValueError
            If the column has a null.
        """
        if self.column is None:
            return None if self.weights is None else RowWeights.of(self._given_for(rows))
        name, known = self.column, rows.all_rows.schema.names
        if name not in known:
            raise ArgumentTypeError(
                f"{self.argument} names no column of {rows.url}{choose_among(name, known)}"
            )
        of_column, what = (_numbers, "weights") if self.balance is None else (_balanced, "balance")
        make = partial(of_column, _Named(name, rows))
        return RowWeights.from_bytes(rows.keep_values(name, what, make))

    def _given_for(self, rows: WeighedRows) -> npt.NDArray[np.uint32]:
        count = len(rows.all_rows)
        if len(self.weights) != count:
            raise InvalidArgumentError(
                f"weights has {len(self.weights)} numbers, but {rows.url} has {count} rows: pass "
                "one number for each row, in stored order"
            )
        numbers = rows.stored_numbers(range(int(rows.bounds[-1])))
        is_slice = isinstance(numbers, range)
        chosen = slice(numbers.start, numbers.stop, numbers.step) if is_slice else numbers
        return _scaled(self.weights[chosen], _Named("weights", rows))


@dataclass(frozen=True)
class _Named:
    """Names rows in errors: as rows of `rows`, in a column or an argument `name`."""

    name: str
    rows: WeighedRows

    @property
    def num_rows(self) -> int:
        return int(self.rows.bounds[-1])

    def number_of(self, row: int) -> int:
        """Return the number that a row has in the whole dataset."""
        return int(np.asarray(self.rows.stored_numbers(np.array([row])))[0])

    def refuse(self, row: int, value: object) -> NoReturn:
        raise InvalidArgumentError(
            f"row {self.number_of(row)} of {self.rows.url} has {value!r} as its weight in "
            f"{self.name!r}, but a weight must be a finite number of at least 0: write other "
            "weights, or leave the row out with where="
        )

    def check_no_nulls(self, values: pa.Array, first: int) -> None:
        if not values.null_count:
            return
        row = first + int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise NullValueError(
            f"row {self.number_of(row)} of {self.rows.url} has a null in {self.name!r}, which is "
            f"neither a weight nor a class: leave such rows out with where=[({self.name!r}, '!=', "
            "None)], or write a value",
            columns={self.name: values.null_count},
        )

    def wrong_type(self, type_: object, what: str) -> ArgumentTypeError:
        return ArgumentTypeError(
            f"column {self.name!r} of {self.rows.url} has the type {type_}, but {what}"
        )


def check_weights(name: str, value: Any) -> None:
    """Check that a value is None, a column's name, or a number for each row.

    Raises
    ------
    ArgumentTypeError
        If it is something else.
    """
    if value is not None and not isinstance(value, str):
        checked_numbers(name, value)
    else:
        check_column(name, value)


def check_column(name: str, value: object) -> None:
    """Raise ArgumentTypeError unless `value` is None or a column's name."""
    if value is not None:
        check_text(name, value)


def check_epoch_size(name: str, value: object) -> None:
    """Raise InvalidArgumentError unless `value` is None or a number of rows, in 64 bits."""
    if value is not None and not (is_integer(value) and 1 <= value < 1 << 62):
        raise InvalidArgumentError(
            f"{name} must be a number of rows, an integer of at least 1, or None, found {value!r}"
        )


def checked_numbers(name: str, value: Any) -> npt.NDArray[Any]:
    """Return one number for each row as an array.

    Raises
    ------
    ArgumentTypeError
        If it is something else.
    """
    array = np.asarray(value)
    if array.ndim != 1 or array.dtype.kind not in "iufb" or isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"{name} must be the name of a column, or an array with one number for each row, found "
            f"{value!r}"
        )
    return array


def _hash_of(numbers: npt.NDArray[Any]) -> str:
    content = np.ascontiguousarray(numbers).data
    return hashlib.blake2b(content, digest_size=_HASH_BYTES // 2).hexdigest()


def _numbers(named: _Named, pieces: Iterator[pa.Array]) -> bytes:
    """Return a column of numbers as weights."""

    def read() -> npt.NDArray[Any]:  # only `_scaled` holds its result, which is then released
        weights, first = np.empty(named.num_rows), 0
        for piece in pieces:
            named.check_no_nulls(piece, first)
            if pa.types.is_decimal(piece.type) or pa.types.is_boolean(piece.type):
                piece = piece.cast(pa.float64())
            elif not (pa.types.is_integer(piece.type) or pa.types.is_floating(piece.type)):
                raise named.wrong_type(piece.type, "weights must be numbers: name another column")
            weights[first : first + len(piece)] = piece.to_numpy(zero_copy_only=False)
            first += len(piece)
        return weights

    return RowWeights.of(_scaled(read(), named)).to_bytes()


def _balanced(named: _Named, pieces: Iterator[pa.Array]) -> bytes:
    """Return weights with which each value of a column is drawn equally often."""
    codes: dict[Any, int] = {}
    of_rows, first = np.empty(named.num_rows, np.uint32), 0
    counts = np.zeros(0, np.int64)
    for piece in pieces:
        named.check_no_nulls(piece, first)
        if pa.types.is_nested(piece.type):
            raise named.wrong_type(
                piece.type, "classes must be single values: name another column as balance="
            )
        coded = piece.dictionary_encode()
        values, indices = coded.dictionary.to_pylist(), coded.indices.to_numpy()
        if wrong := [number for number, value in enumerate(values) if value != value]:
            named.refuse(first + int(np.flatnonzero(indices == wrong[0])[0]), float("nan"))
        mapped = np.array([codes.setdefault(value, len(codes)) for value in values], np.uint32)
        counts = np.append(counts, np.zeros(len(codes) - len(counts), np.int64))
        np.add.at(counts, mapped, np.bincount(indices, minlength=len(mapped)))
        of_rows[first : first + len(piece)] = mapped[indices]
        first += len(piece)
    of_classes = np.rint(counts.min(initial=first) / counts * _LARGEST)
    weights = np.maximum(of_classes, 1).astype(np.uint32)
    for part, _ in _parts(of_rows):
        part[:] = weights[part]
    return RowWeights.of(of_rows).to_bytes()


def _scaled(numbers: npt.NDArray[Any], named: _Named) -> npt.NDArray[np.uint32]:
    """Return numbers as weights of 32 bits: see `RowWeights`."""
    most, are_whole = 0.0, True
    for part, first in _parts(numbers):
        is_wrong = ~((part >= 0) & (part < np.inf))
        if is_wrong.any():
            row = int(np.flatnonzero(is_wrong)[0])
            named.refuse(first + row, part[row].item())
        most = max(most, float(part.max()))
        are_whole = are_whole and bool((part == np.floor(part)).all())
    if len(numbers) and not most:
        raise InvalidArgumentError(
            f"all weights in {named.name!r} of {named.rows.url} are 0, so there is no row to draw: "
            "pass a weight above 0 for some rows"
        )
    scaled = np.empty(len(numbers), np.uint32)
    for part, first in _parts(numbers):
        weights = part
        if not are_whole or most > _LARGEST:
            weights = np.maximum(np.rint(part / most * _LARGEST), part > 0)
        scaled[first : first + len(part)] = weights
    return scaled


def _parts(numbers: npt.NDArray[Any]) -> Iterator[tuple[npt.NDArray[Any], int]]:
    """Yield parts of an array, each with the position at which it begins."""
    for first in range(0, len(numbers), _AT_A_TIME):
        yield numbers[first : first + _AT_A_TIME], first
