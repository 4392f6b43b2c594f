"""What an ELF file says of itself: what it needs, from where, which symbol versions, and its GPU code.

Files are untrusted: whatever is broken in them reads as "no answer". Only headers and small sections are read; of
``.nv_fatbin``, which can be gigabytes, only the headers of its entries.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from cudalock.versions import Architecture, ComputeCapability

__all__ = ["ElfFacts", "FatbinFacts", "SymbolTable", "read_elf", "read_fatbin", "undefined_symbols"]

_T = TypeVar("_T")
_FATBIN_MAGIC = 0xBA55ED50
_FATBIN_HEADER = struct.Struct("<IHHQ")
_FATBIN_ENTRY = struct.Struct("<HHIQIIHHI")  # kind, version, header, payload, packed, -, minor, major, architecture
_PTX, _CODE = 1, 2
_MOST_ENTRIES = 200_000
_MOST_SYMBOLS = 400_000
_SYMBOL_VERSION = re.compile(r"(GLIBC|GLIBCXX)_(\d{1,9}(?:\.\d{1,9}){1,9})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfFacts:
    """The dynamic section of a file, and the symbol versions it needs and defines.

    ``rpath`` is empty where there is a RUNPATH too: the loader then ignores it. ``glibcxx_defined`` is what a
    libstdc++ offers.
    """

    path: Path
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    glibc: tuple[int, ...] | None = None
    glibcxx: tuple[int, ...] | None = None
    glibcxx_defined: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FatbinFacts:
    """The GPU code in a file: architectures, and the highest PTX version of its PTX."""

    code: tuple[Architecture, ...]
    ptx_isa: tuple[int, int] | None


def _with_elf(path: Path, read: Callable[[Any, BinaryIO], _T]) -> _T | None:
    from elftools.elf.elffile import ELFFile

    # pyelftools meets broken files with its own errors and with those of what it builds on: all mean "no answer"
    with suppress(Exception), path.open("rb") as stream:
        return read(ELFFile(stream), stream)
    return None


def read_elf(path: Path) -> ElfFacts | None:
    """The dynamic section of a file, None if it is not ELF, not dynamic or broken."""

    def read(elf: Any, _stream: BinaryIO) -> ElfFacts | None:
        dynamic = elf.get_section_by_name(".dynamic") or next(
            (segment for segment in elf.iter_segments() if segment.header.p_type == "PT_DYNAMIC"), None
        )
        if dynamic is None:
            return None
        tags: dict[str, list[str]] = {"DT_NEEDED": [], "DT_SONAME": [], "DT_RPATH": [], "DT_RUNPATH": []}
        names = {"DT_NEEDED": "needed", "DT_SONAME": "soname", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath"}
        for tag in dynamic.iter_tags():
            kind = tag.entry.d_tag
            if kind in tags:
                tags[kind].append(str(getattr(tag, names[kind])))
        runpath = _folders(tags["DT_RUNPATH"])
        needs = _needed_versions(elf)
        return ElfFacts(
            path=path,
            soname=next(iter(tags["DT_SONAME"]), None),
            needed=tuple(tags["DT_NEEDED"]),
            rpath=() if tags["DT_RUNPATH"] else _folders(tags["DT_RPATH"]),
            runpath=runpath,
            glibc=needs.get("GLIBC"),
            glibcxx=needs.get("GLIBCXX"),
            glibcxx_defined=_defined_versions(elf).get("GLIBCXX"),
        )

    return _with_elf(path, read)


def _folders(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for text in texts for part in text.split(":") if part)


def _highest(names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        if match := _SYMBOL_VERSION.fullmatch(name):
            numbers = tuple(int(part) for part in match[2].split("."))
            found[match[1]] = max(found.get(match[1], ()), numbers)
    return found


def _needed_versions(elf: Any) -> dict[str, tuple[int, ...]]:
    section = elf.get_section_by_name(".gnu.version_r")
    if section is None:
        return {}
    return _highest(auxiliary.name for _, parts in section.iter_versions() for auxiliary in parts)


def _defined_versions(elf: Any) -> dict[str, tuple[int, ...]]:
    section = elf.get_section_by_name(".gnu.version_d")
    if section is None:
        return {}
    return _highest(auxiliary.name for _, parts in section.iter_versions() for auxiliary in parts)


def undefined_symbols(path: Path, wanted: re.Pattern[str]) -> tuple[str, ...]:
    """The undefined symbols of a file whose names ``wanted`` matches; weak ones may stay undefined and are left out."""

    def read(elf: Any, _stream: BinaryIO) -> tuple[str, ...]:
        section = elf.get_section_by_name(".dynsym")
        if section is None or section.num_symbols() > _MOST_SYMBOLS:
            return ()
        return tuple(
            symbol.name
            for symbol in section.iter_symbols()
            if symbol.entry.st_shndx == "SHN_UNDEF"
            and symbol.entry.st_info.bind == "STB_GLOBAL"
            and wanted.match(symbol.name)
        )

    return _with_elf(path, read) or ()


class SymbolTable:
    """Whether any of several libraries defines a symbol, asked through their hash tables as the loader does."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Opens the libraries; those that cannot be read make the answer unknown."""
        from elftools.elf.elffile import ELFFile

        self._streams: list[BinaryIO] = []
        self._tables: list[Any] = []
        self.complete = True
        for path in paths:
            table = None
            with suppress(Exception):
                stream = path.open("rb")
                self._streams.append(stream)
                elf = ELFFile(stream)
                table = elf.get_section_by_name(".gnu.hash") or elf.get_section_by_name(".hash")
            if table is None:
                self.complete = False
            else:
                self._tables.append(table)

    def defines(self, symbol: str) -> bool:
        """Whether one of the libraries defines it."""
        for table in self._tables:
            found = None
            with suppress(Exception):
                found = table.get_symbol(symbol)
            if found is not None and found.entry.st_shndx != "SHN_UNDEF":
                return True
        return False

    def close(self) -> None:
        """Closes the files."""
        for stream in self._streams:
            stream.close()


def read_fatbin(path: Path) -> FatbinFacts | None:
    """The GPU code in ``.nv_fatbin``, None if there is no such section.

    The layout is that of the CUDA runtime's fat binaries: a header of 16 bytes, then entries whose own headers name
    kind (PTX or machine code), size and architecture. Checked on wheels of torchvision.
    """

    def read(elf: Any, stream: BinaryIO) -> FatbinFacts | None:
        section = elf.get_section_by_name(".nv_fatbin")
        if section is None:
            return None
        start, size = section.header.sh_offset, section.header.sh_size
        entries = list(_entries(stream, start, start + size))
        code = {_architecture(number, ptx=kind == _PTX) for kind, number, _ in entries if kind in {_PTX, _CODE}}
        isa = max((isa for kind, _, isa in entries if kind == _PTX), default=None)
        return FatbinFacts(code=tuple(sorted(code)), ptx_isa=isa)

    return _with_elf(path, read)


def _architecture(number: int, *, ptx: bool) -> Architecture:
    return Architecture(ComputeCapability(number // 10, number % 10), ptx=ptx)


def _entries(stream: BinaryIO, start: int, end: int) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """(kind, architecture number, PTX version) of every entry."""
    offset = start
    for _ in range(_MOST_ENTRIES):
        header = _unpack(stream, offset, _FATBIN_HEADER)
        if header is None or offset + _FATBIN_HEADER.size > end:
            return
        magic, _version, header_size, content = header
        if magic != _FATBIN_MAGIC or header_size < _FATBIN_HEADER.size:
            offset += 8  # padding between containers
            continue
        inside, stop = offset + header_size, min(end, offset + header_size + content)
        while inside + _FATBIN_ENTRY.size <= stop:
            entry = _unpack(stream, inside, _FATBIN_ENTRY)
            if entry is None:
                return
            kind, _, entry_header, payload, _, _, minor, major, number = entry
            if not entry_header:
                break
            if 20 <= number < 1000:
                yield kind, number, (major, minor)
            inside += entry_header + payload
        offset = stop if stop > offset else offset + 8


def _unpack(stream: BinaryIO, offset: int, layout: struct.Struct) -> tuple[Any, ...] | None:
    stream.seek(offset)
    content = stream.read(layout.size)
    return layout.unpack(content) if len(content) == layout.size else None
