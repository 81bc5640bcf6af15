"""Names of `torchvision.utils`, for imports alone."""

from torchvision.absent import __getattr__ as __getattr__
