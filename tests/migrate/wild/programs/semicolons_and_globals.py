import petastorm, os, sys; from petastorm import pytorch as ptorch
global_reader = None

def open_it(u):
    global global_reader
    global_reader = petastorm.make_batch_reader(u); return global_reader

def close_it(): global_reader.stop(); global_reader.join()

def main(spark, directory):
    spark.range(0, 3, 1, 1).write.parquet(os.path.join(directory, 't'))
    open_it('file://' + directory + '/t'); n = len(next(global_reader).id); close_it()
    l = ptorch.DataLoader(open_it('file://' + directory + '/t'), batch_size=3); b = next(iter(l))["id"].tolist(); l.terminate() if hasattr(l, 'terminate') else l.__exit__(None, None, None)
    return [n, b]
