"""The base class of all stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

#: URL scheme → its store. Each store registers itself.
STORES: dict[str, Store] = {}

#: Returns options with lent credentials that are valid now.
Lent: TypeAlias = Callable[[], Mapping[str, Any]]


def scheme_of(url: str) -> str:
    """Return the scheme of a normalised URL, the last in a chain like ``simplecache::s3://``."""
    return url.rpartition("::")[2].partition(":")[0]


def bucket_of(url: str) -> str:
    """Return the bucket in an object store URL."""
    return url.partition("://")[2].partition("/")[0]


class Store:
    """What mdstorm knows about one object store, apart from its fsspec file system.

    Each store is a subclass in a module of this folder. It registers itself by setting `schemes`,
    and must also set `name`, `variables`, `elsewhere` and `to_set`, which errors show to users.
    Everything else has a default. Names of exceptions are strings, so that no client library is
    imported; those of one store are recognised at all URLs, which may belong to a wrapper.

    If fsspec does not know the scheme, declare the class of its file system in pyproject.toml as an
    entry point of ``fsspec.specs``, and install the package again. It should be an
    `AsyncFileSystem`, which all threads share. It must raise FileNotFoundError for a missing file,
    replace a file in one step, and need no directories. Servers with a connection for each thread,
    such as FTP, need more than a subclass.

    To test a store, add its local server to tests/kit/servers/stores.py: the contract tests then
    run over it. tests/packaging/shelf.py is a complete store with its server.

    Attributes
    ----------
    schemes : tuple of str
        URL schemes, which are also protocols of fsspec unless `protocol` names another.
    name : str
        Name in messages.
    variables : tuple of str
        Environment variables in which its client looks for credentials. If any variable with one of
        their prefixes, such as ``AWS_``, changes, file systems are opened again.
    elsewhere : str
        Where else its client looks for credentials, to complete "in …".
    to_set : str
        The variables that users should set.
    extra : str
        mdstorm's extra that installs its file system; empty if there is none.
    secrets : frozenset of str
        Names of options and environment variables that hold credentials. Their values are hidden
        and never pickled. Names that contain words like ``token`` are secret anyway.
    has_buckets : bool
        Whether files are in buckets, which are never created implicitly because a name may be a
        typo, and not in directories.
    absences, refusals : frozenset of str
        Names of its client's exceptions for missing objects, and for missing or insufficient
        credentials. The HTTP statuses 401, 403 and 404 are recognised without them.
    refusing, expiring, refusing_unclearly : tuple of str
        Lowercase parts of the messages of other exceptions for refused credentials; for expired
        ones; and for credentials that may have expired or be wrong.
    deltalake : {"no", "own", "lent"}
        Which credentials deltalake accepts: none, the user's own, or also those that catalogs lend.
    delta_names : mapping of str to str
        Options of the file system, and their names in delta-rs.
    """

    schemes: ClassVar[tuple[str, ...]]
    name: ClassVar[str]
    variables: ClassVar[tuple[str, ...]]
    elsewhere: ClassVar[str]
    to_set: ClassVar[str]
    extra: ClassVar[str] = ""
    secrets: ClassVar[frozenset[str]] = frozenset()
    has_buckets: ClassVar[bool] = True
    absences: ClassVar[frozenset[str]] = frozenset()
    refusals: ClassVar[frozenset[str]] = frozenset()
    refusing: ClassVar[tuple[str, ...]] = ()
    expiring: ClassVar[tuple[str, ...]] = ()
    refusing_unclearly: ClassVar[tuple[str, ...]] = ()
    deltalake: ClassVar[Literal["no", "own", "lent"]] = "no"
    delta_names: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        """Register a store.

        Raises
        ------
        TypeError
            If another store has one of its schemes, or if a required attribute is missing.
        """
        if "schemes" not in vars(cls):
            return
        if missing := [name for name in Store.__annotations__ if not hasattr(cls, name)]:
            raise TypeError(f"the store {cls.__qualname__} has to define {' and '.join(missing)}")
        for scheme in cls.schemes:
            if other := STORES.get(scheme):
                raise TypeError(
                    f"the stores {type(other).__qualname__} and {cls.__qualname__} both have the "
                    f"scheme {scheme!r}"
                )
        STORES.update(dict.fromkeys(cls.schemes, cls()))

    def protocol(self, scheme: str, options: Mapping[str, Any]) -> str:
        """Return the protocol of the file system that opens URLs with a scheme."""
        return scheme

    def options_in_url(self, kind: Any, url: str) -> dict[str, Any]:
        """Return the options in a URL, such as the Azure account, for a file system class."""
        found: dict[str, Any] = kind._get_kwargs_from_urls(url)
        return found

    def options_in_environment(self, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options from variables that the file system does not read itself."""
        return {}

    def arguments(self, kind: Any, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a file system's arguments, from the URL, the caller and environment variables."""
        given = {**self.options_in_url(kind, url), **options}
        return {**self.options_in_environment(url, given), **given}

    def open(self, kind: Any, arguments: dict[str, Any]) -> Any:
        """Return a file system of a class."""
        return kind(**arguments)

    def endpoint(self, filesystem: Any) -> str:
        """Return the URL of the server that a file system uses, or "" if its client fails fast."""
        return ""

    def open_lent(self, kind: Any, arguments: dict[str, Any], lent: Lent) -> Any:
        """Return a file system that calls `lent` for the credentials of each request.

        `arguments` contains no credentials. Credentials in the environment are ignored.

        Raises
        ------
        NotImplementedError
            If catalogs issue no credentials for the store.
        """
        raise NotImplementedError

    def has_expired(self, error: Exception) -> bool:
        """Whether an error that has no text for it means that credentials have expired."""
        return False

    def delta_options(
        self, url: str, options: Mapping[str, Any], *, is_lent: bool
    ) -> tuple[str, dict[str, str]]:
        """Return the URL and the options of a Delta table for delta-rs.

        `options` are those of the file system, with the credentials of a catalog if `is_lent`.

        Raises
        ------
        NotImplementedError
            If deltalake does not support the URL; the message completes "a table that …".
        """
        return url, self._renamed(options)

    def _renamed(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return the options that are set and known to delta-rs, under delta-rs's names."""
        renamed = {
            name: "true" if options[key] is True else str(options[key])
            for key, name in self.delta_names.items()
            if options.get(key) not in (None, False, "")
        }
        if any(value.startswith("http://") for value in renamed.values()):
            renamed["ALLOW_HTTP"] = "true"
        return renamed

    def options_of_delta(self, named: Mapping[str, str]) -> dict[str, Any]:
        """Return the options that a table was opened with by delta-rs, as the file system's."""
        keys = {name: key for key, name in reversed(list(self.delta_names.items()))}
        given = [(name.upper(), text) for name, text in named.items() if name.upper() in keys]
        return {keys[n]: text == "true" if text in ("true", "false") else text for n, text in given}

    def place(self, url: str) -> str:
        """Return the URL and the store, to begin the message for denied access."""
        return f"{url}: {self.name} ({scheme_of(url)}:)"

    def refusal(self, url: str, text: str) -> str:
        """Return the message for denied access; `text` is the store's response."""
        found = [name for name in self.variables if os.environ.get(name)]
        return (
            f"{self.place(url)} gives no access ({text}). Credentials were looked for in "
            f"storage_options, in the environment ({', '.join(self.variables)}; set: "
            f"{', '.join(found) or 'none'}) and in {self.elsewhere}. Set {self.to_set}, with "
            "rights for this path; distributed workers (Spark executors, training processes on "
            "other machines) need them too"
        )


class _OtherStore(Store):
    """The storage behind any other scheme that fsspec knows."""

    has_buckets = False

    def refusal(self, url: str, text: str) -> str:
        return (
            f"{url}: the storage behind {scheme_of(url)}: needs different credentials ({text}). "
            "Pass them as storage_options=…, or set them where its fsspec file system looks for "
            "them"
        )


_OTHER = _OtherStore()


def store_with(scheme: str) -> Store:
    """Return the store of URLs with a scheme."""
    return STORES.get(scheme, _OTHER)


def store_of(url: str) -> Store:
    """Return the store of a normalised URL."""
    return store_with(scheme_of(url))


def stores() -> list[Store]:
    """Return all registered stores."""
    return list(dict.fromkeys(STORES.values()))
