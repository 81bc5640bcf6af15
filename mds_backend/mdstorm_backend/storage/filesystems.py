"""Find and open the fsspec file system for a URL, or adapt the one that the caller passes.

fsspec is imported lazily, because Spark's workers do not need it for local disks. The environment
variables that configure storage for MosaicML Streaming apply to anything not set in
`storage_options`, and take precedence over the file system's own sources.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from mdstorm_backend import errors
from mdstorm_backend.base.threads import fill
from mdstorm_backend.storage import urls
from mdstorm_backend.storage.s3_objects import CONNECTIONS

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


#: Scheme → the extra that installs its file system.
_EXTRAS = {**urls.OBJECT_STORES, "adl": "azure", "oci": "oci"}
#: Unsupported Hadoop schemes → URLs to use instead.
_INSTEAD = {
    "s3n": "s3://bucket/path",
    "wasb": "abfss://container@account.dfs.core.windows.net/path",
    "wasbs": "abfss://container@account.dfs.core.windows.net/path",
}

#: File systems shared by all threads, by process, class and arguments, each with a hash of the
#: environment in which it was opened.
_instances: dict[tuple[int, type, str], tuple[int, Any]] = {}
#: Prefixes of the environment variables that hold credentials.
_VARIABLES = ("AWS_", "AZURE_", "GCS_", "GOOGLE_")


def is_mounted(path: str) -> bool:
    """Whether this machine has the Databricks mount of `path`."""
    mount = next((prefix for prefix in urls.FUSE_PREFIXES if path.startswith(prefix)), "/")
    if mount == "/Volumes/" and sys.platform == "darwin":
        # Every Mac mounts its disks under /Volumes, so check for the catalog's directory.
        mount += path[len(mount) :].partition("/")[0]
    return os.path.isdir(mount)


def open_filesystem(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the file system for a normalised URL, and the path within it.

    Paths on a Databricks mount that this machine does not have are opened through the workspace's
    API.

    Raises
    ------
    UnsupportedURLError
        If the scheme is unknown.
    MissingDependencyError
        If the library for the scheme is not installed.
    NameNodeError
        If HDFS cannot be reached.
    """
    if url.startswith("file:///"):
        # Not percent-decoded: a path may contain any character, including '%' and spaces.
        path = url[len("file://") :]
        if path.startswith(("/dbfs/", "/Volumes/")) and not is_mounted(path):
            from mdstorm_backend.storage.databricks_files import DatabricksFileSystem as Files

            return _shared(Files, Files.arguments_for(path, options)), path
        from fsspec.implementations.local import LocalFileSystem

        return LocalFileSystem(), path
    scheme = urls.scheme_of(url)
    protocol = protocol_of(scheme, options)
    kind = class_of(url, protocol)
    if kind.async_impl and "::" not in url:
        fs = _shared(kind, _arguments(kind, url, options))
        return fs, fs._strip_protocol(url if protocol == scheme else url.partition("://")[2])
    from fsspec.core import url_to_fs

    try:
        fs, path = url_to_fs(url, **options)
    except OSError as error:
        if scheme != "hdfs":
            raise
        raise _unreachable(url, error) from error
    return fs, path


def options_in_use(url: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the protocol and options that `open_filesystem` uses to open an object store.

    Parameters
    ----------
    url : str
        A normalised URL of an object store.
    options : dict
        The caller's storage options.
    """
    protocol = protocol_of(urls.scheme_of(url), options)
    return protocol, _arguments(class_of(url, protocol), url, options)


def check_scheme(url: str) -> None:
    """Raise the error that `open_filesystem` raises for an unusable scheme, without connecting.

    Parameters
    ----------
    url : str
        A URL or a path.
    """
    url = urls.normalize_url(url)
    if not url.startswith("file:///"):
        class_of(url, protocol_of(urls.scheme_of(url), {}))


def class_of(url: str, protocol: str) -> Any:
    """Return the file system class for a protocol. Error messages mention `url`."""
    from fsspec import get_filesystem_class

    try:
        return get_filesystem_class(protocol)
    except ValueError as error:
        if protocol in _EXTRAS:  # fsspec knows these only once their library is installed
            raise _missing(url, protocol, error) from error
        if protocol in _INSTEAD:
            raise errors.UnsupportedURLError(
                f"{url!r} is a Hadoop URL: write it as {_INSTEAD[protocol]}"
            ) from error
        raise errors.UnsupportedURLError(
            f"{url!r} cannot be opened ({error}): use file:///…, dbfs:/…, s3://…, gs://…, "
            "abfss://… or another scheme that fsspec knows"
        ) from error
    except ImportError as error:
        raise _missing(url, protocol, error) from error


def _shared(kind: Any, arguments: dict[str, Any]) -> Any:
    """Return the file system instance shared by all threads of this process.

    fsspec keeps one instance per thread (older versions even do so for thread-safe file systems),
    and each has its own connections and looks up credentials again. A file system keeps the
    credentials it was opened with, so a new one is opened once those in the environment change.
    """
    from fsspec.utils import tokenize

    key = (os.getpid(), kind, tokenize(arguments))
    set_now = sorted((k, v) for k, v in os.environ.items() if k.startswith(_VARIABLES))
    environment = hash(tuple(set_now))
    opened_in, fs = _instances.get(key, (environment, None))
    if opened_in != environment:
        kind.clear_instance_cache()
    if fs is None or fs._fs_token not in kind._cache:  # cleared by `clear_instance_cache`
        fs = kind(**arguments)
        urls.check_reachable(fs)
        _instances[key] = (environment, fs)
    return fs


def _unreachable(url: str, error: OSError) -> errors.NameNodeError:
    """Return the error for HDFS when its library or its host name is missing."""
    host = url.removeprefix("hdfs://").partition("/")[0]
    said = str(error).partition("\n")[0]  # further lines list where the library was searched for
    reason = (
        f"HDFS at {host}" if host else "it does not name a name node, and this machine's name node"
    )
    return errors.NameNodeError(
        f"{url!r} cannot be opened: {reason} cannot be used ({said}). Set HADOOP_HOME, JAVA_HOME "
        "and CLASSPATH as pyarrow's HadoopFileSystem needs them, and fs.defaultFS, or write "
        "hdfs://host:port/path",
        url=url,
    )


def _missing(url: str, scheme: str, error: Exception) -> errors.MissingDependencyError:
    extra = _EXTRAS.get(scheme, "")
    install = f': pip install "mdstorm[{extra}]"' if extra else f" ({error})"
    return errors.MissingDependencyError(
        f"{url!r} needs a library for {scheme}: URLs, which is not installed. Install it{install}",
        extra=extra,
        name=getattr(error, "name", None),
    )


def _forget_threads() -> None:
    """Forget fsspec's request thread in a forked child, where it no longer exists.

    Older versions of fsspec do not do this, so their requests would wait for the thread forever.
    """
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None and not hasattr(asyn, "reset_after_fork"):
        asyn.reset_lock()


os.register_at_fork(after_in_child=_forget_threads)

#: Google Cloud Storage's S3-compatible endpoint, which accepts its HMAC keys.
GOOGLE_ENDPOINT = "https://storage.googleapis.com"
_CONNECTIONS = {"max_pool_connections": CONNECTIONS}


def protocol_of(scheme: str, options: dict[str, Any]) -> str:
    """Return the protocol of the file system that opens a scheme's URLs, usually the scheme.

    With HMAC keys, ``GCS_KEY`` and ``GCS_SECRET``, Google Cloud Storage is opened through its
    S3-compatible interface.
    """
    names = ("GCS_KEY", "GCS_SECRET")
    is_google = urls.OBJECT_STORES.get(scheme) == "gcs" and not options
    return "s3" if is_google and all(map(os.environ.get, names)) else scheme


def _arguments(kind: Any, url: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return a file system's arguments, from the URL, the caller and environment variables."""
    scheme = urls.scheme_of(url)
    options = {**options_in_url(kind, url), **options}
    if protocol_of(scheme, options) != scheme:
        return {
            "key": os.environ["GCS_KEY"],
            "secret": os.environ["GCS_SECRET"],
            "endpoint_url": GOOGLE_ENDPOINT,
            "client_kwargs": {"region_name": "auto"},
            "config_kwargs": {**_CONNECTIONS, **_without_checksums()},
        }
    if urls.OBJECT_STORES.get(scheme) == "s3":
        # Copied, because botocore modifies the options, and `_shared` would no longer find the file
        # system that was opened with them.
        configured = {**_CONNECTIONS, **deepcopy(options.get("config_kwargs", {}))}
        return {**of_s3(url, options), **options, "config_kwargs": configured}
    if urls.OBJECT_STORES.get(scheme) == "azure":
        return {**_of_azure(options), **options}
    return options


def options_in_url(kind: Any, url: str) -> dict[str, Any]:
    """Return the options that a file system class finds in a URL, such as the Azure account."""
    if urls.OBJECT_STORES.get(urls.scheme_of(url)) == "s3":
        # s3fs does the same, but its old versions mistake the colons in an access point's ARN for
        # a port.
        return {"version_aware": True} if "versionId" in parse_qs(urlsplit(url).query) else {}
    found: dict[str, Any] = kind._get_kwargs_from_urls(url)
    return found


def of_s3(url: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the S3 options from MosaicML Streaming's environment variables, except credentials."""
    found: dict[str, Any] = {}
    endpoint = os.environ.get("S3_ENDPOINT_URL")
    if endpoint and "endpoint_url" not in options.get("client_kwargs", {}):
        found["endpoint_url"] = endpoint
    acl = os.environ.get("S3_CANNED_ACL")
    if acl:
        found["s3_additional_kwargs"] = {"ACL": acl}
    buckets = os.environ.get("MOSAICML_STREAMING_AWS_REQUESTER_PAYS", "").split(",")
    if urls.bucket_of(url) in (name.strip() for name in buckets):
        found["requester_pays"] = True
    return found


def _of_azure(options: dict[str, Any]) -> dict[str, Any]:
    name = os.environ.get("AZURE_ACCOUNT_NAME")
    key = os.environ.get("AZURE_ACCOUNT_ACCESS_KEY")
    secrets = {"account_key", "connection_string", "credential", "sas_token", "client_secret"}
    if not name or options.get("account_name", name) != name or secrets & options.keys():
        return {}
    return {"account_name": name, **({"account_key": key} if key else {})}


def _without_checksums() -> dict[str, Any]:
    """Return options that omit the checksums of newer S3 clients, which Google rejects."""
    from botocore.config import Config

    known = "request_checksum_calculation" in Config.OPTION_DEFAULTS
    return {"request_checksum_calculation": "when_required"} if known else {}


def is_local(filesystem: Any) -> bool:
    """Whether a file system is the local one, so that paths in it are local paths."""
    from fsspec.implementations.local import LocalFileSystem

    is_arrows = _is_arrow(filesystem) and filesystem.type_name == "local"
    return is_arrows or isinstance(filesystem, LocalFileSystem)


def as_fsspec(filesystem: Any) -> AbstractFileSystem:
    """Return a file system from fsspec or pyarrow as an fsspec file system.

    Raises
    ------
    ArgumentTypeError
        If `filesystem` is neither.
    """
    from fsspec import AbstractFileSystem

    if isinstance(filesystem, AbstractFileSystem):
        return filesystem
    if not _is_arrow(filesystem):
        raise errors.ArgumentTypeError(
            f"filesystem={filesystem!r} is not a file system: pass one from fsspec, such as "
            "fsspec.filesystem('s3'), or from pyarrow.fs"
        )
    handler = getattr(filesystem, "handler", None)
    if handler is not None and hasattr(handler, "fs"):  # an fsspec file system wrapped for pyarrow
        return as_fsspec(handler.fs)
    from fsspec.implementations.arrow import ArrowFSWrapper

    return ArrowFSWrapper(filesystem)


def url_in(filesystem: AbstractFileSystem, url: str) -> str:
    """Return `url`, which may be a plain path, as a full URL with the file system's scheme."""
    path = str(filesystem._strip_protocol(url)).rstrip("/")
    names = filesystem.protocol
    scheme = names if isinstance(names, str) else names[0]
    return path if "://" in path else f"{scheme}://{path}"


def read_range(filesystem: AbstractFileSystem, path: str, start: int, stop: int) -> bytes:
    """Return the bytes `start` to `stop` of a file."""
    wrapped: Any = getattr(filesystem, "fs", None)
    if not _is_arrow(wrapped):
        return bytes(filesystem.cat_file(path, start=start, end=stop))
    with wrapped.open_input_file(path) as file:  # fsspec would open a stream that cannot seek
        return bytes(file.read_at(stop - start, start))


def _is_arrow(filesystem: Any) -> bool:
    module = type(filesystem).__module__
    return module.startswith("pyarrow.") and hasattr(filesystem, "type_name")


class _InlineExecutor(ThreadPoolExecutor):
    """An executor that runs calls immediately, in the submitting thread."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        fill(done, lambda: function(*args, **kwargs))
        return done


def use_no_executors() -> None:
    """Keep object store clients working in `atexit` handlers.

    Python shuts down all executors before it calls these handlers. The S3, GCS and Azure clients
    look up hosts and load certificates in the executor of fsspec's event loop. After this call, the
    loop's own thread, which keeps running, does this work.
    """
    from fsspec.asyn import get_loop  # imported here because it imports asyncio

    get_loop().set_default_executor(_InlineExecutor())
