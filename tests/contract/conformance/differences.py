"""Programs whose results deliberately differ from Petastorm's.

docs/differences.md describes them for users.
"""

from typing import Any, NamedTuple


class Difference(NamedTuple):
    """The reason a program's results differ, and its results under mdstorm."""

    reason: str
    mdstorm: Any


def _batch(**columns: str) -> dict[str, Any]:
    return {"inferred_schema_view": columns}


_OWN_ERROR = {"raises": ["LookupError"], "says": "my own"}

_THREE = "ndarray object (3,) [ndarray int64 (2,) [1, 2], {}, ndarray int64 {}]"
_SHARES = "shares consist of rows in stored order, not row groups"
_RAGGED = "arrays of different lengths, and arrays with nulls among them, are returned as objects"
_AGAIN = "each pass over a loader starts afresh and is complete"

DIFFERENCES = {
    "batch_reader.leaving_the_context_prints_a_line": Difference(
        "the standard output belongs to the program", ""
    ),
    "batch_reader.partition_column_alone": Difference(
        "partition columns are arrays like all other columns, not pandas Categoricals",
        [
            {"inferred_schema_view_view": {"part": "ndarray <U1 (2,) ['a', 'a']"}},
            {"inferred_schema_view_view": {"part": "ndarray <U1 (2,) ['b', 'b']"}},
        ],
    ),
    "batch_reader_shuffling.shards_are_row_groups_in_turn": Difference(
        _SHARES, [[[0, 1], [2, 3], [4]], [[5], [6, 7], [8, 9]]]
    ),
    "batch_reader_shuffling.more_shards_than_row_groups": Difference(
        _SHARES, {"returns": [[2, 3]]}
    ),
    "row_reader.fields_by_their_schema": Difference(
        "columns are returned in stored order", {"tuple": ["id", "price"]}
    ),
    "row_reader.a_list_with_a_petastorm_dataset": Difference(
        "a list may contain Petastorm datasets", {"returns": [0, 1, 2, 3, 4, 5]}
    ),
    "row_reader.a_file_of_a_petastorm_dataset_loses_the_schema": Difference(
        "a single file in a Petastorm dataset is also decoded",
        [{"tuple": ["id", "city", "tag", "vector"]}, "str 'Bern'", False],
    ),
    "torch_loaders.iterating_again_after_a_short_batch": Difference(
        _AGAIN, [[[0, 1, 2, 3], [4]], [[0, 1, 2, 3], [4]]]
    ),
    "torch_loaders.iterating_again_after_a_break": Difference(
        _AGAIN, {"returns": [[0, 1], [2, 3], [4, 5], [6, 7]]}
    ),
    "torch_loaders.iterating_after_an_error": Difference(_AGAIN, [_OWN_ERROR, _OWN_ERROR]),
    "transforms.a_selection_without_a_function": Difference(
        "selected_fields has an effect with or without a function",
        {"returns": [{"inferred_schema_transformed_view": {"id": "ndarray int64 (2,) [0, 1]"}}]},
    ),
    "types.integers_with_nulls_in_one_row_group": Difference(
        "integer columns with nulls are float64 throughout the dataset",
        ["class int32", [], ["ndarray float64 (2,) [1.0, 2.0]", "ndarray float64 (2,) [nan, 4.0]"]],
    ),
    "types.unsigned_integers_are_left_out": Difference(
        "unsigned integers are returned",
        [
            [_batch(id="ndarray int64 (1,) [1]", u="ndarray uint32 (1,) [1]")],
            {"Ignoring...": []},
        ],
    ),
    "types.strings_with_nulls": Difference(
        "a null is None, not the string 'None'",
        ["class str", [], ["ndarray object (2,) ['a', None]"]],
    ),
    "types.strings_that_end_with_nul": Difference(
        "strings keep their trailing NULs",
        ["class str", [], ["ndarray object (2,) ['a\\x00', 'b']"]],
    ),
    "types.lists_of_several_lengths": Difference(
        _RAGGED,
        {"returns": [_batch(c=_THREE.format("ndarray int64 (1,) [3]", "(3,) [4, 5, 6]"))]},
    ),
    "types.null_lists": Difference(
        _RAGGED,
        {"returns": [_batch(c=_THREE.format("None", "(2,) [3, 4]"))]},
    ),
}
