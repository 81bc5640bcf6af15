"""Holds `torchvision.transforms.functional` of the stand-in."""
