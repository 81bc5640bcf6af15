from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.format.encodings.encoded_column import EncodedColumn
from mdstorm_backend.write.samples import Samples, assemble_samples


def fixed(values: list[int], dtype: str = "<i4") -> EncodedColumn:
    return EncodedColumn("fixed", "", fixed=np.array(values, dtype))


def variable(*parts: list[bytes]) -> EncodedColumn:
    return EncodedColumn("variable", "", parts=[pa.array(p, pa.large_binary()) for p in parts])


def cut(samples: Samples) -> list[bytes]:
    ends = samples.ends.tolist()
    assert ends[0] == 0
    assert ends[-1] == len(samples.data)
    return [bytes(samples.data[ends[i] : ends[i + 1]]) for i in range(len(samples))]


def test_fixed_size_columns_are_packed_without_size_words() -> None:
    columns = [fixed([1, 2], "<i2"), EncodedColumn("m", "", fixed=np.array([[3, 4], [5, 6]], "u1"))]
    assert cut(assemble_samples(columns, 2)) == [b"\x01\x00\x03\x04", b"\x02\x00\x05\x06"]


def test_size_words_of_all_variable_columns_come_first() -> None:
    columns = [variable([b"ab", b""]), fixed([1, 2], "u1"), variable([b"c", b"def"])]
    words = [struct.pack("<2I", 2, 1), struct.pack("<2I", 0, 3)]
    assert cut(assemble_samples(columns, 2)) == [words[0] + b"ab\x01c", words[1] + b"\x02def"]


def test_pieces_of_a_value_count_as_one() -> None:
    (sample,) = cut(assemble_samples([variable([b"head"], [b"tail"])], 1))
    assert sample == struct.pack("<I", 8) + b"headtail"


def test_no_rows_are_no_samples() -> None:
    assert len(assemble_samples([fixed([])], 0)) == 0


def test_slices_of_arrow_arrays_are_taken_alone() -> None:
    whole = pa.array([b"no", b"ab", b"c", b"no"], pa.large_binary())
    column = EncodedColumn("a", "", parts=[whole.slice(1, 2)])
    assert [sample[4:] for sample in cut(assemble_samples([column], 2))] == [b"ab", b"c"]


@settings(deadline=None)
@given(st.data(), st.integers(1, 5), st.lists(st.booleans(), min_size=1, max_size=5))
def test_any_mixture_of_columns_lies_in_their_order(
    data: st.DataObject, rows: int, kinds: list[bool]
) -> None:
    columns, bodies = [], []
    for is_fixed in kinds:
        if is_fixed:
            values = data.draw(
                st.lists(st.integers(0, (1 << 32) - 1), min_size=rows, max_size=rows)
            )
            columns.append(fixed(values, "<u4"))
            bodies.append([struct.pack("<I", value) for value in values])
        else:
            texts = data.draw(st.lists(st.binary(max_size=4), min_size=rows, max_size=rows))
            columns.append(variable(texts))
            bodies.append(texts)
    expected = [
        b"".join(
            [
                *(
                    struct.pack("<I", len(body[row]))
                    for body, is_fixed in zip(bodies, kinds, strict=True)
                    if not is_fixed
                ),
                *(body[row] for body in bodies),
            ]
        )
        for row in range(rows)
    ]
    assert cut(assemble_samples(columns, rows)) == expected
