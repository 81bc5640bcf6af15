"""A stand-in for Horovod, which the environments of the tests do not have."""
