"""What a converter tells of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdstorm._datasets.file_lists import directory_of
from mdstorm_backend.datasets import describe_place
from mdstorm_backend.display import Description, counted, human_bytes, shown_place


def describe_converter(converter: Any, *, full: bool) -> Description:
    """Describe a converter by its attributes and, if it is on a local disk, by the index."""
    place = converter.cache_dir_url or directory_of(converter.file_urls)
    rows, files = counted(converter.dataset_size, "row"), len(converter.file_urls)
    line = [repr(shown_place(place)), rows, counted(files, "file")]
    if converter._mdstorm_known is not None:
        line.append(human_bytes(converter._mdstorm_known.nbytes))
    found = describe_place(place, full=full)
    facts = [*found.facts, ("data", "the user's own" if converter._mdstorm_is_given else "a copy")]
    if found.headings:  # of the index, of which the converter may read some files
        return replace(found, line=line, facts=facts)
    facts += [("rows", f"{converter.dataset_size:,}"), ("files", f"{files:,}")]
    if converter._mdstorm_known is None or not full:
        return Description(line, facts)
    known: Description = converter._mdstorm_known._mdstorm_description(full=True)
    return replace(known, line=line, facts=facts)
