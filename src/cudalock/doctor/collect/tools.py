"""Compilers, the CUDA toolkit and the variables that Triton, torch and the loader heed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cudalock.builds.assembler import assembler_release
from cudalock.doctor.model import Override
from cudalock.versions import CudaVersion

__all__ = ["VARIABLES", "cuda_home_release", "find_compiler", "nvcc_release", "overrides", "relevant_variables"]

VARIABLES = (
    "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONHOME", "CONDA_PREFIX", "VIRTUAL_ENV",
    "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING",
    "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "PYTORCH_NVML_BASED_CUDA_CHECK", "BNB_CUDA_VERSION",
    "FLASH_ATTENTION_FORCE_BUILD", "TMPDIR", "XLA_FLAGS",
)  # fmt: skip
_PREFIXES = ("TRITON_", "TORCH", "NVIDIA_", "NCCL_", "PYTORCH_", "TORCHINDUCTOR_")
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|AUTH", re.IGNORECASE)
_OVERRIDES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
_TIME_LIMIT_S = 2.0
_LARGEST_ASSEMBLER = 512 * 2**20


def relevant_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter and are set; none whose name says that it is a secret."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if (name in VARIABLES or name.startswith(_PREFIXES)) and not _SECRET.search(name)
    }


def find_compiler(environ: Mapping[str, str]) -> str | None:
    """The C compiler that triton would call: CC, else gcc, else clang."""
    path = environ.get("PATH", "")
    named = environ.get("CC", "").split()
    candidates = [named[0]] if named else ["gcc", "clang"]
    return next((found for name in candidates if (found := shutil.which(name, path=path))), None)


def nvcc_release(environ: Mapping[str, str]) -> tuple[str | None, CudaVersion | None]:
    """Path and release of the nvcc on the search path."""
    nvcc = shutil.which("nvcc", path=environ.get("PATH", ""))
    if nvcc is None:
        return None, None
    try:
        shown = subprocess.run(
            [nvcc, "--version"], capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False, env=dict(environ)
        ).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return nvcc, None
    match = re.search(r"release (\d{1,4}\.\d{1,4})", shown)
    return nvcc, CudaVersion.parse(match[1]) if match else None


def cuda_home_release(environ: Mapping[str, str]) -> CudaVersion | None:
    """The release of the toolkit that CUDA_HOME or CUDA_PATH names, from its own files."""
    home = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    if not home:
        return None
    for relative, pattern in (
        ("version.json", r'"cuda"\s*:\s*\{[^}]*?"version"\s*:\s*"(\d+\.\d+)'),
        ("version.txt", r"CUDA Version (\d+\.\d+)"),
    ):
        if match := re.search(pattern, _text(Path(home) / relative)):
            return CudaVersion.parse(match[1])
    match = re.search(r"#define\s+CUDA_VERSION\s+(\d{1,9})", _text(Path(home) / "include/cuda.h"))
    return CudaVersion.from_driver_api(int(match[1])) if match else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def overrides(environ: Mapping[str, str]) -> tuple[Override, ...]:
    """The assemblers that variables name, with the release that each tells of itself."""
    found = []
    for variable in _OVERRIDES:
        if named := environ.get(variable):
            path = Path(named)
            exists = path.is_file()
            release = _assembler(path) if exists else None
            found.append(Override(variable=variable, path=named, exists=exists, release=release))
    return tuple(found)


def _assembler(path: Path) -> CudaVersion | None:
    try:
        if path.stat().st_size > _LARGEST_ASSEMBLER:
            return None
        with path.open("rb") as stream:
            release = assembler_release(iter(lambda: stream.read(1 << 20), b""))
    except OSError:
        return None
    return CudaVersion.parse(release) if release else _by_asking(path)


def _by_asking(path: Path) -> CudaVersion | None:
    """A wrapper script around an assembler tells its release only when it runs, as triton will run it."""
    try:
        shown = subprocess.run(
            [str(path), "--version"], capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = re.search(r"release (\d{1,4}\.\d{1,4})", shown)
    return CudaVersion.parse(match[1]) if match else None
