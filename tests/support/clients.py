"""Index clients for tests, connected to a fake index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from packaging.utils import canonicalize_name

from cudalock.index import IndexClient, IndexSettings
from cudalock.index.model import IndexFile, PageRef
from cudalock.progress import Level, Reporter
from support.fake_index import FakeIndex

__all__ = ["Recorder", "client_of", "main_page", "only_file", "pytorch_page"]


@dataclass
class Recorder(Reporter):
    """Remembers what it is told."""

    messages: list[tuple[str, str, str | None]] = field(default_factory=list)
    advances: list[tuple[str, int, int | None]] = field(default_factory=list)

    def message(self, level: Level, text: str, *, code: str | None = None) -> None:
        self.messages.append((level, text, code))

    def advance(self, what: str, done: int, total: int | None, *, unit: str = "") -> None:
        self.advances.append((what, done, total))

    def texts(self, level: str | None = None) -> str:
        """All messages of the level, one a line."""
        return "\n".join(text for its_level, text, _ in self.messages if level in (None, its_level))


def client_of(
    index: FakeIndex,
    *,
    cache: Path | None = None,
    reporter: Reporter | None = None,
    environ: Mapping[str, str] | None = None,
    in_process: bool | None = None,
    **settings: Any,
) -> IndexClient:
    """A client of the fake index: in-process unless the index is being served on a socket."""
    if in_process is None:
        in_process = not index.host.startswith("http://127.0.0.1")
    values = {"main_url": index.main_url, "pytorch_url": index.pytorch_url, "cache_dir": cache, "timeout_s": 5.0}
    return IndexClient(
        IndexSettings(**(values | settings)),
        reporter=reporter or Recorder(),
        environ={} if environ is None else environ,
        transport=httpx.WSGITransport(app=index) if in_process else None,
    )


def main_page(project: str) -> PageRef:
    """The project's page on the main index."""
    return PageRef("main", canonicalize_name(project))


def pytorch_page(project: str, label: str | None) -> PageRef:
    """The project's page under a label of the PyTorch index."""
    return PageRef("pytorch", canonicalize_name(project), label)


def only_file(client: IndexClient, ref: PageRef) -> IndexFile:
    """The single file of a page."""
    (file,) = client.page(ref).files
    return file
