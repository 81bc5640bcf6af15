"""Values before they are stored: batches of NumPy and Arrow, and the types of Arrow and Spark."""
