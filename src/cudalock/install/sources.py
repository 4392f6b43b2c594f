"""Source distributions that are compiled against torch: for which GPUs, and with which toolkit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cudalock.errors import AnswerIsNo
from cudalock.lock.model import Lock
from cudalock.versions import CudaVersion

__all__ = ["build_variables", "cuda_home", "refuse_other_toolkit", "toolkit_version"]


def build_variables(lock: Lock, environ: Mapping[str, str]) -> dict[str, str]:
    """``TORCH_CUDA_ARCH_LIST`` for the lock's GPUs, unless the user set it."""
    gpus = lock.target.gpus if lock.target else ()
    if not gpus or environ.get("TORCH_CUDA_ARCH_LIST"):
        return {}
    return {"TORCH_CUDA_ARCH_LIST": ";".join(str(gpu) for gpu in sorted(gpus))}


def cuda_home(environ: Mapping[str, str]) -> Path | None:
    """The toolkit that torch's extension builder would take: ``CUDA_HOME``, ``CUDA_PATH``, nvcc's, the usual folder."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(name):
            return Path(environ[name])
    if nvcc := shutil.which("nvcc", path=environ.get("PATH")):
        return Path(nvcc).resolve().parent.parent
    usual = Path("/usr/local/cuda")
    return usual if usual.is_dir() else None


def toolkit_version(home: Path) -> CudaVersion | None:
    """From the toolkit's ``version.json``, else from nvcc's ``release 12.8, V12.8.93``; None if neither tells."""
    try:
        return CudaVersion.parse(json.loads((home / "version.json").read_text(encoding="utf-8"))["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        done = subprocess.run(
            [str(home / "bin" / "nvcc"), "--version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"release (\d+\.\d+)", done.stdout)
    return CudaVersion.parse(match[1]) if match else None


def refuse_other_toolkit(lock: Lock, names: frozenset[str], environ: Mapping[str, str] = os.environ) -> None:
    """Refuses to build with a toolkit of another CUDA major than torch's.

    Raises:
        AnswerIsNo: ``toolkit-mismatch``.
    """
    home = cuda_home(environ)
    cuda = lock.triple.cuda if lock.triple else None
    version = toolkit_version(home) if home else None
    if home is None or cuda is None or version is None or version.major == cuda.major:
        return
    raise AnswerIsNo(
        "toolkit-mismatch",
        f"{', '.join(sorted(names))} must be compiled, and the toolkit in {home} is CUDA {version}; torch's is {cuda}",
        hint=f"set CUDA_HOME to a CUDA {cuda.major} toolkit, best {cuda}",
        details={"toolkit": str(version), "torch": str(cuda), "cuda_home": str(home)},
    )
