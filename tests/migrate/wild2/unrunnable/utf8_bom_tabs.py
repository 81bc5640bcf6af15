import petastorm
if petastorm:
	from petastorm.pytorch import \
		DataLoader, \
		BatchedDataLoader
	print(f"{petastorm.__version__!r} é {petastorm.make_reader('file:///x')}")
