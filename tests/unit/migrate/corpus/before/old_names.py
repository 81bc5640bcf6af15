"""Names that only older versions have."""
from petastorm.pytorch import BatchDataLoader, DataLoader
from petastorm import make_reader

loader = DataLoader(make_reader(url, num_epochs=1), batch_size=3, transform=decode)
batches = BatchDataLoader(make_reader(url), shuffle=True)
