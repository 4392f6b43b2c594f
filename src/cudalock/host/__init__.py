"""Reads the machine: driver, GPUs, platform, container; every fact remembers which probe answered."""

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
