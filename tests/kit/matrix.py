"""Which cases of a matrix the gate runs: enough of them for each value of each parameter."""

from collections.abc import Hashable, Sequence, Set

import pytest


def covering(cases: Sequence[Set[Hashable]]) -> list[int]:
    """Return the positions of cases that together have all values of all cases."""
    seen: set[Hashable] = set()
    kept = []
    # First the cases that have nothing in common, so that few others are needed.
    for is_new in (all, any):
        for position, values in enumerate(cases):
            if position not in kept and is_new(value not in seen for value in values):
                kept.append(position)
                seen |= values
    return kept


def values_of(item: pytest.Item) -> set[Hashable]:
    """Return the values of a case, of which those of one `parametrize` belong together."""
    params = dict(getattr(item, "callspec").params)  # noqa: B009 - only functions have one
    values = set()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0]
        names = names.split(",") if isinstance(names, str) else names
        values.add(tuple((name.strip(), id(params.pop(name.strip()))) for name in names))
    return values | {((name, id(value)),) for name, value in params.items()}


def add_long_to_other_cases(items: Sequence[pytest.Item]) -> None:
    """Mark the cases of tests with the mark `matrix` that have no new value as `long`."""
    matrices: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("matrix"):
            matrices.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in matrices.values():
        kept = covering([values_of(case) for case in cases])
        for position, case in enumerate(cases):
            if position not in kept:
                case.add_marker(pytest.mark.long)
