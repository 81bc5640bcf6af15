"""Check the example deployments with schemas and linters, and run them where possible.

Docker, Kubernetes and Databricks are not available in these tests.
"""

import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import kubernetes_validate
import pytest
import yaml
from databricks.bundles.jobs import Job
from tests.kit.programs import run_command
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.unit.mds_backend.storage.conftest import forget_filesystems

from mdstorm_backend.errors import CredentialsError
from mdstorm_backend.spark import check_driver_writes
from mdstorm_backend.storage import Location

pytestmark = pytest.mark.newest

EXAMPLES = Path(__file__).parents[2] / "examples"
BUNDLE = yaml.safe_load((EXAMPLES / "databricks" / "databricks.yml").read_text("utf-8"))
JOBS: dict[str, Any] = BUNDLE["resources"]["jobs"]
MANIFESTS = [
    (path.name, document)
    for path in sorted((EXAMPLES / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text("utf-8"))
]


@pytest.mark.parametrize("name", ["Dockerfile", "spark.Dockerfile"])
def test_dockerfiles_pass_linter(name: str) -> None:
    hadolint = Path(sysconfig.get_path("scripts"), "hadolint")
    assert run_command(hadolint, EXAMPLES / "docker" / name, cwd=EXAMPLES).stdout == ""
    # Without its own .dockerignore, an image would contain all environments in the repository.
    assert (EXAMPLES / "docker" / f"{name}.dockerignore").exists()


@pytest.mark.parametrize(
    ("name", "document"), MANIFESTS, ids=[f"{name}-{one['kind']}" for name, one in MANIFESTS]
)
def test_manifests_match_kubernetes_schemas(name: str, document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, "1.33", strict=True)


@pytest.mark.long
def test_programs_in_kubernetes_manifests_run(tmp_path: Path) -> None:
    for _, document in MANIFESTS:
        if document["kind"] == "ConfigMap":
            for name, program in document["data"].items():
                (tmp_path / name).write_text(program, "utf-8")
    python, url = sys.executable, f"file://{tmp_path}/numbers"
    environment = {**os.environ, "PYSPARK_PYTHON": python, "OMP_NUM_THREADS": "1"}
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")
    said = ""
    for command in ((tmp_path / "convert.py", url), (*launcher, tmp_path / "train.py", url)):
        said += run_command(python, *command, cwd=tmp_path, env=environment).stdout
    assert "wrote 100000 rows" in said
    assert len(re.findall(r"rank [01]: loss \d+\.\d+", said)) == 2


@pytest.mark.parametrize("name", JOBS)
def test_databricks_jobs_have_valid_fields_and_existing_notebooks(name: str) -> None:
    job = Job.from_dict(JOBS[name])  # raises an error for unknown fields
    clusters = {one["job_cluster_key"] for one in JOBS[name].get("job_clusters", [])}
    for task in job.as_dict()["tasks"]:
        notebook = EXAMPLES / "databricks" / task["notebook_task"]["notebook_path"]
        assert notebook.read_text("utf-8").startswith("# Databricks notebook source")
        assert {task["job_cluster_key"]} == clusters if clusters else "job_cluster_key" not in task


def test_every_notebook_has_a_job_and_every_variable_is_declared() -> None:
    notebooks = {path.stem for path in (EXAMPLES / "databricks").glob("*.py")}
    tasks = {name: {task["task_key"] for task in job["tasks"]} for name, job in JOBS.items()}
    assert notebooks - tasks["examples_classic"] == {"08_serverless_gpu"}
    # Serverless compute has no /dbfs.
    assert notebooks - tasks["examples_serverless"] == {"13_dbfs"}
    used = set(re.findall(r"\$\{var\.(\w+)\}", json.dumps(JOBS)))
    assert used == BUNDLE["variables"].keys()


@pytest.fixture
def store_with_the_policy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An S3 server whose user may only do what the example policy allows below ``DIRECTORY``."""
    server = S3Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "root")
    users = boto3.client("iam", region_name="us-east-1", endpoint_url=server.url)
    policy = (EXAMPLES / "storage" / "s3.json").read_text("utf-8").replace("BUCKET", BUCKET)
    users.create_user(UserName="mdstorm")
    users.put_user_policy(UserName="mdstorm", PolicyName="mdstorm", PolicyDocument=policy)
    key = users.create_access_key(UserName="mdstorm")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    forget_filesystems()
    server.check_credentials(True)
    try:
        yield
    finally:
        server.check_credentials(False)
        server.close()
        forget_filesystems()


@pytest.mark.long
@pytest.mark.usefixtures("store_with_the_policy")
def test_s3_policy_grants_exactly_the_needed_permissions() -> None:
    location = Location.of(f"s3://{BUCKET}/DIRECTORY/x")
    check_driver_writes(location)
    location.write("shard", [b"values"])
    assert bytes(location.read("shard")) == b"values"
    assert location.list_names() == ["shard"]
    location.remove("shard")
    assert location.list_names() == []
    with pytest.raises(CredentialsError):
        check_driver_writes(Location.of(f"s3://{BUCKET}/elsewhere"))


def test_google_and_azure_roles_grant_read_write_and_delete() -> None:
    google = yaml.safe_load((EXAMPLES / "storage" / "gcs.yaml").read_text("utf-8"))
    objects = {f"storage.objects.{one}" for one in ("create", "delete", "get", "list")}
    assert objects <= {*google["includedPermissions"]}
    azure = json.loads((EXAMPLES / "storage" / "azure.json").read_text("utf-8"))
    blobs = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
    assert {f"{blobs}/{one}" for one in ("read", "write", "delete")} <= {*azure["DataActions"]}
