"""The version of `mdstorm`, and the help and options of all its subcommands."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from tests.edge.cli.conftest import run

import mdstorm
from mdstorm.cli import main


def commands() -> list[str]:
    return main.list_commands(click.Context(main))


def test_version_is_shown_and_help_lists_every_command() -> None:
    assert run("--version").output == f"mdstorm, version {mdstorm.__version__}\n"
    for option in ("-h", "--help"):
        result = run(option)
        assert result.exit_code == 0
        assert all(name in result.output for name in ("Usage:", *commands()))


def test_help_does_not_import_heavy_modules() -> None:
    program = """
import sys
from mdstorm.cli import main
main(['--help'], standalone_mode=False)
assert not {'mdstorm_backend.datasets.dataset', 'numpy', 'pyarrow', 'rich'} & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_manual_names_every_command_in_its_table() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "commands.md").read_text("utf-8")
    named = re.findall(r"^\| `mdstorm (\w+)", manual, re.M)
    assert sorted(set(named)) == commands()


class Bare:
    """A standard output that only has what ``print`` needs."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def getvalue(self) -> str:
        return self.text


class Writer(Bare):
    """A standard output as logging tools make it, which is not a file."""

    def flush(self) -> None:
        pass


#: What programs put in the place of ``sys.stdout``.
#: The lowest click fails itself without a stdout.
WITHOUT = pytest.param(lambda: None, marks=pytest.mark.newest, id="None")
with_each_stdout = pytest.mark.parametrize("stdout", [StringIO, Bare, Writer, WITHOUT])


@pytest.mark.matrix
@with_each_stdout
@pytest.mark.parametrize("options", [(), ("--format", "json")], ids=["text", "json"])
@pytest.mark.parametrize("command", ["inspect", "head", "verify", "audit", "migrate"])
def test_command_writes_to_a_replaced_stdout(
    command: str,
    options: tuple[str, ...],
    stdout: Callable[[], Any],
    dataset: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "a.py").write_text("from petastorm import make_reader\n")
    is_of_code = command in ("audit", "migrate")
    words = [command, str(tmp_path / "a.py" if is_of_code else dataset), *options]
    expected = run(*words).stdout
    assert expected
    monkeypatch.setattr("sys.stdout", made := stdout())
    with suppress(click.exceptions.Exit):
        main(words, standalone_mode=False)
    assert made is None or made.getvalue() == expected


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("mdstorm ins", ["inspect"]),
        ("mdstorm convert --keep", ["--keep-row-groups"]),
        ("mdstorm inspect --format j", ["json"]),
    ],
)
def test_shell_completion_lists_commands_options_and_values(
    line: str, completions: list[str]
) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    result = run(prog_name="mdstorm", env={"_MDSTORM_COMPLETE": "bash_complete", **words})
    assert result.output.split() == [f"plain,{completion}" for completion in completions]


def test_storage_option_values_are_parsed_as_json_or_text(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, object] = {}

    def opened(url: str, *, storage_options: dict[str, object], **_: object) -> None:
        found.update(storage_options)
        raise mdstorm.errors.NoDataAvailableError("enough")

    monkeypatch.setattr("mdstorm._datasets.open_dataset", opened)
    options = ['client_kwargs={"port": 1}', "anon=true", "profile=me=you", 'key="12"', "empty="]
    flags = [flag for option in options for flag in ("--storage-option", option)]
    run("inspect", "s3://bucket/x", *flags)
    text = {"profile": "me=you", "key": "12", "empty": ""}
    assert found == {"client_kwargs": {"port": 1}, "anon": True, **text}


def test_index_file_url_is_accepted_as_dataset_url(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run("inspect", dataset).stdout
    assert "text" in expected
    monkeypatch.chdir(dataset)
    for url in (dataset / "index.json", (dataset / "index.json").as_uri(), "index.json"):
        assert run("inspect", url).stdout == expected


def all_commands() -> dict[str, click.Command]:
    """Return all commands, keyed by their full names, such as ``cache ls``."""
    context = click.Context(main)
    found: dict[str, click.Command] = {"": main}
    for name in commands():
        command = main.get_command(context, name)
        assert command is not None
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
    return found


def example_lines(command: click.Command) -> list[list[str]]:
    """Return the arguments of each example in a command's help."""
    lines = (command.epilog or "").splitlines()
    assert lines[:2] == ["\b", "Examples:"]
    return [shlex.split(line)[1:] for line in lines[2:]]


@pytest.mark.parametrize("name", all_commands())
def test_examples_in_the_help_of_every_command_are_valid(name: str) -> None:
    command = all_commands()[name]
    examples = example_lines(command)
    assert examples
    for typed in examples:
        assert typed[: len(name.split())] == name.split()
        if {"--help", "--explain"}.intersection(typed):
            assert run(*typed).exit_code == 0
            continue
        prefix = max((n for n in all_commands() if typed[: len(n.split())] == n.split()), key=len)
        arguments = ["." if one == "src" else one for one in typed[len(prefix.split()) :]]
        all_commands()[prefix].make_context(prefix, arguments)  # parses arguments, but runs nothing
    assert command.help
    shown = run(*name.split(), "--help").output
    assert shown.startswith(f"Usage: main {name}")
    assert "Examples:" in shown


@pytest.mark.matrix
@with_each_stdout
@pytest.mark.parametrize("name", all_commands())
def test_help_is_written_to_a_replaced_stdout(
    name: str, stdout: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*name.split(), "--help"]
    expected = run(*words).stdout
    monkeypatch.setattr("sys.stdout", made := stdout())
    main(words, prog_name="main", terminal_width=80, standalone_mode=False)
    assert made is None or made.getvalue() == expected


@pytest.mark.matrix
@pytest.mark.parametrize("stdout", [Bare, WITHOUT])
@pytest.mark.parametrize("name", all_commands())
def test_every_command_answers_under_a_replaced_stdout(
    name: str,
    stdout: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Each required argument is a path at which there is nothing."""
    required = [one for one in all_commands()[name].params if one.required]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.stdout", made := stdout())
    with pytest.raises(SystemExit) as exit_:
        main([*name.split(), *[str(tmp_path / "nothing")] * len(required)])
    assert exit_.value.code in range(4)
    said = capfd.readouterr().err + ("" if made is None else made.getvalue())
    assert "Traceback" not in said
    assert said or made is None


#: Options that have no default and whose metavar describes the required value.
_ASK_FOR_MORE = {"against", "reports", "directory"}


@pytest.mark.parametrize("name", all_commands())
def test_every_option_shows_its_default(name: str) -> None:
    for option in all_commands()[name].params:
        if not isinstance(option, click.Option) or option.name in _ASK_FOR_MORE:
            continue
        if (option.is_flag and not option.secondary_opts) or option.is_eager:
            continue
        assert option.show_default or "default" in (option.help or ""), option.opts
