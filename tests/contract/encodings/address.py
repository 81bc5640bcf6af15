"""A fixed-size object: an IPv4 address."""

from ipaddress import IPv4Address
from typing import Any

import pyarrow as pa

from mdstorm_backend.format.encodings.encoding import Encoding


class Address(Encoding):
    names = ("example_ipv4",)
    size = 4
    stores = (pa.types.is_string,)

    def encode(self, value: Any) -> bytes:
        return IPv4Address(value).packed

    def decode(self, stored: Any) -> Any:
        return IPv4Address(stored)


VALUES = {"example_ipv4": ["10.0.0.1", "10.0.255.0", "192.168.0.7"]}
