"""Find and open the fsspec file system for a URL, or adapt the one that the caller passes.

fsspec is imported lazily, because Spark's workers do not need it for local disks. The environment
variables that configure storage for MosaicML Streaming apply to anything not set in
`storage_options`, and take precedence over the file system's own sources: each `Store` reads its
own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from mdstorm_backend import errors
from mdstorm_backend.base.pools import settle
from mdstorm_backend.storage import urls
from mdstorm_backend.storage.stores.store import Store, scheme_of, store_of, store_with, stores

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


#: Unsupported Hadoop schemes → URLs to use instead.
_INSTEAD = {
    "s3n": "s3://bucket/path",
    "wasb": "abfss://container@account.dfs.core.windows.net/path",
    "wasbs": "abfss://container@account.dfs.core.windows.net/path",
}

#: File systems shared by all threads, by process, class and arguments, each with a hash of the
#: environment in which it was opened.
_instances: dict[tuple[int, type, str], tuple[int, Any]] = {}
#: Held while the file system of the same key is opened.
_opening: dict[tuple[int, type, str], threading.Lock] = {}


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

            return _shared(store_of(url), Files, Files.arguments_for(path, options)), path
        from fsspec.implementations.local import LocalFileSystem

        return LocalFileSystem(), path
    scheme, store = scheme_of(url), store_of(url)
    protocol = store.protocol(scheme, options)
    kind = class_of(url, protocol)
    if "::" not in url:
        if kind.async_impl:
            fs = _shared(store, kind, store.arguments(kind, url, options))
            return fs, fs._strip_protocol(url if protocol == scheme else url.partition("://")[2])
        options = {**store.options_in_environment(url, options), **options}
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
    store = store_of(url)
    protocol = store.protocol(scheme_of(url), options)
    return protocol, store.arguments(class_of(url, protocol), url, options)


def check_scheme(url: str) -> None:
    """Raise the error that `open_filesystem` raises for an unusable scheme, without connecting.

    Parameters
    ----------
    url : str
        A URL or a path.
    """
    url = urls.normalize_url(url)
    if not url.startswith("file:///"):
        class_of(url, store_of(url).protocol(scheme_of(url), {}))


def class_of(url: str, protocol: str) -> Any:
    """Return the file system class for a protocol. Error messages mention `url`."""
    from fsspec import get_filesystem_class

    try:
        return get_filesystem_class(protocol)
    except ValueError as error:
        if store_with(protocol).extra:  # fsspec knows these only once their library is installed
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


def _shared(store: Store, kind: Any, arguments: dict[str, Any]) -> Any:
    """Return the file system instance shared by all threads of this process.

    fsspec keeps one instance per thread (older versions even do so for thread-safe file systems),
    and each has its own connections and looks up credentials again. A file system keeps the
    credentials it was opened with, so a new one is opened once those in the environment change.
    """
    from fsspec.utils import tokenize

    key = (os.getpid(), kind, tokenize(arguments))
    used = {name.partition("_")[0] for store in stores() for name in store.variables}
    set_now = sorted((k, v) for k, v in os.environ.items() if k.partition("_")[0] in used)
    environment = hash(tuple(set_now))
    with _opening.setdefault(key, threading.Lock()):
        opened_in, fs = _instances.get(key, (environment, None))
        if opened_in != environment:
            kind.clear_instance_cache()
        if fs is None or fs._fs_token not in kind._cache:  # cleared by `clear_instance_cache`
            fs = store.open(kind, arguments)
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
    extra = store_with(scheme).extra
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
        settle(done, lambda: function(*args, **kwargs))
        return done


def use_no_executors() -> None:
    """Keep object store clients working in `atexit` handlers.

    Python shuts down all executors before it calls these handlers. The S3, GCS and Azure clients
    look up hosts and load certificates in the executor of fsspec's event loop. After this call, the
    loop's own thread, which keeps running, does this work.
    """
    from fsspec.asyn import get_loop  # imported here because it imports asyncio

    get_loop().set_default_executor(_InlineExecutor())
