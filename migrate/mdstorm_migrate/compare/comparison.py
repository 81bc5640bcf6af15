"""Compare two recordings of what a program read, loader by loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat

import numpy as np

from mdstorm.errors import InvalidArgumentError
from mdstorm_migrate.compare.documented import Case, section_of
from mdstorm_migrate.compare.recorder import SEVERAL
from mdstorm_migrate.compare.recordings import (
    UNPROJECTED,
    Data,
    RecordedColumn,
    RecordedLoader,
    Recording,
)

EQUAL, DIFFERENT, NOT_COMPARABLE = "equal", "different", "not comparable"

#: Arguments that take a user function that computes values.
_FUNCTIONS = ("transform_spec", "transform_fn", "collate_fn", "data_loader_fn", "batch_map")
_FLOATS = ("float16", "float32", "float64", "float")
#: The dtypes of times that are Python objects.
_TIMES = {
    "date": "datetime64[ns]",
    "datetime": "datetime64[ns]",
    "Timestamp": "datetime64[ns]",
    "timedelta": "timedelta64[ns]",
}
_NOT_PROJECTED = (
    "is from an older recorder, which did not record the positions of numbers in their rows: write "
    "a new recorder with `mdstorm compare --recorder`, and record the program again"
)
#: Relative tolerance for computed floats, keyed by whether they may be narrower than float64.
_TOLERANCE = {False: 1e-12, True: 3e-7}


@dataclass(frozen=True)
class Difference:
    """One difference: its kind, the column, and the values on both sides."""

    kind: str
    column: str
    detail: str
    #: Section of docs/differences.md that documents the difference, and a one-line summary; both
    #: are empty if the difference is not documented.
    section: str = ""
    reason: str = ""


@dataclass
class Verdict:
    """The result of comparing one loader."""

    loader: RecordedLoader
    differences: list[Difference] = field(default_factory=list)
    #: The reason the loader's data was not compared; empty if it was.
    reason: str = ""
    #: Notes for the user, such as what was compared less strictly or not at all, and why.
    remarks: list[str] = field(default_factory=list)
    #: The reason the row order was not compared; empty if it was.
    no_order: str = "nothing was compared"
    #: Columns of computed numbers that differ only by rounding.
    rounded: set[str] = field(default_factory=set)
    rows: int = 0
    #: Examples of rows that only one side has.
    examples: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    @property
    def is_documented(self) -> bool:
        """Whether docs/differences.md documents all differences; also true if there are none."""
        return all(difference.section for difference in self.differences)

    @property
    def outcome(self) -> str:
        """One of `EQUAL`, `DIFFERENT` and `NOT_COMPARABLE`."""
        if self.differences:
            return DIFFERENT
        return NOT_COMPARABLE if self.reason else EQUAL


def compare_recordings(old: Recording, new: Recording) -> list[Verdict]:
    """Return a verdict for each loader in either recording.

    Raises
    ------
    InvalidArgumentError
        If the recordings have different numbers of ranks, or contain no loader.
    """
    if old.ranks != new.ranks:
        raise InvalidArgumentError(
            f"{old.path} was recorded with world size {old.ranks}, and {new.path} with "
            f"{new.ranks}: record both on the same number of ranks"
        )
    for recording in (old, new):
        if not recording.runs[0]:
            raise InvalidArgumentError(
                f"{recording.path}: the program created no Petastorm or mdstorm loader. Torch "
                "DataLoader workers, and processes that the program starts, are not recorded"
            )
    first, *others = old.runs
    again, now = others[0] if others else {}, new.runs[0]
    verdicts = [
        _verdict(loader, again.get(key), now[key]) if key in now else _unmatched(loader, now, new)
        for key, loader in first.items()
    ]
    verdicts += [_unmatched(now[key], first, old) for key in now if key not in first]
    if not others and any(verdict.differences for verdict in verdicts):
        for verdict in verdicts:
            if verdict.differences:
                verdict.remarks.append("recorded once: the differing values may be random")
    return verdicts


def _unmatched(
    loader: RecordedLoader,
    others: Mapping[tuple[str, str, str, int], RecordedLoader],
    recording: Recording,
) -> Verdict:
    """Return the verdict on a loader that only one of the recordings has."""
    calls = sum(other.site == loader.site for other in others.values())
    if calls:
        detail = f"call {loader.call + 1} of this function is not in {recording.path}"
        return Verdict(loader, [Difference("calls", "", detail)])
    return Verdict(loader, reason=f"{recording.path} has no loader of this kind in this function")


def _verdict(old: RecordedLoader, again: RecordedLoader | None, new: RecordedLoader) -> Verdict:
    verdict = Verdict(old)
    verdict.reason = _not_comparable(old, new)
    verdict.remarks = _of_arguments(old.arguments, new.arguments)
    if new.missing_shards and not old.missing_shards:
        shards = ", ".join(map(str, new.missing_shards))
        verdict.differences = [Difference("shards", "", f"shard {shards} is no longer read")]
        return verdict
    found = [*_of_passes(old, again, new, verdict)]
    if not verdict.reason:
        found += _of_data(old, again, new, verdict)
    documented = [_documented(difference, old, again, new) for difference in found]
    verdict.differences = sorted(documented, key=lambda difference: bool(difference.section))
    if old.data is not None and new.data is not None:
        verdict.rows = new.data.rows
        if verdict.differences:
            verdict.examples = _examples(old.data, new.data)
    return verdict


def _of_arguments(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Return a remark on the arguments that differ, such as seeds, if there are any."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    texts = [f"{name} {old.get(name)}, then {new.get(name)}" for name in names]
    return [f"other arguments: {'; '.join(texts)}"] if texts else []


def _documented(
    difference: Difference, old: RecordedLoader, again: RecordedLoader | None, new: RecordedLoader
) -> Difference:
    random = _random_columns(old.data, again.data if again is not None else None)
    is_random = difference.column in random
    found = section_of(Case(difference.kind, old, new, difference.column, is_random))
    section, reason = found or ("", "")
    return Difference(difference.kind, difference.column, difference.detail, section, reason)


def _not_comparable(old: RecordedLoader, new: RecordedLoader) -> str:
    for side, loader in (("the recording", old), ("this run", new)):
        if loader.missing_shards:
            shards = ", ".join(map(str, loader.missing_shards))
            return (
                f"{side} does not contain shard {shards} of {loader.arguments['shard_count']}, and "
                "the two libraries divide rows among ranks differently: record all ranks "
                "(docs/differences.md#order-and-sharding)"
            )
        if loader.data is None:
            return f"{side}: {loader.note}"
    return ""


def _of_passes(
    old: RecordedLoader, again: RecordedLoader | None, new: RecordedLoader, verdict: Verdict
) -> Iterator[Difference]:
    """Compare the number of passes the program made, and how much of each one it read."""
    if old.is_share or new.is_share:
        return  # how many rows and batches a share has depends on the library
    if again is not None and again.passes != old.passes:
        verdict.remarks.append("the number of batches that the program reads is random")
        return
    if len(old.passes) != len(new.passes):
        yield Difference("passes", "", f"{len(old.passes)} passes, then {len(new.passes)}")
        return
    for number, (one, other) in enumerate(zip(old.passes, new.passes, strict=True), 1):
        (_, rows, was_complete), (_, rows_now, is_complete) = one, other
        if was_complete != is_complete and _reads_ahead(old):
            continue
        if was_complete != is_complete:
            detail = "complete, then not" if was_complete else "not complete, then complete"
            yield Difference("passes", "", f"pass {number}: {detail}")
        elif rows != rows_now and (_has_rows(old, new) if was_complete else not _reads_ahead(old)):
            yield Difference("passes", "", f"pass {number}: {rows} rows, then {rows_now}")


def _has_rows(old: RecordedLoader, new: RecordedLoader) -> bool:
    """Whether the hashed passes have equal row counts; `_of_data` reports unequal row counts.

    Also true if neither pass could be hashed, so that only row counts are known.
    """
    return (old.data and old.data.rows) == (new.data and new.data.rows)


def _reads_ahead(loader: RecordedLoader) -> bool:
    """Whether batches are counted when TensorFlow reads them rather than when they are used."""
    return loader.kind in ("make_petastorm_dataset", "make_tf_dataset", "tf_tensors")


def _of_data(
    old: RecordedLoader, again: RecordedLoader | None, new: RecordedLoader, verdict: Verdict
) -> Iterator[Difference]:
    """Compare the row counts, columns, values, row order and batch sizes of complete passes."""
    before, after = old.data, new.data
    assert before is not None, "checked by _not_comparable"
    assert after is not None, "checked by _not_comparable"
    repeated = again.data if again is not None else None
    of_columns = list(_of_columns(before, after))
    if repeated is not None and repeated.rows != before.rows:
        verdict.remarks.append("the number of rows is random: values were not compared")
        yield from of_columns
        return
    if before.rows != after.rows:
        yield Difference("rows", "", f"{before.rows} rows, then {after.rows}")
    yield from of_columns
    random = _random_columns(before, repeated)
    if random:
        names = ", ".join(random)
        verdict.remarks.append(f"random, so compared by dtype, shape and nulls only: {names}")
    if before.rows != after.rows:
        return
    values = list(_of_values(before, after, random, _is_computed(old), verdict))
    yield from values
    changed = {difference.column for difference in values} | set(random) | verdict.rounded
    verdict.no_order = _no_order(old, before, repeated)
    if any(column.ordered is None for data in (before, after) for column in data.columns.values()):
        verdict.no_order = verdict.no_order or "only one of several epochs was read"
    yield from _of_rows(before, after, changed, verdict)
    yield from _of_sizes(old, before, repeated, new, after)


def _of_sizes(
    old: RecordedLoader, before: Data, repeated: Data | None, new: RecordedLoader, after: Data
) -> Iterator[Difference]:
    """Compare the sizes of batches, or of the batches that shares asked for."""
    given, given_now = old.arguments.get("batch_size"), new.arguments.get("batch_size")
    if old.is_share:  # its last batches depend on how the library divides rows
        if None not in (given, given_now) and given != given_now:
            yield Difference("batches", "", f"batch_size {given}, then {given_now}")
        return
    sizes = before.sizes if repeated is None else repeated.sizes
    is_known = SEVERAL not in before.sizes and SEVERAL not in after.sizes
    if before.sizes == sizes != after.sizes and is_known:
        yield Difference("batches", "", f"{_sizes(before)}, then {_sizes(after)}")


def _sizes(data: Data) -> str:
    sizes = sorted(data.sizes.items(), key=lambda item: -item[1])
    return " + ".join(f"{count} of {size}" for size, count in sizes[:4]) or "no batches"


def _of_columns(old: Data, new: Data) -> Iterator[Difference]:
    """Compare the columns' names, dtypes and shapes."""
    for name in old.columns:
        if name not in new.columns:
            yield Difference("columns", name, "missing")
    for name, column in new.columns.items():
        if name not in old.columns:
            yield Difference("columns", name, f"new: {_listed(column.dtypes)}")
            continue
        other = old.columns[name]
        if column.dtypes != other.dtypes:
            detail = f"{_listed(other.dtypes)}, then {_listed(column.dtypes)}"
            yield Difference("dtype", name, detail)
        if column.shapes != other.shapes:
            detail = f"{_listed(other.shapes)}, then {_listed(column.shapes)}"
            yield Difference("shape", name, detail)


def _listed(names: Sequence[str] | frozenset[str]) -> str:
    return " and ".join(sorted(names)) or "only nulls"


def _random_columns(old: Data | None, repeated: Data | None) -> list[str]:
    if old is None or repeated is None:
        return []
    return [
        name
        for name, column in old.columns.items()
        if name in repeated.columns and repeated.columns[name].digest != column.digest
    ]


def _is_computed(loader: RecordedLoader) -> bool:
    """Whether the loader applies a user function to its values."""
    return any(loader.arguments.get(name) is not None for name in _FUNCTIONS)


def _of_values(
    old: Data, new: Data, random: Sequence[str], is_computed: bool, verdict: Verdict
) -> Iterator[Difference]:
    """Compare the values in each column, regardless of order."""
    for name, column in old.columns.items():
        other = new.columns.get(name)
        if other is None:
            continue
        if column.nulls != other.nulls:
            yield Difference("nulls", name, f"{column.nulls} nulls, then {other.nulls}")
        elif name in random or column.digest == other.digest:
            continue
        elif is_computed and _is_close(column, other):
            verdict.rounded.add(name)
            if column.is_projected and other.is_projected:
                verdict.remarks.append(
                    f"{name}: computed numbers differ by rounding; compared by sums, minimum, "
                    "maximum"
                )
            else:
                side = "this run" if column.is_projected else "the recording"
                verdict.reason = f"column {name}: {side} {_NOT_PROJECTED}"
        else:
            yield Difference("values", name, _summaries(column, other))


def _is_close(one: RecordedColumn, other: RecordedColumn) -> bool:
    """Whether the minimum, maximum and all recorded sums of floats agree up to rounding."""
    dtypes = one.dtypes | other.dtypes
    if one.numbers is None or other.numbers is None or not dtypes <= {*_FLOATS}:
        return False
    tolerance = _TOLERANCE[bool(dtypes & {"float16", "float32"})]
    least, greatest, _, magnitude, squares, *_ = one.numbers
    largest = max(abs(least), abs(greatest))
    # Relative errors of the elements change the sums of projections at most four times as much as
    # the sum of magnitudes.
    allowed = chain([largest, largest, magnitude, magnitude, squares], repeat(4 * magnitude))
    return all(
        abs(a - b) <= tolerance * scale
        for a, b, scale in zip(one.numbers, other.numbers, allowed, strict=False)
    )


def _summaries(one: RecordedColumn, other: RecordedColumn) -> str:
    """Describe the values on both sides, with as many digits as they need to look different."""
    if one.numbers is None or other.numbers is None:
        return "different values"
    if _is_close(replace(one, numbers=one.numbers[: len(UNPROJECTED)]), other):
        return "almost the same numbers, at different positions in their rows"
    for digits in (6, 12, 17):
        texts = _summary(one, one.numbers, digits), _summary(other, other.numbers, digits)
        if texts[0] != texts[1]:
            return ", then ".join(texts)
    return "different values"


def _summary(column: RecordedColumn, numbers: Sequence[float], digits: int) -> str:
    low, high, total, *_ = numbers
    units = [_TIMES.get(name, name) for name in column.dtypes]
    if any(unit.startswith(("datetime64", "timedelta64")) for unit in units):
        return f"{_time(low, units)} … {_time(high, units)}"
    if all(unit.startswith(("int", "uint", "bool")) for unit in units):
        return f"{low:.0f} … {high:.0f}, sum {total:.0f}"
    return f"{low:.{digits}g} … {high:.{digits}g}, sum {total:.{digits}g}"


def _time(number: float, units: Sequence[str]) -> str:
    """Return a time or duration, which recordings contain as a number in the unit of its dtype."""
    unit = next(unit for unit in units if "64[" in unit)
    value = np.array(int(number)).astype(unit).astype(f"{unit.partition('[')[0]}[us]")
    return str(value.item()).removesuffix(" 00:00:00")


def _of_rows(old: Data, new: Data, changed: set[str], verdict: Verdict) -> Iterator[Difference]:
    """Compare the row order and which values share a row, ignoring changed columns."""
    before, after = old.columns, new.columns
    equal = [name for name in before if name in after and name not in changed]
    moved = [name for name in equal if before[name].ordered != after[name].ordered]
    digests = _digest_of_rows(old, equal), _digest_of_rows(new, equal)
    if moved and not verdict.no_order:
        are_rows_equal = None not in digests and digests[0] == digests[1]
        # A column whose values are all equal looks unmoved, because it is the same in any order.
        if are_rows_equal or len(moved) == len(equal):
            yield Difference("order", "", "equal rows in a different order")
        else:
            yield Difference("pairing", moved[0], "equal values in different rows")
        return
    if None in digests:
        if verdict.no_order and len(equal) > 1:
            verdict.remarks.append("several columns differ, so whole rows were not compared")
    elif digests[0] != digests[1]:
        yield Difference("pairing", "", "equal columns, but different values share a row")


def _digest_of_rows(data: Data, names: Sequence[str]) -> int | None:
    """Return the digest of rows with only these columns; None if several columns are left out."""
    others = [name for name in data.columns if name not in names]
    if len(others) > 1:
        return None
    return data.columns[others[0]].rest if others else data.digest


def _no_order(loader: RecordedLoader, data: Data, repeated: Data | None) -> str:
    """Return the reason a loader's order cannot be compared; empty if it can be."""
    given = loader.arguments
    if loader.is_share:
        return "the rows come from several shares"
    if loader.kind in ("make_torch_dataloader", "make_tf_dataset"):
        return "Petastorm reads a converter's files in arbitrary order"
    if given.get("reader_pool_type") == "process":
        return "reader_pool_type='process' does not preserve order"
    shuffles = [
        given.get("shuffle_row_groups", True),
        given.get("shuffle_rows"),
        given.get("shuffle"),
        given.get("shuffling_queue_capacity"),
        (given.get("shuffle_row_drop_partitions") or 1) > 1,
    ]
    if any(shuffles):
        return "it shuffles"
    if repeated is not None and _has_other_order(data, repeated):
        return "the second run had a different order"
    return ""


def _has_other_order(one: Data, other: Data) -> bool:
    """Whether any column has the same values in both passes, but in a different order."""
    return any(
        column.digest == other.columns[name].digest
        and column.ordered != other.columns[name].ordered
        for name, column in one.columns.items()
        if name in other.columns
    )


def _examples(old: Data, new: Data) -> dict[str, list[dict[str, str]]]:
    """Return examples of rows that only one side has."""
    # Each side keeps the rows with the smallest hashes. A row that one side did not keep is missing
    # from that side if its hash is smaller than a hash that the side kept.
    rows_by_side = {}
    for side, data, other in (("before", old, new), ("after", new, old)):
        known = {each["hash"] for each in other.examples}
        missing = [
            dict(each["row"])
            for each in data.examples
            if each["hash"] not in known and each["hash"] < max(known, default="")
        ]
        if missing:
            rows_by_side[side] = missing
    return rows_by_side
