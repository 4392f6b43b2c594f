"""Compiled files that are built against torch or CUDA: what they need, miss and hold."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cudalock import facts
from cudalock.doctor.collect.distributions import belongs_to_stack
from cudalock.doctor.collect.elf import ElfFacts, SymbolTable, read_elf, read_fatbin, undefined_symbols
from cudalock.doctor.collect.loader import Loaded, Loader
from cudalock.doctor.model import DistributionFacts, ExtensionFacts

__all__ = ["read_extensions"]

_BUILT_AGAINST = ("libtorch", "libc10", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvrtc")
# Names in torch's own namespaces: c10, at, torch, caffe2, and the C interface of its stable ABI.
_TORCH_SYMBOL = re.compile(r"_ZN?K?S?(?:T[ISV]N?K?)?(?:3c10|2at|5torch|6caffe2)|aoti_torch_")
_NEVER_MISSING = re.compile(r"libcuda\.so|libpython\d|ld-linux|linux-vdso")
_MOST_SYMBOLS = 8
_MOST_FILES = 3000


def read_extensions(
    distributions: Iterable[DistributionFacts],
    site: Iterable[Path],
    loader: Loader,
    loaded: Mapping[str, Loaded],
    deadline: float,
) -> tuple[tuple[ExtensionFacts, ...], bool]:
    """The extensions of all distributions, and whether time sufficed for all of them."""
    folders = tuple(site)
    libraries = [
        path for folder in folders for path in sorted((folder / "torch/lib").glob("lib*.so")) if path.is_file()
    ]
    symbols: SymbolTable | None = None
    found: list[ExtensionFacts] = []
    for number, (owner, folder, relative) in enumerate(_candidates(distributions, folders)):
        if time.monotonic() > deadline or number > _MOST_FILES:
            return tuple(found), False
        path = folder / relative
        elf = read_elf(path)
        if elf is None or not (_built_against(elf) or owner in facts.companions()):
            continue
        if symbols is None:
            symbols = SymbolTable(libraries)
        found.append(_extension(elf, relative, owner, loader, loaded, symbols if libraries else None, deadline))
    if symbols is not None:
        symbols.close()
    return tuple(found), True


def _candidates(
    distributions: Iterable[DistributionFacts], folders: tuple[Path, ...]
) -> Iterator[tuple[str, Path, str]]:
    """Shared objects of everything but torch, triton and the CUDA wheels; torch's companions first."""
    order = sorted(distributions, key=lambda one: (one.name not in facts.companions(), one.name))
    for distribution in order:
        if distribution.files is None or _is_stack(distribution.name):
            continue
        for relative in distribution.files:
            if not re.search(r"\.so(\.\d+)*$", relative):
                continue
            folder = next((folder for folder in folders if (folder / relative).is_file()), None)
            if folder is not None:
                yield distribution.name, folder, relative


def _is_stack(name: str) -> bool:
    if name in {"torch", "triton", "pytorch-triton", "triton-windows"}:
        return True
    return belongs_to_stack(name) and name.startswith(("nvidia-", "cuda-"))


def _built_against(elf: ElfFacts) -> bool:
    return any(name.startswith(_BUILT_AGAINST) for name in elf.needed)


def _extension(
    elf: ElfFacts,
    relative: str,
    owner: str,
    loader: Loader,
    loaded: Mapping[str, Loaded],
    symbols: SymbolTable | None,
    deadline: float,
) -> ExtensionFacts:
    mine = loader.load([elf.path], before=loaded, deadline=deadline)
    unresolved = [
        soname
        for soname, where in mine.items()
        if where.path is None and soname not in loaded and not _NEVER_MISSING.match(soname)
    ]
    unresolved += [name for name in elf.needed if name in loaded and loaded[name].path is None]
    missing: tuple[str, ...] = ()
    if symbols is not None and symbols.complete and any(name.startswith(("libtorch", "libc10")) for name in elf.needed):
        wanted = undefined_symbols(elf.path, _TORCH_SYMBOL)
        missing = tuple(name for name in wanted if not symbols.defines(name))[:_MOST_SYMBOLS]
    fatbin = read_fatbin(elf.path)
    return ExtensionFacts(
        path=relative,
        distribution=owner,
        needed=elf.needed,
        unresolved=tuple(dict.fromkeys(name for name in unresolved if not _NEVER_MISSING.match(name))),
        missing_symbols=missing,
        glibc=elf.glibc,
        glibcxx=elf.glibcxx,
        code=fatbin.code if fatbin and fatbin.code else None,
        ptx_isa=fatbin.ptx_isa if fatbin else None,
        module=not Path(relative).name.startswith("lib"),
    )
