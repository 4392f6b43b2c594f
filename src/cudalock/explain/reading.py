"""Logs in pieces of bounded size, and their lines without what loggers, launchers and terminals put around them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from cudalock.errors import UsageError
from cudalock.explain.model import Line

__all__ = ["blocks_of", "Block", "lines_of", "LONGEST_TEXT", "Source", "without_escapes"]

Source = BinaryIO | Iterable[str]

_BLOCK = 256 * 1024
_OVERLAP_LINES = 40
_OVERLAP_BYTES = 32 * 1024
_LONGEST_LINE = 64 * 1024  # longer ones are cut: their pieces keep the number
LONGEST_TEXT = 4000  # characters of a line; what is longer goes on as if it were the next line
_LONGEST_JSON = 1024 * 1024
_DEEPEST_JSON = 4
_MESSAGE_KEYS = frozenset(
    {
        *("log", "message", "msg", "text", "textpayload", "body", "output", "stderr", "event", "reason"),
        *("error", "err", "exception", "exc_info", "stack", "stacktrace", "stack_trace", "traceback"),
        *("detail", "details", "description"),
    }
)

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)?|[@-Z\\-_])")
# The same as _PLAIN removes or blanks, as UTF-8.
_MARKS = re.compile(
    rb"\xe2(?:\x80[\x8b-\x9f\xaf\xb9\xba]|[\x94\x95].|\x9d\xaf|\x81\xa0)|\xc2[\xa0\xab\xbb\xad\xb4]|\xe3\x80[\x80\x8c\x8d]|\xef\xbb\xbf",
    re.DOTALL,
)
_TEXT_ESCAPES = re.compile(
    r"(?:\x1b|\\x1b|\\u001b|\\033|\\e|#033)(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,512}\x07?)"
)
# Quotes of other languages, spaces that are none, the frame that rich draws, marks that nobody sees.
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("`\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a\u300c\u300d\u00b4", "'"),
        **dict.fromkeys("\u00a0\u2007\u202f\u3000\u2502\u2503\u2551\u256d\u2570\u276f", " "),
        **dict.fromkeys("\ufeff\u200b\u200e\u200f\u2060\u00ad\x00\u2500\u2501\u256e\u256f", None),
        "\uff1a": ":",
        "\uff0c": ",",
    }
)

# What none of the above is in, nor JSON: most lines.
_ORDINARY = re.compile(r"(?!\s*\{)[\t !-\[\]-_a-~]*\Z")

# A line of that kind that begins as no prefix does; the bar may stand behind one.
_BARE = re.compile(r"[a-rt-zBGHKLP-RT-VXYZ_/][\t !-\"$-\[\]-_a-{}~]*\Z")

_TIME = r"\d{4}[-/]\d\d[-/]\d\d[T\x20_]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:\x20?(?:Z|[+-]\d\d:?\d\d|UTC))?"
_PREFIX = re.compile(
    rf"""\s*(?:
    (?P<time>[\[(]?{_TIME}[\])]?:?)
    | (?P<clock>[\[(]?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?[\])]?)
    | (?P<klog>[IWEF]\d{{4}}\x20\d\d:\d\d:\d\d\.\d{{1,9}}\s{{1,8}}\d{{1,8}}\x20[\w./-]{{1,80}}:\d{{1,6}}\])
    | (?P<syslog>[A-Z][a-z]{{2}}\x20{{1,2}}\d{{1,2}}\x20\d\d:\d\d:\d\d)\x20[\w.-]{{1,80}}\x20
        [\w.@/-]{{1,80}}(?:\[\d{{1,8}}\])?:
    | (?P<cri>std(?:out|err)\x20[FP])(?=\x20)
    | \[(?P<rank>(?:rank|default|local_rank|worker|trainer|node)[\x20_-]?\d{{1,6}}(?:/\d{{1,6}})?)\]:?
    | \[(?P<mpi>\d{{1,6}},\d{{1,6}})\](?:<std(?:err|out|diag)>)?:?
    | (?P<slurm>\d{{1,6}}):(?=\s)
    | \[(?P<pod>pod/[\w./-]{{1,200}})\]
    | \((?P<ray>[A-Z]\w{{0,60}}\x20?(?:[\w=-]{{1,40}}\x20)?pid=\d{{1,9}}[^()]{{0,80}})\)
    | (?P<compose>[A-Za-z][\w.-]{{0,80}}[-_]\d{{1,5}})\x20{{1,40}}\|(?=\x20|$)
    | \[(?P<host>[\w.-]{{1,80}}:\d{{1,9}})\]
    | (?P<build>\#\d{{1,4}}\x20\d{{1,6}}\.\d{{1,4}})(?=\x20)
    | \[(?P<elapsed>\x20{{0,8}}\d{{1,9}}\.\d{{3,9}})\]
    | (?P<kernel>NVRM:)(?=\x20)
    | (?P<level>\[?(?:ERROR|WARNING|WARN|INFO|DEBUG|CRITICAL|FATAL)\]?)(?=[:\s|])[:|]?
    | (?P<quote>>(?=\x20)|E(?=\x20{{3}})|\|(?=\x20))
    )""",
    re.VERBOSE,
)
_STREAMS = ("rank", "mpi", "slurm", "pod", "ray", "compose", "host")
_TIMES = ("time", "clock", "klog", "syslog")
_MOST_PREFIXES = 12
_LOGFMT = re.compile(r"\b(?:msg|error|err|message)=\"")
_STAMP = re.compile(_TIME)


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole lines: their bytes as read, and the number of the first."""

    data: bytes
    first: int
    new_from: int  # lines before this number were in the block before: they are context


def _pieces(source: Source) -> Iterator[bytes]:
    if hasattr(source, "read"):
        while piece := source.read(_BLOCK):
            yield piece.encode("utf-8", "replace") if isinstance(piece, str) else piece
        return
    gathered: list[bytes] = []
    size = 0
    for line in source:
        data = line.encode("utf-8", "replace")
        gathered.append(data if data.endswith(b"\n") else data + b"\n")
        size += len(gathered[-1])
        if size >= _BLOCK:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)


def _as_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same as UTF-8: what PowerShell redirects is UTF-16 with a byte order mark."""
    first = next(pieces, b"")
    encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(first[:2])
    if encoding is None:
        yield first
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first[2:]).encode("utf-8", "replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "replace")


def blocks_of(name: str, source: Source) -> Iterator[Block]:
    """The source in blocks of about 256 KiB; each begins with the last lines of the one before.

    Raises:
        UsageError: ``log-unreadable``.
    """
    pieces = _as_utf8(_pieces(source))
    number, context, rest = 1, b"", b""
    while True:
        try:
            piece = next(pieces, None)
        except OSError as error:
            hint = "give a text file, or - to read what is piped in"
            raise UsageError("log-unreadable", f"{name} cannot be read: {error}", hint=hint) from error
        data = rest + (piece or b"")
        cut = len(data) if piece is None else data.rfind(b"\n") + 1
        if cut == 0 and len(data) > _LONGEST_LINE:
            cut = len(data)
        whole, rest = data[:cut], data[cut:]
        if whole:
            yield Block(context + whole, number - context.count(b"\n"), number)
            number += whole.count(b"\n")
            context = _tail(context + whole)
        if piece is None:
            return


def _tail(data: bytes) -> bytes:
    data = data[-_OVERLAP_BYTES:]
    position = len(data)
    for _ in range(_OVERLAP_LINES + 1):
        found = data.rfind(b"\n", 0, position)
        if found < 0:
            return data
        position = found
    return data[position + 1 :]


def without_escapes(data: bytes) -> bytes:
    """The text without terminal escape sequences, frames and quotes, and with JSON's escapes undone."""
    if b"\x1b" in data:
        data = _ESCAPES.sub(b"", data)
    if b"\\" in data:
        for escaped, plain in ((b"\\n", b"\n"), (b"\\u003e", b">"), (b"\\u003c", b"<"), (b"\\u0027", b"'")):
            data = data.replace(escaped, plain)
    if not data.isascii():
        data = _MARKS.sub(b"", data).replace(b"\xef\xbc\x9a", b":").replace(b"\xef\xbc\x8c", b",")
    return data


def lines_of(block: Block) -> Iterator[Line]:
    """The lines of a block, each as it reads without what was put around it; a long one in several pieces."""
    for number, raw in enumerate(block.data.split(b"\n"), block.first):
        if len(raw) <= LONGEST_TEXT:
            text = raw.decode("utf-8", "replace")
            if _BARE.match(text):
                yield Line(number, "", text, "")
            elif raw:
                yield from _lines_in(text.rstrip("\r"), number)
            continue
        for start in range(0, len(raw), _LONGEST_LINE):
            text = raw[start : start + _LONGEST_LINE].decode("utf-8", "replace")
            yield from _lines_in(text.rstrip("\r"), number)


def _lines_in(text: str, number: int) -> Iterator[Line]:
    prefix, time, rest = _strip(text)
    if len(rest) <= LONGEST_TEXT and _ORDINARY.match(rest) and "#033" not in rest:
        if rest.strip():
            yield Line(number, prefix, rest, time)
        return
    for part in _texts_in(rest):
        for piece in part.replace("\r", "\n").split("\n"):
            plain = _TEXT_ESCAPES.sub("", piece) if "[" in piece or "]" in piece else piece
            inner, inner_time, remaining = _strip(plain.translate(_PLAIN))
            if remaining.strip():
                for start in range(0, len(remaining), LONGEST_TEXT):
                    yield Line(number, prefix + inner, remaining[start : start + LONGEST_TEXT], time or inner_time)


def _strip(text: str) -> tuple[str, str, str]:
    """(stream, time, the rest of the line)."""
    text = _TEXT_ESCAPES.sub("", text) if text[:1] in {"\x1b", "\\"} else text
    stream, time = "", ""
    for _ in range(_MOST_PREFIXES):
        match = _PREFIX.match(text)
        if match is None:
            break
        kind = match.lastgroup or ""
        value = match[kind]
        if kind in _STREAMS:
            if value not in stream:
                stream += f"[{value}]"
        elif kind in _TIMES and not time:
            time = value.strip("[]():")
        text = text[match.end() :]
    return stream, time, text


def _texts_in(text: str) -> Iterator[str]:
    """The texts of a JSON record or of a logfmt line; any other line as it is."""
    stripped = text.strip()
    if stripped[:1] == "{" and stripped[-1:] == "}" and len(stripped) < _LONGEST_JSON:
        try:
            record = json.loads(stripped)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            yield from _strings(record, 0)
            return
    if "\\" in text and _LOGFMT.search(text):
        text = text.replace('\\"', '"').replace("\\n", "\n").replace("\\t", " ")
    yield text


def _strings(value: Any, depth: int) -> Iterator[str]:
    """The texts of a record: those under the keys that loggers use for the message, else all."""
    if isinstance(value, str):
        yield value
    elif depth < _DEEPEST_JSON:
        children: Iterable[Any] = ()
        if isinstance(value, dict):
            children = [child for key, child in value.items() if key.lower() in _MESSAGE_KEYS] or value.values()
        elif isinstance(value, list):
            children = value
        for child in children:
            yield from _strings(child, depth + 1)
