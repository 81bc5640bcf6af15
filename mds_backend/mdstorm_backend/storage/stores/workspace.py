"""The Databricks workspace, for paths on a mount that this machine does not have."""

from __future__ import annotations

from mdstorm_backend.storage.stores.store import Store


class Workspace(Store):
    """The store of ``dbfs:/…`` and ``/Volumes/…``, which are ``file:`` URLs in normal form.

    Errors of local files are not translated.
    """

    schemes = ("file",)
    name = "the Databricks workspace"
    variables = ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_CONFIG_PROFILE")
    elsewhere = "~/.databrickscfg"
    to_set = "DATABRICKS_HOST and DATABRICKS_TOKEN, and nothing else or DATABRICKS_AUTH_TYPE=pat"
    has_buckets = False
    absences = frozenset({"NotFound"})
    refusals = frozenset({"PermissionDenied", "Unauthenticated"})
    refusing = (
        "cannot configure default credentials",
        "default auth:",
        "more than one authorization method",
    )

    def place(self, url: str) -> str:
        """Return the URL as users write it, and the mount."""
        path = url.removeprefix("file://")
        mount = "/" + path.split("/")[1]
        return f"dbfs:{path.removeprefix('/dbfs')}: {mount} is not mounted here, and {self.name}"
