"""Find and open the fsspec file system for a URL.

fsspec is imported when it is needed: Spark's workers do without it on local disks.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from mdstorm_backend.errors import MissingDependencyError, NameNodeError, UnsupportedURLError
from mdstorm_backend.storage.environment_variables import protocol_of, with_variables
from mdstorm_backend.storage.reachable import check_reachable
from mdstorm_backend.storage.urls import FUSE_PREFIXES, normalize_url

#: Scheme → the extra that installs its file system.
_EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
    "adl": "azure",
    "oci": "oci",
}
#: Schemes of Hadoop that no file system here has → URLs of the same places.
_INSTEAD = {
    "s3n": "s3://bucket/path",
    "wasb": "abfss://container@account.dfs.core.windows.net/path",
    "wasbs": "abfss://container@account.dfs.core.windows.net/path",
}

#: File systems that all threads share, by their process, class and arguments.
_instances: dict[tuple[int, type, str], Any] = {}


def scheme_of(url: str) -> str:
    """Scheme of a normalised URL; in a chain such as ``simplecache::s3://``, the last one."""
    return url.rpartition("::")[2].partition(":")[0]


def is_mounted(path: str) -> bool:
    """Whether this machine has the Databricks mount of `path`."""
    mount = next((prefix for prefix in FUSE_PREFIXES if path.startswith(prefix)), "/")
    if mount == "/Volumes/" and sys.platform == "darwin":
        # Every Mac has its disks there: look for the catalog.
        mount += path[len(mount) :].partition("/")[0]
    return os.path.isdir(mount)


def open_filesystem(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the file system and the path in it for a normalised URL.

    Paths on a Databricks mount that this machine lacks are opened through the workspace's API.

    Raises
    ------
    UnsupportedURLError
        If its scheme is unknown.
    MissingDependencyError
        If the library for it is not installed.
    NameNodeError
        If it leads to HDFS, and that cannot be reached.
    """
    if url.startswith("file:///"):
        # Taken literally: a path may hold any character, '%' and blanks among them.
        path = url[len("file://") :]
        if path.startswith(("/dbfs/", "/Volumes/")) and not is_mounted(path):
            from mdstorm_backend.storage.databricks_files import (
                DatabricksFileSystem,
                client_arguments,
            )

            arguments = client_arguments(path, options)
            return _shared(DatabricksFileSystem, arguments), path
        from fsspec.implementations.local import LocalFileSystem

        return LocalFileSystem(), path
    scheme = scheme_of(url)
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
    """Return the scheme and the options with which `open_filesystem` opens an object store.

    Parameters
    ----------
    url : str
        A normalised URL of an object store.
    options : dict
        What the caller says.
    """
    protocol = protocol_of(scheme_of(url), options)
    return protocol, _arguments(class_of(url, protocol), url, options)


def check_scheme(url: str) -> None:
    """Raise the error of `open_filesystem` for a scheme, without a connection to anything.

    Parameters
    ----------
    url : str
        A URL or a path.
    """
    url = normalize_url(url)
    if not url.startswith("file:///"):
        class_of(url, protocol_of(scheme_of(url), {}))


def _arguments(kind: Any, url: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a file system is made with: of the URL, the caller and the environment."""
    return with_variables(url, scheme_of(url), {**kind._get_kwargs_from_urls(url), **options})


def class_of(url: str, protocol: str) -> Any:
    """Return the class of the file system for a protocol, to open `url` with."""
    from fsspec import get_filesystem_class

    try:
        return get_filesystem_class(protocol)
    except ValueError as error:
        if protocol in _EXTRAS:  # which fsspec knows only where its file system is installed
            raise _missing(url, protocol, error) from error
        if protocol in _INSTEAD:
            raise UnsupportedURLError(
                f"{url!r} is a URL of Hadoop's, which is written {_INSTEAD[protocol]} here"
            ) from error
        raise UnsupportedURLError(
            f"{url!r} cannot be opened ({error}): use file:///…, dbfs:/…, s3://…, gs://…, "
            "abfss://… or another scheme that fsspec knows"
        ) from error
    except ImportError as error:
        raise _missing(url, protocol, error) from error


def _shared(kind: Any, arguments: dict[str, Any]) -> Any:
    """Return the one instance of a file system for all threads of this process.

    fsspec keeps one per thread (older versions even of those that any thread may use); each has its
    own connections and looks for credentials again.
    """
    from fsspec.utils import tokenize

    key = (os.getpid(), kind, tokenize(arguments))
    fs = _instances.get(key)
    if fs is None or fs._fs_token not in kind._cache:  # as `clear_instance_cache` leaves it
        fs = kind(**arguments)
        check_reachable(fs)
        _instances[key] = fs
    return fs


def _unreachable(url: str, error: OSError) -> NameNodeError:
    """Say what is missing for HDFS: its library, or the name of a host."""
    host = url.removeprefix("hdfs://").partition("/")[0]
    said = str(error).partition("\n")[0]  # of the places where a library was looked for
    reason = f"HDFS at {host}" if host else "it names no name node, and that of this machine"
    return NameNodeError(
        f"{url!r} cannot be opened: {reason} cannot be used ({said}). Set HADOOP_HOME, JAVA_HOME "
        "and CLASSPATH as pyarrow's HadoopFileSystem needs them, and fs.defaultFS, or write "
        "hdfs://host:port/path",
        url=url,
    )


def _missing(url: str, scheme: str, error: Exception) -> MissingDependencyError:
    extra = _EXTRAS.get(scheme, "")
    install = f': pip install "mdstorm[{extra}]"' if extra else f" ({error})"
    return MissingDependencyError(
        f"{url!r} needs a library for {scheme}: URLs, which is not installed here. Install "
        f"it{install}",
        extra=extra,
        name=getattr(error, "name", None),
    )


def _forget_threads() -> None:
    """In a forked child: forget fsspec's request thread, which no longer exists.

    Older versions overlook that, and their requests would wait for it forever.
    """
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None and not hasattr(asyn, "reset_after_fork"):
        asyn.reset_lock()


os.register_at_fork(after_in_child=_forget_threads)
