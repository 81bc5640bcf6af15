"""Invalid arguments to `make_batch_reader` and `make_reader`."""

from typing import Any

from petastorm import make_batch_reader, make_reader
from tests.contract.conformance.describing import error_of, warnings_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import batches, rows


def _opening(url: Any, says: str) -> Any:
    return [error_of(lambda: make(url), says) for make in (make_batch_reader, make_reader)]  # noqa: B023


def a_path_without_a_scheme(place: Place) -> Any:
    return _opening(str(place.folder), "ERROR! A scheme-less dataset url (")


def a_path_that_is_not_there(place: Place) -> Any:
    return error_of(lambda: make_batch_reader(place.url("nothing")), "Passed non-file path")


def unknown_arguments(place: Place) -> Any:
    url = place.numbers()
    return [
        error_of(lambda: batches(url, xyz=1), "unexpected keyword argument 'xyz'"),
        error_of(
            lambda: batches(url, pyarrow_serialize=True),
            "unexpected keyword argument 'pyarrow_serialize'",
        ),
        error_of(lambda: rows(url, xyz=1), "unexpected keyword argument 'xyz'"),
    ]


def wrong_arguments(place: Place) -> Any:
    url = place.numbers()
    no_field = "No fields matching the criteria"
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "an_unknown_pool": ({"reader_pool_type": "xx"}, "Unknown reader_pool_type: xx"),
        "an_unknown_cache": ({"cache_type": "xx"}, "Unknown cache_type: xx"),
        "no_field_matches": ({"schema_fields": ["nothing"]}, no_field),
        "field_names_as_one_text": ({"schema_fields": "id"}, no_field),
        "fields_that_are_no_list": (
            {"schema_fields": 5},
            "Fields must be either None, an iterable",
        ),
        "fields_of_a_wrong_type": (
            {"schema_fields": [5]},
            'Elements of "fields" must be either a string',
        ),
        "a_predicate_of_a_wrong_type": (
            {"predicate": lambda row: True},
            "expected to be derived from PredicateBase",
        ),
        "a_selector_of_a_wrong_type": ({"rowgroup_selector": "by_id"}, ""),
    }
    return {
        name: error_of(lambda: batches(url, **arguments), says)  # noqa: B023
        for name, (arguments, says) in cases.items()
    }


def a_known_cache_that_does_nothing(place: Place) -> Any:
    url = place.numbers(2)
    return [batches(url, cache_type=None), batches(url, cache_type="null")]


def names_that_are_not_identifiers(place: Place) -> Any:
    return [
        error_of(lambda: batches(place.parquet({name: [1]}, name=f"{i}/x.parquet")), says)  # noqa: B023
        for i, (name, says) in enumerate(
            [
                ("a b", "Type names and field names must be valid identifiers: 'a b'"),
                ("_1", "Field names cannot start with an underscore: '_1'"),
                ("class", "Type names and field names cannot be a keyword: 'class'"),
            ]
        )
    ]


def names_of_the_schema_itself(place: Place) -> Any:
    return batches(place.parquet({"fields": [1], "make_namedtuple": [2]}))


def a_petastorm_dataset_in_the_batch_reader(place: Place) -> Any:
    url = place.dataset("places")
    return warnings_of(lambda: batches(url), "Please use make_reader")
