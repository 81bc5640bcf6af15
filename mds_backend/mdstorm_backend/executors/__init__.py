"""What runs on the executors of Spark, where each worker imports it anew.

It needs pyarrow and NumPy there, and neither PyTorch, TensorFlow nor what reads datasets.
"""
