"""Which parts of Petastorm a repository uses, and how much work its migration is."""
