"""Code that runs on Spark's executors, where every worker process imports it.

It needs pyarrow and NumPy there, but not PyTorch, TensorFlow or the modules that read datasets.
"""
