"""Which libcuda, cuBLAS, cuDNN, NCCL, nvJitLink and kin a process of this environment would really get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cudalock.doctor.collect.loader import Loaded, Loader, version_in_name
from cudalock.doctor.model import DistributionFacts, FoundLibrary

__all__ = ["compare", "cuda_library", "loaded_by_torch", "of_interest", "wheel_libraries"]

_OF_INTEREST = (
    "libcudart.", "libcublas.", "libcublasLt.", "libcudnn", "libnccl.", "libnvJitLink.", "libcusparse.",
    "libcusparseLt.", "libcufft.", "libcusolver.", "libnvrtc.", "libnvshmem_host.",
)  # fmt: skip
_ROOTS = ("libtorch_global_deps.so", "libtorch.so", "libtorch_cuda.so", "libtorch_python.so")
_AMBIENT = ("LD_PRELOAD", "LD_LIBRARY_PATH")


def of_interest(soname: str) -> bool:
    """Whether a library is one whose release matters to torch."""
    return soname.startswith(_OF_INTEREST)


def cuda_library(loader: Loader) -> FoundLibrary:
    """The libcuda that a program gets, and the one that it would get without variables and the interpreter's RPATH."""
    found = loader.find("libcuda.so.1")
    plain = loader.find("libcuda.so.1", ambient=False)
    path, own = _real(found.path), _real(plain.path)
    return FoundLibrary(
        soname="libcuda.so.1",
        path=str(path) if path else None,
        how=found.how,
        expected=str(own) if own and own != path else None,
        version=version_in_name(path),
        expected_version=version_in_name(own),
    )


def wheel_libraries(site: Iterable[Path]) -> dict[str, Path]:
    """Soname -> the file that a wheel brings for it, below ``nvidia/`` and in torch's own folder."""
    found: dict[str, Path] = {}
    for folder in site:
        for pattern in ("nvidia/*/lib/lib*.so*", "torch/lib/lib*.so*"):
            for path in sorted(folder.glob(pattern)):
                found.setdefault(path.name, path)
    return found


def loaded_by_torch(loader: Loader, site: Iterable[Path], deadline: float) -> dict[str, Loaded]:
    """What is loaded when torch is imported, by the loader's rules."""
    roots = [folder / "torch/lib" / name for folder in site for name in _ROOTS]
    return loader.load([path for path in roots if path.is_file()], deadline=deadline)


def compare(
    loader: Loader,
    loaded: Mapping[str, Loaded],
    own: Mapping[str, Path],
    distributions: Iterable[DistributionFacts],
    site: Iterable[Path],
) -> Iterator[FoundLibrary]:
    """The libraries of interest, with the wheel's own file where another one comes first."""
    owners = _owners(distributions, tuple(site))
    for soname, found in sorted(loaded.items()):
        if of_interest(soname):
            yield _found(found, own.get(soname), owners)
    for soname, path in sorted(own.items()):
        if soname in loaded or not of_interest(soname) or "nvidia" not in path.parts:
            continue
        # opened by name at run time (cuDNN's parts, nvrtc, nvJitLink): by a sibling, whose RUNPATH is its own folder
        found = loader.find(soname, loader.elf(path))
        if found.how in _AMBIENT:
            yield _found(found, path, owners)


def _found(found: Loaded, own: Path | None, owners: Mapping[str, DistributionFacts]) -> FoundLibrary:
    path, expected = _real(found.path), _real(own)
    differs = expected is not None and path != expected
    owner = owners.get(str(own)) if own else None
    return FoundLibrary(
        soname=found.soname,
        path=str(path) if path else None,
        how=found.how,
        asked_by=str(found.asked_by) if found.asked_by else None,
        expected=str(expected) if differs else None,
        expected_owner=owner.name if differs and owner else None,
        version=version_in_name(path) if differs else _version(owner),
        expected_version=_version(owner) if differs else None,
    )


def _version(owner: DistributionFacts | None) -> str | None:
    return str(owner.version) if owner and owner.version else None


def _owners(distributions: Iterable[DistributionFacts], site: tuple[Path, ...]) -> dict[str, DistributionFacts]:
    found: dict[str, DistributionFacts] = {}
    for distribution in distributions:
        for path in distribution.files or ():
            if ".so" in path and distribution.name.startswith(("nvidia-", "torch")):
                for folder in site:
                    found.setdefault(str(folder / path), distribution)
    return found


def _real(path: Path | None) -> Path | None:
    return path.resolve() if path else None
