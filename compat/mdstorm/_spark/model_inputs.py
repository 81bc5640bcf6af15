"""`ModelInputs`: which columns of a batch become a model's inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.base import choose_among
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.read import (
    Output,
    Stack,
    StackOption,
    check_outputs,
    checked_stack,
    output_name,
)

#: One column, which is passed as a tensor, or several, which are passed as a dict of tensors.
ColumnNames: TypeAlias = str | Sequence[str]


@dataclass(frozen=True)
class ModelInputs:
    """A function from a batch to ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.

    It can be pickled, and used as a loader's ``batch_map``.

    Attributes
    ----------
    features, labels, sample_weights : str, sequence of str or None
        Column names. A single name selects the column's tensor, and a sequence selects a dict of
        tensors. Without `features`, all remaining columns are features.
    stack : bool or str
        Whether a sequence selects one ``(rows, columns)`` tensor instead of a dict. The name of a
        NumPy dtype also casts the values to that dtype.
    added : mapping of str to str
        Names of the columns that arguments add, with the arguments. They must be listed if other
        columns are or `stack` is.

    Raises
    ------
    ArgumentTypeError
        If a column argument is neither a name nor a sequence of names, or `stack` is neither a
        boolean nor a dtype; also a TypeError.
    InvalidArgumentError
        If a column argument is an empty sequence or contains duplicates, if there are weights but
        no labels, if `stack` is true but no columns are passed, or if `stack` is a string but not
        the name of a numeric dtype.
    """

    features: ColumnNames | None = None
    labels: ColumnNames | None = None
    sample_weights: ColumnNames | None = None
    stack: StackOption = False
    added: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stack", checked_stack(self.stack))
        for argument, names in self._columns_by_argument.items():
            if isinstance(names, str):
                continue
            if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
                raise ArgumentTypeError(
                    f"{argument} must be the name of a column or a list of names, found {names!r}"
                )
            if not names or len(set(names)) < len(names):
                raise InvalidArgumentError(
                    f"{argument}={list(names)!r} must list at least one column, without duplicates"
                )
            object.__setattr__(self, argument, tuple(names))
        if self.sample_weights is not None and self.labels is None:
            raise InvalidArgumentError(
                f"sample_weights={self.sample_weights!r} requires labels, because it weights their "
                "losses: pass labels=…"
            )
        if self.stack and not self:
            raise InvalidArgumentError(
                f"stack={self.stack!r} stacks the columns of features, labels and sample_weights, "
                "but none of these was passed: pass features=[…]"
            )

    def __bool__(self) -> bool:
        """Whether any column argument was passed."""
        return bool(self._columns_by_argument)

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """Return the model's inputs from a batch, in the order ``x, y, weights``.

        The batch must have been read with the options that `narrowed` returns.
        """
        if not self:
            return batch
        features = self.features
        if features is None:  # `stack` puts the matrix of the other columns first
            features = next(iter(batch)) if self.stack else self._others(batch)
        parts = [features, self.labels, self.sample_weights]
        inputs = tuple([self._values(batch, names) for names in parts if names is not None])
        return inputs[0] if len(inputs) == 1 else inputs

    def _values(self, batch: Mapping[str, Any], names: ColumnNames) -> Any:
        if isinstance(names, str):
            return batch[names]
        if self.stack:
            return batch[output_name(self._stacked(names))]
        return {name: batch[name] for name in names}

    def columns(self, outputs: Collection[str]) -> list[str]:
        """Return the columns that the model uses; all columns if none were passed.

        Raises
        ------
        InvalidArgumentError
            If a used column is not in `outputs`, or no columns remain for the features.
        """
        for argument, names in self._columns_by_argument.items():
            if unknown := [name for name in _listed(names) if name not in outputs]:
                raise InvalidArgumentError(
                    f"{argument} contains {', '.join(map(repr, unknown))}, but batches have no "
                    f"such columns{choose_among(unknown[0], outputs)}; nested columns are "
                    "available if schema_fields lists them"
                )
        self._check_added()
        if self.features is None:
            if self and not self._others(outputs):
                raise InvalidArgumentError(
                    f"no columns remain for the features: all of {list(outputs)} are labels or "
                    "sample_weights. Pass features=…, or read more columns"
                )
            return list(outputs)
        others = set(self._others(outputs))
        return [name for name in outputs if name not in others]

    def _check_added(self) -> None:
        """Raise InvalidArgumentError if the model's columns leave out columns that are added."""
        named = {name for names in self._columns_by_argument.values() for name in _listed(names)}
        left_out = [name for name in self.added if name not in named]
        if self and left_out and (self.features is not None or self.stack):
            name = left_out[0]
            raise InvalidArgumentError(
                f"{self.added[name]}={name!r} adds a column that batches would not have, "
                "because none of features, labels and sample_weights lists it: list it in labels, "
                "or leave all of these out to get batches as dicts"
            )

    def narrowed(self, options: ReaderOptions) -> ReaderOptions:
        """Return options that read only the used columns, and stack them if requested.

        With a transform, all columns are read, because the transform may use any of them.

        Raises
        ------
        InvalidArgumentError
            If columns do not exist or cannot be stacked.
        NullValueError
            If columns that should be stacked contain nulls.
        """
        used = self.columns(options.output_columns)
        if self.stack:
            given = self._columns_by_argument
            parts = [given.pop("features", self._others(options.output_columns)), *given.values()]
            outputs: tuple[Output, ...] = tuple(dict.fromkeys(map(self._stacked, parts)))
            check_outputs(outputs, options.reading.column, all_rows=options.reads_all_rows)
            options = replace(options, outputs=outputs)
        if options.calls_functions or len(used) == len(options.output_columns):
            return options
        needed = {*used, *(source for name, source in options.steps.made.items() if name in used)}
        read = tuple(name for name in options.schema.names if name in needed)
        return replace(options, columns=read, steps=options.steps.only({*read, *used}))

    def _stacked(self, names: ColumnNames) -> Output:
        """Return the batch entry for a single column, or for the matrix of several columns."""
        return names if isinstance(names, str) else Stack.of(names, self.stack)

    @property
    def _columns_by_argument(self) -> dict[str, Any]:
        """The columns passed for each argument, as a string or, after validation, a tuple."""
        arguments = ("features", "labels", "sample_weights")
        return {name: names for name in arguments if (names := getattr(self, name)) is not None}

    def _others(self, outputs: Collection[str]) -> tuple[str, ...]:
        """Return the output columns that no argument mentions."""
        named = {name for names in self._columns_by_argument.values() for name in _listed(names)}
        return tuple(name for name in outputs if name not in named)


def _listed(names: ColumnNames) -> Sequence[str]:
    return [names] if isinstance(names, str) else names
