"""Check whether mdstorm can work here, and what to do where it cannot.

In a notebook::

    from mdstorm.doctor import check_setup

    check_setup()                          # looks, and changes nothing
    check_setup("s3://bucket/cache")       # also writes there with Spark, reads back, and deletes

The command ``mdstorm doctor`` does the same.
"""

from __future__ import annotations

from mdstorm.doctor._check_setup import check_setup
from mdstorm.doctor._findings import Finding, Report

__all__ = ["Finding", "Report", "check_setup"]
