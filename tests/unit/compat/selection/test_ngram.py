"""N-grams formed from dict rows and from columns."""

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm.ngram import NGram
from mdstorm.unischema import Unischema, UnischemaField


def field(name: str) -> UnischemaField:
    return UnischemaField(name, np.int64, (), None, False)


SCHEMA = Unischema("Sch", [field("z"), field("ts"), field("va"), field("vb")])


def rows_at(timestamps: Any) -> list[dict[str, Any]]:
    return [{"z": -i, "ts": ts, "va": 10 * i, "vb": None} for i, ts in enumerate(timestamps)]


def columns_at(timestamps: Any) -> dict[str, list[Any]]:
    rows = rows_at(timestamps)
    return {name: [row[name] for row in rows] for name in SCHEMA.fields}


def stamps(ngram: NGram, timestamps: Any) -> list[list[Any]]:
    """Return n-gram timestamps, after checking that rows and columns form equal n-grams."""
    found = ngram.form_ngram(rows_at(timestamps), SCHEMA)
    formed = list(ngram._mdstorm_of_columns(SCHEMA, columns_at(timestamps)))
    assert formed == [ngram.make_namedtuple(SCHEMA, item) for item in found]
    return [[row["ts"] for row in item.values()] for item in found]


def pairs(threshold: Any, overlap: bool = True) -> NGram:
    return NGram({0: [SCHEMA.ts], 1: [SCHEMA.ts]}, threshold, SCHEMA.ts, overlap)


@pytest.mark.parametrize("unit", ["us", "ms", "D"])
def test_threshold_in_any_time_unit_is_compared_with_timestamps(unit: str) -> None:
    days = [np.datetime64(day, "D").astype("datetime64[us]") for day in (1, 3, 9, 11)]
    threshold = np.timedelta64(2, "D").astype(f"timedelta64[{unit}]")
    assert stamps(pairs(threshold), days) == [days[:2], days[2:]]


@pytest.mark.parametrize(
    ("times", "threshold", "count"),
    [
        (np.array([-128, 127], np.int8), 1000, 0),
        (np.array([0, 2**64 - 1], np.uint64), 2.0**64, 1),
        ([np.datetime64(i, "us") for i in (1, 4, 9)], 3, 1),
        ([dt.timedelta(0)], 1, 0),
        ([Decimal("0.1"), Decimal("0.3"), Decimal(2)], Decimal("0.2"), 1),
        ([0.5, 1.25], 0.75, 1),
    ],
)
def test_timestamps_of_various_types_form_ngrams(times: Any, threshold: Any, count: int) -> None:
    assert len(stamps(pairs(threshold), times)) == count


@pytest.mark.parametrize("times", [[0, 10, 5], [3, 2], [1.0, float("nan"), 2.0]])
def test_ngram_from_unsorted_rows_raises_error(times: Any) -> None:
    message = "NGram assumes that the data is sorted by ts field which is not the case"
    with pytest.raises(NotImplementedError, match=message):
        pairs(1).form_ngram(rows_at(times), SCHEMA)
    with pytest.raises(NotImplementedError, match=r"comes after.*Sort the rows"):
        list(pairs(1)._mdstorm_of_columns(SCHEMA, columns_at(times)))


def test_ngram_with_null_timestamp_raises_error() -> None:
    with pytest.raises(TypeError):
        pairs(1).form_ngram(rows_at([1, None]), SCHEMA)


@given(
    st.lists(st.integers(0, 12), max_size=12).map(sorted),
    st.integers(1, 4),
    st.integers(0, 3),
    st.booleans(),
)
def test_n_grams_from_columns_equal_n_grams_from_rows(
    times: list[int], length: int, threshold: int, overlap: bool
) -> None:
    expected: list[list[int]] = []
    for first in range(len(times) - length + 1):
        window = times[first : first + length]
        steps_fit = all(b - a <= threshold for a, b in itertools.pairwise(window))
        apart = not expected or window[0] > expected[-1][-1]
        if steps_fit and (overlap or apart):
            expected.append(window)
    fields = {offset: [SCHEMA.ts] for offset in range(length)}
    assert stamps(NGram(fields, threshold, SCHEMA.ts, overlap), times) == expected


class TestExpressions:
    """N-grams may select fields with regular expressions, which are resolved with a schema."""

    def test_regular_expressions_are_resolved_with_a_schema(self) -> None:
        ngram = NGram({0: [SCHEMA.vb, "v.*"], 2: []}, 5, "t.")
        assert ngram.get_field_names_at_timestep(0) == ["vb", "v.*"]
        ngram.resolve_regex_field_names(SCHEMA)
        assert ngram.fields == {0: [SCHEMA.vb, SCHEMA.va], 2: []}
        assert ngram.timestamp_field == SCHEMA.ts
        assert ngram.get_field_names_at_timestep(0) == ["vb", "va"]
        assert ngram.get_field_names_at_timestep(1) == ngram.get_field_names_at_timestep(9) == []
        assert ngram.get_field_names_at_all_timesteps() == [SCHEMA.vb, SCHEMA.va]
        assert list(ngram.get_schema_at_timestep(SCHEMA, 0).fields) == ["va", "vb"]
        assert ngram.convert_fields(SCHEMA, ["z|ts"]) == [SCHEMA.z, SCHEMA.ts]
