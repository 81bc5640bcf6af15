"""What a field is: Unischema, codecs, and the types of Spark and NumPy behind them."""
