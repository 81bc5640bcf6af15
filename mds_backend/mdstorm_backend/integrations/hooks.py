"""Which hook is applied to which module of a training framework."""

from __future__ import annotations

from mdstorm_backend.base import when_loaded
from mdstorm_backend.integrations.accelerate import hand_over_to_accelerate
from mdstorm_backend.integrations.lightning import (
    count_in_lightning,
    count_steps_in_lightning,
    report_use_in_lightning,
    restore_in_lightning,
    save_without_positions,
)
from mdstorm_backend.integrations.ray import report_use_in_ray

#: Maps each module to the function that applies its hooks.
_HOOKS = {
    "accelerate": hand_over_to_accelerate,
    "accelerate.accelerator": hand_over_to_accelerate,
    "accelerate.data_loader": hand_over_to_accelerate,
    "lightning.pytorch.loops.fetchers": report_use_in_lightning,
    "lightning.pytorch.loops.fit_loop": restore_in_lightning,
    "lightning.pytorch.loops.training_epoch_loop": count_in_lightning,
    "lightning.pytorch.trainer.trainer": count_steps_in_lightning,
    "lightning.pytorch.utilities.combined_loader": save_without_positions,
    "pytorch_lightning.loops.fetchers": report_use_in_lightning,
    "pytorch_lightning.loops.fit_loop": restore_in_lightning,
    "pytorch_lightning.loops.training_epoch_loop": count_in_lightning,
    "pytorch_lightning.trainer.trainer": count_steps_in_lightning,
    "pytorch_lightning.utilities.combined_loader": save_without_positions,
    "ray.train.torch.train_loop_utils": report_use_in_ray,
    "transformers.trainer": hand_over_to_accelerate,
}


def install() -> None:
    """Apply hooks to loaded frameworks now, and to others as soon as they are loaded."""
    for module, hook in _HOOKS.items():
        when_loaded([module], hook)
