"""File systems that the caller passes in, from fsspec or pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mdstorm_backend.errors import ArgumentTypeError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def is_local(filesystem: Any) -> bool:
    """Whether a file system is that of this machine: paths in it are local paths."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(filesystem, LocalFileSystem) or (
        _is_arrow(filesystem) and filesystem.type_name == "local"
    )


def as_fsspec(filesystem: Any) -> AbstractFileSystem:
    """Return a file system as one of fsspec.

    Raises
    ------
    ArgumentTypeError
        If it is neither of fsspec nor of pyarrow.
    """
    from fsspec import AbstractFileSystem

    if isinstance(filesystem, AbstractFileSystem):
        return filesystem
    if not _is_arrow(filesystem):
        raise ArgumentTypeError(
            f"filesystem={filesystem!r} is not a file system: pass one of fsspec, such as "
            "fsspec.filesystem('s3'), or of pyarrow.fs"
        )
    handler = getattr(filesystem, "handler", None)
    if handler is not None and hasattr(handler, "fs"):  # one of fsspec, wrapped for pyarrow
        return as_fsspec(handler.fs)
    from fsspec.implementations.arrow import ArrowFSWrapper

    return ArrowFSWrapper(filesystem)


def url_in(filesystem: AbstractFileSystem, url: str) -> str:
    """Return the URL in a file system of `url`, which may be a path."""
    path = str(filesystem._strip_protocol(url)).rstrip("/")
    names = filesystem.protocol
    scheme = names if isinstance(names, str) else names[0]
    return path if "://" in path else f"{scheme}://{path}"


def path_in_given(url: str) -> str:
    """Return the path behind a URL that `url_in` returned; to web servers it is the URL itself."""
    return url if url.startswith(("http://", "https://")) else url.partition("://")[2]


def read_range(filesystem: AbstractFileSystem, path: str, start: int, stop: int) -> bytes:
    """Read the bytes `start` to `stop` of a file."""
    wrapped: Any = getattr(filesystem, "fs", None)
    if not _is_arrow(wrapped):
        return bytes(filesystem.cat_file(path, start=start, end=stop))
    with wrapped.open_input_file(path) as file:  # fsspec opens it as a stream, which cannot seek
        return bytes(file.read_at(stop - start, start))


def _is_arrow(filesystem: Any) -> bool:
    module = type(filesystem).__module__
    return module.startswith("pyarrow.") and hasattr(filesystem, "type_name")
