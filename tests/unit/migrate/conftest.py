"""Exclude other projects' programs from collection, because even their tests are data here."""

collect_ignore_glob = ["wild*/programs/*", "wild*/projects/*", "wild*/unrunnable/*"]
