"""The benchmark's snapshot of real pages, for tests: it lies beside ``tests``, not in it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
