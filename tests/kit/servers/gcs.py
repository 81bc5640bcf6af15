"""Google Cloud Storage on localhost: gcp-storage-emulator behind a server that requires tokens."""

import http.client
import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.kit.programs import free_port
from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond

BUCKET = "bucket"
TOKEN = "ya29-secret-token"

# Otherwise gcsfs requests the bucket type from an API that no emulator has.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

_DIRECTORY = Path(__file__).parents[3] / ".venv-gcs"
_PASSED_ON = ("Content-Type", "Content-Range", "Range", "Host")
_REFUSAL = b'{"error": {"code": 403, "message": "caller does not have storage.objects.get access"}}'


class GoogleServer(Server):
    """Issues a token to service accounts, and forwards requests with `TOKEN` to the emulator.

    Attributes
    ----------
    token : str
        The token that is issued; any token other than `TOKEN` is refused.
    """

    def __init__(self, directory: Path) -> None:
        program = Path(os.environ.get("MDSTORM_GCS", _DIRECTORY)) / "bin/gcp-storage-emulator"
        if not program.exists():
            pytest.skip("gcp-storage-emulator is not installed: run `make .venv-gcs/.complete`")
        self._port = str(free_port())
        self._process = subprocess.Popen(
            [
                *(program, "start", "--in-memory", "--default-bucket", BUCKET),
                *("--host", "127.0.0.1", "--port", self._port),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "services started" in line:
                break
        self.token = TOKEN
        self.app = self._checked
        super().__init__(self.app)
        self.key_file = str(directory / "key.json")
        Path(self.key_file).write_text(json.dumps(self._service_account()))

    def close(self) -> None:
        super().close()
        self._process.terminate()
        self._process.communicate(timeout=60)

    def reset(self) -> None:
        super().reset()
        self.token = TOKEN

    def _service_account(self) -> dict[str, str]:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        how = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key = rsa.generate_private_key(65537, 2048)
        text = key.private_bytes(*how, serialization.NoEncryption()).decode()
        return {
            "type": "service_account",
            "project_id": "project",
            "private_key": text,
            "client_email": "somebody@project.iam.gserviceaccount.com",
            "token_uri": f"{self.url}/token",
        }

    def _checked(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        json_type = ("Content-Type", "application/json")
        if environ["PATH_INFO"] == "/token":
            token = {"access_token": self.token, "expires_in": 3600, "token_type": "Bearer"}
            return respond("200 OK", json.dumps(token).encode(), json_type)(environ, start)
        if environ.get("HTTP_AUTHORIZATION") != f"Bearer {TOKEN}":
            return respond("403 Forbidden", _REFUSAL, json_type)(environ, start)
        return self._pass_on(environ, start)

    def _pass_on(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        names = {"CONTENT_TYPE": "Content-Type"}
        names.update((f"HTTP_{name.upper().replace('-', '_')}", name) for name in _PASSED_ON)
        headers = {name: environ[key] for key, name in names.items() if environ.get(key)}
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        connection = http.client.HTTPConnection(f"127.0.0.1:{self._port}")
        connection.request(environ["REQUEST_METHOD"], environ["REQUEST_URI"], body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        start(f"{answer.status} {answer.reason}", answer.getheaders())
        return [content]
