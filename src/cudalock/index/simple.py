"""Parses project pages of package indexes: JSON (PEP 691/700) and HTML (PEP 503/592/658/714 and PyTorch's habits).

Pure and tolerant: a page is untrusted input. What is wrong with one file drops or blanks that file or field; only a
page that is no project page at all is an error. Nothing here parses versions: a page holds thousands of files of
which a handful is looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from packaging.utils import canonicalize_name

from cudalock.errors import TransportError
from cudalock.index.lazy_page import LazyFiles, scan_page
from cudalock.index.model import IndexFile, PageRef, ProjectPage

__all__ = ["ACCEPT_ANY", "ACCEPT_HTML", "parse_page", "shown_url", "without_credentials"]

ACCEPT_ANY = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1, */*;q=0.01"
)
"""What the main index is asked for: JSON if it has it (it alone gives sizes and is cheap to parse)."""
ACCEPT_HTML = "text/html, */*;q=0.1"
"""What the PyTorch index is asked for: it has nothing else."""

_JSON_TYPES = frozenset({"application/vnd.pypi.simple.v1+json", "application/json"})
_HTML_TYPES = frozenset({"application/vnd.pypi.simple.v1+html", "text/html", "application/xhtml+xml", ""})
_FILE_SUFFIXES = (".whl", ".tar.gz", ".zip")
_HASH_LENGTHS = {"md5": 32, "sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128, "blake2b": 128}
_HEX = re.compile(r"[0-9a-f]+")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!~-]*")
_MAX_FILES = 200_000
_MAX_TEXT = 2_000
_MAX_URL = 4_000
_MAX_SIZE = 2**63  # TOML, and so a lock, has no larger integers
_LAST_YEAR = 9998  # a day before the year 10,000 other readers of a lock give up
_PLAIN_URL = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?/[A-Za-z0-9._~%/+!-]*")
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._~%+!-][A-Za-z0-9._~%/+!-]*")


def parse_page(
    body: bytes, content_type: str, base_url: str, ref: PageRef, *, packed: bytes | None = None
) -> ProjectPage:
    """The page's files that belong to the project.

    Args:
        body: the decoded body of the answer.
        content_type: raw header; decides between JSON and HTML, parameters are ignored.
        base_url: URL from which the page came in the end, after redirects; relative links are joined to it.
        ref: which page this is.
        packed: the body in gzip, if it was sent so: a large page is kept in this form.

    Raises:
        TransportError: code ``index-invalid-page`` if the body is not a project page.
    """
    kind = content_type.partition(";")[0].strip().lower()
    clean_url = without_credentials(base_url)
    build = _Builder(clean_url, ref)
    if kind in _JSON_TYPES and (scanned := scan_page(body, _MAX_FILES)) is not None:
        files = LazyFiles(*scanned, build.file, packed=packed)
        return ProjectPage(ref=ref, url=clean_url, files=files, unusable=build.unusable)
    if kind in _JSON_TYPES:
        entries = _json_entries(body, clean_url)
    elif kind in _HTML_TYPES:
        entries = _html_entries(body, clean_url)
    else:
        raise _invalid(clean_url, f"the answer is of type {kind[:80]!r}, neither JSON nor HTML")
    found = []
    for entry in entries:
        file = build.file(entry)
        if file is not None:
            found.append(file)
            if len(found) > _MAX_FILES:
                raise _invalid(clean_url, f"it lists more than {_MAX_FILES} files")
    return ProjectPage(ref=ref, url=clean_url, files=tuple(found), unusable=build.unusable)


def without_credentials(url: str) -> str:
    """The URL without user info and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))


def shown_url(url: str) -> str:
    """The URL as messages show it: without user info, query (it may be a signature) and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable URL)"
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return "".join(character if character.isprintable() else "?" for character in shown)


def _invalid(url: str, reason: str) -> TransportError:
    return TransportError(
        "index-invalid-page",
        f"{shown_url(url)} is not a project page of a package index: {reason}",
        hint="check the index URL; behind a proxy or login page, sign in first or name the proxy in HTTPS_PROXY",
        details={"url": shown_url(url)},
    )


class _Builder:
    """Turns entries in PEP 691 form into files, and leaves out what is not the project's."""

    def __init__(self, base_url: str, ref: PageRef) -> None:
        self._base_url = base_url
        self._ref = ref
        parts = urlsplit(base_url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._folders = parts.path.split("/")[1:-1]
        self._prefixes: dict[str, bool] = {}
        self.unusable: set[str] = set()
        self._sdist = re.compile(re.escape(ref.project) + r"-v?\d")

    def file(self, entry: Mapping[str, Any]) -> IndexFile | None:
        filename, link = entry.get("filename"), entry.get("url")
        if not isinstance(filename, str) or not isinstance(link, str) or not self._belongs(filename):
            return None
        url = self._absolute(link)
        if url is None:
            self.unusable.add(filename)
            return None
        requires_python, size = entry.get("requires-python"), entry.get("size")
        return IndexFile(
            page=self._ref,
            url=url,
            filename=filename,
            hashes=_hashes(entry.get("hashes")),
            requires_python=requires_python[:_MAX_TEXT] or None if isinstance(requires_python, str) else None,
            yanked=_yanked(entry.get("yanked")),
            size=size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _MAX_SIZE else None,
            upload_time=_moment(entry.get("upload-time")),
            metadata=_sidecar(entry),
        )

    def _belongs(self, filename: str) -> bool:
        """Whether the name is a safe file name of this project: pages may hold, or claim to hold, anything."""
        if not filename.endswith(_FILE_SUFFIXES) or len(filename) > 500 or not _SAFE_NAME.fullmatch(filename):
            return False
        if filename.endswith(".whl"):
            prefix = filename.partition("-")[0]
            known = self._prefixes.get(prefix)
            if known is None:
                known = self._prefixes[prefix] = canonicalize_name(prefix) == self._ref.project
            return known
        return self._sdist.match(canonicalize_name(filename)) is not None

    def _absolute(self, link: str) -> str | None:
        # Nearly all links are plain; urljoin and urlsplit would take most of the time of parsing a page.
        if len(link) <= _MAX_URL and "/." not in link and "//" not in link[8:]:
            if _PLAIN_URL.fullmatch(link):
                return link
            if _PLAIN_PATH.fullmatch(link):
                return self._origin + link
        if (relative := self._relative(link)) is not None:
            return relative
        try:
            url = urljoin(self._base_url, link.strip())
            parts = urlsplit(url)
        except ValueError:
            return None
        if parts.scheme not in {"http", "https"} or not parts.hostname or len(url) > _MAX_URL:
            return None
        if not url.isascii() or not url.isprintable() or " " in url:
            return None
        if "@" in parts.netloc or parts.fragment or "#" in url:
            url = without_credentials(url)
        return url

    def _relative(self, link: str) -> str | None:
        """A plain link that climbs up from the page (``../../packages/...``), as mirrors have them."""
        climb = 0
        while link.startswith("../", 3 * climb):
            climb += 1
        path = link[3 * climb :]
        plain = climb and len(link) <= _MAX_URL and "/." not in path and "//" not in path
        if not plain or climb > len(self._folders) or not _PLAIN_PATH.fullmatch("/" + path):
            return None
        return "/".join((self._origin, *self._folders[: len(self._folders) - climb], path))


def _hashes(value: object) -> dict[str, str]:
    """Only digests of a known algorithm with the right length, in lower case."""
    if not isinstance(value, dict):
        return {}
    found = {}
    for algorithm, digest in value.items():
        if isinstance(algorithm, str) and isinstance(digest, str):
            algorithm, digest = algorithm.lower(), digest.lower()  # noqa: PLW2901
            if len(digest) == _HASH_LENGTHS.get(algorithm) and _HEX.fullmatch(digest):
                found[algorithm] = digest
    return found


def _yanked(value: object) -> bool | str:
    if isinstance(value, str):
        return value[:_MAX_TEXT] or True
    return value is True


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        # TOML knows no offsets with seconds, and not every offset leaves a year that there is
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if moment.year <= _LAST_YEAR else None


def _sidecar(entry: Mapping[str, Any]) -> dict[str, str] | None:
    """PEP 714: ``core-metadata`` first, then the older name; True means that there is one without a hash."""
    for key in ("core-metadata", "data-core-metadata", "dist-info-metadata", "data-dist-info-metadata"):
        value = entry.get(key)
        if value is None:
            continue
        if isinstance(value, dict):
            return _hashes(value)
        if value is True:
            return {}
        if value is False:
            return None
    return None


# -- JSON


def _json_entries(body: bytes, url: str) -> Iterator[Mapping[str, Any]]:
    try:
        page = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _invalid(url, f"it is not JSON ({str(error)[:120]})") from None
    if not isinstance(page, dict) or not isinstance(page.get("files"), list):
        raise _invalid(url, 'it has no list "files"')
    meta = page.get("meta")
    version = meta.get("api-version", "1.0") if isinstance(meta, dict) else "1.0"
    if not isinstance(version, str) or version.partition(".")[0] != "1":
        raise _invalid(url, f"its format has version {str(version)[:20]!r}, and cudalock reads version 1")
    return (entry for entry in page["files"] if isinstance(entry, dict))


# -- HTML

# Own scanner: linear time whatever the input, ten times as fast as html.parser on pages of a megabyte.
_ATTRIBUTE = re.compile(r"""[\s/]*([^\s=>/"']+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+)))?""")
_TAG_NAME = re.compile(r"<([A-Za-z!?/][^\s>/]*)")
_RAW_TEXT = frozenset({"script", "style", "textarea", "title"})


def _html_entries(body: bytes, url: str) -> Iterator[Mapping[str, Any]]:
    text = body.decode("utf-8", "replace")
    base_url, found = url, False
    for name, attributes in _start_tags(text):
        if name == "base" and "href" in attributes:
            try:
                base_url = without_credentials(urljoin(url, attributes["href"]))
            except ValueError:
                base_url = url
        elif name == "a" and "href" in attributes:
            entry = _anchor(attributes, base_url)
            if entry is not None:
                found = True
                yield entry
    # A page without files is legal, but so looks every login page with status 200.
    head = text[:4_000].lower()
    if not found and "links for" not in head and "pypi:repository-version" not in head:
        raise _invalid(url, "it is a HTML page that lists no files")


def _start_tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    position = 0
    while (position := text.find("<", position)) >= 0:
        if text.startswith("<!--", position):
            end = text.find("-->", position + 4)
            if end < 0:
                return
            position = end + 3
            continue
        tag = _TAG_NAME.match(text, position)
        if tag is None:
            position += 1
            continue
        name = tag[1].lower()
        position = tag.end()
        if name not in {"a", "base"}:
            if name in _RAW_TEXT:
                closing = re.compile(f"</{name}", re.IGNORECASE).search(text, position)
                if closing is None:
                    return
                position = closing.end()
            continue
        attributes, position = _attributes(text, position)
        yield name, attributes


def _attributes(text: str, position: int) -> tuple[dict[str, str], int]:
    attributes: dict[str, str] = {}
    while (match := _ATTRIBUTE.match(text, position)) is not None:
        value = match[2] or match[3] or match[4] or ""
        if "&" in value:
            from html import unescape  # most pages are JSON

            value = unescape(value)
        attributes.setdefault(match[1].lower(), value)
        position = match.end()
    return attributes, position


def _anchor(attributes: Mapping[str, str], base_url: str) -> dict[str, Any] | None:
    """One ``<a>`` in PEP 691 form; the file name is that of the URL, as pip and uv take it."""
    try:
        url = urljoin(base_url, attributes["href"].strip())
    except ValueError:  # a host in broken brackets: a file all the same, whose link cannot be used
        url = attributes["href"]
        if not url.partition("#")[0].endswith(_FILE_SUFFIXES):
            return None
    location, _, fragment = url.partition("#")
    filename = unquote(location.partition("?")[0].rpartition("/")[2])
    entry: dict[str, Any] = {"filename": filename, "url": location, "hashes": _hash_pair(fragment)}
    if "data-requires-python" in attributes:
        entry["requires-python"] = attributes["data-requires-python"]
    if "data-yanked" in attributes:
        entry["yanked"] = attributes["data-yanked"] or True
    if "data-upload-time" in attributes:
        entry["upload-time"] = attributes["data-upload-time"]
    for key in ("data-core-metadata", "data-dist-info-metadata"):
        value = attributes.get(key, "").strip()
        if value and value.lower() != "false":
            entry[key] = _hash_pair(value) or True
    return entry


def _hash_pair(text: str) -> dict[str, str]:
    """``sha256=...``, possibly among other ``&``-separated parts of a fragment."""
    pairs = (part.partition("=") for part in text.split("&"))
    return _hashes({algorithm: digest for algorithm, _, digest in pairs})
