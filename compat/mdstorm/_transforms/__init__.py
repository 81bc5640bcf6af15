"""Run a `TransformSpec` function in threads or processes."""
