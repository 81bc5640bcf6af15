"""`NGram`: rows with consecutive timestamps."""

from typing import Any

import numpy as np
from petastorm import TransformSpec, make_reader
from petastorm.ngram import NGram
from petastorm.unischema import Unischema, UnischemaField
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM, rows

_TIME = UnischemaField("time", np.int64, (), None, False)
_VALUE = UnischemaField("value", np.float32, (), None, False)
_LABEL = UnischemaField("label", np.str_, (), None, False)
_SCHEMA = Unischema("Series", [_TIME, _VALUE, _LABEL])


def _ngram(fields: Any, threshold: float = 1, **arguments: Any) -> NGram:
    return NGram(fields, delta_threshold=threshold, timestamp_field=_TIME, **arguments)


def _times(found: list[Any]) -> list[list[int]]:
    return [[int(row.time) for row in ngram.values()] for ngram in found]


def pairs_of_rows(place: Place) -> Any:
    """Return rows with sorted fields, because their order depends on string hashes."""
    ngram = _ngram({0: [_TIME, _VALUE], 1: [_TIME]})
    return [
        {
            offset: [type(row).__name__, dict(sorted(row._asdict().items()))]
            for offset, row in found.items()
        }
        for found in rows(place.dataset("series"), schema_fields=ngram)
    ]


def times_of_pairs_that_do_not_overlap(place: Place) -> Any:
    ngram = _ngram({0: [_TIME], 1: [_TIME]}, timestamp_overlap=False)
    return _times(rows(place.dataset("series"), schema_fields=ngram))


def triples_before_and_after(place: Place) -> Any:
    ngram = _ngram({-1: [_TIME], 0: [_TIME], 1: [_TIME]})
    return [list(found) for found in rows(place.dataset("series"), schema_fields=ngram)]


def offsets_with_a_gap(place: Place) -> Any:
    ngram = _ngram({0: [_TIME], 2: [_TIME]})
    return [
        {offset: int(row.time) for offset, row in found.items() if hasattr(row, "time")}
        for found in rows(place.dataset("series"), schema_fields=ngram)
    ]


def fields_by_pattern(place: Place) -> Any:
    ngram = NGram({0: ["time", "val.*"], 1: ["time"]}, 1, "time")
    found = rows(place.dataset("series"), schema_fields=ngram)
    return [[sorted(row._fields) for row in ngram.values()] for ngram in found[:1]]


def ngrams_do_not_cross_row_groups(place: Place) -> Any:
    ngram = _ngram({0: [_TIME], 1: [_TIME], 2: [_TIME], 3: [_TIME]}, threshold=100)
    return _times(rows(place.dataset("series"), schema_fields=ngram))


def a_transform_comes_before(place: Place) -> Any:
    def shift(row: dict[str, Any]) -> dict[str, Any]:
        row["value"] = np.float32(row["value"] + 100)
        return row

    ngram = _ngram({0: [_TIME], 1: [_VALUE]})
    found = rows(place.dataset("series"), schema_fields=ngram, transform_spec=TransformSpec(shift))
    return [float(ngram[1].value) for ngram in found]


def the_reader_knows_its_ngram(place: Place) -> Any:
    ngram = _ngram({0: [_TIME], 1: [_VALUE]})
    with make_reader(place.dataset("series"), schema_fields=ngram, **CALM) as reader:
        return [reader.ngram.length, reader.batched_output, sorted(reader.schema.fields)]


def attributes(place: Place) -> Any:
    ngram = _ngram({-1: [_TIME], 1: [_VALUE, _TIME]}, threshold=2.5, timestamp_overlap=False)
    return [
        ngram.length,
        ngram.delta_threshold,
        ngram.timestamp_overlap,
        {offset: [field.name for field in fields] for offset, fields in ngram.fields.items()},
        sorted(ngram.get_field_names_at_timestep(1)),
        sorted(ngram.get_field_names_at_timestep(0)),
        sorted(ngram.get_field_names_at_all_timesteps()),
        sorted(ngram.get_schema_at_timestep(_SCHEMA, 1).fields),
    ]


def equality(place: Place) -> Any:
    one, same = _ngram({0: [_TIME, _VALUE]}), _ngram({0: [_VALUE, _TIME]})
    return [one == same, one == _ngram({0: [_TIME]}), one == _ngram({1: [_TIME, _VALUE]})]


def wrong_arguments(place: Place) -> Any:
    fields = {0: [_TIME]}
    return [
        error_of(lambda: NGram(None, 1, _TIME), "Fields must be set and must be a dictionary"),
        error_of(lambda: NGram([_TIME], 1, _TIME), "Fields must be set and must be a dictionary"),
        error_of(lambda: NGram({0: _TIME}, 1, _TIME), "Each field value must be a list of"),
        error_of(lambda: NGram({0: [5]}, 1, _TIME), "All field values must be of type"),
        error_of(lambda: NGram(fields, "1", _TIME), "delta_threshold must be a number."),
        error_of(lambda: NGram(fields, 1, None), "timestamp_field must be set"),
        error_of(lambda: NGram(fields, 1, _TIME, None), "timestamp_overlap must be set"),
    ]


def an_ambiguous_time(place: Place) -> Any:
    ngram, url = NGram({0: ["time"]}, 1, ".*e"), place.dataset("series")
    return error_of(
        lambda: rows(url, schema_fields=ngram),
        "timestamp_field was matched to more than one unischema field",
    )


def parts_without_overlap(place: Place) -> Any:
    ngram = _ngram({0: [_TIME], 1: [_TIME]}, timestamp_overlap=False)
    url = place.dataset("series")
    return error_of(lambda: rows(url, schema_fields=ngram, shuffle_row_drop_partitions=2))
