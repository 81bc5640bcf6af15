import mdstorm.spark as ps
from contextlib import ExitStack

converters = {name: ps.make_spark_converter(df) for name, df in frames.items()}
if (rows := len(first := ps.make_spark_converter(df))) > 1:
    print(rows, first)
with ExitStack() as stack:
    loaders = [stack.enter_context(c.make_torch_dataloader(num_epochs=1)) for c in converters.values()]
