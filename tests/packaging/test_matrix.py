"""Cases of a matrix that the gate runs."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.matrix import covering


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_covering_cases_have_each_value_and_each_has_a_new_one(sizes: list[int]) -> None:
    cases = [set(enumerate(case)) for case in product(*map(range, sizes))]
    kept = covering(cases)
    assert set().union(*(cases[position] for position in kept)) == set().union(*cases)
    assert max(sizes) <= len(kept) <= sum(sizes) - len(sizes) + 1


def test_cases_without_common_values_are_all_kept() -> None:
    assert covering([{"a"}, {"b"}, {"c"}]) == [0, 1, 2]


def test_matrix_of_three_values_each_needs_three_cases() -> None:
    cases = [set(enumerate(case)) for case in product(range(3), repeat=3)]
    assert len(covering(cases)) == 3
