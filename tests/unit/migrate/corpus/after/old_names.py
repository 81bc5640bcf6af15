"""Names that only older versions have."""
from petastorm.pytorch import BatchDataLoader, DataLoader
from petastorm import make_reader

# TODO(mdstorm): PM106: DataLoader() no longer has an argument `transform`: pass transform_spec=TransformSpec(...) to the reader instead
loader = DataLoader(make_reader(url, num_epochs=1), batch_size=3, transform=decode)
batches = BatchDataLoader(make_reader(url), shuffle=True)
