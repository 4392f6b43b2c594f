"""The rules of the triple, pure: which build of torch a target admits, why, and what would help if none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.compat.companions import (
        companion_fits,
        companion_lacks_gpu,
        companion_notes,
        cuda_major_of_distribution,
    )
    from cudalock.compat.driver import driver_os, effective_cuda, lowest_driver, own_cuda
    from cudalock.compat.judging import judge, judge_without_triton, preference
    from cudalock.compat.model import GpuVerdict, Mode, Policy, Reason, Verdict
    from cudalock.compat.remedy import (
        Remedy,
        TorchOption,
        best_admitted,
        refusals_by_fact,
        remedies,
        unlocked_by_driver,
    )
    from cudalock.compat.triton import assembler_for, assembler_target, is_passenger, triton_verdict

__all__ = [
    "GpuVerdict",
    "Mode",
    "Policy",
    "Reason",
    "Remedy",
    "TorchOption",
    "Verdict",
    "assembler_for",
    "assembler_target",
    "best_admitted",
    "companion_fits",
    "companion_lacks_gpu",
    "companion_notes",
    "cuda_major_of_distribution",
    "driver_os",
    "effective_cuda",
    "is_passenger",
    "judge",
    "judge_without_triton",
    "lowest_driver",
    "own_cuda",
    "preference",
    "refusals_by_fact",
    "remedies",
    "triton_verdict",
    "unlocked_by_driver",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "companions": (
            "companion_fits",
            "companion_lacks_gpu",
            "companion_notes",
            "cuda_major_of_distribution",
        ),
        "driver": (
            "driver_os",
            "effective_cuda",
            "lowest_driver",
            "own_cuda",
        ),
        "judging": (
            "judge",
            "judge_without_triton",
            "preference",
        ),
        "model": (
            "GpuVerdict",
            "Mode",
            "Policy",
            "Reason",
            "Verdict",
        ),
        "remedy": (
            "Remedy",
            "TorchOption",
            "best_admitted",
            "refusals_by_fact",
            "remedies",
            "unlocked_by_driver",
        ),
        "triton": (
            "assembler_for",
            "assembler_target",
            "is_passenger",
            "triton_verdict",
        ),
    },
)
