"""`StreamingTrainerMixin` for Hugging Face's ``Trainer``."""

from mdstorm._integrations.trainer_mixin import StreamingTrainerMixin

__all__ = ["StreamingTrainerMixin"]
