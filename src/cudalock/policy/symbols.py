"""Whether a compiled extension finds in torch what it needs of torch: their symbol tables against each other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["missing_symbols"]

_LIBRARIES = ("libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so")
_TORCH_NAMES = (b"3c10", b"2at", b"5torch")


def missing_symbols(extension: Path, torch_folder: Path) -> tuple[str, ...]:
    """Names of torch's C++ symbols that the extension wants and no library of this torch mentions, sorted.

    Empty if all are there, or if nobody can tell (no ELF files, libraries that cannot be read).
    """
    from elftools.common.exceptions import ELFError

    try:
        wanted = _undefined(extension)
        known = _names(torch_folder / "lib" / name for name in _LIBRARIES)
    except (OSError, ELFError):
        return ()
    return tuple(sorted(name.decode("ascii", "replace") for name in wanted - known)) if known else ()


def _undefined(path: Path) -> set[bytes]:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        if not isinstance(table, SymbolTableSection):
            return set()
        names = {
            symbol.name.encode()
            for symbol in table.iter_symbols()
            if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_WEAK"
        }
    return {name for name in names if name.startswith(b"_Z") and any(part in name for part in _TORCH_NAMES)}


def _names(paths: Iterable[Path]) -> set[bytes]:
    """All strings of the dynamic string tables: splitting them takes milliseconds, walking the symbols seconds."""
    from elftools.elf.elffile import ELFFile

    found: set[bytes] = set()
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                strings = ELFFile(file).get_section_by_name(".dynstr")
                if strings is not None:
                    found.update(strings.data().split(b"\0"))
    return found
