"""Parts that copies of Petastorm's loaders are made of: the mirror of ``petastorm.reader_impl``."""
