"""Wrong arguments of `make_batch_reader` and `make_reader`."""

from typing import Any

from petastorm import make_batch_reader, make_reader
from tests.conformance.describing import error_of, warnings_of
from tests.conformance.place import Place
from tests.conformance.reading import batches, rows


def _opening(url: Any, says: str) -> Any:
    return [error_of(lambda: make(url), says) for make in (make_batch_reader, make_reader)]  # noqa: B023


def no_url(place: Place) -> Any:
    return _opening(None, "directory url must be a string")


def a_number_as_url(place: Place) -> Any:
    return _opening(5, "directory url must be a string")


def a_path_without_a_scheme(place: Place) -> Any:
    return _opening(str(place.folder), "ERROR! A scheme-less dataset url (")


def an_empty_url(place: Place) -> Any:
    return error_of(lambda: make_batch_reader(""))


def a_list_of_nothing(place: Place) -> Any:
    return error_of(lambda: make_batch_reader([]), "dataset url list must be non-empty")


def a_tuple_of_urls(place: Place) -> Any:
    urls = tuple(place.files([1, 1]))
    return error_of(lambda: make_batch_reader(urls))


def urls_of_several_schemes(place: Place) -> Any:
    urls = ["file:///a/b.parquet", "s3://a/b.parquet"]
    return error_of(
        lambda: make_batch_reader(urls), "must contain url with the same scheme and netloc"
    )


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


def wrong_numbers_of_epochs(place: Place) -> Any:
    url, says = place.numbers(), "iterations must be positive integer or None"
    return [
        error_of(lambda: batches(url, num_epochs=wrong), says)  # noqa: B023
        for wrong in (0, -1, 1.5, "2")
    ]


def a_field_of_another_schema(place: Place) -> Any:
    import numpy as np
    from petastorm.unischema import UnischemaField

    url, field = place.numbers(), UnischemaField("other", np.int64, (), None, False)
    return error_of(lambda: batches(url, schema_fields=[field]), "does not belong to the schema")


def names_that_are_no_identifiers(place: Place) -> Any:
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


def a_file_that_is_no_parquet(place: Place) -> Any:
    url = place.numbers()
    (place.folder / "data" / "part-0.parquet").write_bytes(b"PAR1 no Parquet PAR1")
    return error_of(lambda: batches(url))["raises"] != []


def plain_parquet_in_the_row_reader(place: Place) -> Any:
    url, says = place.numbers(2), "Currently make_reader supports reading only Petastorm datasets"
    return [rows(url), warnings_of(lambda: rows(url), says)]


def a_petastorm_dataset_in_the_batch_reader(place: Place) -> Any:
    url = place.dataset("places")
    return warnings_of(lambda: batches(url), "Please use make_reader")


def local_cache_and_predicate(place: Place) -> Any:
    from petastorm.predicates import in_lambda

    url, location = place.dataset("places"), str(place.folder / "cache")
    return error_of(
        lambda: rows(
            url,
            predicate=in_lambda(["id"], lambda id_: id_ > 1),
            cache_type="local-disk",
            cache_location=location,
            cache_size_limit=10**7,
            cache_row_size_estimate=100,
        ),
        "Local cache is not supported together with predicates",
    )
