"""Oracle Cloud Infrastructure Object Storage."""

from __future__ import annotations

from mdstorm_backend.storage.stores.store import Store


class Oracle(Store):
    """The store of ``oci://bucket@namespace/path``. It has not been tested."""

    schemes = ("oci",)
    name = "Oracle's object storage"
    variables = ("OCIFS_CONFIG_LOCATION", "OCIFS_CONFIG_PROFILE")
    elsewhere = "~/.oci/config, the resource principal of this machine"
    to_set = "OCIFS_CONFIG_LOCATION and OCIFS_CONFIG_PROFILE"
    extra = "oci"
