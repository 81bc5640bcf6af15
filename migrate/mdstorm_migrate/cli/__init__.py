"""The commands ``mdstorm migrate`` and ``mdstorm audit``, and their configuration."""
