"""`petastorm` by another name: what `mdstorm.install_as_petastorm` is made of."""
