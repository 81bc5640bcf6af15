"""Names of `torchvision.datasets`, for imports alone."""

from torchvision.absent import __getattr__ as __getattr__
