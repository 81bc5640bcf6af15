"""Make the README's links absolute, because package indexes show it without the repository.

This is a Hatch metadata hook. The setting is `Source` in `[project.urls]` in `pyproject.toml`, such
as ``https://github.com/owner/mdstorm``; links then point to the files of the version being built.
Without it, links become their text, and images their descriptions, so that no link is broken.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]+)\)")


def absolute_links(text: str, source: str | None, version: str) -> str:
    """Return Markdown whose relative links point to `source`; without it, links are removed."""

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        if "://" in target or target.startswith("#"):
            return match[0]
        if source is None:
            return match["text"]
        kind = "raw" if match["image"] else "blob"
        url = f"{source.rstrip('/')}/{kind}/v{version}/{target}"
        return f"{match['image']}[{match['text']}]({url})"

    return _LINK.sub(link, text)


class ReadmeLinks(MetadataHookInterface):
    """Sets the distribution's description to the README with absolute links."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the distribution's description."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, source, metadata["version"]),
        }
