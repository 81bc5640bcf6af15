"""The data module for Lightning, for whichever of its two packages."""
