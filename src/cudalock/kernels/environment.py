"""Who wants to use the kernels: triton and Python of an environment, and the GPUs of the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.version import Version

from cudalock.host.model import Host
from cudalock.kernels.model import KernelEnvironment
from cudalock.lock.environment import read_environment
from cudalock.versions import ComputeCapability

__all__ = ["kernel_environment"]

_TRITONS = ("triton", "pytorch-triton", "triton-windows")
_OVERRIDES = ("TRITON_OVERRIDE_ARCH",)


def kernel_environment(
    host: Host | None = None, *, venv: Path | None = None, environ: Mapping[str, str] | None = None
) -> KernelEnvironment:
    """The environment in ``venv``, else the one of the running interpreter, on the machine ``host``.

    Raises:
        UsageError: ``venv-missing``, ``venv-is-file`` or ``venv-invalid``.
    """
    variables = os.environ if environ is None else environ
    found, python, source = _of_venv(venv) if venv is not None else _of_this_python()
    return KernelEnvironment(
        # two of them fight over one folder: which is in it is unknown
        triton=found[0] if len(found) == 1 else None,
        python=python,
        gpus=_gpus(host),
        overrides={name: variables[name] for name in _OVERRIDES if variables.get(name)},
        source=source,
    )


def _of_venv(venv: Path) -> tuple[list[Version], str | None, str]:
    installed = read_environment(venv)
    found: list[Version] = []
    for name, distributions in installed.packages.items():
        if name in _TRITONS:
            found += [version for it in distributions if (version := _version(it.version))]
    python = installed.python
    tag = f"cpython-{python.major}{python.minor}{'t' if python.free_threaded else ''}" if python else None
    return found, tag, str(venv)


def _of_this_python() -> tuple[list[Version], str | None, str]:
    found: list[Version] = []
    for name in _TRITONS:
        try:
            version = _version(metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
        if version is not None:
            found.append(version)
    return found, sys.implementation.cache_tag, sys.executable


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except ValueError:
        return None


def _gpus(host: Host | None) -> frozenset[ComputeCapability] | None:
    if host is None or not host.gpus_known or not host.gpus:
        return None
    known = [gpu.compute_capability for gpu in host.gpus]
    capabilities = frozenset(capability for capability in known if capability is not None)
    return None if None in known else capabilities
