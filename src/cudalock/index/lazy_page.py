"""A JSON project page that is read only where it is looked at: of thousands of files resolution needs a handful.

The page is scanned once, which checks that it is JSON and finds where each file's entry begins and ends; entries are
grouped by the part of the file's name that holds the version, and turned into files when a version is asked for. The
text of the page stays in memory, which is a fifth of what its files would take.
"""

from __future__ import annotations

import json
import json.scanner
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, overload

from cudalock.index.model import IndexFile
from cudalock.index.packing import unpack

__all__ = ["LazyFiles", "scan_page"]

_FILES = re.compile(r'"files"\s*:\s*\[\s*')
_LARGE_TEXT = 100_000
_SEPARATOR = re.compile(r"\s*(?:,\s*|(\]))")

Spans = dict[str, "array[int]"]


def scan_page(body: bytes, most: int) -> tuple[str, Spans] | None:
    """The page's text and, by group, where its entries begin and end (pairs of numbers).

    Args:
        body: a page in the form of PEP 691.
        most: the largest number of files that is accepted.

    Returns:
        None for everything unusual: the page must then be read as a whole, which also finds out what is wrong with it.
    """
    try:
        text = body.decode()
        start = _FILES.search(text)
        if start is None:
            return None
        spans, end = _entries(text, start.end(), most)
        around = json.loads(text[: start.end()] + text[end - 1 :])
    except (ValueError, StopIteration, RecursionError):
        return None
    # That nothing is left of "files" proves that the entries found are those of the page itself.
    if not isinstance(around, dict) or around.get("files") != []:
        return None
    meta = around.get("meta")
    version = meta.get("api-version", "1.0") if isinstance(meta, dict) else "1.0"
    return (text, spans) if isinstance(version, str) and version.partition(".")[0] == "1" else None


def _entries(text: str, position: int, most: int) -> tuple[Spans, int]:
    spans: Spans = {}
    if text.startswith("]", position):
        return spans, position + 1
    scan = json.scanner.make_scanner(json.JSONDecoder())  # type: ignore[arg-type] # typeshed knows the class only
    for _ in range(most):
        entry, end = scan(text, position)
        filename = entry.get("filename") if isinstance(entry, dict) else None
        if isinstance(filename, str):
            group = _group(filename)
            if group not in spans:
                spans[group] = array("L")
            spans[group].extend((position, end))
        separator = _SEPARATOR.match(text, end)
        if separator is None:
            raise ValueError("neither a comma nor the end of the list")
        position = separator.end()
        if separator[1]:
            return spans, position
    raise ValueError("too many files")


def _group(filename: str) -> str:
    """What the files of one version have in common: a wheel's version; other names are groups of their own."""
    if filename.endswith(".whl"):
        parts = filename.split("-", 2)
        if len(parts) == 3:
            return parts[1]
    return filename


class _Text:
    """The text of a page; of a large one, only what was sent is kept once another was read after it.

    Mostly one version is looked at, right after the page has come; of a few pages (torch's) one after the other.
    """

    _recent: ClassVar[tuple[_Text | None, str]] = (None, "")

    def __init__(self, text: str, packed: bytes | None) -> None:
        self._packed = packed if packed is not None and len(text) > _LARGE_TEXT else None
        self._plain: str | None = text
        self._length = len(text)

    def read(self) -> str:
        text = self._plain
        if self._packed is None:
            return text or ""
        if text is None:
            whose, text = _Text._recent  # read and replaced as a whole: threads may read pages at once
            if whose is self:
                return text
            text = unpack(self._packed, 4 * self._length).decode()
        self._plain = None
        _Text._recent = (self, text)
        return text


class LazyFiles(Sequence[IndexFile]):
    """The files of a page as a sequence that reads them when they are looked at.

    Args:
        text: of the page.
        spans: as :func:`scan_page` gives them.
        build: makes a file of an entry, None if it is not one of the project's.
        packed: the text in gzip, if it came so.
    """

    def __init__(
        self,
        text: str,
        spans: Spans,
        build: Callable[[Mapping[str, Any]], IndexFile | None],
        packed: bytes | None = None,
    ) -> None:
        self._text = _Text(text, packed)
        self._spans = spans
        self._build = build
        self._read: dict[str, tuple[IndexFile, ...]] = {}
        self._all: tuple[IndexFile, ...] | None = None
        self.by_version: Mapping[Any, tuple[IndexFile, ...]] | None = None
        """Room for whoever arranges the files by version, so that it is done once for all targets of a run."""

    def groups(self) -> Iterator[str]:
        """The groups: version texts of wheels, and whole names of other files."""
        return iter(self._spans)

    def of_group(self, group: str) -> tuple[IndexFile, ...]:
        """The files of a group in the order of the page."""
        if group not in self._read:
            spans = self._spans[group]
            self._read[group] = self._files(zip(spans[::2], spans[1::2], strict=True))
        return self._read[group]

    def _files(self, spans: Iterable[tuple[int, int]]) -> tuple[IndexFile, ...]:
        text = self._text.read()
        files = (self._build(json.loads(text[start:end])) for start, end in spans)
        return tuple(file for file in files if file is not None)

    def _whole(self) -> tuple[IndexFile, ...]:
        if self._all is None:
            numbers = [number for spans in self._spans.values() for number in spans]
            self._all = self._files(sorted(zip(numbers[::2], numbers[1::2], strict=True)))
        return self._all

    @overload
    def __getitem__(self, index: int) -> IndexFile: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[IndexFile]: ...
    def __getitem__(self, index: int | slice) -> IndexFile | Sequence[IndexFile]:
        return self._whole()[index]

    def __len__(self) -> int:
        return len(self._whole())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._whole() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._whole())
