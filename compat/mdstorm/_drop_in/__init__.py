"""`mdstorm.install_as_petastorm`: mdstorm under the name `petastorm`."""
