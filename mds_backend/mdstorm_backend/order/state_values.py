"""Values in a state: each is checked when it is read, because checkpoints may be damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mdstorm_backend.base import is_integer
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.order.lanes import Lanes

#: Maximum number of world changes within a state's epoch; a damaged state with more could exceed
#: the recursion limit, because each change is a level of recursion in `EpochLanes`.
_MOST_LANES = 256

#: Number of the latest rule by which a seed and the world determine the ``exact`` order. A run that
#: began by an earlier rule keeps it. By rule 0, of states that have no number, all lanes are
#: shuffled alike, a queue is a window of as many rows, and parts of older lanes are read one after
#: another. By rule 1, lanes are shuffled independently, a queue is larger `Windows`, and parts are
#: read in `Turns`.
LATEST_RULE = 1


def number(state: Mapping[str, Any], key: str, least: int = 0) -> int:
    """Return the value of a key, which must be an integer from `least` to 2**63 - 1.

    Raises
    ------
    StateMismatchError
        If the value is missing or anything else.
    """
    value = state.get(key)
    if not is_integer(value) or not least <= value < 1 << 63:
        raise damaged(f"{key!r} must be an integer of at least {least}, found {value!r}")
    return int(value)


def flag(state: Mapping[str, Any], key: str) -> bool:
    """Return the value of a key, which must be a boolean.

    Raises
    ------
    StateMismatchError
        If the value is missing or anything else.
    """
    value = state.get(key)
    if not isinstance(value, bool):
        raise damaged(f"{key!r} must be true or false, found {value!r}")
    return value


def rule_of(ours: Mapping[str, Any]) -> int:
    """Return the number of the rule in mdstorm's part of a state: see `LATEST_RULE`.

    Raises
    ------
    StateMismatchError
        If it is damaged, or there is no such rule yet.
    """
    rule = number(ours, "rule") if "rule" in ours else 0
    if rule > LATEST_RULE:
        raise StateMismatchError(
            f"the state was written by a newer version of mdstorm: its order has rule {rule}, and "
            f"this one has rules 0 to {LATEST_RULE}. Install that version of mdstorm or a newer one"
        )
    return rule


def lanes_of(ours: Mapping[str, Any]) -> tuple[Lanes, ...]:
    """Return the lanes in mdstorm's part of a state.

    Raises
    ------
    StateMismatchError
        If they are damaged.
    """
    stored = ours.get("lanes")
    if not isinstance(stored, Sequence) or isinstance(stored, str):
        raise damaged(f"'lanes' must be a list, found {stored!r}")
    if len(stored) > _MOST_LANES:
        raise damaged(
            f"the world changed {len(stored)} times within its epoch, but at most {_MOST_LANES} "
            "changes are supported"
        )
    lanes = []
    for one in stored:
        if not isinstance(one, Sequence) or len(one) != len(Lanes._fields):
            raise damaged(f"each of 'lanes' must be a list of {list(Lanes._fields)}, found {one!r}")
        values = dict(zip(Lanes._fields, one, strict=True))
        consumed, size = number(values, "consumed"), number(values, "size", 1)
        lanes.append(Lanes(consumed, size, number(values, "padded_to")))
    return tuple(lanes)


def damaged(what: str) -> StateMismatchError:
    """Return the error for a state that no loader or dataset can have returned."""
    return StateMismatchError(
        f"the state cannot be continued: {what}. Load the state exactly as state_dict() returned "
        "it, or start again without it"
    )
