"""Requirements of Petastorm, wherever projects declare or install them."""
