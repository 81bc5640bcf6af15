"""The programs are data, also those that are tests of somebody's."""

collect_ignore_glob = ["programs/*", "unrunnable/*"]
