"""Amazon S3, and servers with its interface."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
from collections.abc import Mapping
from contextlib import closing
from copy import deepcopy
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qs, urlsplit

from mdstorm_backend.storage.stores.store import Lent, Store, bucket_of

_logger = logging.getLogger(__name__)

#: Our default number of client connections.
CONNECTIONS = 64
#: The endpoint that returns the region of any S3 bucket, even without access to the bucket.
REGIONS_ENDPOINT = "https://s3.amazonaws.com"
#: Seconds to wait for a response from `REGIONS_ENDPOINT`.
_PATIENCE = 10.0
#: Option that makes delta-rs identify a bucket by the host alone, not by a path.
_BY_HOST = {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}
#: The ARN of an access point, followed by a path in it.
_ACCESS_POINT = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):s3:(?P<region>[a-z0-9-]+):(?P<account>\d+)"
    r":accesspoint[:/](?P<name>[a-z0-9-]+)(?P<path>/.*|)"
)


@lru_cache
def _definitions(data_path: str | None) -> Any:
    """Return botocore's loader of the definitions of services, which keeps what it has read."""
    from botocore.loaders import create_loader

    return create_loader(data_path)


class S3(Store):
    """The store of ``s3://bucket/path``; a bucket may be the ARN or alias of an access point.

    A subclass for another provider returns ``s3`` from `protocol`. Its `options_in_environment`
    gives the endpoint and the credentials; otherwise the client would use Amazon's.
    """

    schemes: ClassVar[tuple[str, ...]] = ("s3", "s3a")
    name = "S3"
    variables: ClassVar[tuple[str, ...]] = (
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    )
    elsewhere = "~/.aws, the role of this machine"
    to_set = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    extra = "s3"
    secrets = frozenset({"key", "secret", "token"})
    absences = frozenset({"NoSuchBucket"})
    refusals = frozenset(
        {
            "CredentialRetrievalError",
            "NoCredentialsError",
            "PartialCredentialsError",
            "ProfileNotFound",
        }
    )
    expiring = ("expiredtoken", "token has expired")
    deltalake: ClassVar[Literal["no", "own", "lent"]] = "lent"
    delta_names = {  # noqa: RUF012 - a constant
        "key": "AWS_ACCESS_KEY_ID",
        "secret": "AWS_SECRET_ACCESS_KEY",
        "token": "AWS_SESSION_TOKEN",
        "endpoint_url": "AWS_ENDPOINT_URL",
        "region_name": "AWS_REGION",
        "aws_access_key_id": "AWS_ACCESS_KEY_ID",
        "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "aws_session_token": "AWS_SESSION_TOKEN",
        "requester_pays": "AWS_REQUEST_PAYER",
        "anon": "AWS_SKIP_SIGNATURE",
    }

    def options_in_url(self, kind: Any, url: str) -> dict[str, Any]:
        """Return the option for the version of an object.

        s3fs does the same, but its old versions mistake the colons in an access point's ARN for a
        port.
        """
        return {"version_aware": True} if "versionId" in parse_qs(urlsplit(url).query) else {}

    def options_in_environment(self, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options from MosaicML Streaming's variables, which hold no credentials."""
        settings: dict[str, Any] = {}
        endpoint = os.environ.get("S3_ENDPOINT_URL")
        if endpoint and "endpoint_url" not in options.get("client_kwargs", {}):
            settings["endpoint_url"] = endpoint
        acl = os.environ.get("S3_CANNED_ACL")
        if acl:
            settings["s3_additional_kwargs"] = {"ACL": acl}
        buckets = os.environ.get("MOSAICML_STREAMING_AWS_REQUESTER_PAYS", "").split(",")
        if bucket_of(url) in (name.strip() for name in buckets):
            settings["requester_pays"] = True
        return settings

    def arguments(self, kind: Any, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, with our number of connections unless the caller sets it."""
        # Copied, because botocore modifies the options, and the file system that was opened with
        # them would no longer be found.
        configured = deepcopy(options.get("config_kwargs", {}))
        found = super().arguments(kind, url, options)
        return {**found, "config_kwargs": {"max_pool_connections": CONNECTIONS, **configured}}

    def open(self, kind: Any, arguments: dict[str, Any]) -> Any:
        """Return a file system that shares botocore's definitions of S3 with others.

        Reading them takes a tenth of a second. Forked workers get those that their parent has read.
        """
        filesystem = kind(**arguments)
        if getattr(filesystem, "session", True) is None:
            from aiobotocore.session import AioSession

            session = filesystem.session = AioSession(**filesystem.kwargs)
            definitions = _definitions(session.get_config_variable("data_path"))
            session.register_component("data_loader", definitions)
        return filesystem

    def endpoint(self, filesystem: Any) -> str:
        """Return the endpoint that botocore has resolved from all settings."""
        return str(filesystem.s3.meta.endpoint_url)

    def open_lent(self, kind: Any, arguments: dict[str, Any], lent: Lent) -> Any:
        """Return a file system that signs each request with lent keys."""
        from aiobotocore.credentials import AioCredentials
        from aiobotocore.session import AioSession
        from botocore.credentials import ReadOnlyCredentials

        class RenewedKeys(AioCredentials):  # type: ignore[misc]
            async def get_frozen_credentials(self) -> Any:
                found = await asyncio.to_thread(lent)
                return ReadOnlyCredentials(found["key"], found["secret"], found["token"])

        class Renewing:
            async def load_credentials(self) -> Any:
                return RenewedKeys("", "")

        session = AioSession()
        session.register_component("credential_provider", Renewing())
        given = {**arguments, "anon": False, "session": session}
        return kind(**given, skip_instance_cache=True)

    def has_expired(self, error: Exception) -> bool:
        """Whether HEAD was refused: its response has no error code.

        It must mean expired credentials, because requests from botocore are well-formed.
        """
        is_bad_request = str(error).lower().endswith("bad request")
        return is_bad_request and getattr(error, "errno", None) == errno.EINVAL

    def options_of_delta(self, named: Mapping[str, str]) -> dict[str, Any]:
        """Return the options that a table was opened with by delta-rs, as those of s3fs."""
        found = super().options_of_delta(named)
        region = found.pop("region_name", None)
        return found if region is None else {**found, "client_kwargs": {"region_name": region}}

    def delta_options(
        self, url: str, options: Mapping[str, Any], *, is_lent: bool
    ) -> tuple[str, dict[str, str]]:
        """Return the URL and options, in which an access point is a host.

        delta-rs recognises neither its ARN nor its alias.
        """
        rest = url.partition("://")[2]
        found = {**options.get("client_kwargs", {}), **options}
        named = self._renamed({**_endpoint(), **({} if is_lent else _of_profile(found)), **found})
        is_placed = not {"AWS_REGION", "AWS_ENDPOINT_URL"}.isdisjoint(named)
        if not rest.startswith("arn:"):
            bucket = bucket_of(url)
            if is_lent and not is_placed and (region := bucket_region(bucket)):
                named["AWS_REGION"] = region
            needs_host = bucket.endswith("-s3alias") and "AWS_ENDPOINT_URL" not in named
            return f"s3://{rest}", named | (_BY_HOST if needs_host else {})
        point = _ACCESS_POINT.fullmatch(rest)
        if point is None:
            service = rest.split(":")[2] if rest.count(":") > 1 else rest
            raise NotImplementedError(
                f"is read through {service}, which deltalake does not support"
            )
        suffix = "amazonaws.com.cn" if point["partition"] == "aws-cn" else "amazonaws.com"
        usual = f"https://s3-accesspoint.{point['region']}.{suffix}"
        scheme, _, host = named.get("AWS_ENDPOINT_URL", usual).partition("://")
        endpoint = f"{scheme}://{point['name']}-{point['account']}.{host}"
        place = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": point["region"], **_BY_HOST}
        return f"s3://{point['name']}{point['path']}", named | place


def _endpoint() -> dict[str, str]:
    """Return the endpoint in the environment as an option, so that HTTP can be allowed for it."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    found = next((value for name in names if (value := os.environ.get(name))), None)
    return {} if found is None else {"endpoint_url": found}


def _of_profile(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the region and keys that the S3 file system finds by itself, such as in a profile.

    delta-rs supports environment variables and a machine's role, but neither profiles nor a
    ``credential_process``.
    """
    from botocore.exceptions import NoCredentialsError
    from botocore.session import Session

    session = Session(profile=options.get("profile"))
    settings = {"region_name": session.get_config_variable("region")}
    given = ("key", "aws_access_key_id", "anon")
    if any(map(options.get, given)) or os.environ.get("AWS_SKIP_SIGNATURE"):
        return settings
    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    keys = credentials.get_frozen_credentials()
    return {**settings, "key": keys.access_key, "secret": keys.secret_key, "token": keys.token}


@lru_cache
def bucket_region(bucket: str) -> str | None:
    """Return the region of an S3 bucket; None if unknown."""
    host = urlsplit(REGIONS_ENDPOINT)
    connect = HTTPSConnection if host.scheme == "https" else HTTPConnection
    try:
        with closing(connect(host.netloc, timeout=_PATIENCE)) as connection:
            connection.request("HEAD", f"/{bucket}")
            return connection.getresponse().getheader("x-amz-bucket-region")
    except (OSError, HTTPException) as error:
        _logger.warning("the region of the bucket %s is not known (%s)", bucket, error)
        return None
