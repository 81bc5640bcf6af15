"""From files to their migrated bytes: which files, one file, many files, writing."""
