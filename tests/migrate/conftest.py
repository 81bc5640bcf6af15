"""The programs are data, even if they are tests of other projects."""

collect_ignore_glob = ["wild*/programs/*", "wild*/projects/*", "wild*/unrunnable/*"]
