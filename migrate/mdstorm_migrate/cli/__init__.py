"""The ``mdstorm migrate`` and ``mdstorm audit`` commands, and their configuration."""
