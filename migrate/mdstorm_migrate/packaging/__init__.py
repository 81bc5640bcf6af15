"""Requirements for Petastorm, wherever projects declare or install them."""
