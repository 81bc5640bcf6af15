"""Read Petastorm's pickles as data, without executing them, and write such pickles by hand."""
