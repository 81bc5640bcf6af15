"""PM201 and PM202: imports of MosaicML Streaming, and requirements for it."""

from functools import partial
from pathlib import Path

from tests.kit.migrating import check_noop, check_rewrite, each, invoke, write_files

from mdstorm_backend.mosaic import mirror
from mdstorm_migrate.api import migrate
from mdstorm_migrate.cli.migrate import migrate as command
from mdstorm_migrate.mosaicml import names

rewrite = partial(check_rewrite, library="streaming")
noop = partial(check_noop, library="streaming")


def test_streaming_name_tables_match_mdstorm_backend() -> None:
    assert {one for one in mirror.MODULES if one} == names.MODULES
    assert {one for table in mirror.MODULES.values() for one in table} == names.NAMES
    assert mirror.SECTIONS == names.SECTIONS
    assert set(mirror.CLASSES) == names.FRONT_NAMES


@each(
    ("import streaming\nstreaming.MDSWriter\n", "import mdstorm_backend.streaming as streaming\n"),
    (
        "import streaming.base.util as u, os\n",
        "import mdstorm_backend.streaming.base.util as u, os\n",
    ),
    ("import streaming.base.world\n", "import mdstorm_backend.streaming as streaming\n"),
    ("from streaming import Stream as S\n", "from mdstorm_backend import Stream as S\n"),
    (
        "from streaming import MDSWriter, vision\n",
        "from mdstorm_backend.streaming import MDSWriter, vision\n",
    ),
    (
        "from streaming.base.util import (merge_index,\n  retry)  # x\n",
        "from mdstorm_backend.streaming.base.util import (merge_index,\n  retry)  # x\n",
    ),
)
def test_imports_of_mirrored_names_are_renamed(before: str, after: str) -> None:
    uses = before.partition("\n")[2] if before.startswith("import streaming\n") else ""
    rewrite(before, after + uses)


@each(
    ("from streaming.base.shared import SharedArray\n", "shared-memory-and-process-groups"),
    ("from streaming.base.format import reader_from_json\n", "readers-of-single-shards"),
    ("import streaming\nstreaming.base.util.no_such_name\n", "what-is-different"),
)
def test_missing_name_blocks_migration_and_links_to_documentation(text: str, section: str) -> None:
    result = noop(f"from streaming import Stream\n{text}")
    manual = [one.text for one in result.findings if one.cls == "manual"]
    assert len(manual) == 1
    assert manual[0].endswith(f"docs/mosaicml.md#{section}")
    assert all(one.cls == "review" for one in result.findings if one.text not in manual)


def test_import_of_missing_name_is_kept_with_unsafe_option() -> None:
    absent = "from streaming.base.shared import SharedArray\n"
    text = f"from streaming import Stream\n{absent}"
    rewrite(text, f"from mdstorm_backend import Stream\n{absent}", unsafe=True, todo=False)


def test_import_from_petastorm_is_unchanged_with_streaming_option() -> None:
    both = "from petastorm import make_reader\nfrom {} import Stream\n"
    rewrite(both.format("streaming"), both.format("mdstorm_backend"))


def test_star_import_needs_manual_review() -> None:
    (found,) = noop("from streaming import *\n").findings
    assert found.cls == "manual"


@each(
    "from streaming import client\nclient.run()\n",
    "from .streaming import MDSWriter\n",
    "from pyspark.streaming import StreamingContext\n",
    "streaming = 1\nstreaming.base\n",
)
def test_other_package_named_streaming_is_unchanged(text: str) -> None:
    assert noop(text).findings == ()


@each(
    ("requirements.txt", "mosaicml-streaming==0.8.1\n", "mdstorm[torch]\n"),
    (
        "requirements.txt",
        "mosaicml_streaming[all]>=0.7,<1 ; python_version > '3.8'\n",
        "mdstorm[torch,all] ; python_version > '3.8'\n",
    ),
    ("pyproject.toml", '[project]\ndependencies = ["{}"]\n', ""),
    ("Dockerfile", "RUN pip install mosaicml-streaming\n", 'RUN pip install "mdstorm[torch]"\n'),
    ("setup.py", "setup(install_requires=['{}'])\n", ""),
    ("environment.yml", "dependencies:\n  - pip:\n    - {}\n", ""),
    ("a.py", "run(['uv', 'pip', 'install', '{}'])\n", ""),
    ("a.py", "N = ['{}']\nsetup(install_requires=N)\n", ""),
    ("jobs.yml", 'libraries:\n  - pypi:\n      package: "{}"\n', ""),
)
def test_streaming_requirements_are_replaced_by_mdstorm(path: str, before: str, after: str) -> None:
    after = after or before.format("mdstorm[torch]")
    rewrite(before.replace("{}", "mosaicml-streaming~=0.8"), after, path)


@each(
    ("pyproject.toml", '[tool.poetry.dependencies]\nmosaicml-streaming = "^0.8"\n'),
    ("environment.yml", "dependencies:\n  - mosaicml-streaming=0.8\n"),
    ("requirements.txt", "mdstorm\nmosaicml-streaming\n"),
    ("requirements.txt", "mosaicml-streaming @ git+https://host/x\n"),
    ("requirements.txt", "conda-forge::mosaicml-streaming\n"),
    ("setup.py", "REQUIRES = ['mosaicml-streaming==' + VERSION]\n"),
    ("a.py", "NEEDS = 'mosaicml-streaming==0.8'\n"),
)
def test_streaming_requirement_that_cannot_be_edited_needs_manual_review(
    path: str, text: str
) -> None:
    assert [one.cls for one in noop(text, path).findings] == ["manual"]


@each(
    ("a.py", "print('mosaicml-streaming')\n"),
    ("a.py", "def f():\n    '''Needs 'mosaicml-streaming==0.8'.'''\n"),
    ("a.py", "def f():\n    '''pip install mosaicml-streaming'''\n"),
    ("Dockerfile", "# mosaicml-streaming\nRUN pip install git+https://h/petastorm.git\n"),
    ("pyproject.toml", '[project]\ndescription = "like mosaicml-streaming"\n'),
)
def test_name_of_streaming_that_requires_nothing_is_left(path: str, text: str) -> None:
    assert noop(text, path).findings == ()


def test_streaming_code_without_option_is_unchanged_and_gets_one_hint(tmp_path: Path) -> None:
    text = "x = 1\nfrom streaming import StreamingDataset\n"
    assert migrate(text).output == text
    write_files(tmp_path, {"a.py": text, "b.py": text, "requirements.txt": "mosaicml-streaming\n"})
    result = invoke(command, tmp_path)
    assert result.stdout == ""
    assert result.stderr.count("`mdstorm migrate --from streaming` replaces it") == 1
    assert "next: `mdstorm migrate --from streaming`" in result.stderr
    assert f"{tmp_path}/a.py:2: MosaicML Streaming" in result.stderr
    result = invoke(command, "--from", "streaming", tmp_path)
    assert "MosaicML Streaming is imported" not in result.stderr
    result = invoke(command, "--from", "streaming", "-w", tmp_path)
    assert "from mdstorm_backend import StreamingDataset\n" in (tmp_path / "a.py").read_text()
    assert (tmp_path / "requirements.txt").read_text() == "mdstorm[torch]\n"
    assert invoke(command, "--from", "streaming", "--check", tmp_path).exit_code == 0


@each(
    ({"a.py": "from streaming import *\n"}, True),
    ({"a.py": "from streaming.base.shared import SharedArray\n"}, True),
    ({"a.py": "from streaming import MDSWriter\n", "b.py": "x = (\nimport streaming\n"}, True),
    ({"a.py": "from streaming import MDSWriter\n"}, False),
    ({"a.py": "from streaming import *\n", "streaming/__init__.py": ""}, False),
    ({"a.py": 'import mdstorm\n"""\nimport streaming\n"""\n'}, False),
)
def test_requirement_stays_if_a_file_still_imports_streaming(
    files: dict[str, str], stays: bool, tmp_path: Path
) -> None:
    lists = {"requirements.txt": "mosaicml-streaming==0.8.1\n"}
    write_files(tmp_path, files | lists)
    result = invoke(command, str(tmp_path), "--from", "streaming", "-w")
    required = (tmp_path / "requirements.txt").read_text()
    assert ("mosaicml-streaming==0.8.1" in required) == stays
    is_reported = "still imports MosaicML Streaming" in result.stderr
    assert (is_reported or "mdstorm[torch]" in required) if stays else not is_reported


def test_requirement_that_stays_is_reported_again_by_second_run(tmp_path: Path) -> None:
    files = {"a.py": "from streaming import *\n", "requirements.txt": "mosaicml-streaming\n"}
    write_files(tmp_path, files)
    run = partial(invoke, command, str(tmp_path), "--from", "streaming", "-w")
    assert "also require mdstorm[torch]" in run().output
    text = (tmp_path / "requirements.txt").read_text()
    assert "require mdstorm here, once" not in run().output
    assert (tmp_path / "requirements.txt").read_text() == text
    (tmp_path / "requirements.txt").write_text("mosaicml-streaming\nmdstorm[torch]\n")
    assert "PM202" not in run().output


LISTS = {
    "requirements.txt": ("mosaicml-streaming==0.8\n", "mdstorm[torch]\nmosaicml-streaming==0.8\n"),
    "pyproject.toml": (
        '[project]\ndependencies = ["mosaicml-streaming[all]"]\n',
        '[project]\ndependencies = ["mdstorm[torch,all]", "mosaicml-streaming[all]"]\n',
    ),
    "Dockerfile": (
        "RUN pip install mosaicml-streaming\n",
        'RUN pip install "mdstorm[torch]" mosaicml-streaming\n',
    ),
    "environment.yml": (
        "dependencies:\n  - pip:\n    - mosaicml-streaming\n",
        "dependencies:\n  - pip:\n    - mdstorm[torch]\n    - mosaicml-streaming\n",
    ),
    "setup.cfg": (
        "[options]\ninstall_requires =\n    mosaicml-streaming\n",
        "[options]\ninstall_requires =\n    mosaicml-streaming\n    mdstorm[torch]\n",
    ),
}


@each(*LISTS)
def test_requirement_is_added_if_configuration_moves_and_code_stays(
    name: str, tmp_path: Path
) -> None:
    stays = "from streaming.base.shared import SharedArray\n"
    conf = "data:\n  _target_: streaming.StreamingDataset\n"
    before, after = LISTS[name]
    write_files(tmp_path, {"a.py": stays, "conf.yaml": conf, name: before})
    for _ in range(2):
        invoke(command, str(tmp_path), "--from", "streaming", "-w")
        assert (tmp_path / name).read_text() == after
    assert "mdstorm_backend.StreamingDataset" in (tmp_path / "conf.yaml").read_text()
    assert invoke(command, str(tmp_path), "--from", "streaming", "--check").exit_code == 1


def test_json_report_lists_streaming_as_migrated_library(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": "from streaming import Stream\n"})
    result = invoke(command, "--from", "streaming", "--format", "json", tmp_path)
    assert '"library": "streaming"' in result.stdout
