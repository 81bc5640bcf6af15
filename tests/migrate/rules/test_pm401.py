"""Requirements files."""

import time

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("petastorm\n", "mdstorm\n"),
        ("petastorm==0.12.1", "mdstorm"),
        ("Petastorm >= 0.9, < 1.0\n", "mdstorm\n"),
        ("petastorm (>=0.9)\n", "mdstorm\n"),
        ("petastorm~=0.12.*\n", "mdstorm\n"),
        (
            'petastorm[torch]==0.11.5 ; python_version >= "3.7"   # petastorm\n',
            'mdstorm[torch] ; python_version >= "3.7"   # petastorm\n',
        ),
        ("petastorm[tf_gpu, opencv]\n", "mdstorm[tf,images]\n"),
        ("petastorm[docs,test]\n", "mdstorm\n"),
        ("petastorm \\\r\n    >=0.9\r\nnumpy\r\n", "mdstorm\r\nnumpy\r\n"),
    ],
)
def test_the_requirement_is_renamed_without_its_version(before: str, after: str) -> None:
    check_rewrite(before, after, "requirements.txt")


@pytest.mark.parametrize(
    "text",
    [
        "numpy\n    # via petastorm\n",
        "hops-petastorm==1.0\n",
        "petastorm-extra\n",
        "-r petastorm.txt\n",
        "--extra-index-url https://host/petastorm/simple\n",
        "-e git+https://github.com/uber/petastorm.git#egg=petastorm\n",
        "petastorm @ git+https://host/fork@main\n",
        "./petastorm-0.12.1.whl\n",
    ],
)
def test_other_lines_stay(text: str) -> None:
    check_noop(text, "requirements.txt")


@pytest.mark.parametrize(
    "path", ["requirements-dev.in", "requirements/train.txt", "constraints.txt"]
)
def test_other_names_of_requirements_files_are_known(path: str) -> None:
    check_rewrite("petastorm==0.9\n", "mdstorm\n", path)


def test_a_text_file_of_another_name_is_none() -> None:
    with pytest.raises(ValueError, match="kind"):
        migrate("petastorm\n", path="notes.csv")


def test_a_fork_needs_manual_review() -> None:
    text = "petastorm @ git+https://host/fork@main\n"
    check_finding(text, "PM401", "petastorm @ git+https://host/fork@main", "requirements.txt")


@pytest.mark.parametrize(
    "text",
    [
        "petastorm @ git+https://github.com/uber/petastorm@v0.9.8\n",
        "git+https://github.com/uber/petastorm.git@v0.9.8\n",
    ],
)
def test_the_repository_of_petastorm_is_no_fork(text: str) -> None:
    check_noop(text, "requirements.txt")
    found = migrate(text, path="requirements.txt").findings
    assert [(one.cls, "own repository" in one.message) for one in found] == [("manual", True)]
    assert "review" not in (found[0].remedy or "")


def test_a_distribution_that_also_provides_the_package_is_reported() -> None:
    check_finding("hops-petastorm\n", "PM401", "hops-petastorm", "requirements.txt")


def test_what_petastorm_brought_along_is_said_once() -> None:
    notes = migrate("petastorm\npetastorm[tf]\n", path="requirements.txt").findings
    assert [note.cls for note in notes] == ["note"]
    assert "mdstorm[spark]" in notes[0].message


def test_it_is_not_said_where_pyspark_is_required() -> None:
    assert migrate("petastorm\npyspark>=3.5\n", path="requirements.txt").findings == ()


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("git+https://host/petastorm.git@main#egg=petastorm", None),
        ("-e ../petastorm", "../petastorm"),
        ("https://host/petastorm-0.12.1-py2.py3-none-any.whl", None),
        ("./wheels/petastorm-0.9.0.tar.gz", None),
    ],
)
def test_a_repository_or_a_file_needs_manual_review(line: str, fragment: str | None) -> None:
    check_noop(f"{line}\n", "requirements.txt")
    check_finding(f"{line}\n", "PM401", fragment or line, "requirements.txt")


def test_a_long_word_takes_no_long_time() -> None:
    began = time.perf_counter()
    migrate(f"petastorm{',' * 30_000}\n", path="requirements.txt")
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("path", ["requirements.txt", "frozen.txt"])
def test_lists_that_powershell_wrote_keep_their_encoding(encoding: str, path: str) -> None:
    text = "\ufeffnumpy==1.26.4\r\npetastorm==0.12.1\r\n"
    result = migrate(text.encode(encoding), path=path)
    assert result.changed
    assert result.output == "\ufeffnumpy==1.26.4\r\nmdstorm\r\n"


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("requirements.txt", "petastorm==0.11.4+acme\n", "PM401"),
        ("i.sh", "pip install 'petastorm[torch]==0.11.4+acme.1' -i https://pypi/simple\n", "PM406"),
        ("pyproject.toml", '[project]\ndependencies = ["petastorm==0.9+acme"]\n', "PM402"),
        ("pyproject.toml", '[tool.poetry.dependencies]\npetastorm = "0.9+acme"\n', "PM402"),
        ("setup.py", "setup(install_requires=['petastorm==0.9+acme'])\n", "PM403"),
    ],
)
def test_a_local_version_is_a_changed_copy(path: str, text: str, rule: str) -> None:
    result = check_noop(text, path)
    assert [(one.rule, one.cls) for one in result.findings] == [(rule, "manual")]


def test_options_of_formats_name_what_is_required() -> None:
    check_rewrite(
        "--no-binary petastorm\n--only-binary=numpy,petastorm\npetastorm==0.9\nnumpy\n",
        "--no-binary mdstorm\n--only-binary=numpy,mdstorm\nmdstorm\nnumpy\n",
        "requirements.txt",
    )
    check_noop("--find-links ./petastorm\n", "requirements.txt")
    check_noop("--no-binary petastorm\npetastorm @ git+https://host/fork\n", "requirements.txt")
