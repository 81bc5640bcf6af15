"""What code runs in: Pythons, runtimes and pins, and which of them mdstorm does not fit."""
