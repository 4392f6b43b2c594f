"""Whatever comes from outside ends in an answer or in a typed error, in bounded time and memory.

``CUDALOCK_FUZZ=100000`` makes the long run of the same tests.
"""

from __future__ import annotations

import os
import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults.inputs import SEEDS, inputs
from faults.targets import TARGETS

EXAMPLES = int(os.environ.get("CUDALOCK_FUZZ", "120"))
_LONGEST_S = 3.0  # for inputs of some kilobytes; a machine under load takes a part of it


@pytest.mark.parametrize("kind", TARGETS)
def test_any_input(kind: str) -> None:
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=EXAMPLES < 1000,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(inputs(kind))
    def survives(data: bytes) -> None:
        began = time.process_time()
        TARGETS[kind](data)
        assert time.process_time() - began < _LONGEST_S

    survives()


@pytest.mark.parametrize("kind", TARGETS)
def test_seeds_are_sound(kind: str) -> None:
    """What the inputs are made from is accepted: else the mutations would test the first line of a parser only."""
    for seed in SEEDS[kind]:
        TARGETS[kind](seed)
    assert st.one_of(inputs(kind)) is not None


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("number", [b"9" * 5_001, b"9" * 5_001 + b".1"], ids=["whole", "release"])
def test_a_number_that_python_refuses_to_read(kind: str, number: bytes) -> None:
    """int() stops at 4,300 digits with a ValueError; such a number may stand wherever a seed has one."""
    for seed in SEEDS[kind]:
        for place in list(re.finditer(rb"\d+(?:\.\d+)*", seed))[:200]:
            TARGETS[kind](seed[: place.start()] + number + seed[place.end() :])


_MARKERS = ["os_name ~= 'x'", "python_version ~= '3'", "extras == 'x'", "'x' in extras", "'x' in dependency_groups"]


@pytest.mark.parametrize("marker", _MARKERS)
def test_a_marker_that_packaging_reads_and_cannot_evaluate(marker: str) -> None:
    TARGETS["metadata"](f"Name: demo\nVersion: 1.0\nRequires-Dist: a; {marker}\n\n".encode())
    TARGETS["requirements"](f"a; {marker}\n".encode())
    lock = 'lock-version = "1.0"\ncreated-by = "x"\n'
    package = '[[packages]]\nname = "a"\narchive = {url = "x", hashes = {sha256 = "00"}}\n'
    TARGETS["lock"](f'{lock}{package}marker = "{marker}"\n'.encode())
    TARGETS["lock"](f'{lock}environments = ["{marker}"]\n{package}'.encode())


@pytest.mark.parametrize("kind", ["lock", "configuration"])
def test_a_hexadecimal_number_without_end(kind: str) -> None:
    """int() reads it whatever its length, and str() then refuses it."""
    for seed in SEEDS[kind]:
        for place in list(re.finditer(rb"(?<== )\S+", seed))[:100]:
            TARGETS[kind](seed[: place.start()] + b"0x" + b"f" * 5_000 + seed[place.end() :])
