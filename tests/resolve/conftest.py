"""A world for every test."""

from __future__ import annotations

import pytest

from support.world import World


@pytest.fixture
def world() -> World:
    """An empty index and an H100 with driver 580.65.06 (CUDA 13.0)."""
    return World()
