"""How examples of property tests are run."""

from hypothesis import HealthCheck, settings

#: None is too slow: the machine may have other things to do.
patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
