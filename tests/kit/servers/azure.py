"""Azure Blob Storage on localhost, provided by Azurite in a separate process."""

import base64
import os
import re
import shutil
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

ACCOUNT = "devstoreaccount1"
CONTAINER = "container"

_DIRECTORY = Path(__file__).parents[3] / ".azurite"
_MAIN = Path("node_modules/azurite/dist/src/blob/main.js")
_LISTENS = re.compile(r"successfully listens on (\S+)")


class AzureServer:
    """The server, with one container and its own account key."""

    def __init__(self, directory: Path) -> None:
        main = Path(os.environ.get("MDSTORM_AZURITE", _DIRECTORY)) / _MAIN
        node = shutil.which("node")
        if node is None or not main.exists():
            pytest.skip("Azurite is not installed: install npm, then run `make .azurite/.complete`")
        self.key = base64.b64encode(b"a secret that is long enough to be one").decode()
        self._process = subprocess.Popen(
            [
                *(node, main, "--blobHost", "127.0.0.1", "--blobPort", "0"),
                *("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"),
            ],
            cwd=directory,
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if match := _LISTENS.search(line):
                self.url = match[1]
                break
        else:
            raise RuntimeError("Azurite exited before it accepted connections")
        self._make_container()

    def connection_string(self, key: str | None = None) -> str:
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key or self.key};"
            f"BlobEndpoint={self.url}/{ACCOUNT};"
        )

    def signature(self, key: str | None = None, seconds: float = 3600) -> str:
        """Return a signature for reading the container, signed with `key` or the account's key."""
        from azure.storage.blob import ContainerSasPermissions, generate_container_sas

        now = datetime.now(timezone.utc)
        return generate_container_sas(
            ACCOUNT,
            CONTAINER,
            account_key=key or self.key,
            permission=ContainerSasPermissions(read=True, list=True),
            start=now - timedelta(hours=1),
            expiry=now + timedelta(seconds=seconds),
        )

    def replace_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make adlfs use this server instead of Azure's URL, even without a connection string."""
        import adlfs
        from azure.storage.blob.aio import BlobServiceClient

        connect = adlfs.AzureBlobFileSystem.do_connect

        def connect_here(fs: Any) -> None:
            connect(fs)
            if fs.connection_string is None:
                fs.service_client = BlobServiceClient(f"{self.url}/{ACCOUNT}", fs.credential)

        monkeypatch.setattr(adlfs.AzureBlobFileSystem, "do_connect", connect_here)

    def reset(self) -> None:
        """Do nothing: this server has no faults to reset."""

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)

    def _make_container(self) -> None:
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(self.connection_string()) as client:
            client.create_container(CONTAINER)
