"""PM406: install commands in all kinds of files."""

from pathlib import Path

import pytest
from tests.kit.migrating import (
    check_held,
    check_moves,
    check_noop,
    check_rewrite,
    check_silence,
    each,
    run,
    write_files,
)

from mdstorm_migrate.run.outcome import Settings


@each(
    ("pip install petastorm", "pip install mdstorm"),
    ("pip3 install -U 'petastorm==0.12.1' a==1", "pip3 install -U 'mdstorm' a==1"),
    ("python -m pip install petastorm>=0.11", "python -m pip install mdstorm"),
    ('pip install "petastorm[torch]"', 'pip install "mdstorm[torch]"'),
    ("pip install --pre petastorm==${V} && x", "pip install --pre mdstorm && x"),
    ("pip install a \\\n  petastorm==0.9 \\\n  b", "pip install a \\\n  mdstorm \\\n  b"),
    ("uv pip install petastorm", "uv pip install mdstorm"),
    ("uv add petastorm", "uv add mdstorm"),
    ("poetry add petastorm@^0.12", "poetry add mdstorm"),
    ("pipenv install petastorm==0.9", "pipenv install mdstorm"),
    ("pip download petastorm==0.9 -d w", "pip download mdstorm -d w"),
    ("$(PIP) install petastorm", "$(PIP) install mdstorm"),
    ("${PIP:-pip3} install petastorm", "${PIP:-pip3} install mdstorm"),
    (r"v\Scripts\pip.exe install petastorm", r"v\Scripts\pip.exe install mdstorm"),
    ("uv run --with petastorm==0.12.1 a.py", "uv run --with mdstorm a.py"),
    ("uvx --with=a,petastorm,b --from c d", "uvx --with=a,mdstorm,b --from c d"),
    ("uv run --with mdstorm,petastorm a.py", "uv run --with mdstorm a.py"),
    (
        "python -m petastorm.etl.petastorm_generate_metadata a",
        "python -m mdstorm.etl.petastorm_generate_metadata a",
    ),
    (
        '"$PYTHON" -m petastorm.etl.petastorm_generate_metadata a',
        '"$PYTHON" -m mdstorm.etl.petastorm_generate_metadata a',
    ),
    (
        "${PYTHON:-python3} -c 'from petastorm import make_reader'",
        "${PYTHON:-python3} -c 'from mdstorm import make_reader'",
    ),
    (
        "$(PY) -c 'from petastorm import make_reader'",
        "$(PY) -c 'from mdstorm import make_reader'",
    ),
    (
        "python -c 'import a, petastorm as p; petastorm.reader.make_reader(\"petastorm\")'",
        "python -c 'import a, mdstorm as p; mdstorm.reader.make_reader(\"petastorm\")'",
    ),
    (
        'python -u -c "from petastorm import make_reader as r, TransformSpec" && x',
        'python -u -c "from mdstorm import make_reader as r, TransformSpec" && x',
    ),
    (
        "x && petastorm-generate-metadata.py --dataset_url a",
        "x && mdstorm-generate-metadata.py --dataset_url a",
    ),
    (
        "/v/bin/petastorm-generate-metadata.py --dataset_url a",
        "/v/bin/mdstorm-generate-metadata.py --dataset_url a",
    ),
    (
        r"v\Scripts\petastorm-generate-metadata.py --dataset_url a",
        r"v\Scripts\mdstorm-generate-metadata.py --dataset_url a",
    ),
    (
        "docker run --entrypoint python -v a:b c:1 -c 'import petastorm' && x",
        "docker run --entrypoint python -v a:b c:1 -c 'import mdstorm' && x",
    ),
    (
        "docker run --entrypoint=/usr/bin/python3 c -c 'import petastorm'",
        "docker run --entrypoint=/usr/bin/python3 c -c 'import mdstorm'",
    ),
    (
        "uv run petastorm-generate-metadata.py --dataset_url a",
        "uv run mdstorm-generate-metadata.py --dataset_url a",
    ),
    (
        "pip install a \\\n  # without --no-deps\n  petastorm",
        "pip install a \\\n  # without --no-deps\n  mdstorm",
    ),
    (
        "pip show petastorm || \\\n  pip install petastorm",
        "pip show mdstorm || \\\n  pip install mdstorm",
    ),
    (
        "pip show -q petastorm 2>&1 || pip install petastorm",
        "pip show -q mdstorm 2>&1 || pip install mdstorm",
    ),
)
def test_shell_commands_install_and_run_mdstorm(before: str, after: str) -> None:
    for path, frame in (
        ("Dockerfile", "FROM x\nRUN {}\n"),
        ("setup.sh", "set -e\n{}\n"),
        ("Makefile", "all:\n\t{}\n"),
        ("build.ps1", "cd x\n{}\n"),
        ("a.def", "# an image\nBootstrap: docker\nFrom: x\n\n%post\n    {}\n"),
    ):
        check_rewrite(frame.format(before), frame.format(after), path)


@each(
    ("run.sh", 'python -c "\nfrom {}.reader import make_reader\n" && x\n'),
    ("Dockerfile", 'FROM x\nRUN ["uv", "run", "-p", "3.10", "--with", "{}", "a.py"]\n'),
    ("Dockerfile", 'CMD ["python", "-m", "{}.etl.petastorm_generate_metadata"]\n'),
    ("ci.yml", 'run: ["uv", "run", "--with", "{}", "a.py"]\n'),
    ("ci.yml", 'command: ["python", "-u", "-c", "import {0}; {0}.make_reader"]\n'),
    ("play.yml", "runcmd:\n  - [pip, install, {}]\n"),
    ("job.json", '{{"init": "set -e\\npip install {}\\npython a.py"}}\n'),
    ("pyproject.toml", '[tool.pdm.scripts]\na = {{cmd = ["pip", "install", "{}"]}}\n'),
    ("pyproject.toml", '[tool.poe.tasks]\na = """\npip install {}\n"""\n'),
    ("job.json", '{{"command": ["python", "-m", "{}.etl.petastorm_generate_metadata"]}}\n'),
)
def test_lists_of_words_install_and_run_mdstorm(path: str, text: str) -> None:
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), path)


@each(
    "# pip install petastorm\n",
    "sh -c 'true # pip install petastorm'\n",
    'true # "x" pip install petastorm\n',
    "echo petastorm\n",
    "pip install petastorm-extra reco[petastorm] 'reco[tf,petastorm]'\n",
    'pip install -e .[dev,petastorm] && pip install "${WHEEL}[petastorm]" dist/*[petastorm]\n',
    "./petastorm-generate-metadata.py --dataset_url a\npetastorm-generate-metadata.py.bak\n",
    "pip install -r petastorm.txt\n",
    "pip install --no-binary petastorm numpy\n",
    "pip install -e petastorm --target petastorm -c petastorm\n",
    "poetry install -E petastorm --with dev,petastorm --extras 'torch petastorm'\n",
    "conda create -n petastorm python=3.10\n",
    "cd petastorm && pip install .\n",
    "uv run --with a petastorm.py && uv run --with-requirements petastorm.txt a.py\n",
)
def test_other_shell_commands_are_unchanged(text: str) -> None:
    check_noop(text, "setup.sh")


@each(
    ("petastorm-copy-dataset.py a b\n", "petastorm-copy-dataset.py"),
    ("$PY -m petastorm.tools.copy_dataset a b\n", "petastorm.tools.copy_dataset"),
    (
        "python -c 'from petastorm.reader import make_reader, ArrowReaderWorker'\n",
        "petastorm.reader",
    ),
    (
        "python -c 'from petastorm.reader import (make_reader,\n  ArrowReaderWorker)'\n",
        "petastorm.reader",
    ),
    ("python -c 'import petastorm; assert petastorm.__version__ == \"0.12\"'\n", "petastorm"),
    ("python - <<'EOF'\nfrom petastorm import make_reader\nEOF\n", "petastorm"),
)
def test_command_that_needs_petastorm_keeps_its_requirement(
    text: str, fragment: str, tmp_path: Path
) -> None:
    check_held(text, "PM406", fragment, "setup.sh")
    code = "from petastorm import make_reader\n"
    write_files(tmp_path, {"a.py": code, "run.sh": text, "requirements.txt": "petastorm\n"})
    found = {
        one.path.name: one.outcome.after.decode() for one in run(tmp_path.iterdir(), Settings())
    }
    assert found["a.py"] == "from mdstorm import make_reader\n"
    assert found["requirements.txt"].splitlines() == ["mdstorm", "petastorm"]


@each(
    "pip show -q petastorm\n",
    "pip freeze | grep '^petastorm=='\n",
    'test "$(pip3 freeze | grep -c ^petastorm)" = 1\n',
    "pip list | grep petastorm && python train.py\n",
)
def test_search_for_petastorm_needs_manual_review_unless_it_stays(
    text: str, tmp_path: Path
) -> None:
    check_held(text, "PM406", "petastorm", "setup.sh")
    write_files(tmp_path, {"a.py": "from petastorm.generator import x\n", "run.sh": text})
    paths = [tmp_path / "a.py", tmp_path / "run.sh"]
    found = run(paths, Settings())[-1].outcome.findings
    assert [one.rule for one in found] == ["PM001"]
    write_files(tmp_path, {"b.py": "from petastorm import make_reader\n"})
    found = run([*paths, tmp_path / "b.py"], Settings())[1].outcome.findings
    assert "PM406" in [one.rule for one in found]  # mdstorm is installed beside it


@each(
    "echo 'first: pip install petastorm'\n",
    'python --version || echo "pip install petastorm==0.12" >&2\n',
    "if x; then echo run petastorm-generate-metadata.py --dataset_url x; fi\n",
    'printf "%s" "python -m petastorm.etl.dataset_metadata"\n',
)
def test_message_that_goes_to_no_file_is_unchanged(text: str) -> None:
    check_silence(text, "setup.sh")


@each(
    "echo 'pip install petastorm' > go.sh\n",
    "echo pip install petastorm | bash\n",
    'echo "$(pip install petastorm)"\n',
    "echo 'now' && pip install petastorm\n",
)
def test_message_that_is_run_installs_mdstorm(text: str) -> None:
    check_moves(text, "setup.sh")


@each("pip install --no-deps {} && x", "pip install --target lib {} --no-deps")
def test_installation_without_dependencies_needs_manual_review(command: str) -> None:
    check_held(command.format("petastorm==0.12") + "\n", "PM406", "petastorm==0.12", "run.sh")


@each(
    "cp {0} /app/ && chmod +x {0}",
    "curl -O https://example.com/bin/{0} --dataset_url",
    "python {0} --dataset_url a",
    "spark-submit --master yarn {0} --dataset_url a",
    "bin/{0} --dataset_url a",
    "FILE={0}",
)
def test_file_with_the_name_of_a_script_needs_manual_review(command: str) -> None:
    script = "petastorm-generate-metadata.py"
    check_held(command.format(script) + "\n", "PM406", script, "setup.sh")


@each(
    (
        "uvx --from petastorm petastorm-generate-metadata.py --dataset_url a\n",
        "petastorm-generate-metadata.py",
    ),
    (
        "pipx run --spec petastorm petastorm-generate-metadata.py --dataset_url a\n",
        "petastorm-generate-metadata.py",
    ),
    (
        "python tools/petastorm-generate-metadata.py --dataset_url a\n",
        "petastorm-generate-metadata.py",
    ),
    ("conda install -c conda-forge petastorm\n", "petastorm"),
    ("pip install git+https://host/petastorm.git@m\n", "git+https://host/petastorm.git@m"),
    ("pip install petastorm==0.9+acme\n", "petastorm==0.9+acme"),
    ("pip install hops-petastorm\n", "hops-petastorm"),
    ("databricks libraries install --pypi-package petastorm\n", "petastorm"),
    ('curl -d \'{"libraries": [{"pypi": {"package": "petastorm"}}]}\' u\n', "petastorm"),
)
def test_conda_install_or_fork_needs_manual_review(text: str, fragment: str) -> None:
    check_held(text, "PM406", fragment, "setup.sh")


@each(
    ("Dockerfile", "ARG PACKAGE=petastorm\nRUN pip install $PACKAGE\n"),
    ("Dockerfile", 'ENV PACKAGES="torch petastorm"\nRUN pip install ${PACKAGES}\n'),
    ("Dockerfile", "ENV DEPS petastorm\nRUN pip install $DEPS\n"),
    ("a.sh", 'deps=(torch "petastorm")\npip install -U "${deps[@]}"\n'),
    ("Makefile", "DEPS = torch petastorm\nall:\n\tpip install $(DEPS)\n"),
    ("a.sh", "docker build --build-arg PACKAGE=petastorm .\n"),
)
def test_variable_that_command_installs_needs_manual_review(path: str, text: str) -> None:
    check_held(text, "PM406", "petastorm", path)


@each(
    ("Dockerfile", "ARG BACKEND=petastorm\nRUN pip install $BACKENDS\nRUN ./test $BACKEND\n"),
    ("a.sh", "E=petastorm\nconda create -n $E x && pip install --target $E -r $E/dev.txt\n"),
    ("a.sh", "NAME=petastorm\n# pip install $NAME\ndocker build --build-arg DATA=petastorm .\n"),
)
def test_other_variable_is_only_mentioned(path: str, text: str) -> None:
    check_silence(text, path)


@pytest.mark.long
def test_long_commands_are_read_in_linear_time() -> None:
    check_noop(f"pip install {'a ' * 60_000}{'x' * 60_000}petastorm_x\n", "setup.sh")
    check_rewrite(
        f"pip install {'petastorm ' * 9_000}\n", f"pip install {'mdstorm ' * 9_000}\n", "setup.sh"
    )


@each(
    (
        "ARG PETASTORM_VERSION=0.12.1\nRUN pip install petastorm==$PETASTORM_VERSION\n",
        "RUN pip install mdstorm\n",
    ),
    (
        "FROM x\r\nARG V\r\nRUN pip install petastorm==${V} torch\r\n",
        "FROM x\r\nRUN pip install mdstorm torch\r\n",
    ),
    (
        "ARG V=1\nRUN pip install petastorm==$V && echo $V\n",
        "ARG V=1\nRUN pip install mdstorm && echo $V\n",
    ),
    ("ARG V=1\nARG W\nRUN pip install petastorm\n", "ARG V=1\nARG W\nRUN pip install mdstorm\n"),
)
def test_build_argument_is_removed_with_its_last_use(before: str, after: str) -> None:
    check_rewrite(before, after, "Dockerfile")


@each(
    ("run.sh", "pip install {}\n", '"mdstorm[torch]"'),
    ("run.sh", "sh -c 'pip install {}'\n", '"mdstorm[torch]"'),
    ("run.sh", 'sh -c "pip install {}"\n', "'mdstorm[torch]'"),
    ("ci.yml", '- run: "sh -c \\"pip install {}\\""\n', "'mdstorm[torch]'"),
    ("ci.yml", "- run: \"sh -c 'pip install {}'\"\n", "mdstorm[torch]"),
    ("ci.yml", 'args: ["pip install \\"{}\\" && python job.py"]\n', "mdstorm[torch]"),
    ("ci.yml", '- run: "set -e;\n    pip install {}"\n', "'mdstorm[torch]'"),
    ("run.py", "os.system('sh -c \"pip install {}\"')\n", "mdstorm[torch]"),
)
def test_requirement_with_extra_is_quoted_as_its_place_allows(
    name: str, text: str, new: str, tmp_path: Path
) -> None:
    code = "from petastorm.pytorch import DataLoader\n"
    write_files(tmp_path, {"a.py": code, name: text.format("petastorm")})
    outcomes = run(sorted(tmp_path.iterdir()), Settings())
    assert outcomes[-1].outcome.after.decode() == text.format(new)


@each(
    ("run.sh", "uv run --with {} a.py\n", "pandas,mdstorm"),
    ("run.sh", "uv run --with x,{},y a.py\n", "pandas,mdstorm"),
    ("ci.yml", 'run: ["uv", "run", "--with", "{}", "a.py"]\n', "pandas,mdstorm"),
    ("run.sh", "pip install {}\n", "pandas mdstorm"),
)
def test_packages_that_petastorm_brought_are_listed_as_their_place_needs(
    name: str, text: str, new: str, tmp_path: Path
) -> None:
    code = "import pandas\nfrom petastorm import make_reader\n"
    write_files(tmp_path, {"a.py": code, name: text.format("petastorm")})
    outcomes = run(sorted(tmp_path.iterdir()), Settings())
    assert outcomes[-1].outcome.after.decode() == text.format(new)


@each(
    ("run.sh", 'sh -c "pip install {}  # version 0.12" && echo ok\n'),
    ("run.sh", "ssh host 'pip install {} # pinned'\n"),
    ("ci.yml", '- run: "pip install {} # pinned"\n'),
    ("ci.yml", 'command: ["sh", "-c", "pip install {} # pinned\\npython a.py"]\n'),
    ("Dockerfile", 'RUN ["sh", "-c", "pip install {} # pinned"]\n'),
    ("tox.ini", '[testenv]\ncommands =\n    sh -c "pip install {} # pinned"\n'),
    ("a.py", 'os.system("pip install {} # pinned")\n'),
)
def test_comment_within_quotation_marks_stays(name: str, text: str) -> None:
    check_rewrite(text.format("petastorm==0.12.1"), text.format("mdstorm"), name)


@each(
    ("requirements.txt", "mdstorm\n{}petastorm==0.12 ; python_version < '4'  # pinned\n{}"),
    ("environment.yml", "dependencies:\n- pip:\n  - mdstorm\n{}  - petastorm ; os_name == 'x'\n{}"),
    ("run.sh", "pip install mdstorm {}\"petastorm==0.12; python_version<'4'\" {}&& x\n"),
    ("run.sh", "pip install mdstorm {}petastorm{}; python a.py\n"),
    ("Dockerfile", "RUN pip install mdstorm {}'petastorm; python_version<\"4\"'{}\n"),
)
def test_requirement_is_removed_with_its_marker(name: str, text: str) -> None:
    before, _, after = text.split("{}")
    check_rewrite(text.format("", ""), before + after, name)
