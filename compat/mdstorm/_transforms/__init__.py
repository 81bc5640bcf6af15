"""Run the function of a `TransformSpec` in threads or processes."""
