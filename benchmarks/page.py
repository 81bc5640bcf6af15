"""Write the figures from the last runs to `docs/benchmarks.md`, and draw them.

    python benchmarks/page.py

Reads `results.json`, `results_samples.json`, `results_peers.json` and `results_limits.json`.
`docs/images/benchmarks.svg` shows the ratios to other libraries. It is drawn without a library, so
that the file stays small and adapts to light and dark pages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
PAGE = DOCS / "benchmarks.md"
IMAGE = DOCS / "images" / "benchmarks.svg"

# Width of the image and sizes of its parts, in pixels.
WIDTH, VALUES, ROW, BAR = 1000, 70, 34, 13
#: The scale is logarithmic, and its limits lie beyond the largest loss and the largest gain.
_LEAST, _MOST = 0.3, 3_000
_DECADE = (WIDTH - VALUES) / math.log10(_MOST / _LEAST)

#: Names of rows in the results that need context, and their names on the page.
_NAMES = {
    "the same over ten epochs": "torch in order over ten epochs, against BatchedDataLoader",
    "the same epoch again, from the cache": "one epoch from S3 again, now from the cache",
    "torch in order after tf.data in the same process, against without": (
        "torch in order, in a process that has used tf.data, against torch alone"
    ),
    "torch shuffled after tf.data in the same process, against without": (
        "torch shuffled, in a process that has used tf.data, against torch alone"
    ),
    "dataset[i] of 3 KB bytes": "dataset[i], samples of 3 KB one at a time",
    "dataset[i] of 26 numbers": "dataset[i], rows of 26 numbers one at a time",
}

_SIGN = "\N{MULTIPLICATION SIGN}"
_DASH = "\N{EN DASH}"
_MICRO = "\N{MICRO SIGN}"
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.scale { fill: #6e7781; font-size: 11px }
line { stroke: #d0d7de }
rect { fill: #0969da }
.slower { fill: #bc4c00 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .scale { fill: #8d96a0 }
  line { stroke: #30363d }
  rect { fill: #4493f8 }
  .slower { fill: #f0883e }
}"""

_HEAD = """\
# Benchmarks

`make benchmark` measures each library in its own process and environment, in several rounds. These
figures are medians over the rounds of its last run.

{machine}
Other machines give other ratios. In an earlier run, with memory and processors up to twice as
fast, mdstorm was 9.5 times as fast as `BatchedDataLoader` when shuffled, and 2.6 times as fast as
MosaicML Streaming for JPEG images that Pillow decodes.

![How many times faster mdstorm is](images/benchmarks.svg)
"""

_TABLES = """\

## A table, against Petastorm and MosaicML Streaming

500,000 rows of 26 numeric columns, in batches of 1,024 rows; writes in a warm Spark session.

{table}

## Samples, against MosaicML Streaming

Both libraries read the same files. mdstorm's loaders have no worker processes. MosaicML Streaming's
run with none and with two, and the better figure counts; images are decoded in two of them, and in
two threads in mdstorm.

{samples}

## Against libraries with other formats

Rows per second of CPU time, summed over all threads and processes. The best figure in each row is
bold. {behind} All libraries read the same rows from local files, without PyTorch worker processes,
and decode images with the decoder given in the row; mdstorm decodes in as many threads as there are
cores, which takes more CPU time than one thread. At the end of this run, the machine's 15-minute
load average was {load:.1f}, including the run itself: small differences are noise.
`python benchmarks/run_peers.py` repeats only this table.

{peers}

Each library is used as its documentation recommends, in the fastest way that we found:

{settings}

## Against the frameworks alone

Rows per second of CPU time, summed over all threads, and beside it the share of the limit, which is
in the same table: {rows:,} rows of numbers in one shard, read in one process. The limits are bare
loops, as a user would write them over the records of the shard, which they map. TensorFlow's is
over data in memory. They do not resume or check anything. The tables show medians of {rounds}
rounds. At the end of the run, the 15-minute load average was {limits_load:.1f}: small
differences are noise. `python benchmarks/measure_limits.py` repeats only these tables.
{limits}
What bounds mdstorm, as far as it was measured:

{bounds}
"""

#: What was measured to bound mdstorm.
_BOUNDS = {
    "in order": "mdstorm and the loop split records by the same copies of NumPy, 27 ns for one "
    "with 26 float32 columns. A pass also opens the dataset, in 4 ms of CPU time. Threads that "
    "read ahead take 12 to 50 % more CPU time than none: time of the kernel, for pages of the "
    "shard, which they do not take if the process has only one core.",
    "a matrix of mixed types": "Values are split into columns before they are converted.",
    "tf.data, large batches": "TensorFlow prepares its functions again for each pass, which takes "
    "60 to 70 ms of CPU time for 26 columns.",
    "tf.data, small batches": f"TensorFlow takes about 4 {_MICRO}s for each tensor of a batch.",
    "The first batch of a process": "Three quarters of its CPU time is `import torch`.",
    "The first batch from S3": "With two worker processes, half of the time after `import torch` "
    "is spent importing s3fs and what it needs.",
    "JPEG images": "The decoder. In one process, by turns, a loop that only decodes with Pillow "
    f"took 290 to 430 {_MICRO}s of CPU time for each, in two threads 345 to 390, and mdstorm's "
    "loader 335 to 400. Two threads take 0.6 of the time of one.",
    "PNG files as OpenCV writes them": "About two thirds of the time for photos is decompression "
    "by Python's zlib, so they cannot be decoded more than about 1.4 times as fast as by OpenCV, "
    "which has a faster one.",
}


@dataclass(frozen=True)
class Comparison:
    """One of mdstorm's figures and another library's, in the units used in the results."""

    name: str
    ours: float
    theirs: float
    ratio: float
    seconds: bool

    @classmethod
    def of(cls, outcome: dict[str, Any]) -> Comparison:
        """Read the comparison from the results."""
        ours, theirs, ratio = (float(outcome[key]) for key in ("ours", "theirs", "ratio"))
        # The ratio is above 1 if mdstorm is better: fewer seconds, or more rows per second.
        name = _NAMES.get(outcome["name"], outcome["name"])
        return cls(name, ours, theirs, ratio, seconds=(ours < theirs) == (ratio > 1))


def comparisons(name: str) -> list[Comparison]:
    """Return the last run's comparisons with other libraries, reading first and then writing."""
    outcomes = _results(name)["targets"]
    found = [Comparison.of(outcome) for outcome in outcomes if outcome["theirs"] is not None]
    return sorted(found, key=lambda one: one.name.startswith("write"))


def page() -> str:
    """Return the page's text."""
    machine = _results("results.json")["machine"]
    sentence = (
        f"The machine: {machine['cpus']} cores ({machine['machine']}, {machine['system']}), "
        f"Python {machine['python']}."
    )
    peers, limits = _results("results_peers.json"), _results("results_limits.json")
    return _HEAD.format(machine=sentence) + _TABLES.format(
        table=_table(comparisons("results.json")),
        samples=_table(comparisons("results_samples.json")),
        peers=_peers_table(peers),
        behind=_behind(peers),
        load=peers["load"],
        settings=_settings(peers),
        rows=limits["rows"],
        rounds=limits["rounds"],
        limits_load=limits["load"],
        limits="".join(_limits_tables(limits)),
        bounds="\n".join(f"- **{name}**: {bound}" for name, bound in _BOUNDS.items()),
    )


def image() -> str:
    """Return the drawing, with a bar for each comparison on a logarithmic scale."""
    lines: list[str] = []
    top = 0
    for title, name in (
        ("A table of 26 numeric columns: times faster, slower left of 1", "results.json"),
        (
            "Samples, against MosaicML Streaming: times faster, slower left of 1",
            "results_samples.json",
        ),
        (
            "Libraries with other formats: times as many rows per CPU-second, or faster",
            "results_peers.json",
        ),
    ):
        compared = comparisons(name)
        lines += _chart(title, compared, top)
        top += (len(compared) + 2) * ROW + 8
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">\n'
        f"<title>How many times faster mdstorm is</title>\n"
        f"<style>\n{_STYLE}\n</style>\n{body}\n</svg>\n"
    )


def _results(name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((HERE / name).read_text("utf-8"))
    return results


def _table(compared: list[Comparison]) -> str:
    rows = [
        f"| {one.name} | {_figure(one.ours, one.seconds)} | {_figure(one.theirs, one.seconds)} "
        f"| {_times(one.ratio)} |"
        for one in compared
    ]
    return "\n".join(["| | mdstorm | the other | times faster |", "|---|--:|--:|--:|", *rows])


def _peers_table(results: dict[str, Any]) -> str:
    """Return a table with a row for each task and a column for each library."""
    libraries = results["rounds"][0]
    names = [found["name"] for found in libraries.values()]
    rows = []
    for task, title in results["tasks"].items():
        seconds = task.endswith("_s")
        figures = [results["medians"].get(f"{library}.{task}", 0.0) for library in libraries]
        cells = [_figure(figure, seconds) if figure else _DASH for figure in figures]
        best = figures.index((min if seconds else max)(filter(None, figures)))
        cells[best] = f"**{cells[best]}**"
        rows.append([title, *cells])
    head = [["", *names], ["---", *["--:"] * len(names)]]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*head, *rows])


def _limits_tables(results: dict[str, Any]) -> Iterator[str]:
    """Yield a table for each bare loop, with the loaders that are compared with it."""
    for limit, loaders in results["compared"].items():
        rows = [["columns", "rows per batch", limit, *loaders], ["---", *["--:"] * len(loaders)]]
        rows[1] += ["--:"] * 2
        for table, sizes in results["limits"].items():
            for size, found in sizes.items():
                speeds = {name: one["rows_per_cpu_s"] for name, one in found.items()}
                shares = [
                    f"{_figure(speeds[name], False)}, {speeds[name] / speeds[limit]:.2f}"
                    for name in loaders
                ]
                rows.append([table, f"{int(size):,}", _figure(speeds[limit], False), *shares])
        yield "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _behind(results: dict[str, Any]) -> str:
    """Return a sentence on how many of the comparisons other libraries win."""
    ratios = [outcome["ratio"] for outcome in results["targets"]]
    lost = sum(ratio < 1 for ratio in ratios)
    return f"In {lost} of {len(ratios)} comparisons, the other library is ahead of mdstorm."


def _settings(results: dict[str, Any]) -> str:
    return "\n".join(
        f"- **{found['name']} {found['version']}**: {found['setting']}"
        for found in results["rounds"][0].values()
    )


def _figure(value: float, seconds: bool) -> str:
    if seconds:
        return f"{value:.2f} s" if value >= 1 else f"{value * 1_000:.0f} ms"
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}/s"
    return f"{value:.3g}/s"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} {_SIGN}" if ratio >= 10 else f"{ratio:.1f} {_SIGN}"


def _chart(title: str, compared: list[Comparison], top: int) -> list[str]:
    height = (len(compared) + 2) * ROW
    lines = [f'<text class="title" x="0" y="{top + 16}">{title}</text>']
    for decade in (1, 10, 100, 1_000):
        x = _x(decade)
        lines.append(
            f'<line x1="{x}" x2="{x}" y1="{top + ROW}" y2="{top + height - 22}"/>'
            f'<text class="scale" x="{x}" y="{top + height - 6}" text-anchor="middle">'
            f"{decade:,}</text>"
        )
    for row, one in enumerate(compared, 1):
        y = top + row * ROW
        left, right = sorted((_x(1), _x(one.ratio)))
        kind = ' class="slower"' if one.ratio < 1 else ""
        lines.append(
            # Above the bar, so that a narrow screen shows both.
            f'<text x="0" y="{y + 11}">{_label(one.name)}</text>'
            f'<rect{kind} x="{left}" y="{y + 16}" width="{right - left}" height="{BAR}" rx="2"/>'
            f'<text x="{right + 6}" y="{y + 27}">{_times(one.ratio)}</text>'
        )
    return lines


def _x(ratio: float) -> int:
    return round(math.log10(max(ratio, _LEAST) / _LEAST) * _DECADE)


def _label(name: str) -> str:
    """Shorten a long name for the drawing; the tables contain the full name."""
    for words in (" over the epoch", " with 100,000 rows", "sequences of "):
        name = name.replace(words, "")
    return name


if __name__ == "__main__":
    IMAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8", newline="\n")
    IMAGE.write_text(image(), "utf-8", newline="\n")
