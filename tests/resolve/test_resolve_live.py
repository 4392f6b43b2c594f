"""Against the real main index; the PyTorch index may or may not be reachable."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from cudalock.compat import Mode, Policy
from cudalock.index import IndexClient, IndexSettings
from cudalock.progress import SILENT
from cudalock.requirements.model import Request
from cudalock.resolve import ResolveOptions, resolve
from support.world import asked, make_target, versions

pytestmark = pytest.mark.live


def test_torch_for_an_h100_from_the_main_index_alone(tmp_path: Path) -> None:
    settings = IndexSettings(cache_dir=tmp_path)
    with IndexClient(settings, reporter=SILENT) as client:
        found = resolve(
            Request(requirements=asked("torch")),
            make_target("9.0", driver="580.65.06"),
            client,
            policy=Policy(),
            options=ResolveOptions(pytorch="never"),
        )
    assert found.triple is not None
    assert found.triple.torch >= Version("2.15.0")
    assert found.triple.verdict.mode in {Mode.NATIVE, Mode.MINOR}
    pins = versions(found)
    assert pins["triton"] == str(found.triple.triton)
    assert "cuda-toolkit" in pins
    assert found.indexes == ("main",)
