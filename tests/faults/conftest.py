"""The command line in front of an index that misbehaves on order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.conftest import Cudalock, Outcome, cudalock, folder
from faults.misbehaving import Misbehaving, misbehaving
from support.fake_index import FakeIndex

__all__ = ["Cudalock", "Outcome", "World", "cudalock", "folder"]


@dataclass
class World:
    """An index, the proxy before it, and the folder in which commands run.

    ``alpha`` needs ``beta`` (with a sidecar) and ``gamma`` (without one, and large: its metadata comes by ranges).
    """

    index: FakeIndex
    proxy: Misbehaving
    folder: Path

    def listing(self) -> dict[str, bytes]:
        """All files of the folder."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeats come at once: how long the pauses are is tested with the client."""
    monkeypatch.setattr("cudalock.index.fetch._pause", lambda repeats: 0.01 * (repeats + 1))


@pytest.fixture
def world(fake_index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch, short_pauses: None) -> Iterator[World]:
    fake_index.add_wheel("alpha", "1.0", requires=["beta", "gamma"])
    fake_index.add_wheel("beta", "1.0")
    big = {"gamma/data.bin": bytes(range(256)) * 4000, "gamma/__init__.py": b""}
    fake_index.add_wheel("gamma", "1.0", sidecar="absent", files=big, stored=True)
    with fake_index.serve() as url, misbehaving(url) as proxy:
        monkeypatch.setenv("CUDALOCK_INDEX_URL", proxy.url + "/simple/")
        monkeypatch.setenv("CUDALOCK_PYTORCH_INDEX_URL", proxy.url + "/whl")
        monkeypatch.setenv("CUDALOCK_TIMEOUT", "0.4")
        monkeypatch.setenv("CUDALOCK_RETRIES", "2")
        yield World(fake_index, proxy, folder)
