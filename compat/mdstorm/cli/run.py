"""``mdstorm run``: run a program that imports Petastorm, with mdstorm in its place."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import zipfile
from types import TracebackType

import click

from mdstorm._drop_in import install_as_petastorm
from mdstorm.cli import FAILED, INTERRUPTED, examples
from mdstorm_backend.mosaic import install_as_streaming

__all__ = ["run"]


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples("mdstorm run train.py --epochs 3", "mdstorm run -m trainer.main --epochs 3"),
)
@click.option("-m", "is_module", is_flag=True, help="TARGET is a module, as in python -m.")
@click.option(
    "--streaming",
    "also_streaming",
    is_flag=True,
    help="Also import mdstorm as MosaicML's streaming. Must come before TARGET.",
)
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(target: str, arguments: tuple[str, ...], is_module: bool, also_streaming: bool) -> None:
    """Run a program written for Petastorm on mdstorm, without editing it.

    Everything after TARGET is passed to the program, which runs as with `python TARGET`. The
    command exits with the program's exit code. Every `import petastorm`, even in child processes
    and Spark workers, imports mdstorm.
    """
    sys.argv = [target, *arguments]
    folder = os.getcwd() if is_module else _folder_of_script(target)
    if not getattr(sys.flags, "safe_path", False):  # new in Python 3.11
        sys.path[0] = folder  # as Python does
    install_as_petastorm()
    if also_streaming:
        install_as_streaming()
    try:
        if is_module:
            _run_module(target)
        else:
            runpy.run_path(target, run_name="__main__")
    except SystemExit:
        raise
    except BaseException as error:
        # The program's errors must not be handled like errors of this command.
        error.__traceback__ = _without_our_frames(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, ModuleNotFoundError) and error.name == "streaming":
            click.echo("to import mdstorm as streaming, put --streaming before TARGET", err=True)
        code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else FAILED
        raise SystemExit(code) from None


def _folder_of_script(path: str) -> str:
    """Return the folder that a script imports from, which for a folder or archive is itself."""
    if not os.path.exists(path):
        raise click.UsageError(f"can't open {path!r}: there is no such file")
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise click.UsageError(f"{path!r} is a directory without __main__.py: pass the program")
    real = os.path.realpath(path)
    return real if os.path.isdir(real) or zipfile.is_zipfile(real) else os.path.dirname(real)


def _run_module(name: str) -> None:
    try:
        found = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        # A parent package may be missing. Errors about any other missing module are raised.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        found = False
    if not found:
        click.echo(f"{sys.executable}: No module named {name}", err=True)
        raise SystemExit(FAILED)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drop the frames above the program, which belong to this module and runpy."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        trace = trace.tb_next
    return trace
