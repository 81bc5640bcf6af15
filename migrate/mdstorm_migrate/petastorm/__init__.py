"""Tables of Petastorm's API, and of what mdstorm offers of it."""
