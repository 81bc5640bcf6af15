"""`Steps`: what a user wants done to stored rows; and `Reading`, which applies it to a dataset.

Neither knows the order of the steps: `stages_of` does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from mdstorm_backend.base import cached_property, choose_among
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format import Column, Schema
from mdstorm_backend.format.encodings.image_memory import MAX_IMAGE_BYTES
from mdstorm_backend.format.values.batch import MASK_SUFFIX
from mdstorm_backend.read.block import Transform
from mdstorm_backend.read.damage import OnCorrupt
from mdstorm_backend.read.decoded_images import Decode, ImageDecoder, Size, decoded_names
from mdstorm_backend.read.file_reader import FileReader
from mdstorm_backend.read.nulls import NullPolicy
from mdstorm_backend.read.sample_source import SampleSource
from mdstorm_backend.read.stacking import Output


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What is done to stored rows until they are batches, as a user declares it. Picklable.

    Attributes
    ----------
    fill_nulls, null_masks, decode, size, max_image_bytes, on_corrupt
        See `mdstorm_backend.loaders.arguments`.
    filters : sequence of Transform
        Drop rows by their stored values, with nulls as they are stored.
    predicates : sequence of Transform
        Drop rows by the values that a function gets, before files are read and images decoded.
    hidden : sequence of str
        Columns that are read only for filters.
    transform : Transform, optional
        The user's function, which gets the contents of files and decoded images.
    pool : callable, optional
        Calls the result of `calls_apart` in other processes, for filters, predicates and transform.
    """

    fill_nulls: Mapping[str, Any] | None = None
    null_masks: Sequence[str] = ()
    filters: Sequence[Transform] = ()
    predicates: Sequence[Transform] = ()
    hidden: Sequence[str] = ()
    decode: Decode | None = None
    size: Size | None = None
    max_image_bytes: int = MAX_IMAGE_BYTES
    transform: Transform | None = None
    pool: Callable[[Any], Any] | None = None
    on_corrupt: OnCorrupt = "raise"

    def __post_init__(self) -> None:
        for name in ("null_masks", "filters", "predicates", "hidden"):
            object.__setattr__(self, name, tuple(getattr(self, name) or ()))

    @classmethod
    def declared(cls, arguments: Mapping[str, Any], **others: Any) -> Steps:
        """Return the steps among a user's arguments, and other values."""
        names = [one.name for one in fields(cls) if one.name in arguments]
        return cls(**{**{name: arguments[name] for name in names}, **others})

    @property
    def made(self) -> dict[str, str]:
        """The columns that steps add, each with the column that it is made from."""
        return {name + MASK_SUFFIX: name for name in self.null_masks}

    def only(self, names: Collection[str]) -> Steps:
        """Return the steps of some columns, which add only columns with these names."""
        return replace(
            self,
            fill_nulls={name: v for name, v in (self.fill_nulls or {}).items() if name in names},
            null_masks=[name for name in self.null_masks if name + MASK_SUFFIX in names],
            decode=[name for name in decoded_names(self.decode) if name in names],
        )

    @property
    def is_empty(self) -> bool:
        """Whether there are no steps; the fields that have values by default are none."""
        return not any(getattr(self, one.name) for one in fields(self) if not one.default)

    @property
    def treat_nulls(self) -> bool:
        """Whether rows are read with nulls as they are stored, which are then filled or masked."""
        return bool(self.filters or self.fill_nulls or self.null_masks)

    @property
    def skips(self) -> bool:
        """Whether damaged rows are left out."""
        return self.on_corrupt == "skip"

    @property
    def leaves_out_rows(self) -> bool:
        """Whether rows are left out by their values, on some ranks perhaps more than on others."""
        is_stated = bool(getattr(self.transform, "leaves_out_rows", False))
        return bool(self.filters or self.predicates) or is_stated

    @property
    def calls_functions(self) -> bool:
        """Whether there are filters, predicates or a transform."""
        return bool(self.filters or self.predicates) or self.transform is not None

    @property
    def keeps_rows(self) -> bool:
        """Whether sound rows stay in their places."""
        if self.filters or self.predicates:
            return False
        return self.transform is None or bool(getattr(self.transform, "keeps_rows", False))


@dataclass(frozen=True, eq=False)
class Reading:
    """The steps for columns of a dataset, and the columns that come of it.

    Attributes
    ----------
    dataset : SampleSource
        The dataset.
    names : sequence of str or None
        The columns to read, in this order, and perhaps masks; None for all.
    steps : Steps
        What is done to them.
    outputs : sequence of Output
        The entries of a batch; by default `columns`.
    keeps_nulls : bool
        Whether nulls of floating-point columns stay nulls, and do not become NaN.
    """

    dataset: SampleSource
    names: Sequence[str] | None = None
    steps: Steps = field(default_factory=Steps)
    outputs: Sequence[Output] = ()
    keeps_nulls: bool = False

    @cached_property
    def schema(self) -> Schema:
        """The columns that are read, as they are stored."""
        return self.dataset.schema.select(self.dataset.select(self.stored_names))

    @cached_property
    def stored_names(self) -> Sequence[str] | None:
        """The columns to read without those that steps make; None for all."""
        made = self.steps.made
        if self.names is None or not made:
            return self.names
        stored = self.dataset.schema
        return [name for name in self.names if name in stored or name not in made]

    @cached_property
    def kept(self) -> Schema:
        """The columns that are read, without those that only filters need."""
        hidden = self.steps.hidden
        return Schema(tuple(column for column in self.schema if column.name not in hidden))

    @cached_property
    def nulls(self) -> NullPolicy:
        """How nulls are filled and masked."""
        steps = self.steps
        return NullPolicy(self.schema, steps.fill_nulls, steps.null_masks, self.dataset)

    @property
    def only_copies(self) -> bool:
        """Whether rows only need to be copied; known without the schema."""
        return self.steps.is_empty and self.dataset.file_reader is None

    @cached_property
    def images(self) -> ImageDecoder | None:
        """Decodes the columns of images."""
        steps, names = self.steps, decoded_names(self.steps.decode)
        if not names:
            return None
        return ImageDecoder.of(
            self.kept, names, steps.size, steps.null_masks, steps.max_image_bytes
        )

    @cached_property
    def files(self) -> FileReader | None:
        """Reads the files whose contents are in columns."""
        reader = self.dataset.file_reader
        return reader and replace(reader, fill=self.nulls.content_of_nulls(reader.columns))

    @cached_property
    def given(self) -> tuple[str, ...]:
        """Names of the columns that a transform gets, with those that steps make.

        Raises
        ------
        ArgumentTypeError
            If a column that others are made from is not read.
        InvalidArgumentError
            If a column that is made has the name of one that is read.
        """
        _ = self.nulls  # whose errors about masks name the argument
        for name, source in self.steps.made.items():
            if source not in self.schema:
                raise ArgumentTypeError(
                    f"column {name!r} is made from {source!r}, which is not read"
                    f"{choose_among(source, self.schema.names)}"
                )
            if name in self.schema:
                raise InvalidArgumentError(
                    f"column {name!r} would replace one of {self.dataset.url}: choose another name"
                )
        return (*self.kept.names, *self.steps.made)

    @cached_property
    def given_schema(self) -> Schema:
        """The columns that a transform gets, with images decoded."""
        return self.kept if self.images is None else self.kept.with_columns(self.images.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that come of the steps."""
        transform = self.steps.transform
        return self.given if transform is None else tuple(transform.columns)

    @cached_property
    def decodes_first(self) -> bool:
        """Whether images are decoded for the transform, unless it passes all of them through."""
        if self.images is None or self.steps.transform is None:
            return False
        masks = [name + MASK_SUFFIX for name in self.images.masked if name in self.images.names]
        return not self._unchanged.issuperset([*self.images.names, *masks])

    @cached_property
    def reads_first(self) -> bool:
        """Whether files are read for the transform, unless it passes all contents through."""
        if self.files is None or self.steps.transform is None:
            return False
        decoded = self.images.names if self.images is not None and self.decodes_first else ()
        return not self._unchanged.difference(decoded).issuperset(self.files.columns)

    @property
    def _unchanged(self) -> frozenset[str]:
        """The columns that the transform passes through as it gets them."""
        return frozenset(getattr(self.steps.transform, "unchanged", ()))

    def column(self, name: str) -> Column | None:
        """Return an output column's stored column, or None if a transform or mask made it.

        A column whose nulls are filled is returned without nulls.
        """
        return None if name in self._made else self._columns.get(name)

    @cached_property
    def _made(self) -> frozenset[str]:
        """The output columns that hold other values than those stored."""
        if self.steps.transform is None:
            return frozenset()
        made = set(self.columns) - self._unchanged
        made.update(self.images.names if self.images is not None and self.decodes_first else ())
        made.update(self.files.columns if self.files is not None and self.reads_first else ())
        return frozenset(made)

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return {column.name: self.nulls.afterwards(column) for column in self.given_schema}
