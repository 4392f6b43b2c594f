"""Reads the machine: driver, GPUs, platform, container; every fact remembers which probe answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.host.ladder import detect
    from cudalock.host.model import Container, Gpu, Host, ProbeCommands, ProbeOutcome
    from cudalock.host.record import host_to_json, parse_facts, read_facts
    from cudalock.host.surroundings import detect_surroundings

__all__ = [
    "Container",
    "Gpu",
    "Host",
    "ProbeCommands",
    "ProbeOutcome",
    "detect",
    "detect_surroundings",
    "host_to_json",
    "parse_facts",
    "read_facts",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ladder": ("detect",),
        "model": (
            "Container",
            "Gpu",
            "Host",
            "ProbeCommands",
            "ProbeOutcome",
        ),
        "record": (
            "host_to_json",
            "parse_facts",
            "read_facts",
        ),
        "surroundings": ("detect_surroundings",),
    },
)
