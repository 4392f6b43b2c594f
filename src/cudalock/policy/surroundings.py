"""What is installed beside the running program, read from metadata and files: nothing is imported."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock.markers import holds

__all__ = ["read_surroundings", "Surroundings"]

TRITONS = ("triton", "pytorch-triton", "triton-windows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment of the program.

    Attributes:
        torch: its version with the local part, None if it is not installed.
        torch_cuda: the CUDA release that torch's own ``version.py`` states, ``cpu`` for a CPU build, None if unknown.
        torch_folder: where the package lies.
        triton_pin: torch's own requirement on triton for this platform and Python.
        tritons: the distributions that provide triton, by name.
        flash_attn: version of flash-attn.
        flash_built_for: the torch release that its origin names, e.g. ``2.8``.
        flash_extensions: its compiled modules for this Python.
        transformers: version of transformers.
        python: feature release.
        compiler: the C compiler that Triton would call, None if there is none.
        has_headers: whether ``Python.h`` is where Triton looks for it.
        variables: those that matter and are set.
    """

    torch: Version | None = None
    torch_cuda: str | None = None
    torch_folder: Path | None = None
    triton_pin: Requirement | None = None
    tritons: Mapping[str, Version] = field(default_factory=dict)
    flash_attn: Version | None = None
    flash_built_for: str | None = None
    flash_extensions: tuple[Path, ...] = ()
    transformers: Version | None = None
    python: tuple[int, int] = (3, 0)
    compiler: str | None = None
    has_headers: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)


_VARIABLES = (
    "TORCH_COMPILE_DISABLE",
    "TORCHDYNAMO_DISABLE",
    "TRITON_INTERPRET",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_PTXAS_PATH",
)


def read_surroundings(path: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> Surroundings:
    """Reads the running interpreter's environment, or another with folders ``path`` in place of ``sys.path``."""
    variables = os.environ if environ is None else environ
    found = _distributions(sys.path if path is None else path)
    torch = found.get("torch")
    folder = Path(str(torch.locate_file("torch"))) if torch else None
    flash = found.get("flash-attn")
    return Surroundings(
        torch=_version(torch),
        torch_cuda=_torch_cuda(folder) if folder else None,
        torch_folder=folder,
        triton_pin=_pin(torch.requires or ()) if torch else None,
        tritons={name: version for name in TRITONS if (version := _version(found.get(name))) is not None},
        flash_attn=_version(flash),
        flash_built_for=_built_for(flash) if flash else None,
        flash_extensions=_extensions(flash) if flash else (),
        transformers=_version(found.get("transformers")),
        python=sys.version_info[:2],
        compiler=_compiler(variables),
        has_headers=(Path(sysconfig.get_paths()["include"]) / "Python.h").is_file(),
        variables={name: variables[name] for name in _VARIABLES if variables.get(name)},
    )


def _distributions(path: Sequence[str]) -> dict[str, metadata.Distribution]:
    wanted = {"torch", "flash-attn", "transformers", *TRITONS}
    found: dict[str, metadata.Distribution] = {}
    for name in wanted:
        for spelling in dict.fromkeys((name, name.replace("-", "_"))):
            for distribution in metadata.distributions(name=spelling, path=list(path)):
                if canonicalize_name(distribution.metadata["Name"] or "") == name:
                    found.setdefault(name, distribution)  # the first on the path is the one that is imported
    return found


def _version(distribution: metadata.Distribution | None) -> Version | None:
    try:
        return Version(distribution.version) if distribution is not None else None
    except (ValueError, TypeError):
        return None


def _pin(requirements: Iterable[str]) -> Requirement | None:
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) in TRITONS and holds(requirement.marker, {}):
            return requirement
    return None


def _torch_cuda(folder: Path) -> str | None:
    try:
        text = (folder / "version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"^cuda\s*(?::[^=\n]*)?=\s*(?:['\"]([\d.]+)['\"]|None)", text, re.MULTILINE)
    return None if match is None else match[1] or "cpu"


def _built_for(flash: metadata.Distribution) -> str | None:
    """Its project's wheels are named after the torch they are for: ``2.8.3+cu12torch2.8cxx11abiTRUE``."""
    origin = f"{flash.version} {flash.read_text('direct_url.json') or ''}"
    match = re.search(r"torch(\d+\.\d+)", origin)
    return match[1] if match else None


def _extensions(flash: metadata.Distribution) -> tuple[Path, ...]:
    """The compiled module lies beside the package: ``flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so``."""
    folder = Path(str(flash.locate_file("")))
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    names = [f"flash_attn_2_cuda{suffix}", "flash_attn_2_cuda.abi3.so"]
    return tuple(folder / name for name in names if (folder / name).is_file())


def _compiler(variables: Mapping[str, str]) -> str | None:
    """As Triton chooses it: ``CC``, else gcc, else clang."""
    path = variables.get("PATH")
    if named := variables.get("CC"):
        words = shlex.split(named)
        return shutil.which(words[0], path=path) if words else None
    return shutil.which("gcc", path=path) or shutil.which("clang", path=path)
