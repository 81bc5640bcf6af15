"""Open file systems whose credentials are renewed while they are in use.

The clients of stores ask an object for credentials when they sign a request. `Store.open_lent`
makes such objects, which ask a `CredentialProvider`. Credentials in the environment are ignored.
"""

from __future__ import annotations

import os
from typing import Any

from mdstorm_backend.errors import UnsupportedURLError
from mdstorm_backend.storage import filesystems, urls
from mdstorm_backend.storage.credentials import CredentialProvider
from mdstorm_backend.storage.stores.store import Store, scheme_of, store_of

#: File systems by process, store, provider and options.
opened_filesystems: dict[tuple[int, Store, CredentialProvider, str], Any] = {}


def open_renewing(
    url: str, options: dict[str, Any], provider: CredentialProvider
) -> tuple[Any, str]:
    """Return a file system for a normalised object store URL, and the path within it.

    Parameters
    ----------
    url : str
        A URL under the prefix that the credentials are for.
    options : dict
        Further options of the fsspec file system, such as an endpoint.
    provider : CredentialProvider
        Obtains the credentials, first here rather than in the file system's event loop.

    Raises
    ------
    UnsupportedURLError
        If the storage does not have such credentials.
    """
    from fsspec.utils import tokenize

    store, lease = store_of(url), provider.current()
    kind = filesystems.class_of(url, scheme_of(url))
    found = store.arguments(kind, url, {**lease.options, **options})
    arguments = {name: value for name, value in found.items() if name not in store.secrets}
    place = (os.getpid(), store, provider, tokenize(arguments))
    fs = opened_filesystems.get(place)
    if fs is None:
        try:
            fs = store.open_lent(kind, arguments, lambda: provider.current().options)
        except NotImplementedError:
            raise UnsupportedURLError(
                f"{url} is not in a store for which catalogs issue credentials, so {provider} "
                "cannot open it: read the table with Spark"
            ) from None
        opened_filesystems[place] = fs
        urls.check_reachable(fs)
    return fs, fs._strip_protocol(url)
