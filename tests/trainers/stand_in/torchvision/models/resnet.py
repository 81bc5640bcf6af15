"""Names of `torchvision.models.resnet`, for imports alone."""

from torchvision.absent import __getattr__ as __getattr__
