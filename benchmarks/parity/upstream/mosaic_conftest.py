"""Settings for MosaicML Streaming's tests, which import mdstorm and use local stores."""

import pytest

import mdstorm_backend

mdstorm_backend.install_as_streaming()

from tests.common.utils import compressed_local_remote_dir, local_remote_dir  # noqa: E402, F401

MY_BUCKET = "testing-bucket"
GCS_URL = "https://storage.googleapis.com"
R2_URL = "https://r2.cloudflarestorage.com"


@pytest.fixture(scope="session", autouse=True)
def credentials() -> None:
    """Set credentials for moto, so that no test uses real ones."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            patch.setenv(name, "testing")
        for name in ("GCS_KEY", "GCS_SECRET"):
            patch.setenv(name, "testing")
        yield
