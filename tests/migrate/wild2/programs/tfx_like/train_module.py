def run_fn(examples):
    from petastorm import make_reader
    from petastorm.tf_utils import make_petastorm_dataset
    with make_reader(examples.url, workers_count=2, num_epochs=1) as reader:
        ds = make_petastorm_dataset(reader).map(lambda e: {'k': e.key, 'v': e.value}).batch(3)
        spec = {k: [v.dtype.name, str(v.shape)] for k, v in ds.element_spec.items()}
        traces = sorted(float(t) for b in ds for t in b['v'].numpy().trace(axis1=1, axis2=2))
    return [spec, traces, examples.TYPE_NAME]
