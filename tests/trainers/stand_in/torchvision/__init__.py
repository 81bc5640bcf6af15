"""Just enough of torchvision for `import composer` to succeed.

Composer, and torchmetrics where there is a torchvision, look up names of it when they are imported.
The wheels on PyPI load with torch's builds for CUDA only. The programs use none of those names:
each is here a class that cannot be made.
"""

from torchvision.absent import __getattr__ as __getattr__
