"""The programs are data, also those that are tests of somebody's."""

collect_ignore_glob = ["wild*/programs/*", "wild*/projects/*", "wild*/unrunnable/*"]
