"""Measurements of several libraries in several rounds, compared with mdstorm's targets."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sizes import SMALLEST

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".environments"
INTERPRETERS = {
    "mdstorm": Path(sys.executable),
    "petastorm": ENVIRONMENTS / "petastorm" / "bin" / "python",
    "mosaic": ENVIRONMENTS / "mosaic" / "bin" / "python",
    "peers": ENVIRONMENTS / "peers" / "bin" / "python",
}

# Numbers in the results that are not measurements.
SETTINGS = {"rows", "batch_size", "shuffle_buffer_rows", "rows_read_per_pass"}

Figures = dict[str, float]


@dataclass(frozen=True)
class Target:
    """A target for mdstorm: the ratio of its figure to another library's, or an upper bound."""

    name: str
    ours: str
    theirs: str | None
    # The minimum ratio to the other library's figure, or the upper bound in seconds. None if there
    # is no target.
    promised: float | None


@dataclass(frozen=True)
class Outcome:
    """One target and its measurement."""

    name: str
    ours: float
    theirs: float | None
    ratio: float | None
    # A wide spread means that the machine was busy with other work, so measure again.
    ratio_by_round: list[float]
    promised: float | None
    kept: bool | None


def prepared(libraries: Iterable[str], *environments: str) -> list[str]:
    """Create environments, and return the libraries to measure: all, or mdstorm alone."""
    if SMALLEST:
        return ["mdstorm"]
    subprocess.run([HERE / "make_environments.sh", *environments], check=True)
    return list(libraries)


def measure(library: str, script: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run a script with one library's interpreter; return the JSON on its last line of output."""
    python = str(INTERPRETERS[library])
    spark = {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [python, str(HERE / script), *arguments]
    done = subprocess.run(
        command, env={**os.environ, **spark, **environment}, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stderr[-4000:]}\nMeasuring {library} failed; see above.")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(
    rounds: list[dict[str, dict[str, Any]]],
    targets: Iterable[Target],
    output: Path,
    **settings: object,
) -> bool:
    """Print and save the medians over all `rounds`, each of which maps libraries to results.

    Returns whether every target was met. Targets of libraries without results are left out.
    """
    by_round = flat_rounds(rounds)
    figures = medians(by_round)
    outcomes = [
        judge(target, figures, by_round)
        for target in targets
        if target.theirs is None or target.theirs.partition(".")[0] in rounds[0]
    ]
    machine = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    results = {
        "machine": machine,
        **settings,
        "medians": figures,
        "targets": [asdict(outcome) for outcome in outcomes],
        "rounds": rounds,
    }
    output.write_text(json.dumps(results, indent=2) + "\n")
    show(outcomes, figures)
    return all(outcome.kept is not False for outcome in outcomes)


def flatten(prefix: str, value: Any) -> Figures:
    """Return all numbers, keyed by dotted name; a reading speed is reduced to its median."""
    if isinstance(value, dict):
        if "rows_per_s" in value:
            return {prefix: value["rows_per_s"]}
        return {
            name: figure
            for key, inner in value.items()
            for name, figure in flatten(f"{prefix}.{key}", inner).items()
        }
    return {prefix: float(value)} if isinstance(value, int | float) else {}


def flat_rounds(rounds: list[dict[str, dict[str, Any]]]) -> list[Figures]:
    """Return all libraries' figures for each round, keyed by dotted name."""
    return [
        {k: v for library, r in one.items() for k, v in flatten(library, r).items()}
        for one in rounds
    ]


def medians(rounds: list[Figures]) -> Figures:
    """Return the median of each figure over the rounds."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def judge(target: Target, figures: Figures, rounds: list[Figures]) -> Outcome:
    """Compare the medians for one target, and also each round to show the spread."""
    ours = figures[target.ours]
    if target.theirs is None:
        assert target.promised is not None
        within = ours < target.promised
        return Outcome(target.name, ours, None, None, [], target.promised, within)
    ratio = times_better(target.ours, target.theirs, figures)
    by_round = [times_better(target.ours, target.theirs, one) for one in rounds]
    kept = None if target.promised is None else ratio >= target.promised
    theirs = figures[target.theirs]
    return Outcome(target.name, ours, theirs, ratio, by_round, target.promised, kept)


def times_better(ours: str, theirs: str, figures: Figures) -> float:
    """Return the ratio of two speeds or times, where a larger ratio is better for mdstorm."""
    seconds = ours.endswith("_s") and not ours.endswith("rows_per_s")
    return figures[theirs] / figures[ours] if seconds else figures[ours] / figures[theirs]


def show(outcomes: list[Outcome], figures: Figures) -> None:
    """Print the figures of each library, then the targets."""
    # When the output is a file or a log, make lines wide enough for the names.
    console = Console(width=None if sys.stdout.isatty() else 140)
    measured = Table("figure", "median", title="Measured (seconds, rows/s, MiB)")
    for name, figure in figures.items():
        if name.rpartition(".")[2] in SETTINGS:
            continue
        measured.add_row(name, _number(figure), style="dim" if "memory" in name else "")
    console.print(measured)

    compared = Table("", "mdstorm", "other", "ratio", "by round", "target", "", title="Compared")
    verdict: dict[bool | None, str] = {True: "[green]kept[/]", False: "[red]missed[/]", None: ""}
    for outcome in outcomes:
        bound = outcome.theirs is None
        sign = "< " if bound else ">= "
        compared.add_row(
            escape(outcome.name),
            _number(outcome.ours),
            "" if outcome.theirs is None else _number(outcome.theirs),
            "" if outcome.ratio is None else f"{outcome.ratio:,.1f}",
            " ".join(f"{ratio:,.1f}" for ratio in outcome.ratio_by_round),
            "" if outcome.promised is None else f"{sign}{outcome.promised:g}",
            verdict[outcome.kept],
        )
    console.print(compared)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3f}"
