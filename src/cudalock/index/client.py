"""The index client: answers what resolution asks of indexes, from memory, the disk cache or the network."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

from cudalock.errors import TransportError, UsageError
from cudalock.index.cache import CachedAnswer, DiskCache, freshness_seconds
from cudalock.index.credentials import Credentials, CredentialStore, split_credentials
from cudalock.index.discovery import DiscoveredIndex, main_index_url
from cudalock.index.download import download_file
from cudalock.index.fetch import Fetcher
from cudalock.index.http_errors import offline_miss
from cudalock.index.identity import checked, identity
from cudalock.index.lazy_zip import RemoteFile
from cudalock.index.metadata import MAX_METADATA_BYTES, parse_metadata
from cudalock.index.model import CoreMetadata, IndexFile, PageRef, ProjectPage
from cudalock.index.settings import IndexSettings, check_index_url
from cudalock.index.simple import ACCEPT_ANY, ACCEPT_HTML, parse_page, shown_url
from cudalock.index.wheel import read_wheel_metadata
from cudalock.index.workers import Once, Workers
from cudalock.progress import SILENT, Reporter

__all__ = ["IndexClient", "Statistics"]

MAX_PAGE_BYTES = 64 * 1024 * 1024
_ABSENT = frozenset({404, 410})


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What a client has done so far. ``bytes`` came over the network, compressed as they came."""

    requests: int
    bytes: int
    retries: int
    pages: int
    metadata: int


class IndexClient:
    """Implements :class:`cudalock.index.model.IndexReader`; use it as a context manager. Safe for threads.

    Args:
        settings: where the indexes are and how to talk to them.
        reporter: hears of every request (``debug``), repeat (``info``) and note.
        environ: environment for discovery and credentials; None is the process's.
        config: ``[tool.cudalock]``, for discovery of the main index.
        transport: an httpx transport instead of the network (tests mount a WSGI application here).
    """

    def __init__(
        self,
        settings: IndexSettings | None = None,
        *,
        reporter: Reporter = SILENT,
        environ: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        transport: Any = None,
    ) -> None:
        self.settings = settings or IndexSettings()
        self._reporter = reporter
        self._environ = os.environ if environ is None else environ
        self._config = config
        self._cache = DiskCache(self.settings.cache_dir)
        self._once = Once()
        self._workers = Workers(self.settings.connections)
        self._asking = self._cache.is_empty()
        self._postponed: deque[Callable[[], object]] = deque()
        self._pages: dict[PageRef, ProjectPage] = {}
        self._metadata_read = 0
        self._heard: set[str] = set()
        self._urls, given = self._index_urls()
        credentials = CredentialStore(given, self._environ)
        self._fetcher = Fetcher(self.settings, credentials, reporter=reporter, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends background work and closes connections."""
        self._workers.close()
        self._fetcher.close()
        if self._cache.write_failure is not None:
            self._reporter.message("info", f"the index cache could not be written: {self._cache.write_failure}")

    @property
    def main(self) -> DiscoveredIndex:
        """The main index and where it was set."""
        return self._main

    @property
    def answered(self) -> frozenset[str]:
        """Names of the indexes that answered for at least one page (also with "not there")."""
        return frozenset(self._heard)

    @property
    def statistics(self) -> Statistics:
        """Counts up to now."""
        return Statistics(
            requests=self._fetcher.requests,
            bytes=self._fetcher.bytes,
            retries=self._fetcher.retries,
            pages=len(self._pages),
            metadata=self._metadata_read,
        )

    # -- IndexReader

    def page(self, ref: PageRef) -> ProjectPage:
        """See :class:`IndexReader`."""
        return self._once.get(("page", ref), lambda: self._fetch_page(ref))

    def metadata(self, file: IndexFile) -> CoreMetadata:
        """See :class:`IndexReader`; of a source distribution it is what PKG-INFO declares, with ``dynamic``."""
        return self._once.get(("metadata", file.url, file.sha256), lambda: self._fetch_metadata(file))

    def open(self, file: IndexFile) -> BinaryIO:
        """See :class:`IndexReader`; the caller closes it. Raises ``index-offline-miss`` when offline."""
        # Only a file that cannot have changed since may be put together from parts fetched at different times.
        key = identity(file) if file.hashes else None
        kept = self._cache.get("ranges", key) if key is not None else None
        if kept is None:
            self._need_network(file.url)
        remote = _KeptFile(file.url, self._fetcher, size=file.size, kept=kept)
        if key is not None:
            remote.on_close = lambda content: self._cache.put("ranges", key, content)
        return cast("BinaryIO", remote)

    def sha256(self, file: IndexFile) -> str:
        """See :class:`IndexReader`; raises ``index-hash-conflict`` if two pages disagree about the file's URL."""
        self._check_statements(file)
        if file.sha256 is not None:
            return file.sha256
        return self._once.get(("sha256", file.url), lambda: self._hash(file))

    def prefetch(self, *, pages: Iterable[PageRef] = (), metadata: Iterable[IndexFile] = ()) -> None:
        """See :class:`IndexReader`; as :meth:`ahead`."""
        for ref in pages:
            if not self._once.claimed(("page", ref)):
                self.ahead(partial(self.page, ref))
        for file in metadata:
            if not self._once.claimed(("metadata", file.url, file.sha256)):
                self.ahead(partial(self.metadata, file))

    def warm_up(self) -> None:
        """Loads in the background what the first request to the main index will need, unless the cache may answer."""
        if self._asking:
            self.ahead(partial(self._fetcher.warm_up, self._urls["main"]))

    def ahead(self, task: Callable[[], object]) -> None:
        """See :class:`IndexReader`; waits as long as the disk cache has all answers: there is nothing to gain then."""
        if self.settings.offline:
            return
        if self._asking:
            self._workers.submit(_quiet(task))
        else:
            self._postponed.append(task)

    # -- more

    def download(self, file: IndexFile, destination: Path) -> str:
        """Downloads the file, resuming where a connection breaks, and returns its sha256.

        The file appears under ``destination`` only when it is complete and its hash is the announced one.

        Raises:
            TransportError: ``index-hash-conflict`` if the content is not what the index announced, and the usual ones.
        """
        self._need_network(file.url)
        self._check_statements(file)
        return download_file(self._fetcher, file, destination, self._reporter)

    # -- pages

    def _index_urls(self) -> tuple[dict[str, str], list[tuple[str, Credentials]]]:
        """Index name -> URL without user info; and the user info apart."""
        settings = self.settings
        self._main = main_index_url(
            settings.main_url, self._environ, self._config, allow_insecure_hosts=settings.allow_insecure_hosts
        )
        urls = {"main": self._main.url}
        credentials = self._main.credentials or settings.main_credentials
        given = [(self._main.url, credentials)] if credentials else []
        stated = {"pytorch": (settings.pytorch_url, "--pytorch-index-url")}
        stated |= {name: (url, f"[tool.cudalock.sources] {name}") for name, url in settings.sources.items()}
        for name, (url, origin) in stated.items():
            check_index_url(url, origin, settings.allow_insecure_hosts)
            clean, user = split_credentials(url)
            urls[name] = clean.rstrip("/") + "/"
            if user is not None:
                given.append((clean, user))
        return urls, given

    def _page_url(self, ref: PageRef) -> str:
        base = self._urls.get(ref.index)
        if base is None:
            raise UsageError(
                "source-unknown",
                f"no index is named {ref.index!r}",
                hint=f'add {ref.index} = "https://..." to [tool.cudalock.sources]',
            )
        return f"{base}{ref.label}/{ref.project}/" if ref.label else f"{base}{ref.project}/"

    def _fetch_page(self, ref: PageRef) -> ProjectPage:
        url = self._page_url(ref)
        pytorch = ref.index == "pytorch"
        answer = self._answer(url, ACCEPT_HTML if pytorch else ACCEPT_ANY, _ABSENT | {403} if pytorch else _ABSENT)
        self._heard.add(ref.index)
        if answer.status != 200:
            page = ProjectPage(ref=ref, url=url, found=False)
        else:
            page = parse_page(answer.body, answer.content_type, answer.url, ref, packed=answer.packed)
        self._pages[ref] = page
        return page

    def _answer(self, url: str, accept: str, absent: frozenset[int]) -> CachedAnswer:
        """A page's answer from the disk cache, if it is fresh or the index says that it still holds, else new."""
        kept = self._cache.get_answer(url)
        now = time.time()
        if self.settings.offline:
            if kept is None:
                raise offline_miss(url)
            return kept
        if kept is not None and kept.status == 200 and kept.is_fresh(now) and not self.settings.refresh:
            return kept
        validators = kept.validators if kept is not None and kept.status == 200 else {}
        self._start_asking()
        got = self._fetcher.get(
            url, headers={"Accept": accept, **validators}, limit=MAX_PAGE_BYTES, accept=absent | {304}, packed=True
        )
        freshness = freshness_seconds(got.headers)
        if got.status == 304 and kept is not None:
            answer = replace(kept, stored_at=now, fresh_until=now + (freshness or 0.0))
            if answer.fresh_until > now:
                self._cache.put_answer(url, answer)
            return answer
        answer = CachedAnswer(
            url=got.url,
            status=got.status,
            content_type=got.headers.get("content-type", ""),
            etag=got.headers.get("etag", ""),
            last_modified=got.headers.get("last-modified", ""),
            stored_at=now,
            fresh_until=now + (freshness or 0.0),
            body=got.body if got.status == 200 else b"",
            packed=got.packed if got.status == 200 else None,
        )
        if freshness is not None:
            self._cache.put_answer(url, answer)
        return answer

    # -- metadata

    def _fetch_metadata(self, file: IndexFile) -> CoreMetadata:
        self._metadata_read += 1
        if file.metadata is not None:
            found = self._from_sidecar(file, file.metadata.get("sha256"))
            if found is not None:
                return found
        key = identity(file)
        content = self._cache.get("metadata", key)
        if content is not None and (file.hashes or file.upload_time or self.settings.offline):
            return checked(file, parse_metadata(content, file.filename))
        self._need_network(file.url)
        with RemoteFile(file.url, self._fetcher, size=file.size) as remote:
            if file.kind == "wheel":
                content = read_wheel_metadata(remote, file.filename)
            else:
                from cudalock.index.sdist import read_sdist_metadata

                content = read_sdist_metadata(cast("BinaryIO", remote), file.filename)
        found = checked(file, parse_metadata(content, file.filename))
        self._cache.put("metadata", key, content)
        return found

    def _from_sidecar(self, file: IndexFile, sha256: str | None) -> CoreMetadata | None:
        """None if the sidecar is not there or not what it should be: then the file itself is read."""
        key = f"sidecar sha256={sha256}" if sha256 else f"sidecar {identity(file)}"
        content = self._cache.get("metadata", key)
        if content is None:
            if self.settings.offline:
                return None
            url = file.url + ".metadata"
            self._start_asking()
            try:
                got = self._fetcher.get(url, limit=MAX_METADATA_BYTES, accept=frozenset({403, 404, 410}))
            except TransportError as error:
                if error.code == "index-unreachable":
                    raise
                return self._without_sidecar(file, error.message)
            if got.status != 200:
                return self._without_sidecar(file, f"it answers with status {got.status}")
            content = got.body
        if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
            return self._without_sidecar(file, "its sha256 is not the announced one")
        try:
            found = checked(file, parse_metadata(content, file.filename))
        except TransportError as error:
            return self._without_sidecar(file, error.message)
        self._cache.put("metadata", key, content)
        return found

    def _without_sidecar(self, file: IndexFile, reason: str) -> CoreMetadata | None:
        text = f"the announced metadata of {file.filename} is not used: {reason}; the file itself is read"
        self._reporter.message("info", text, code="index-metadata-conflict")
        return None

    # -- hashes

    def _check_statements(self, file: IndexFile) -> None:
        """R8: all pages that were read and list this URL must agree about its sha256."""
        if file.sha256 is None:
            return
        for page in list(self._pages.values()):
            if page.ref.project != file.page.project or page.ref == file.page:
                continue
            for other in page.files:
                if other.url == file.url and other.sha256 not in (None, file.sha256):
                    raise TransportError(
                        "index-hash-conflict",
                        f"two index pages disagree about {shown_url(file.url)}: {_named(file.page)} says sha256 "
                        f"{file.sha256}, {_named(other.page)} says {other.sha256}",
                        hint="do not install it; report this to the operators of the indexes",
                        details={"url": shown_url(file.url), "sha256": [file.sha256, other.sha256]},
                    )

    def _hash(self, file: IndexFile) -> str:
        key = identity(file)
        kept = self._cache.get("sha256", key)
        if kept is not None and (file.upload_time is not None or self.settings.offline):
            return kept.decode("ascii", "replace")
        self._need_network(file.url)
        text = f"the index gives no sha256 for {file.filename}; downloading it to compute one"
        self._reporter.message("note", text, code="index-hash-missing")
        digest = download_file(self._fetcher, file, None, self._reporter)
        self._cache.put("sha256", key, digest.encode("ascii"))
        return digest

    def _need_network(self, url: str) -> None:
        if self.settings.offline:
            raise offline_miss(url)
        self._start_asking()

    def _start_asking(self) -> None:
        """An answer is not in the cache: from now on the rest is asked for early, beginning with what waited."""
        self._asking = True
        with contextlib.suppress(IndexError):
            while True:
                self._workers.submit(_quiet(self._postponed.popleft()))


class _KeptFile(RemoteFile):
    """A remote file whose fetched parts go to the disk cache when it is closed."""

    on_close: Callable[[bytes], None] | None = None

    def close(self) -> None:
        if not self.closed and self.on_close is not None:
            content = self.fetched()
            if content is not None:
                self.on_close(content)
        super().close()


def _quiet(action: Callable[[], object]) -> Callable[[], None]:
    """The action as a background task: its error is kept for whoever asks for the answer."""

    def task() -> None:
        with contextlib.suppress(Exception):
            action()

    return task


def _named(ref: PageRef) -> str:
    return f"{ref.index} ({ref.label})" if ref.label else ref.index
