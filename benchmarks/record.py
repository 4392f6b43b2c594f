"""Records the snapshot anew: ``python -m benchmarks.record``.

It serves an empty snapshot on loopback, lets cudalock, uv and pip resolve the sets of the benchmark through it, and
keeps each page and each METADATA that one of them asked for. Pages come whole, as the index that pip is configured for
serves them, through cudalock's own client.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from urllib.parse import urljoin

from benchmarks.server import Server
from benchmarks.snapshot import SNAPSHOT, Snapshot
from benchmarks.tools import SETS, tools
from cudalock.index import IndexSettings, main_index_url
from cudalock.index.credentials import CredentialStore
from cudalock.index.fetch import Fetcher
from cudalock.index.lazy_zip import RemoteFile
from cudalock.index.simple import ACCEPT_ANY
from cudalock.index.wheel import read_wheel_metadata
from cudalock.progress import SILENT

__all__ = ["Upstream"]


class Upstream:
    """Fetches what the snapshot lacks from the index that pip is configured for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._main = main_index_url(None, os.environ, None)
        given = [(self._main.url, self._main.credentials)] if self._main.credentials else []
        self._fetcher = Fetcher(IndexSettings(), CredentialStore(given, os.environ), reporter=SILENT)
        self._urls: dict[str, str] = {}

    def add_page(self, project: str) -> bool:
        """Adds a project's page; False if the index does not know it."""
        url = f"{self._main.url.rstrip('/')}/{project}/"
        answer = self._fetcher.get(url, headers={"Accept": ACCEPT_ANY}, limit=10**8, accept=frozenset({404}))
        if answer.status != 200:
            return False
        page = json.loads(answer.body)
        self._urls |= {f["hashes"]["sha256"]: urljoin(answer.url, f["url"]).partition("#")[0] for f in page["files"]}
        self._snapshot.add_page(project, page)
        return True

    def add_metadata(self, sha256: str, filename: str) -> bool:
        """Adds a wheel's METADATA: its sidecar, else by ranged reads."""
        url = self._urls.get(sha256)
        if url is None or not filename.endswith(".whl"):
            return False
        answer = self._fetcher.get(url + ".metadata", limit=10**8, accept=frozenset({403, 404, 410}))
        if answer.status == 200:
            content = answer.body
        else:
            with RemoteFile(url, self._fetcher) as remote:
                content = read_wheel_metadata(remote, filename)
        self._snapshot.add_metadata(sha256, content)
        return True


def _record() -> Iterator[str]:
    snapshot = Snapshot()
    with Server(snapshot, upstream=Upstream(snapshot)) as server:
        for set_name, requirements in SETS.items():
            for tool in tools():
                for python in tool.recorded_pythons:
                    outcome = tool.run(requirements, server.index_url, python=python)
                    yield f"{set_name} {tool.name} {python}: exit {outcome.status}, {len(snapshot.pages)} pages"
                    if outcome.status:
                        yield outcome.output[-800:]
    snapshot.save()
    counts = f"{len(snapshot.pages)} pages, {len(snapshot.metadata)} METADATA"
    yield f"{SNAPSHOT.name}: {SNAPSHOT.stat().st_size} bytes, {counts}"


if __name__ == "__main__":
    for line in _record():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
