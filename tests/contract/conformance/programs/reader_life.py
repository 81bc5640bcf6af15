"""The life cycle of a `Reader`, and its attributes."""

from itertools import islice
from typing import Any

from petastorm import make_batch_reader, make_reader
from petastorm.reader import LOCAL_DISK_CACHE, NULL_CACHE, Reader
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM, batches, ids_of, rows


def constants(place: Place) -> Any:
    return [LOCAL_DISK_CACHE, NULL_CACHE]


def attributes_of_a_batch_reader(place: Place) -> Any:
    with make_batch_reader(place.numbers(), **CALM) as reader:
        return [
            isinstance(reader, Reader),
            reader.batched_output,
            reader.is_batched_reader,
            reader.ngram,
            reader.last_row_consumed,
            reader.stopped,
            reader.num_epochs,
            reader.diagnostics,
        ]


def attributes_of_a_row_reader(place: Place) -> Any:
    with make_reader(place.dataset("codecs"), **CALM) as reader:
        return [reader.batched_output, reader.is_batched_reader, reader.ngram]


def a_reader_is_its_own_iterator(place: Place) -> Any:
    with make_batch_reader(place.numbers(), **CALM) as reader:
        first = [batch.id.tolist() for batch in islice(reader, 1)]
        return [iter(reader) is reader, first, ids_of([next(reader)]), ids_of([reader.next()])]


def exhausted_reader_stays_exhausted(place: Place) -> Any:
    with make_batch_reader(place.numbers(4), **CALM) as reader:
        seen = [reader.last_row_consumed]
        next(reader)
        seen.append(reader.last_row_consumed)
        ends = [next(reader, "end"), next(reader, "end")]
        return [seen, ends, reader.last_row_consumed]


def reset_reads_again(place: Place) -> Any:
    with make_batch_reader(place.numbers(6, group=3), num_epochs=2, **CALM) as reader:
        first = ids_of(list(reader))
        reader.reset()
        return [first, reader.last_row_consumed, ids_of(list(reader))]


def reset_in_the_middle(place: Place) -> Any:
    with make_batch_reader(place.numbers(), **CALM) as reader:
        next(reader)
        return error_of(reader.reset, "do not support resetting a reader while in the middle")


def reset_of_a_row_reader(place: Place) -> Any:
    with make_reader(place.dataset("codecs"), schema_fields=["id"], **CALM) as reader:
        first = [int(row.id) for row in reader]
        reader.reset()
        return [first, [int(row.id) for row in reader]]


def reading_after_stop(place: Place) -> Any:
    reader = make_batch_reader(place.numbers(), **CALM)
    reader.stop()
    reader.join()
    return error_of(lambda: next(reader), "Trying to read a sample after a reader created by")


def stopping_twice(place: Place) -> Any:
    reader = make_batch_reader(place.numbers(), **CALM)
    found = [reader.stop(), reader.join(), reader.stop(), reader.join()]
    return [found, reader.stopped]


def a_reader_has_no_length(place: Place) -> Any:
    with make_batch_reader(place.numbers(), **CALM) as reader:
        return error_of(lambda: len(reader), "has no len()")


def the_schema_of_a_batch_reader(place: Place) -> Any:
    with make_batch_reader(place.numbers(), **CALM) as reader:
        fields = reader.schema.fields.values()
        return [reader.schema._name, [tuple(field) for field in fields]]


def the_schema_of_chosen_fields(place: Place) -> Any:
    with make_batch_reader(place.numbers(), schema_fields=["x"], **CALM) as reader:
        return [reader.schema._name, list(reader.schema.fields)]


def empty_files_between_others(place: Place) -> Any:
    return ids_of(batches(place.files([2, 0, 1])))


def local_disk_cache_of_rows(place: Place) -> Any:
    arguments = {
        "cache_type": "local-disk",
        "cache_location": str(place.folder / "cache"),
        "cache_size_limit": 10**7,
        "cache_row_size_estimate": 100,
        "cache_extra_settings": {"shards": 2, "cleanup": True},
    }
    found = rows(place.dataset("places"), num_epochs=2, schema_fields=["id"], **arguments)
    return [int(row.id) for row in found]
