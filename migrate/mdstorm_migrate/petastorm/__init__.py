"""Tables of Petastorm's API, and of the parts that mdstorm offers."""
