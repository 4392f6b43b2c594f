"""From all findings to an answer: one finding a fault, consequences below their cause, the most probable cause first.

What decides the order: severity; whether a program's own words confirm the finding; how deep in the stack it lies: a
fault of the driver explains one of a wheel and not the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cudalock.findings import Finding

__all__ = ["EXPLAINS", "merge", "rank"]

_SEVERITY = {"error": 0, "warning": 1, "info": 2}

# Deepest first: what lies above is built on it.
_DEPTH = (
    "fabric-manager-mismatch", "container-lost-gpu", "driver-library-mismatch", "driver-not-found",
    "open-module-on-old-gpu", "libcuda-stub-loaded", "compat-on-geforce", "libcuda-shadowed", "libcuda-not-found",
    "container-requires-newer-cuda", "musl-unsupported", "glibc-too-old", "venv-incomplete", "torch-is-cpu-build",
    "no-wheel-for-python", "no-wheel-for-platform", "torch-not-from-lock", "driver-too-old",
    "architecture-end-of-life", "gpu-not-in-wheel", "ptx-newer-than-driver", "triton-two-distributions",
    "files-clobbered", "missing-nvidia-dependency", "cuda-majors-mixed", "nccl-off-pin", "cudnn-mixed",
    "library-shadowed", "numpy2-with-old-torch", "companion-cuda-mismatch", "companion-mismatch", "triton-missing",
    "triton-off-pin", "assembler-overridden", "assembler-newer-than-driver", "assembler-does-not-know-gpu",
    "triton-too-old-for-gpu", "host-compiler-missing", "python-headers-missing", "triton-cache-unwritable",
    "triton-cache-on-network-filesystem", "triton-cache-stale", "extension-cuda-major-mismatch",
    "extension-abi-mismatch", "extension-glibc-too-new", "extension-lacks-gpu", "bitsandbytes-no-binary",
    "undeclared-needed-library",
)  # fmt: skip
_PLACE = {code: place for place, code in enumerate(_DEPTH)}

EXPLAINS: Mapping[str, frozenset[str]] = {
    code: frozenset(consequences.split())
    for code, consequences in {
        "driver-not-found": "libcuda-not-found nvml-unavailable no-gpu-visible torch-is-cpu-build target-unknown",
        "driver-library-mismatch": "nvml-unavailable libcuda-shadowed driver-not-found driver-package-in-container",
        "container-lost-gpu": "nvml-unavailable no-gpu-visible",
        "fabric-manager-mismatch": "no-gpu-visible",
        "libcuda-stub-loaded": "libcuda-shadowed libcuda-not-found driver-not-found no-gpu-visible",
        "compat-on-geforce": "libcuda-shadowed compat-library-in-use driver-library-mismatch no-gpu-visible",
        "libcuda-shadowed": "driver-library-mismatch compat-library-in-use",
        "open-module-on-old-gpu": "no-gpu-visible driver-not-found",
        "container-requires-newer-cuda": "minor-compat-in-use",
        "driver-too-old": "assembler-newer-than-driver ptx-newer-than-driver minor-compat-in-use no-gpu-visible",
        "no-wheel-for-python": "torch-is-cpu-build",
        "no-wheel-for-platform": "torch-is-cpu-build",
        "torch-is-cpu-build": (
            "companion-cuda-mismatch torch-not-from-lock lock-drift triton-missing unused-nvidia-libraries"
            " extension-abi-mismatch extension-cuda-major-mismatch undeclared-needed-library"
        ),
        "torch-not-from-lock": (
            "companion-mismatch companion-cuda-mismatch lock-drift triton-off-pin triton-missing cuda-majors-mixed"
            " missing-nvidia-dependency nccl-off-pin cudnn-mixed gpu-not-in-wheel driver-too-old extension-abi-mismatch"
        ),
        "venv-incomplete": "lock-drift missing-nvidia-dependency triton-missing",
        "gpu-not-in-wheel": "architecture-end-of-life mixed-architectures gpu-only-by-ptx no-admissible-build",
        "triton-two-distributions": "files-clobbered triton-off-pin triton-missing lock-drift",
        "files-clobbered": "nccl-off-pin cuda-majors-mixed undeclared-needed-library missing-nvidia-dependency",
        "missing-nvidia-dependency": "undeclared-needed-library lock-drift cuda-libraries-not-on-path",
        "cuda-majors-mixed": "nccl-off-pin lock-drift",
        "nccl-off-pin": "nccl-known-bad lock-drift",
        "cudnn-mixed": "library-shadowed lock-drift",
        "companion-mismatch": "extension-abi-mismatch lock-drift",
        "companion-cuda-mismatch": "extension-cuda-major-mismatch extension-abi-mismatch undeclared-needed-library",
        "triton-off-pin": "lock-drift assembler-does-not-know-gpu triton-too-old-for-gpu",
        "triton-missing": "lock-drift",
        "assembler-overridden": "assembler-does-not-know-gpu assembler-newer-than-driver",
        "extension-cuda-major-mismatch": "undeclared-needed-library extension-abi-mismatch",
        "extension-abi-mismatch": "extension-build-differs",
        "bitsandbytes-no-binary": "undeclared-needed-library companion-cuda-mismatch",
    }.items()
}
"""Code -> the codes that it may bring about, so that they are told as its consequences."""

_REFUSALS_OF_AN_INSTALLER = frozenset({"no-wheel-for-python", "no-wheel-for-platform"})
"""They say why torch is the one that is there only where it was torch that was refused."""
_TORCH = re.compile(r"torch(?![\w-])", re.IGNORECASE)


def merge(own: Iterable[Finding], reported: Sequence[Finding]) -> list[Finding]:
    """The rules' findings and what programs' own words say: the same fault once, confirmed.

    Words that name a fault which the rules found at a lower severity raise it. Words that the rules know nothing about
    stay findings of their own.
    """
    found: list[Finding] = []
    by_code = {finding.code: finding for finding in reversed(reported)}
    seen: set[tuple[str, str]] = set()
    for finding in own:
        if (finding.code, finding.message) in seen:
            continue
        seen.add((finding.code, finding.message))
        words = by_code.get(finding.code)
        if words is None:
            found.append(finding)
            continue
        severity = min(finding.severity, words.severity, key=_SEVERITY.__getitem__)
        evidence = {**finding.evidence, "reported": words.evidence.get("line") or words.message}
        found.append(replace(finding, severity=severity, evidence=evidence))
    named = {finding.code for finding in found}
    for finding in reported:
        if finding.code not in named:
            named.add(finding.code)
            found.append(finding if _is_open(finding) else _confirmed(finding))
    return found


def _confirmed(finding: Finding) -> Finding:
    return replace(finding, evidence={**finding.evidence, "reported": finding.evidence.get("line") or finding.message})


def _is_open(finding: Finding) -> bool:
    """Whether the words leave several causes possible: then they confirm none."""
    return bool(finding.evidence.get("possible"))


def rank(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Consequences folded into their cause, then the most probable root cause first."""
    ordered = sorted(findings, key=_probability)
    above: dict[int, int] = {}
    for number, finding in enumerate(ordered):
        for candidate, other in enumerate(ordered):
            if candidate != number and _explains(other, finding) and _root(candidate, above) != number:
                above[number] = candidate
                break
    kept = {number: finding for number, finding in enumerate(ordered) if number not in above}
    for number in above:
        root = _root(number, above)
        kept[root] = _with_consequence(kept[root], ordered[number])
    return tuple(sorted(kept.values(), key=_probability))


def _root(number: int, above: Mapping[int, int]) -> int:
    while number in above:
        number = above[number]
    return number


def _probability(finding: Finding) -> tuple[int, int, int]:
    confirmed = bool(finding.evidence.get("reported"))
    return _SEVERITY[finding.severity], 0 if confirmed else 1, _PLACE.get(finding.code, len(_DEPTH))


def _explains(cause: Finding, finding: Finding) -> bool:
    """Errors explain what they bring about; a mere warning explains no error."""
    if cause.code in _REFUSALS_OF_AN_INSTALLER and not _of_torch(cause):
        return False
    if _SEVERITY[cause.severity] > _SEVERITY[finding.severity]:
        return False
    if cause.severity == "info":
        return False
    return finding.code in EXPLAINS.get(cause.code, ())


def _of_torch(refusal: Finding) -> bool:
    refused = refusal.evidence.get("requirement") or refusal.evidence.get("wanted")
    return bool(_TORCH.match(str(refused or "")))


def _with_consequence(cause: Finding, finding: Finding) -> Finding:
    told = [*cause.evidence.get("consequences", ())]
    told = [one for one in told if isinstance(one, dict)] + [{"code": finding.code, "message": finding.message}]
    confirmed = cause.evidence.get("reported") or finding.evidence.get("reported")
    evidence = {**cause.evidence, "consequences": told}
    if confirmed:
        evidence["reported"] = confirmed
    return replace(cause, evidence=evidence)
