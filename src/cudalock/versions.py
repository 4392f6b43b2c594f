"""The numbers of this field as values: compute capability, architecture, CUDA version, driver version.

All are immutable, ordered where an order makes sense, parse what tools really print and raise :class:`ValueError`
with the offending text otherwise. They do no I/O and know no rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Literal, Self

__all__ = ["Architecture", "ComputeCapability", "CudaVersion", "DriverVersion", "has_endless_number"]

_ENDLESS = re.compile(r"\d{1000}")


@dataclass(frozen=True, slots=True, order=True)
class ComputeCapability:
    """The compute capability of a GPU, e.g. 8.9 or 12.0."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Accepts ``8.9``, ``sm_89`` and ``sm_120`` (no suffix); raises ValueError otherwise."""
        text = text.strip()
        if match := re.fullmatch(r"(\d{1,2})\.(\d)", text):
            return cls(int(match[1]), int(match[2]))
        if match := re.fullmatch(r"(?:sm_|compute_)(\d{1,2})(\d)", text):
            return cls(int(match[1]), int(match[2]))
        raise ValueError(f"not a compute capability: {text!r} (expected e.g. 8.9)")

    @property
    def number(self) -> int:
        """The capability as the number used in architecture names: 89, 120."""
        return self.major * 10 + self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True, order=True)
class Architecture:
    """What a binary was compiled for: machine code (``sm_90``, ``sm_90a``, ``sm_100f``) or PTX (``compute_90``)."""

    capability: ComputeCapability
    suffix: Literal["", "a", "f"] = ""
    ptx: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Accepts ``sm_90``, ``sm_90a``, ``compute_120``, ``8.6`` and ``9.0+PTX`` is not one: split it first."""
        text = text.strip()
        if match := re.fullmatch(r"(sm|compute)_(\d{1,2})(\d)([af]?)", text):
            suffix: Literal["", "a", "f"] = "a" if match[4] == "a" else "f" if match[4] == "f" else ""
            return cls(ComputeCapability(int(match[2]), int(match[3])), suffix, match[1] == "compute")
        if match := re.fullmatch(r"(\d{1,2}\.\d)([af]?)", text):
            suffix = "a" if match[2] == "a" else "f" if match[2] == "f" else ""
            return cls(ComputeCapability.parse(match[1]), suffix)
        raise ValueError(f"not an architecture: {text!r} (expected e.g. sm_90, sm_100f or compute_90)")

    def __str__(self) -> str:
        return f"{'compute' if self.ptx else 'sm'}_{self.capability.number}{self.suffix}"


@dataclass(frozen=True, slots=True, order=True)
class CudaVersion:
    """A CUDA toolkit release by major and minor, e.g. 12.8; updates (12.8.1) share their binary interface."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Accepts ``12.8``, ``12.8.1``, ``cu128``, ``cu92``; raises ValueError otherwise."""
        text = text.strip()
        if match := re.fullmatch(r"(\d{1,2})\.(\d{1,2})(?:\.\d+)*", text):
            return cls(int(match[1]), int(match[2]))
        if match := re.fullmatch(r"cu(\d{1,2})(\d)", text):
            return cls(int(match[1]), int(match[2]))
        raise ValueError(f"not a CUDA version: {text!r} (expected e.g. 12.8 or cu128)")

    @classmethod
    def from_driver_api(cls, number: int) -> Self:
        """From ``cuDriverGetVersion`` and kin: 1000 * major + 10 * minor, e.g. 13000."""
        return cls(number // 1000, number % 1000 // 10)

    @property
    def label(self) -> str:
        """The label of the PyTorch index: ``cu128``."""
        return f"cu{self.major}{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class DriverVersion:
    """A driver version such as 535.161.08; compared as numbers, missing parts count as zero, printed as given."""

    text: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){0,2}", self.text):
            raise ValueError(f"not a driver version: {self.text!r} (expected e.g. 535.161.08)")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Accepts one to three numeric parts: ``580``, ``573.24``, ``535.161.08``."""
        return cls(text.strip())

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The three parts as numbers, padded with zeros."""
        parts = [int(part) for part in self.text.split(".")] + [0, 0]
        return parts[0], parts[1], parts[2]

    @property
    def branch(self) -> int:
        """The driver branch: 535 of 535.161.08."""
        return self.numbers[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DriverVersion) and self.numbers == other.numbers

    def __lt__(self, other: DriverVersion) -> bool:
        return self.numbers < other.numbers

    def __hash__(self) -> int:
        return hash(self.numbers)

    def __str__(self) -> str:
        return self.text


def has_endless_number(text: str) -> bool:
    """Whether a version in ``text`` has more digits than Python turns into a number; no real one has."""
    return _ENDLESS.search(text) is not None
