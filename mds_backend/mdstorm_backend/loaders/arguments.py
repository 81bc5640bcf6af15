"""Arguments that a `StreamingDataset` has in common with Petastorm's readers, each declared once.

Both include an argument by its type. ``scripts/write_parameters.py`` writes the descriptions into
the docstring of `StreamingDataset`, where editors find them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias

import numpy.typing as npt

from mdstorm_backend import base, read
from mdstorm_backend.base.arguments import Argument
from mdstorm_backend.datasets import (
    check_file_bytes,
    check_files,
    check_row_numbers,
    check_rows,
    check_where,
)
from mdstorm_backend.format import MAX_IMAGE_BYTES
from mdstorm_backend.order import check_column, check_weights
from mdstorm_backend.storage import MAX_FILE_BYTES

FillNulls: TypeAlias = Annotated[
    Mapping[str, Any] | None,
    Argument(
        None,
        """mapping of str to value, optional
        For each column, the value that replaces nulls.
        """,
        partial(base.check_mapping, example=" from column to value such as {'x': 0}"),
    ),
]
NullMasks: TypeAlias = Annotated[
    Sequence[str] | None,
    Argument(
        (),
        """sequence of str
        Columns for which a boolean column ``<name>_is_null`` is added.
        """,
        base.check_names,
    ),
]
CheckRanks: TypeAlias = Annotated[
    bool,
    Argument(
        True,
        """bool
        Whether to detect when ranks in a process group read different data, or begin an epoch
        with different seeds, batch sizes or states. The ranks compare these through the group's
        store, without waiting for each other. Different seeds in the elastic order raise an
        error, and other differences issue a warning.
        """,
        base.check_flag,
    ),
]
OnCorrupt: TypeAlias = Annotated[
    read.OnCorrupt,
    Argument(
        "raise",
        """{"raise", "skip"}
        Whether to raise `CorruptDatasetError` for a damaged shard, row group, sample or image, and
        for one of the `files` that does not exist, or to omit the rows from their batches, log
        them, and count them in a loader's ``statistics()``. The number of batches stays the same; a
        batch without other rows is empty. Single samples always raise the error.
        """,
        partial(base.check_one_of, choices=read.ON_CORRUPT),
    ),
]
Decode: TypeAlias = Annotated[
    read.Decode | None,
    Argument(
        None,
        """str or list of str, optional
        Columns of images to decode to RGB, as uint8 arrays ``(height, width, 3)``, which batches
        stack: binary columns of image files and, in a `StreamingDataset`, columns with the
        encodings ``jpeg``, ``png`` and ``pil``. Filters and predicates get the files, and a
        transform gets the decoded images.
        """,
    ),
]
Size: TypeAlias = Annotated[
    read.Size | None,
    Argument(
        None,
        """int or (int, int), optional
        Height and width of the decoded images. Each image is resized to cover this size and
        then center-cropped. By default, all images in a batch must have the same shape.
        """,
    ),
]
MaxImageBytes: TypeAlias = Annotated[
    int,
    Argument(
        MAX_IMAGE_BYTES,
        """int, optional
        Maximum decoded size of one image in bytes, 256 MiB by default. This limit exists
        because a small file can declare any size.
        """,
    ),
]
Rows: TypeAlias = Annotated[
    Sequence[int] | slice | npt.NDArray[Any] | None,
    Argument(
        None,
        """sequence of int, slice or boolean array, optional
        Numbers of the rows to read, from 0 in stored order over all streams: an epoch consists of
        exactly these rows, which are shared, shuffled and resumed like a whole dataset. Numbers
        may be repeated. Without shuffling, the rows keep their order.
        """,
        check_rows,
    ),
]
Where: TypeAlias = Annotated[
    Any,
    Argument(
        None,
        """list of tuple, list of list of tuple or pyarrow.compute.Expression, optional
        Conditions on columns, as tuples ``(column, operator, value)`` or as an expression: an epoch
        consists of exactly the rows that match, among `rows` if given, and all ranks have equal
        batches. Each machine evaluates them once, and keeps the result in its cache.
        """,
        check_where,
    ),
]
Weights: TypeAlias = Annotated[
    str | Sequence[float] | npt.NDArray[Any] | None,
    Argument(
        None,
        """str or sequence of float, optional
        Column with a weight for each row, or one weight for each row of the dataset, from 0 in
        stored order. An epoch then has as many rows as the dataset or `epoch_size`, and each row
        comes as often as its weight states relative to the others: ⌊e⌋ or ⌈e⌉ times if e is
        expected, never if its weight is 0. Each machine reads the column once.
        """,
        check_weights,
    ),
]
Balance: TypeAlias = Annotated[
    str | None,
    Argument(
        None,
        """str, optional
        Column of classes, which then come equally often in an epoch, as with `weights`.
        """,
        check_column,
    ),
]
RowNumbers: TypeAlias = Annotated[
    str | None,
    Argument(
        None,
        """str, optional
        Name of a column to add, int64, with the number of each row in the dataset, from 0 in stored
        order over all streams. `rows` takes these numbers, and ``trace`` returns them. They hold
        for one version of a table.
        """,
        check_row_numbers,
    ),
]
Files: TypeAlias = Annotated[
    Mapping[str, str] | None,
    Argument(
        None,
        """mapping of str to str, optional
        Columns to add, each with the content of the files whose paths or URLs a column of strings
        names, as bytes: ``{"image": "path"}``. Files are read ahead of use, and relative paths
        begin at the dataset's directory. Filters and predicates get only the paths. A null path
        gives a null.
        """,
        check_files,
    ),
]
FilesBelow: TypeAlias = Annotated[
    Sequence[str] | Mapping[str, Mapping[str, Any]] | None,
    Argument(
        None,
        """list of str or mapping of str to dict, optional
        Directories outside of the dataset's own from which `files` may be read, as URLs or paths,
        such as ``["/Volumes/main/images/"]``; a mapping also has the storage options of each.
        """,
    ),
]
MaxFileBytes: TypeAlias = Annotated[
    int,
    Argument(
        MAX_FILE_BYTES,
        """int, optional
        Maximum size of one of the `files` in bytes, 256 MiB by default.
        """,
        check_file_bytes,
    ),
]
