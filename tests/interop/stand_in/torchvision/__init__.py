"""Just enough of torchvision for `import streaming` to succeed.

MosaicML Streaming imports torchvision when it is imported, for its CIFAR-10 and ImageNet classes.
Each release of torchvision fits one release of torch only, and nothing that is compared with needs
those classes, so the two names that are looked up at import time stand in for it. Using them is an
error, never a different result.
"""
