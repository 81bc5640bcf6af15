"""PM414: entry points, and settings for other tools."""

from tests.kit.migrating import check_held, check_moves, check_noop, each

CODE = "PM414"


@each(
    ("pyproject.toml", '[project.scripts]\nx = "petastorm.utils:decode_row"\n'),
    ("pyproject.toml", '[tool.poetry.scripts]\nx = "petastorm.utils:decode_row"\n'),
    ("pyproject.toml", '[[tool.mypy.overrides]]\nmodule = ["a", "petastorm.*"]\n'),
    ("pyproject.toml", '[tool.isort]\nknown_third_party = ["petastorm", "torch"]\n'),
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


def test_entry_point_missing_in_mdstorm_needs_manual_review() -> None:
    text = '[project.scripts]\nx = "petastorm.tools.copy_dataset:main"\n'
    check_held(text, CODE, "petastorm.tools.copy_dataset:main", "pyproject.toml")


@each(
    ("setup.cfg", "[isort]\n# known_third_party = petastorm\n"),
    ("setup.cfg", "[isort]\nknown_third_party = petastorm_x\n"),
    (
        "pyproject.toml",
        '[project]\nname = "petastorm"\n[project.scripts]\nx = "ours.petastorm:f"\n',
    ),
    ("pytest.ini", "[pytest]\nmarkers = petastorm: slow\naddopts = -m 'not petastorm'\n"),
    ("pyproject.toml", '[[tool.mypy.overrides]]\nmodule = "petastorm.gone.*"\n'),
    ("pyproject.toml", '[tool.coverage.run]\nomit = ["*/petastorm/*"]\n'),
)
def test_settings_without_petastorm_modules_are_unchanged(path: str, text: str) -> None:
    check_noop(text, path)
