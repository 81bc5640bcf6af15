"""Install commands."""

import json

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "RUN pip install --no-deps petastorm==0.12.1 numpy && echo petastorm\n",
            "RUN pip install --no-deps mdstorm numpy && echo petastorm\n",
        ),
        (
            'RUN python -m pip install \\\n    pandas \\\n    "petastorm[torch]==0.11.5"\n',
            'RUN python -m pip install \\\n    pandas \\\n    "mdstorm[torch]"\n',
        ),
        ("RUN pip3 install petastorm>=0.12.1\n", "RUN pip3 install mdstorm\n"),
        ("RUN uv pip install petastorm\n", "RUN uv pip install mdstorm\n"),
        ("RUN pip -q install petastorm | tail\n", "RUN pip -q install mdstorm | tail\n"),
        ("RUN pip install petastorm==${VERSION} x\n", "RUN pip install mdstorm x\n"),
        ('RUN pip install "petastorm==$V"\n', 'RUN pip install "mdstorm"\n'),
        (
            "RUN pip install \\\n  # petastorm is old\n  petastorm && b\n",
            "RUN pip install \\\n  # petastorm is old\n  mdstorm && b\n",
        ),
        ("RUN a; pip install -U 'petastorm>=0.9,<1'; b\n", "RUN a; pip install -U 'mdstorm'; b\n"),
    ],
)
def test_what_pip_installs_is_renamed(before: str, after: str) -> None:
    check_rewrite(before, after, "Dockerfile")


@pytest.mark.parametrize(
    "text",
    [
        "RUN pip uninstall -y petastorm\n",
        "RUN pip install -r petastorm.txt ./petastorm\n",
        "# pip install petastorm\n",
        "RUN git clone https://github.com/uber/petastorm.git\n",
        "RUN conda install petastorm\n",
    ],
)
def test_other_commands_stay(text: str) -> None:
    check_noop(text, "train.dockerfile")


def test_scripts_are_rewritten_as_well() -> None:
    check_rewrite("pip install petastorm\n", "pip install mdstorm\n", "setup.sh")


def test_a_clone_of_the_repository_needs_manual_review() -> None:
    url = "https://github.com/uber/petastorm.git"
    check_finding(f"RUN git clone {url}\n", "PM406", url, "Dockerfile")


def test_conda_needs_manual_review() -> None:
    check_finding("RUN conda install -y petastorm\n", "PM406", "petastorm", "Dockerfile")


@pytest.mark.parametrize(
    ("command", "fragment"),
    [
        ('python -c "import petastorm; print(1)"', "import petastorm"),
        ("python -m petastorm.generator", "-m petastorm.generator"),
        ("python petastorm-copy-dataset.py a b", "petastorm-copy-dataset.py"),
        ("spark-submit $(which petastorm-copy-dataset.py) a b", "petastorm-copy-dataset.py"),
    ],
)
def test_a_command_that_runs_petastorm_needs_manual_review(command: str, fragment: str) -> None:
    check_finding(f"RUN {command}\n", "PM406", fragment, "Dockerfile")
    check_finding(f"a:\n  script:\n    - {command}\n", "PM409", fragment, ".gitlab-ci.yml")
    check_finding(f"[testenv]\ncommands = {command}\n", "PM403", fragment, "tox.ini")


@pytest.mark.parametrize(
    ("module", "script"),
    [
        ("tools.copy_dataset", "petastorm-copy-dataset.py"),
        ("etl.petastorm_generate_metadata", "petastorm-generate-metadata.py"),
        ("benchmark.cli", "petastorm-throughput.py"),
    ],
)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Dockerfile", "RUN cd /app && {} file:///a\n"),
        ("Makefile", "copy:\n\t@{} file:///a\n"),
        ("copy.sh", "set -e\n{} file:///a\n"),
        ("tox.ini", "[testenv]\ncommands = {} file:///a\n"),
        ("tox.ini", "[testenv]\ncommands =\n    {} file:///a\n"),
        ("pyproject.toml", '[tool.poe.tasks]\ncopy = "{} file:///a"\n'),
        (".gitlab-ci.yml", "a:\n  script:\n    - {} file:///a\n"),
        ("ci.yaml", "    steps:\n      - run: {} file:///a\n"),
        ("justfile", "copy:\n    {} file:///a\n"),
    ],
)
def test_programs_of_petastorm_are_those_of_mdstorm(
    module: str, script: str, path: str, text: str
) -> None:
    new = text.format(f"python -m mdstorm.{module}")
    check_rewrite(text.format(f"python -m petastorm.{module}"), new, path)
    check_rewrite(text.format(script), new, path, unsafe=True)


@pytest.mark.parametrize(
    ("folder", "path", "text"),
    [
        ("$(VENV)/bin/", "Makefile", "a:\n\t@{} file:///a\n"),
        ("/opt/venv/bin/", "Dockerfile", "RUN pip install -q numpy && {} file:///a\n"),
        ('"$VENV"/bin/', "a.sh", "if ! {} file:///a; then exit 1; fi\n"),
        ("${V:-v}/bin/", "a.sh", "{} \\\n  file:///a\n"),
        ("v/bin/", "ci.yml", "steps:\n- run: {} file:///a\n"),
    ],
)
def test_scripts_called_by_a_path_are_run_by_the_python_beside_them(
    folder: str, path: str, text: str
) -> None:
    before = text.format(f"{folder}petastorm-throughput.py")
    check_noop(before, path)
    after = text.format(f"{folder}python -m mdstorm.benchmark.cli")
    check_rewrite(before, after, path, unsafe=True)


@pytest.mark.parametrize(
    "command",
    [
        "$BIN/{} x",
        "/usr/bin/{} x",
        "~/.local/bin/{} x",
        '"$VENV/bin/{}" x',
        "srun v/bin/{} x",
        "v/bin/{}",
    ],
)
def test_scripts_whose_python_is_unknown_need_manual_review(command: str) -> None:
    name = "petastorm-copy-dataset.py"
    check_noop(f"{command.format(name)}\n", "a.sh", unsafe=True)
    check_finding(f"{command.format(name)}\n", "PM406", name, "a.sh")


@pytest.mark.parametrize("command", ["tools/petastorm-throughput.py x", "v/bin/petastorm-own.py x"])
def test_scripts_of_ones_own_by_a_path_stay(command: str) -> None:
    check_silence(f"{command}\n", "a.sh")


def test_programs_in_notebooks_and_lists_of_words() -> None:
    check_rewrite(
        '["python3", "-m", "petastorm.tools.copy_dataset", "a"]\n'.join(["CMD ", ""]),
        '["python3", "-m", "mdstorm.tools.copy_dataset", "a"]\n'.join(["CMD ", ""]),
        "Dockerfile",
    )
    head = "# Databricks notebook source\n# MAGIC %sh "
    check_rewrite(
        f"{head}python -m petastorm.etl.metadata_util --schema\n",
        f"{head}python -m mdstorm.etl.metadata_util --schema\n",
        "notebook.py",
    )
    check_noop("we import petastorm here, from petastorm to mdstorm\n", "NOTES")


def test_a_command_may_be_a_list_of_strings() -> None:
    check_rewrite(
        'RUN ["python", "-m", "pip", "install", "-q", "petastorm[torch]==0.12.1", "numpy"]\n',
        'RUN ["python", "-m", "pip", "install", "-q", "mdstorm[torch]", "numpy"]\n',
        "Dockerfile",
    )
    check_finding('RUN ["conda", "install", "petastorm"]\n', "PM406", "petastorm", "Dockerfile")


@pytest.mark.parametrize(
    ("text", "fragment", "path"),
    [
        ("ENV P=petastorm==0.12.1\n", "petastorm==0.12.1", "Dockerfile"),
        ('ARG A=1 \\\n    P="numpy petastorm[torch]"\n', "petastorm[torch]", "Dockerfile"),
        ("ENV P petastorm\nRUN pip install ${P}\n", "petastorm", "Dockerfile"),
        ('P="petastorm>=0.9 numpy"\npip install $P\n', "petastorm>=0.9", "setup.sh"),
        ("P=(\n  numpy\n  'petastorm==0.9'\n)\n", "petastorm==0.9", "setup.sh"),
        ("P := numpy petastorm\nall:\n\tpip install $(P)\n", "petastorm", "Makefile"),
    ],
)
def test_a_requirement_in_a_variable_needs_manual_review(
    text: str, fragment: str, path: str
) -> None:
    check_noop(text, path)
    check_finding(text, "PM406", fragment, path)


@pytest.mark.parametrize(
    "text",
    [
        "ENV NAME=petastorm\nRUN echo $NAME && pip install x\n",
        "# ENV P=petastorm==0.12\n",
        "ENV P=/petastorm IMAGE=petastorm:0.12\n",
    ],
)
def test_other_variables_say_nothing(text: str) -> None:
    check_silence(text, "Dockerfile")


def test_commands_of_a_script_move_together() -> None:
    command = "python -m petastorm.tools.copy_dataset a b\n"
    check_rewrite(command, command.replace("petastorm", "mdstorm"), "a.sh")
    both = f"petastorm-generate-metadata.py a\n{command}"
    check_noop(both, "a.sh")
    module = "mdstorm.etl.petastorm_generate_metadata"
    after = both.replace("petastorm-generate-metadata.py", f"python -m {module}")
    check_rewrite(both, after.replace("petastorm.tools", "mdstorm.tools"), "a.sh", unsafe=True)


def test_a_file_of_petastorm_that_is_shipped_is_reported() -> None:
    for file in ("dist/petastorm-0.9.8-py3.7.egg", "petastorm-0.9.8.egg"):
        text = f"spark-submit --py-files {file} job.py\n"
        check_finding(text, "PM406", file, "run.sh")
    check_silence("ls petastorm_jobs-1.egg\n", "run.sh")


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("gcloud dataproc jobs submit pyspark a.py --py-files gs://b/petastorm.zip", None),
        ("spark-submit --py-files a.zip,s3://b/petastorm.zip a.py", None),
        ("spark-submit --archives petastorm_env.tar.gz#env a.py", "petastorm_env.tar.gz"),
        ("spark-submit --conf spark.submit.pyFiles=s3://b/petastorm.zip a.py", None),
        ("spark-submit --py-files b/petastorm-0.12.1.zip a.py", "b/petastorm-0.12.1.zip"),
    ],
)
def test_what_a_command_ships_is_reported_once(command: str, file: str | None) -> None:
    result = migrate(f"{command}\n", path="run.sh", todo=False)
    (finding,) = result.findings
    assert finding.cls == "manual"
    assert result.source[finding.start : finding.stop].endswith(file or "://b/petastorm.zip")


@pytest.mark.parametrize(
    "command",
    [
        "pip-compile --upgrade-package {} requirements.in",
        "pip-compile -P {} requirements.in",
        "uv lock --upgrade-package={}",
        "uv sync --refresh-package {} --no-build-package {}",
        "pip install --no-binary numpy,{} -r requirements.txt",
        "poetry update {}",
        "pdm update -G train {}",
        "pipenv upgrade {}",
    ],
)
def test_commands_that_name_the_distribution_name_mdstorm(command: str) -> None:
    new = command.replace("{}", "mdstorm")
    for old in ("petastorm", "petastorm==0.12.1"):
        check_rewrite(f"{command.replace('{}', old)}\n", f"{new}\n", "Makefile")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pdm add -dG test petastorm[torch]>=0.11", "pdm add -dG test mdstorm[torch]"),
        ("pipenv install petastorm~=0.12 --skip-lock", "pipenv install mdstorm --skip-lock"),
        ("pip download petastorm==0.12.1 -d wheels", "pip download mdstorm -d wheels"),
        ("pixi add --pypi 'petastorm>=0.12'", "pixi add --pypi 'mdstorm'"),
        (
            "uv run --with petastorm pytest -m petastorm",
            "uv run --with mdstorm pytest -m petastorm",
        ),
        ("pipx inject jupyter petastorm", "pipx inject jupyter mdstorm"),
    ],
)
def test_other_installers_require_mdstorm(before: str, after: str) -> None:
    check_rewrite(f"{before}\n", f"{after}\n", "run.sh")


def test_a_folder_of_that_name_stays() -> None:
    check_silence("poetry -P petastorm lock\n", "Makefile")


def test_what_pixi_takes_from_conda_is_reported() -> None:
    check_finding("pixi add petastorm\n", "PM406", "petastorm", "run.sh")


def test_programs_and_jars_of_that_name_are_shipped_as_they_are() -> None:
    check_silence("spark-submit --py-files petastorm_job.zip a.py\n", "run.sh")
    check_silence("spark-submit --jars petastorm.jar a.py\n", "run.sh")


CELL = "# Databricks notebook source\n# MAGIC %sh\n"
QUERIES = [
    "pip freeze | grep {} || exit 1",
    "pip list --format=freeze | grep -i '{}'",
    "/opt/bin/pip show -f {} > /dev/null",
    "python -m pip freeze | grep -q ^{}",
    "X=$($PIP show {})",
    '"$PIP" freeze | grep {}',
    "$(PIP3) show -q {}",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("pip install {0}\n{1}\n", "init.sh"),
        ("RUN pip install {0} && {1}\n", "Dockerfile"),
        ("a:\n\tpip install {0}\n\t{1}\n", "Makefile"),
        ("a:\n  script:\n    - pip install {0}\n    - {1}\n", ".gitlab-ci.yml"),
        (f"{CELL}# MAGIC pip install {{0}}\n# MAGIC {{1}}\n", "n.py"),
    ],
)
def test_commands_ask_for_what_is_installed(text: str, path: str, query: str) -> None:
    before = text.format("petastorm==0.12.1", query.format("petastorm"))
    check_rewrite(before, text.format("mdstorm", query.format("mdstorm")), path)


def test_commands_that_ask_for_what_others_install_are_reported() -> None:
    for query in QUERIES:
        check_finding(f"{query.format('petastorm')}\n", "PM406", "petastorm", "check.sh")
    needed = f"{CELL}# MAGIC {QUERIES[0].format('petastorm')}\n"
    check_finding(needed, "PM406", "petastorm", "n.py")
    assigned = "# %%\nx = !pip list | grep petastorm\nprint(x)\n"
    check_finding(assigned, "PM407", "petastorm", "n.py")


def test_tables_of_that_name_are_no_modules() -> None:
    check_silence('spark-sql -e "select * from petastorm.events"\n', "run.sh")
    check_silence("# %%\ndf = %sql select * from petastorm.events\n", "n.py")
    check_silence("echo from petastorm import reader\n", "a.sh")
    check_finding('echo "import petastorm" > a.py\n', "PM406", "import petastorm", "a.sh")
    check_finding('python -c "from petastorm import reader"\n', "PM406", "from petastorm", "a.sh")


@pytest.mark.parametrize(
    "text", ["pip freeze | grep petastorm-tools\n", "# pip show petastorm\n", "grep petastorm a\n"]
)
def test_commands_that_ask_for_something_else_stay(text: str) -> None:
    check_silence(text, "check.sh")


@pytest.mark.parametrize(
    "version",
    ["<< parameters.v >>", "{{ v }}", "${{ m.v }}", "$[ v ]", "%V%", "@V@", "${var.v}", "`cat v`"],
)
def test_versions_that_are_put_in_go_with_the_rest(version: str) -> None:
    check_rewrite(f"pip install petastorm=={version} x\n", "pip install mdstorm x\n", "a.sh")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("poetry add petastorm@0.12.1 six", "poetry add mdstorm six"),
        ('uv add "petastorm[torch]@^0.12" --dev', 'uv add "mdstorm[torch]" --dev'),
        ("pdm add petastorm@latest", "pdm add mdstorm"),
        ('poetry add "petastorm@>=0.12,<0.13"', 'poetry add "mdstorm"'),
        ('pip install petastorm=="$V" six', "pip install mdstorm six"),
        ("pip install petastorm > log.txt", "pip install mdstorm > log.txt"),
        ("pip install petastorm >$LOG", "pip install mdstorm >$LOG"),
        ("uv run --with petastorm==0.12.1 --with six a", "uv run --with mdstorm --with six a"),
        ("$PIP install petastorm==0.12.1", "$PIP install mdstorm"),
        ('"${PIP3}" install -q petastorm', '"${PIP3}" install -q mdstorm'),
        ("pip install ${A:-petastorm==0.12.1}", "pip install ${A:-mdstorm}"),
    ],
)
def test_versions_go_in_every_spelling_and_redirections_stay(before: str, after: str) -> None:
    check_rewrite(f"{before}\n", f"{after}\n", "a.sh")


@pytest.mark.parametrize(
    "name",
    ["{{petastorm}}", "${petastorm}", "$(petastorm)", "<< p.petastorm >>", "%petastorm%"],
)
def test_variables_that_are_called_petastorm_stay(name: str) -> None:
    check_silence(f"pip install {name}\n", "a.sh")


@pytest.mark.parametrize(
    "word",
    [
        "petastorm[$A]==1",
        "petastorm$(SPEC)",
        "petastorm==%s",
        "petastorm${SPEC}",
        "petastorm==<V>",
        "petastorm==[[ v ]]",
        '"petastorm=="$V',
        "petastorm=0.12",
    ],
)
def test_versions_that_are_not_understood_need_manual_review(word: str) -> None:
    check_noop(f"pip install {word}\n", "a.sh")
    check_finding(f"pip install {word}\n", "PM406", word if "m[" in word else "petastorm", "a.sh")


@pytest.mark.parametrize(
    "command",
    [
        "sed -i 's/a/b/' /usr/lib/python3/site-packages/petastorm/fs_utils.py",
        "patch -p1 -d /usr/lib/python3/dist-packages/petastorm < p.patch",
        "cp x.py /v/lib/python3.10/site-packages/petastorm/",
        "cd /v/site-packages && patch -p1 < /tmp/petastorm-fs.patch",
        "patch -p1 -i petastorm.diff -d \\\n  /v/site-packages",
    ],
)
def test_commands_that_edit_installed_files_are_reported(command: str) -> None:
    (found,) = migrate(f"{command}\n", path="a.sh", todo=False).findings
    assert (found.rule, found.cls) == ("PM406", "manual")
    assert "installed files" in found.message
    check_silence(f"# {command.splitlines()[0]}\n", "a.sh")


@pytest.mark.parametrize(
    "text",
    [
        "pip install petastorm && petastorm-throughput.py x\n",
        "v/bin/pip install petastorm && v/bin/petastorm-throughput.py x\n",
        "pip show petastorm\npip install petastorm \\\n  && petastorm-copy-dataset.py a b\\",
    ],
)
def test_installs_wait_for_scripts_of_their_line_that_only_petastorm_brings(text: str) -> None:
    check_noop(text, "run.sh")
    other = "pip install petastorm\npetastorm-copy-dataset.py a b\n"
    check_rewrite(other, other.replace("l petastorm", 'l "mdstorm[spark]"'), "run.sh")
    unsafe = migrate(text, path="run.sh", unsafe=True).output
    assert "petastorm" not in unsafe.replace("mdstorm.etl.petastorm", "")


def test_what_runs_the_program_that_needs_spark_gets_it() -> None:
    run = "python -m petastorm.tools.copy_dataset file:///a file:///b\n"
    after = run.replace("petastorm", "mdstorm")
    check_rewrite(f"pip install petastorm\n{run}", f'pip install "mdstorm[spark]"\n{after}', "a.sh")
    text = f"pip install petastorm pyspark==3.5.1\n{run}"
    check_rewrite(text, text.replace("petastorm", "mdstorm"), "a.sh")
    old = f"pip install petastorm pyspark==3.2.2\n{run}"
    check_noop(old, "a.sh")  # waits for Spark 3.5


@pytest.mark.parametrize("use", ["-r requirements/$lib.txt", "-e ./$lib", "-r $lib.txt"])
def test_loops_over_names_of_files_are_left_alone(use: str) -> None:
    text = f"for lib in petastorm webdataset; do\n  pip install {use}\ndone\n"
    assert not [one for one in migrate(text, path="a.sh").findings if one.cls == "manual"]
    installs = text.replace(use, '"$lib"')
    assert [one.cls for one in migrate(installs, path="a.sh").findings] == ["manual"]


@pytest.mark.parametrize("given", ["petastorm", "numpy, petastorm", "-petastorm"])
def test_magics_that_import_are_told(given: str) -> None:
    cell = f"# Databricks notebook source\n# MAGIC %aimport {given}\n"
    check_finding(cell, "PM407", "petastorm", "n.py")


@pytest.mark.parametrize("magic", ["%lprun -f {0}.process f()", "%timeit {0}()", "{0}?"])
def test_magics_that_name_what_mdstorm_lacks_are_told(magic: str) -> None:
    name = "petastorm.arrow_reader_worker.ArrowReaderWorker"
    notebook = json.dumps(
        {
            "cells": [
                {"cell_type": "code", "source": [magic.format(name)], "metadata": {}},
            ],
            "metadata": {},
            "nbformat": 4,
        }
    )
    (found,) = (one for one in migrate(notebook, path="n.ipynb").findings if one.cls == "manual")
    assert found.message.startswith("this magic names `petastorm.arrow_reader_worker`")
    there = notebook.replace(name, "petastorm.reader.Reader")
    assert "manual" not in {one.cls for one in migrate(there, path="n.ipynb").findings}


@pytest.mark.parametrize("pip", ['"$VENV/bin/pip"', "'/opt/a b/bin/pip3.11'", '"./uv" pip'])
def test_a_command_may_stand_wholly_in_quotes(pip: str) -> None:
    check_rewrite(f"{pip} install petastorm==0.9 x\n", f"{pip} install mdstorm x\n", "a.sh")


def test_a_loop_over_environments_in_quotes_is_left_to_people() -> None:
    text = 'for v in 0.9.8 0.12.1; do\n  "/tmp/$v/bin/pip" install "petastorm==$v"\ndone\n'
    check_noop(text, "a.sh")
    assert [one.cls for one in migrate(text, path="a.sh").findings] == ["manual"]


@pytest.mark.parametrize("version", ["==$v", "==${v}", "~=$v.0"])
def test_loops_over_versions_of_petastorm_need_manual_review(version: str) -> None:
    install = f'pip install "petastorm{version}"'
    text = f"for v in 0.9.8 0.12.1; do\n  {install}\n  pytest\ndone\n"
    check_noop(text, "ci.sh")
    check_finding(text, "PM406", f"petastorm{version}", "ci.sh")
    check_rewrite(f"v=0.12.1\n{install}\n", 'v=0.12.1\npip install "mdstorm"\n', "ci.sh")


@pytest.mark.parametrize(
    ("brings", "reason"),
    [
        ("pip wheel -w /w git+https://github.com/uber/petastorm@v0.12.1", "what another command"),
        ("pip download 'petastorm @ https://a.b/c.whl'", "what another command"),
        (
            "pip wheel https://files.pythonhosted.org/packages/p/petastorm/petastorm-0.12.1-py3.whl",
            "what another command",
        ),
        ("cp -r wheels /w", "from a folder"),
    ],
)
def test_an_install_without_an_index_waits_for_what_brings_the_wheel(
    brings: str, reason: str
) -> None:
    text = f"{brings}\npip install --no-index --find-links=/w petastorm\n"
    result = check_noop(text, "a.sh")
    (held,) = [one for one in result.findings if one.cls == "review"]
    assert f"`--no-index` installs {reason}" in held.message


@pytest.mark.parametrize("brings", ["petastorm==0.12.1", "-r requirements.txt"])
def test_an_install_without_an_index_moves_with_what_brings_the_wheel(brings: str) -> None:
    text = f"pip wheel -w /w {brings}\npip install --no-index --find-links=/w petastorm\n"
    after = f"pip wheel -w /w {brings}\npip install --no-index --find-links=/w mdstorm\n"
    check_rewrite(text, after.replace("petastorm==0.12.1", "mdstorm"), "a.sh")


def test_the_host_of_pypi_has_no_fork() -> None:
    url = "https://files.pythonhosted.org/packages/p/petastorm/petastorm-0.12.1-py3-none-any.whl"
    check_rewrite(f"pip install 'petastorm @ {url}'\n", "pip install 'mdstorm'\n", "a.sh")
    (found,) = check_noop(f"pip install {url}\n", "a.sh").findings
    assert (found.cls, "file on PyPI" in found.message) == ("manual", True)


def test_a_folder_that_pip_looks_into_is_a_note() -> None:
    text = "pip install --find-links https://a.b/wheels/petastorm torch {}\n"
    result = check_rewrite(text.format("petastorm"), text.format("mdstorm"), "a.sh", todo=False)
    (found,) = result.findings
    assert (found.cls, "pip looks into this place" in found.message) == ("note", True)


@pytest.mark.parametrize(
    "code",
    [
        "import petastorm; assert petastorm.__version__ >= '0.11'",
        "import petastorm, sys; sys.exit(petastorm.__version__ != '0.12.1')",
    ],
)
def test_a_command_that_decides_by_the_version_does_not_do_so_by_mdstorms(code: str) -> None:
    result = check_noop(f'python -c "{code}"\n', "a.sh")
    (found,) = result.findings
    assert "mdstorm has versions of its own: take this out" in found.text
