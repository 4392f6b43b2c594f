"""What programs' words mean on this machine: the facts may exclude the cause that the words usually have."""

from __future__ import annotations

from collections.abc import Sequence

from cudalock import facts
from cudalock.doctor.rules.situation import Situation, make_finding
from cudalock.findings import Finding

__all__ = ["in_situation"]

_NO_CODE_OF_WHOMEVER = frozenset({"no-kernel-image", "cuda-number-209"})
"""Patterns of CUDA's own error, which does not say whose code is missing; torch's own warnings do."""


def in_situation(reported: Sequence[Finding], situation: Situation) -> list[Finding]:
    """The reported findings; one whose usual cause is excluded here becomes what is left."""
    return [_without_code(one, situation) if _blames_torch(one, situation) else one for one in reported]


def _blames_torch(finding: Finding, situation: Situation) -> bool:
    by_error_alone = finding.code == "gpu-not-in-wheel" and finding.evidence.get("pattern") in _NO_CODE_OF_WHOMEVER
    return by_error_alone and _torch_serves_every_gpu(situation)


def _torch_serves_every_gpu(situation: Situation) -> bool:
    """Whether it is known, and not only inferred from a neighbouring release, that torch holds code for all GPUs."""
    torch, verdict = situation.evidence.torch, situation.verdict
    if torch is None or torch.architectures is None or torch.evidence == "inferred" or verdict is None:
        return False
    known = bool(situation.gpus) and all(gpu.compute_capability for gpu in situation.host.gpus)
    return known and not any(reason.rule == "R2" for reason in verdict.refusals)


def _without_code(words: Finding, situation: Situation) -> Finding:
    torch = situation.evidence.torch
    gpus = ", ".join(map(str, situation.gpus))
    compiled = {one.distribution for one in situation.evidence.extensions}
    names = sorted(
        one.name for one in situation.evidence.distributions if one.name in compiled or one.name in facts.companions()
    )
    message = f"{situation.torch_name} holds code for {gpus}, so that an extension without it brought the error"
    evidence = {
        **words.evidence,
        "holds": [str(item) for item in (torch.architectures if torch else None) or ()],
        "candidates": names,
    }
    return make_finding("extension-lacks-gpu", message, evidence)
