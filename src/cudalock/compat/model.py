"""Answers of the compatibility rules: admitted or refused, with reasons that render as a sentence and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from cudalock.versions import ComputeCapability, DriverVersion

__all__ = ["GpuVerdict", "Mode", "Policy", "Reason", "Verdict"]


class Mode(StrEnum):
    """How a driver runs a CUDA build: the three terms of NVIDIA's compatibility documents."""

    NATIVE = "native"
    MINOR = "minor"
    FORWARD = "forward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the user allows: ``--cuda``, ``--compat``, ``--without-triton``.

    Attributes:
        cuda: only builds of this CUDA release (``12.8``); None for any.
        modes: which modes of the driver rule may be used; native and minor by default.
        without_triton: rule R3 is waived.
    """

    cuda: str | None = None
    modes: frozenset[Mode] = frozenset({Mode.NATIVE, Mode.MINOR})
    without_triton: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One fact that admits, limits or refuses a build.

    Attributes:
        rule: ``R1`` driver, ``R2`` architecture, ``R3`` triton, ``R4`` one CUDA, ``choice`` for the user's policy.
        code: a code of the findings catalogue.
        sentence: one sentence for people, without a full stop at the end.
        facts: the values behind it, JSON-serialisable.
    """

    rule: Literal["R1", "R2", "R3", "R4", "choice"]
    code: str
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The reason as it stands in a command's JSON answer."""
        return {"rule": self.rule, "code": self.code, "message": self.sentence, "facts": dict(self.facts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuVerdict:
    """What the rules say for one GPU.

    Attributes:
        gpu: its compute capability.
        serves: the architecture of the build that serves it (``sm_86``, ``compute_90``), None if none does.
        by_ptx: whether the driver must compile PTX for it.
        driver_min: lowest driver with which this GPU runs this build and its triton.
        triton: e.g. ``ptxas 12.9``, ``ptxas-blackwell 13.1``, ``passenger``, ``none`` (torch requires no triton).
    """

    gpu: ComputeCapability
    serves: str | None
    by_ptx: bool = False
    driver_min: DriverVersion | None = None
    triton: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a build is admitted for a target: admitted exactly if ``refusals`` is empty."""

    mode: Mode | None = None
    gpus: tuple[GpuVerdict, ...] = ()
    refusals: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()

    @property
    def admitted(self) -> bool:
        """True if nothing refuses it."""
        return not self.refusals
