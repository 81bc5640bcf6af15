"""``mdstorm compare``: compare what a program reads before and after a migration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from mdstorm.errors import InvalidArgumentError
from mdstorm_migrate.compare.comparison import compare_recordings
from mdstorm_migrate.compare.recordings import Recording, read_recording
from mdstorm_migrate.compare.report import lines_of, to_json

__all__ = ["compare"]

_RECORDER = Path(__file__).with_name("recorder.py")
_DIFFERENT = 1
_COULD_NOT_COMPARE = 2
_PROGRAM = "mdstorm_migrate.compare.program"
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")


class _WithProgram(click.Command):
    """A command that treats everything after ``--`` as a program and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before ``--``."""
        own, program = args, []
        if "--" in args:
            at = args.index("--")
            own, program = args[:at], args[at + 1 :]
        elif "--recorder" not in args:
            for arg in args:
                if arg == "-m" or arg.endswith(".py"):
                    raise click.UsageError(
                        f"-- is missing before {arg}: mdstorm compare RECORDING -- train.py …", ctx
                    )
        ctx.meta[_PROGRAM] = program
        return super().parse_args(ctx, own)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add the program to the usage."""
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM …]"]


@click.command(
    cls=_WithProgram,
    epilog="""\b
Examples:
  mdstorm compare --recorder > record.py
  mdstorm compare train.recording.json -- train.py --epochs 1
  mdstorm compare before.json after.json""",
)
@click.argument("recordings", nargs=-1, metavar="RECORDING [OTHER]")
@click.option("--recorder", is_flag=True, help="Print the recorder, a Python program, and exit.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the report.",
)
@click.option(
    "--examples",
    "count",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Show up to N rows that only one side has, none by default. The recording must be made "
    "with the same option.",
)
@click.option(
    "--output",
    metavar="FILE",
    help="Recording of this run. The default is RECORDING with .mdstorm before its suffix.",
)
@click.option(
    "--no-full-pass",
    is_flag=True,
    help="Do not read a complete pass from loaders that the program reads only partially.",
)
@click.pass_context
def compare(
    ctx: click.Context,
    recordings: tuple[str, ...],
    recorder: bool,
    format_: str,
    count: int,
    output: str | None,
    no_full_pass: bool,
) -> None:
    """Compare what a program reads with an earlier recording, loader by loader.

    Record the program where Petastorm works, using the file that --recorder prints. Then pass the
    recording here, followed by -- and the program with its arguments. The program runs on mdstorm,
    even if it imports petastorm. Two recordings are compared without running anything.

    The exit code is 0 if all loaders are equal, or differ only as docs/differences.md describes, 1
    if any differ otherwise, and 2 if something could not be compared.
    """
    if recorder:
        click.echo(_RECORDER.read_text("utf-8"), nl=False)
        return
    program: list[str] = ctx.meta[_PROGRAM]
    if len(recordings) != 1 + (not program):
        raise click.UsageError(
            "pass either a recording and, after --, the program, or two recordings. To record a "
            "program: mdstorm compare --recorder > record.py"
        )
    old = read_recording(recordings[0])
    _check_ended(old)
    if program:
        options = ["--no-full-pass"] if no_full_pass else []
        path = output or _path_of_run(recordings[0])
        new = _run(old, program, path, ["--examples", str(count), *options])
    else:
        new = read_recording(recordings[1])
        _check_ended(new)
    verdicts = compare_recordings(old, new)
    if format_ == "json":
        report = to_json(verdicts, old, new)
        click.echo(json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        click.echo("\n".join(lines_of(verdicts, old, new)))
    if not all(verdict.is_documented for verdict in verdicts):
        ctx.exit(_DIFFERENT)
    ctx.exit(_COULD_NOT_COMPARE if any(verdict.reason for verdict in verdicts) else 0)


def _path_of_run(recording: str) -> str:
    return f"{recording.removesuffix('.json')}.mdstorm.json"


def _check_ended(recording: Recording, script: str = "") -> None:
    if recording.ended is not None:
        remedy = "Does it need arguments? Let it run to the end, and record it again"
        if "." in (module := _module_of(script)) and recording.ended in _IMPORT_ERRORS:
            remedy = (
                "If it imports its own package, record it, and pass it here, as a module: "
                f"-m {module}"
            )
        raise InvalidArgumentError(
            f"{recording.path}: the program ended with {recording.ended}, so the recording is "
            f"incomplete. {remedy}"
        )


def _module_of(script: str) -> str:
    """Return the module's name of a script below the working directory, or an empty string."""
    path = os.path.relpath(script) if script.endswith(".py") else os.pardir
    return "" if path.startswith(os.pardir) else path.removesuffix(".py").replace(os.sep, ".")


def _run(old: Recording, program: Sequence[str], path: str, options: Sequence[str]) -> Recording:
    """Run a program on mdstorm and return its recording."""
    target = program[1] if program[0] == "-m" and len(program) > 1 else program[0]
    if os.path.basename(target) != old.program:
        module = f", as -- -m {old.program}" if _module_of(target) == old.program else ""
        raise InvalidArgumentError(
            f"{old.path} is a recording of {old.program}, not of {target}: pass the same program"
            f"{module}"
        )
    if old.ranks > 1:
        raise InvalidArgumentError(
            f"{old.path} was recorded on {old.ranks} ranks: record the program here on the same "
            "number of ranks, for example torchrun --no-python mdstorm run record.py "
            f"{' '.join(program)}, and compare both recordings"
        )
    click.echo(
        f"running {target} on mdstorm: its output, such as checkpoints and MLflow runs, is "
        "written again",
        err=True,
    )
    before = _written(path)
    command = [sys.executable, "-m", "mdstorm", "run", str(_RECORDER), "--runs", "1"]
    command += ["--output", path, *options, *program]
    # Standard output is reserved for the report.
    code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
    if _written(path) == before:
        raise InvalidArgumentError(f"{target} ended with exit code {code}, and wrote no recording")
    new = read_recording(path)
    _check_ended(new, target)
    return new


def _written(path: str) -> tuple[int, int] | None:
    """Return what changes whenever a file is replaced; None if it does not exist."""
    if not os.path.exists(path):
        return None
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns
