"""Running the functions of a `TransformSpec`, in threads and in processes."""
