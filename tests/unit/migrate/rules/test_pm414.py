"""PM414: entry points, and settings for other tools."""

from pathlib import Path

from tests.kit.migrating import check_moves, check_noop, each, run, write_files

from mdstorm_migrate.run.outcome import Settings

CODE = "PM414"


@each(
    ("pyproject.toml", '[project.scripts]\nx = "petastorm.utils:decode_row"\n'),
    ("pyproject.toml", '[tool.poetry.scripts]\nx = "petastorm.utils:decode_row"\n'),
    ("pyproject.toml", '[project]\nscripts = {x = "petastorm.utils:decode_row"}\n'),
    ("pyproject.toml", '[tool.pdm.scripts]\nx = {call = "petastorm.utils:decode_row"}\n'),
    ("pyproject.toml", '[[tool.mypy.overrides]]\nmodule = ["a", "petastorm.*"]\n'),
    ("pyproject.toml", '[tool.isort]\nknown_third_party = ["petastorm", "torch"]\n'),
    ("pyproject.toml", '[tool.ruff.isort]\nknown-third-party = ["petastorm"]\n'),
    ("ruff.toml", '[lint.isort]\nknown-third-party = ["petastorm"]\n'),
    (
        "pyproject.toml",
        '[tool.pytest.ini_options]\nfilterwarnings = ["ignore::FutureWarning:petastorm.*"]\n',
    ),
    (
        "setup.cfg",
        "[options.entry_points]\nconsole_scripts =\n    x = petastorm.utils:decode_row\n",
    ),
    ("setup.cfg", "[mypy-petastorm.*]\nignore_missing_imports = True\n"),
    ("mypy.ini", "[mypy-pyspark.*,petastorm.*]\nignore_missing_imports = True\n"),
    (".isort.cfg", "[settings]\nknown_third_party =\n    numpy\n    petastorm\n"),
    ("tox.ini", "[pytest]\nfilterwarnings =\n    ignore::FutureWarning:petastorm.*\n"),
)
def test_settings_with_module_names_are_renamed(path: str, text: str) -> None:
    check_moves(text, path)


@each(
    ("pyproject.toml", "[project.scripts]\nx = '{}'\n[project]\ndependencies = ['{}']\n"),
    (
        "pyproject.toml",
        "[tool.poe.tasks]\nx = {{script = '{}'}}\n[project]\ndependencies = ['{}']\n",
    ),
    (
        "setup.cfg",
        "[options.entry_points]\ngui_scripts =\n    x = {}\n[options]\ninstall_requires = {}\n",
    ),
    (
        "setup.py",
        "setup(entry_points=dict(gui_scripts=['x = {}']),\n    install_requires=['{}'])\n",
    ),
)
def test_entry_point_missing_in_mdstorm_keeps_petastorm(
    name: str, text: str, tmp_path: Path
) -> None:
    entry = "petastorm.tools.copy_dataset:main"
    files = {"a.py": "from petastorm import make_reader\n", name: text.format(entry, "petastorm")}
    write_files(tmp_path, files)
    for one in run(sorted(tmp_path.iterdir()), Settings(todo=False), write=True):
        found = [each.rule for each in one.outcome.findings]
    assert (CODE if name != "setup.py" else "PM001") in found
    assert (tmp_path / "a.py").read_text() == "from mdstorm import make_reader\n"
    after = (tmp_path / name).read_text()
    assert entry in after
    assert "mdstorm" in after
    assert "petastorm" in after.replace(entry, "")


@each(
    ("setup.cfg", "[isort]\n# known_third_party = petastorm\n"),
    ("setup.cfg", "[isort]\nknown_third_party = petastorm_x\n"),
    (
        "pyproject.toml",
        '[project]\nname = "petastorm"\n[project.scripts]\nx = "ours.petastorm:f"\n',
    ),
    ("pytest.ini", "[pytest]\nmarkers = petastorm: slow\naddopts = -m 'not petastorm'\n"),
    ("pyproject.toml", '[[tool.mypy.overrides]]\nmodule = "petastorm.gone.*"\n'),
    # messages that are filtered, not modules
    ("pytest.ini", "[pytest]\nfilterwarnings =\n    ignore:petastorm is slow:UserWarning\n"),
    (
        "pyproject.toml",
        "[tool.pytest.ini_options]\n"
        "filterwarnings = ['ignore::Warning:x', 'ignore:petastorm is slow']\n",
    ),
    ("pyproject.toml", '[tool.coverage.run]\nomit = ["*/petastorm/*"]\n'),
)
def test_settings_without_petastorm_modules_are_unchanged(path: str, text: str) -> None:
    check_noop(text, path)
