"""What every test gets: an environment without the settings of this machine, and a fake index to talk to."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.fake_index import FakeIndex

_FOREIGN_PREFIXES = ("PIP_", "UV_", "CUDALOCK_", "CUDA_", "TRITON_", "TORCH_", "NVIDIA_")
_FOREIGN_NAMES = (
    "FORCE_COLOR", "VIRTUAL_ENV", "PYTHONPATH", "NETRC", "LD_LIBRARY_PATH", "LD_PRELOAD", "COLUMNS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy",
)  # fmt: skip


@pytest.fixture(autouse=True)
def scrubbed_environment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """No setting of this machine reaches a test; returns the home directory that tests have.

    Tests marked ``live`` keep pip's settings and proxies: they are how this machine reaches its index.
    """
    live = request.node.get_closest_marker("live") is not None
    for name in list(os.environ):
        if name.startswith(_FOREIGN_PREFIXES) or name in _FOREIGN_NAMES:
            if live and (name.startswith("PIP_") or name.lower().endswith("_proxy")):
                continue
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    for variable, folder in {
        "HOME": "", "USERPROFILE": "", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data",
        "UV_CACHE_DIR": "uv-cache", "CUDALOCK_CACHE_DIR": "cudalock-cache",
    }.items():  # fmt: skip
        monkeypatch.setenv(variable, str(home / folder))
    if not live:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    return home


@pytest.fixture
def fake_index() -> FakeIndex:
    """An empty fake index (in-process or, with ``.serve()``, on loopback)."""
    return FakeIndex()


def pytest_configure() -> None:
    """Children are interrupted in tests; in a job that a shell started in the background they would ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.name == "posix":
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
