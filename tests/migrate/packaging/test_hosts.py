"""The Pythons of the machines that install something."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import migrate
from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.packaging.conflicts import conflicts_in
from mdstorm_migrate.packaging.environments import without_old
from mdstorm_migrate.sources import find_source

INSTALL = "      - run: pip install petastorm==0.12.1\n"
GOOGLE = "gcr.io/deeplearning-platform-release"


@pytest.mark.parametrize(
    ("path", "text", "after"),
    [
        (
            "ci.yml",
            "      matrix: {py: ['3.8', '3.11']}\n          python-version: ${{ matrix.py }}\n",
            "      matrix: {py: ['3.11']}\n          python-version: ${{ matrix.py }}\n",
        ),
        (
            "ci.yml",
            "        version:\n          - 3.8\n          - '3.11'  # newest\n"
            "          python-version: ${{ matrix.version }}\n",
            "        version:\n          - '3.11'  # newest\n"
            "          python-version: ${{ matrix.version }}\n",
        ),
        (
            "ci.yml",
            "        include:\n          - {interpreter: '3.9', os: linux}\n"
            "          python-version: ${{ matrix.interpreter }}\n",
            "        include:\n          - {interpreter: '3.10', os: linux}\n"
            "          python-version: ${{ matrix.interpreter }}\n",
        ),
        (
            "azure-pipelines.yml",
            "    old: {python.version: '3.7'}\n  inputs: {versionSpec: '$(python.version)'}\n",
            "    old: {python.version: '3.10'}\n  inputs: {versionSpec: '$(python.version)'}\n",
        ),
        (
            "azure-pipelines.yml",
            "- name: py\n  value: 3.7\n  inputs: {versionSpec: $(py)}\n",
            '- name: py\n  value: "3.10"\n  inputs: {versionSpec: $(py)}\n',
        ),
        (
            "ci.yml",
            "      matrix:\n        python: ['3.7']\n",
            "      matrix:\n        python: ['3.10']\n",
        ),
        (".travis.yml", 'python: ["3.6", "3.7"]\n', 'python: ["3.10"]\n'),
        (".travis.yml", "python:\n  - 3.6\n  - 3.7\n", 'python:\n  - "3.10"\n'),
        (".gitlab-ci.yml", "  PY: '3.9'\nimage: python:$PY-slim\n", None),
        ("config.yml", "- image: cimg/python:3.8\n", "- image: cimg/python:3.10\n"),
        ("template.yml", "  Runtime: python3.8\n", "  Runtime: python3.10\n"),
    ],
)
def test_workflows_that_run_an_old_python_are_held(path: str, text: str, after: str | None) -> None:
    check_noop(f"{text}{INSTALL}", path)
    after = text.replace("3.9", "3.10") if after is None else after
    check_rewrite(
        f"{text}{INSTALL}", f"{after}      - run: pip install mdstorm\n", path, unsafe=True
    )


def test_an_image_of_jenkins_is_held() -> None:
    text = "agent { docker { image 'python:3.9' } }\nsteps { sh 'pip install petastorm==0.12.1' }\n"
    check_noop(text, "Jenkinsfile")
    after = text.replace("3.9", "3.10").replace("petastorm==0.12.1", "mdstorm")
    check_rewrite(text, after, "Jenkinsfile", unsafe=True)


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [
        (
            "Dockerfile",
            "FROM nvidia/cuda:11.3.1-devel-ubuntu20.04\nRUN apt-get install -y \\\n  python3-pip\n",
            "Python 3.8 of ubuntu20.04",
        ),
        ("Dockerfile", "FROM debian:bullseye\nRUN apt-get install python3\n", "Python 3.9 of"),
        ("Dockerfile", "FROM ours/sagemaker:1.12-gpu-py38-cu113\n", "Python 3.8 of sagemaker:1.12"),
        ("Dockerfile", "FROM apache/airflow:2.3.0-python3.7\n", "Python 3.7 of airflow:2.3.0"),
        ("Dockerfile", "FROM jupyter/x:python-3.8.8\n", "Python 3.8.8 of x:python-3.8.8"),
        ("Dockerfile", "FROM jupyter/x:python-3.11.6\n", None),
        ("Dockerfile", "FROM continuumio/miniconda3:py38_4.9\n", "Python 3.8 of miniconda3:py38"),
        ("Dockerfile", "FROM continuumio/miniconda3:py311_24.1.2\n", None),
        ("Dockerfile", "FROM ours/tf:1.15-py27\n", "Python 2.7 of tf:1.15"),
        ("Dockerfile", "FROM ubuntu:22.04\nRUN apt-get install -y python3-pip\n", None),
        ("Dockerfile", "FROM ubuntu:20.04\nRUN apt-get install -y git\n", None),
        ("Dockerfile", "FROM ubuntu:20.04\nRUN apt-get install python3 python3.11\n", None),
        ("Dockerfile", "FROM ubuntu:20.04\nRUN apt install python3.9\n", "python 3.9"),
        ("Dockerfile", "ARG PY=3.8\nFROM python:${PY}-slim\n", "python 3.8"),
        ("a.sh", "python3.8 -m pip install x\n", "python 3.8"),
        ("a.sh", "uv venv --python 3.9\n", "python 3.9"),
        ("a.sh", "pip2 install --user x\n", "python 2"),
        ("a.sh", "python2 -m pip install x\n", "python 2"),
        ("a.sh", "python2.7 -m pip install x\n", "python 2.7"),
        ("a.sh", "virtualenv -p python2 v\n", "python 2"),
        ("a.sh", "python2 old.py\npip install x\n", None),
        (".python-version", "2.7.18\n", "python 2.7.18"),
        ("a.sh", "ls /usr/lib/python3.8/site-packages\n# python3.8 -m pip\n", None),
        ("ci.yml", "runs-on: ubuntu-20.04\n- run: pip install x\n", "Python 3.8 of ubuntu-20.04"),
        ("ci.yml", "runs-on: ubuntu-20.04\nwith: {python-version: '3.11'}\n", None),
        ("ci.yml", "runs-on: ubuntu-20.04\ncontainer: python:3.11\n", None),
        ("ci.yml", "runs-on: ubuntu-22.04\n- run: pip install x\n", None),
        ("dag.py", 'a = {"spark_version": "11.3.x-scala2.12"}\n', "Databricks Runtime 11.3"),
        (
            "job.py",
            'ClusterSpec(spark_version="12.2.x-cpu-ml-scala2.12")\n',
            "Databricks Runtime 12",
        ),
        ("job.py", 'ClusterSpec(spark_version="14.3.x-cpu-ml-scala2.12")\n', None),
        ("kfp.py", '@component(base_image="python:3.8-slim")\ndef f(): ...\n', "python 3.8"),
        (
            "kfp.py",
            'B = "python:3.8"\n@component(base_image=B)\ndef f(): ...\n',
            "python 3.8",
        ),
        ("kfp.py", 'IMAGE = "python:3.8"\nf({"image": IMAGE})\n', "python 3.8"),
        ("kfp.py", 'load = "python:3.8"\nimage = load()\n', None),
        ("flow.py", 'IMAGE = "ours/base:2.1-py38"\n', "Python 3.8 of base:2.1-py38"),
        ("wf.py", 'ImageSpec(python_version="3.9", packages=["x"])\n', "python 3.9"),
        (
            "flow.py",
            '@conda_base(libraries={"a": "1"}, python="3.8.12")\nclass F: ...\n',
            "python 3.8.12",
        ),
        ("a.py", 'image = "python:3.11"\nx = {"python_version": "3.12"}\n# python:3.8\n', None),
        ("a.py", 'if python_version == "3.8":\n    image_size = "3.8"\n', None),
        ("Dockerfile", "FROM tensorflow/tensorflow:2.4.1-gpu\n", "Python 3.6 of tensorflow:2.4"),
        ("Dockerfile", "FROM tensorflow/tensorflow:2.14.0-gpu\n", None),
        ("Dockerfile", "FROM pytorch/pytorch:1.9.0-cuda11.1-cudnn8-runtime\n", "Python 3.7 of"),
        ("Dockerfile", "FROM pytorch/pytorch:2.1.0-cuda11.8-cudnn8-runtime\n", None),
        ("Dockerfile", "FROM nvcr.io/nvidia/pytorch:21.03-py3\n", "Python 3.8 of pytorch:21.03"),
        ("Dockerfile", "FROM nvcr.io/nvidia/pytorch:24.01-py3\n", None),
        ("Dockerfile", "FROM apache/airflow:2.5.0\n", "Python 3.7 of airflow:2.5"),
        ("Dockerfile", "FROM apache/airflow:2.9.1\n", None),
        ("Dockerfile", "FROM apache/airflow:2.5.0-python3.10\n", None),
        ("Dockerfile", "FROM databricksruntime/standard:10.4-LTS\n", "Databricks Runtime 10.4"),
        ("Dockerfile", "FROM tensorflow/tensorflow:2.4.1\nRUN apt install python3.11\n", None),
        (
            "Dockerfile",
            "ARG B=jupyter/pyspark-notebook:python-3.9.7\nFROM ${B}\n",
            "Python 3.9.7 of pyspark-notebook:python-3.9.7",
        ),
        (
            "Dockerfile",
            "ARG B=ubuntu:18.04\nFROM $B\nRUN apt-get install -y python3-pip\n",
            "Python 3.6 of ubuntu:18.04",
        ),
        (
            "a.sh",
            "pip install -c https://x.org/constraints-2.5.0/constraints-3.8.txt a\n",
            "Python",
        ),
        (".tool-versions", "nodejs 18.0.0\npython 3.8.12\n", "python 3.8.12"),
        ("mise.toml", '[tools]\npython = "3.9"\n', "python 3.9"),
        ("setup.py", 'PY = ">=3.7,<3.9"\nsetup(python_requires=PY)\n', "python>=3.7,<3.9"),
        ("app.yaml", "runtime: python38\n", "python 3.8"),
        ("a.sh", "virtualenv -p /usr/bin/python3.7 v\n", "python 3.7"),
        ("a.sh", "module load gcc Python/3.8.6-GCCcore-10\n", "python 3.8"),
        ("a.sh", "module load Python/3.11.3\n", None),
        ("buildspec.yml", "runtime-versions:\n  python: 3.8\n", "python 3.8"),
        ("emr.py", 'run(ReleaseLabel="emr-6.9.0", Name="x")\n', "Python 3.7 of emr-6.9.0"),
        ("main.tf", 'release_label = "emr-7.1.0"\n', "Python 3.9 of emr-7.1.0"),
        ("emr.sh", "aws emr create --release-label emr-7.1.0\nyum install python3.11\n", None),
        ("a.sh", "gcloud dataproc clusters create --image-version=2.0-debian10\n", "Python 3.8"),
        ("a.sh", "gcloud dataproc clusters create --image-version 2.1-debian11\n", None),
        ("a.json", '{"GlueVersion": "3.0"}\n', "Python 3.7 of Glue 3.0"),
        ("a.json", '{"GlueVersion": "4.0"}\n', None),
        (
            "sm.py",
            'PyTorch(framework_version="1.12", py_version="py38")\n',
            "Python 3.8 of SageMaker's",
        ),
        ("sm.py", 'PyTorch(framework_version="2.1", py_version="py310")\n', None),
        (
            "sm.py",
            'TensorFlow(framework_version="2.1.0", py_version="py3")\n',
            "Python 3.6 of SageMaker's py3",
        ),
        ("sm.py", 'x = dict(py_version="py3", a=1, framework_version="1.5")\n', "Python 3.6 of"),
        ("sm.py", 'SKLearn(framework_version="1.2-1", py_version="py3")\n', None),
        ("Dockerfile", f"FROM {GOOGLE}/tf2-gpu.2-8\n", "Python 3.7 of tf2-gpu.2-8"),
        ("kfp.py", f'image = "{GOOGLE}/pytorch-gpu.1-12"\n', "Python 3.7 of pytorch-gpu.1-12"),
        ("Dockerfile", f"FROM {GOOGLE}/tf2-gpu.2-12\n", None),
        ("Dockerfile", f"FROM {GOOGLE}/tf2-gpu.2-8.py310\n", None),
        ("Dockerfile", "ARG V=2.1.2\nFROM apache/airflow:${V}-python3.8\n", "Python 3.8 of air"),
        ("Dockerfile", "ARG V=2.5.0\nFROM apache/airflow:$V\n", "Python 3.7 of airflow:2.5"),
        ("Dockerfile", "ARG V=2.9.1\nFROM apache/airflow:$V\n", None),
        ("Dockerfile", "ARG B=python:3.8\nFROM ${B}\n", "python 3.8"),
        ("Dockerfile", "ARG B=pytorch/pytorch:1.12.1-cuda\nFROM ${B}\n", "Python 3.7 of"),
        ("Dockerfile", "FROM apache/airflow:${V}-python3.8\n", "Python 3.8 of airflow:x-python3.8"),
        ("Dockerfile", "FROM apache/airflow:${V}\n", None),
        ("c.yml", "image: pytorch/pytorch:${T:-1.9.0}-runtime\n", "Python 3.7 of pytorch:1.9"),
        ("ci.yml", "node-version: 3.8\nversion: ['3.8']\n# image: python:3.8\n", None),
    ],
)
def test_the_python_of_images_and_commands_is_known(
    path: str, text: str, shown: str | None
) -> None:
    source = find_source(PurePath(path), text.encode())
    assert source is not None
    file = source.read(text.encode(), PurePath(path))
    found = [one.shown for document in file.documents for one in conflicts_in(document)]
    if shown is None:
        assert not found
    else:
        assert len(found) == 1
        assert found[0].startswith(shown)


def test_images_in_variables_are_known_beside_others() -> None:
    text = "ARG V=2.1.2\nFROM apache/airflow:${V}-python3.9\nFROM python:3.8\n"
    source = find_source(PurePath("Dockerfile"), text.encode())
    assert source is not None
    file = source.read(text.encode(), PurePath("Dockerfile"))
    found = {one.shown for document in file.documents for one in conflicts_in(document)}
    assert found == {"Python 3.9 of airflow:2.1.2-python3.9", "python 3.8"}


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ("jupyter/pyspark-notebook:spark-3.1.2", "Spark 3.1.2 of pyspark-notebook:spark-3.1.2"),
        ("apache/spark-py:v3.4.0", "Spark 3.4.0 of spark-py:v3.4.0"),
        ("gcr.io/spark-operator/spark-py:v3.1.1-hadoop3", "Spark 3.1.1 of spark-py:v3.1.1"),
        ("bitnami/spark:3.3", "Spark 3.3 of spark:3.3"),
        ("apache/spark:3.5.1", None),
        ("apache/spark:4.0.0-python3", None),
        ("ours/spark-jobs:1.3.1", None),
    ],
)
def test_an_image_with_an_old_spark_holds_what_uses_spark_there(
    image: str, shown: str | None
) -> None:
    text = f"FROM {image}\nRUN pip install petastorm\n".encode()
    source = find_source(PurePath("Dockerfile"), text)
    assert source is not None
    (document,) = source.read(text, PurePath("Dockerfile")).documents
    assert not list(conflicts_in(document))
    document.needs = Needs(uses=("spark",))
    assert [one.shown for one in conflicts_in(document)] == ([shown] if shown else [])


@pytest.mark.parametrize(
    ("body", "final", "is_held"),
    [
        ("RUN pip install flake8", "RUN pip install petastorm", False),
        ("RUN pip install flake8 -r a.txt", "RUN pip install petastorm", True),
        ("RUN pip install flake8 ./a.whl", "RUN pip install petastorm", True),
        ("RUN pip install poetry && poetry install", "RUN pip install petastorm", True),
        ("RUN pip install flask\nCMD flask", "RUN pip install petastorm", True),
        ("RUN pip install wheel", "COPY --from=old /venv /venv", True),
        ("RUN pip install wheel", "FROM old\nRUN pip install petastorm", True),
        ("RUN apt-get install git", "RUN pip install petastorm", True),
    ],
)
def test_a_stage_of_linters_is_no_host(body: str, final: str, is_held: bool) -> None:
    text = f"FROM python:3.9 AS old\n{body}\nFROM python:3.11\n{final}\n"
    path = PurePath("Dockerfile")
    source = find_source(path, text.encode())
    assert source is not None
    (document,) = source.read(text.encode(), path).documents
    assert any(True for _ in conflicts_in(document)) == is_held


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("py{37,38,39}", "py310"),
        ("py3{7,8,9}-{a,b}", "py310-{a,b}"),
        ("py{38,39,310,311}-x, lint", "py{310,311}-x, lint"),
        ("py39, py310-petastorm{011,012}", "py310-petastorm{011,012}"),
        ("{py38,py39}, docs", "py310, docs"),
        ("\n    lint\n    py37,py38\n    py311", "\n    lint\n    py311"),
        ("py3{9,10}, 3.8", "py310"),
        ("py310, lint, py3", None),
        ("py37,py38,py39-{base,spark}", "py310-{base,spark}"),
        ("py38-spark, py39-spark, py310", "py310-spark, py310"),
        ("{a,b}-{py38,py311}-petastorm011", "{a,b}-py311-petastorm011"),
    ],
)
def test_environments_of_tox_lose_their_old_pythons(before: str, after: str | None) -> None:
    assert without_old(before) == after
    assert after is None or without_old(after) is None


@pytest.mark.parametrize("python", ["--python-version 3.8", "--python-version=38"])
def test_packages_for_an_old_python_are_held(python: str) -> None:
    check_noop(f"pip install {python} --only-binary=:all: -t pkg petastorm\n", "f.sh")
    new = python.replace("8", "11")
    check_rewrite(
        f"pip install {new} --only-binary=:all: -t pkg petastorm\n",
        f"pip install {new} --only-binary=:all: -t pkg mdstorm\n",
        "f.sh",
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Makefile", "PYTHON ?= python3.9\nv:\n\t$(PYTHON) -m venv v\n\tv/bin/{}\n"),
        ("Makefile", "PIP := pip2\nv:\n\t$(PIP) {}\n"),
        ("run.sh", "PY=/usr/bin/python3.8; $PY -m venv v\nv/bin/{}\n"),
        ("run.sh", '"${{PYTHON:-python3.8}}" -m {}\n'),
        ("run.sh", ': "${{PY:=python3.8}}"\nvirtualenv -p "$PY" v\nv/bin/{}\n'),
        ("Dockerfile", "FROM x\nENV PIP pip3.9\nRUN $PIP {}\n"),
    ],
)
def test_the_python_of_a_variable_is_that_of_the_command(path: str, text: str) -> None:
    install = "install petastorm" if "PIP" in text else "pip install petastorm"
    text = text.format(install)
    result = check_noop(text, path)
    assert {one.rule: one.cls for one in result.findings}["PM412"] == "manual"
    newer = text.replace("3.8", "3.11").replace("3.9", "3.11").replace("pip2", "pip3")
    check_rewrite(newer, newer.replace("petastorm", "mdstorm"), path)


@pytest.mark.parametrize("given", ["python${V}", "python${PYTHON_VERSION}"])
def test_the_version_of_a_systems_python_is_not_changed(given: str) -> None:
    text = "FROM ubuntu:18.04\nARG V=3.8\nENV PYTHON_VERSION=${V}\n"
    text += f"RUN apt-get install -y git {given}\nRUN pip install petastorm\n"
    result = migrate(text, path="Dockerfile", unsafe=True)
    assert "ARG V=3.8" in result.output
    assert "PM412" in {one.rule for one in result.findings if one.cls == "manual"}
    newer = text.replace("apt-get", "add-apt-repository ppa:deadsnakes/ppa && apt-get")
    assert "ARG V=3.10" in migrate(newer, path="Dockerfile", unsafe=True).output


def test_a_variable_that_installs_nothing_is_no_host() -> None:
    text = "PY=python3.8\n$PY docs.py\npip install petastorm\n"
    check_rewrite(text, text.replace("petastorm", "mdstorm"), "run.sh")
