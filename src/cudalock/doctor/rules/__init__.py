"""The rules of the diagnosis: pure functions from evidence to findings, one for each kind of fault."""

from __future__ import annotations

from collections.abc import Iterator

from cudalock.doctor.model import Evidence
from cudalock.doctor.rules import closure, extensions, libraries, machine, triton, wheels
from cudalock.doctor.rules.ranking import merge, rank
from cudalock.doctor.rules.situation import Situation
from cudalock.doctor.rules.words import in_situation
from cudalock.findings import Finding

__all__ = ["diagnose", "next_steps"]

_RULES = (*machine.RULES, *libraries.RULES, *wheels.RULES, *closure.RULES, *triton.RULES, *extensions.RULES)


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings of the evidence: most probable root cause first, consequences in their cause's ``evidence``.

    Nothing is read or started here; the same evidence gives the same answer.
    """
    situation = Situation(evidence)
    own: list[Finding] = [finding for rule in _RULES for finding in rule(situation)]
    return rank(merge(own, in_situation(evidence.reported, situation)))


def next_steps(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """What to look at next: the facts that are unknown and would have decided something."""
    return tuple(_next(evidence, findings))


def _next(evidence: Evidence, findings: tuple[Finding, ...]) -> Iterator[str]:
    situation = Situation(evidence)
    host = evidence.host
    if host.driver is None and host.cuda_driver is None and not host.probes:
        yield "the driver is unknown: `cudalock detect --json` on the machine, or nvidia-smi"
    if not situation.gpus and situation.has_gpu is not False:
        yield "the compute capability of the GPUs is unknown: nvidia-smi --query-gpu=name,compute_cap --format=csv"
    if not evidence.complete and evidence.torch is None:
        yield "the packages are unknown: `pip list` of the environment, or `cudalock doctor --venv DIR` on the machine"
    elif not evidence.complete and _code_unknown(evidence):
        yield "what the torch build holds is unknown: torch.cuda.get_arch_list(), torch.version.cuda"
    if evidence.complete and evidence.torch is None:
        yield "there is no torch in this environment: is it the one that the program uses?"
    if evidence.environment is None and evidence.complete is False and host.probes:
        yield "only the machine was examined: name an environment with --venv DIR or --python EXE"
    if not evidence.errors and not any(finding.severity == "error" for finding in findings):
        yield "if something still fails, give its output to `cudalock explain`"
    yield from evidence.gaps


def _code_unknown(evidence: Evidence) -> bool:
    torch = evidence.torch
    return torch is not None and torch.architectures is None and torch.cpu is not True
