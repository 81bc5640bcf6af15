"""Find the section of docs/differences.md that documents a difference between two recordings.

Each entry pairs a section of that page with a test for the difference described there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdstorm_migrate.compare.recorder import digest_of
from mdstorm_migrate.compare.recordings import MODULUS, UNPROJECTED, RecordedColumn, RecordedLoader

_UNSIGNED = frozenset({"uint16", "uint32", "uint64", "float16", "int32", "int64", "float64"})
_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8"})
_PLAIN = frozenset({"int", "float", "bool", "list"})
#: Types of times that recordings contain in nanoseconds.
_NANOSECONDS = frozenset({"datetime64[ns]", "datetime", "Timestamp"})


@dataclass(frozen=True)
class Case:
    """A difference between two recordings, with its loader and column."""

    kind: str
    old: RecordedLoader
    new: RecordedLoader
    column: str = ""
    #: Whether the column had other values in a second run of the recorded program.
    is_random: bool = False

    def columns(self) -> tuple[RecordedColumn, RecordedColumn] | None:
        """Return the column from each pass, if both passes have it."""
        if self.old.data is None or self.new.data is None:
            return None
        old, new = self.old.data.columns.get(self.column), self.new.data.columns.get(self.column)
        return (old, new) if old is not None and new is not None else None

    def has(self, *arguments: str) -> bool:
        """Whether all of these arguments were passed, with values other than None, False and 0."""
        return all(self.old.arguments.get(name) not in (None, False, 0) for name in arguments)


def _became_float(case: Case) -> bool:
    both = case.columns()
    if case.kind not in ("dtype", "nulls") or both is None:
        return False
    old, new = both
    return bool(old.dtypes & _INTEGERS) and new.dtypes == {"float64"} and new.nulls > 0


def _kept_integers(case: Case) -> bool:
    both = case.columns()
    if case.kind != "dtype" or both is None:
        return False
    return case.has("predicate") and "float64" in both[0].dtypes and both[1].dtypes <= _INTEGERS


#: How a column's digest changes if one string 'None' becomes a null.
_NULL_OF_TEXT = digest_of([None]) - digest_of(["None"])


def _is_null_of_text(case: Case) -> bool:
    """Whether strings 'None' became nulls, and nothing else in the column changed."""
    both = case.columns()
    if case.kind not in ("nulls", "dtype") or both is None:
        return False
    old, new = both
    nulls = new.nulls - old.nulls
    changed = new.digest - old.digest - nulls * _NULL_OF_TEXT
    return "str" in old.dtypes and nulls > 0 and (case.is_random or changed % MODULUS == 0)


def _is_new_unsigned(case: Case) -> bool:
    if case.kind != "columns" or case.new.data is None:
        return False
    column = case.new.data.columns.get(case.column)
    # Tensors use int32 and int64 instead of unsigned integers.
    return column is not None and column.dtypes <= _UNSIGNED and column.shapes == {"[]"}


def _is_new_column(case: Case) -> bool:
    """Whether only the new recording has a column, of a type that Petastorm leaves out.

    Those are structs, maps, nested arrays, and arrays of other values than numbers.
    """
    column = case.new.data.columns.get(case.column) if case.new.data else None
    if case.kind != "columns" or column is None:
        return False
    is_nested = any("," in shape for shape in column.shapes)
    return is_nested or (not column.numbers and "[]" not in column.shapes)


def _is_truncated_time(case: Case) -> bool:
    """Whether times lost less than a microsecond each, by their minimum, maximum and sum."""
    both = case.columns()
    if case.kind not in ("values", "dtype") or both is None or case.old.data is None:
        return False
    old, new = both
    if not old.numbers or not new.numbers or not old.dtypes | new.dtypes <= _NANOSECONDS:
        return False
    least, greatest, total, *_ = (a - b for a, b in zip(old.numbers, new.numbers, strict=False))
    most = 1000 + np.spacing(max(map(abs, old.numbers[:2])))  # recordings contain float64
    rounding = 1e-13 * old.numbers[UNPROJECTED.index("magnitude")]
    is_sum_close = -rounding <= total <= 1000 * case.old.data.rows + rounding
    return bool(0 <= least < most and 0 <= greatest < most and is_sum_close)


def _is_unified(case: Case) -> bool:
    both = case.columns()
    if case.kind != "dtype" or both is None or not case.has("transform_spec"):
        return False
    old, new = both
    return bool(old.dtypes & _PLAIN) or len(old.dtypes) > len(new.dtypes) or case.has("stack")


def _is_repeated_pass(case: Case) -> bool:
    return case.kind == "passes" and len(case.old.passes) > 1 and "DataLoader" in case.old.kind


def _is_continued_pass(case: Case) -> bool:
    return case.kind == "passes" and "dataset" in case.old.kind


#: Sections of docs/differences.md, each with a summary of a documented difference and a function
#: that recognizes it.
DOCUMENTED: tuple[tuple[str, str, Callable[[Case], bool]], ...] = (
    (
        "predicates-filters-and-selectors",
        "predicate and shuffle_rows together pair values from different rows in Petastorm",
        lambda case: case.kind in ("pairing", "values") and case.has("predicate", "shuffle_rows"),
    ),
    (
        "predicates-filters-and-selectors",
        "shuffle_row_drop_partitions and shuffle_rows together repeat and lose rows in Petastorm",
        lambda case: (
            case.kind in ("rows", "values", "nulls", "passes")
            and case.has("shuffle_rows", "shuffle_row_drop_partitions")
        ),
    ),
    (
        "predicates-filters-and-selectors",
        "Petastorm applies filters only to partitions",
        lambda case: case.kind in ("rows", "passes") and case.has("filters"),
    ),
    (
        "predicates-filters-and-selectors",
        "a predicate that rejects a row turns integers into float64 in Petastorm",
        _kept_integers,
    ),
    (
        "nulls",
        "an integer column with nulls is float64 throughout the dataset",
        _became_float,
    ),
    ("readers", "a null in a string column is the string 'None' in Petastorm", _is_null_of_text),
    ("parquet", "Petastorm drops unsigned integers and float16", _is_new_unsigned),
    ("loaders", "Petastorm omits columns of this type", _is_new_column),
    ("parquet", "timestamps are truncated to microseconds", _is_truncated_time),
    ("transforms", "results from different shards are converted to a common type", _is_unified),
    (
        "fixed-defects",
        "iterating again repeats the rows of the last short batch in Petastorm",
        _is_repeated_pass,
    ),
    (
        "mdstormpytorch-and-mdstormtf_utils",
        "a second iteration continues the first one in Petastorm",
        _is_continued_pass,
    ),
)


def section_of(case: Case) -> tuple[str, str] | None:
    """Return the docs/differences.md section about a case, and a summary; None if there is none."""
    for section, reason, is_case in DOCUMENTED:
        if is_case(case):
            return section, reason
    return None
