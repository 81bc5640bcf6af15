"""Exclude programs of other projects from collection: they are data, even if they are tests."""

collect_ignore_glob = ["wild*/programs/*", "wild*/projects/*", "wild*/unrunnable/*"]
