"""A facts file as evidence: the same rules judge a bug report from far away.

``packages`` maps a name to its version; where a report names no release, a label alone (``cu126``, ``cpu``) will do.
``libraries`` maps a soname to the file that the loader takes, ``tools`` a tool to its path (null: it is missing), with
``nvcc`` and ``cuda_home`` to a release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock import facts
from cudalock.builds import cuda_of_label
from cudalock.doctor.collect.loader import version_in_name
from cudalock.doctor.model import CacheFolder, DistributionFacts, Evidence, FoundLibrary, LoadPath, Override, TorchFacts
from cudalock.host.model import Host
from cudalock.versions import Architecture, CudaVersion

__all__ = ["evidence_from_facts"]

_LABEL = re.compile(r"cu\d{2,3}|cpu|rocm[\d.]+|xpu")


def evidence_from_facts(host: Host, environment: Mapping[str, Any]) -> Evidence:
    """The evidence that a facts file gives; :func:`cudalock.host.read_facts` has read and checked it."""
    variables: Mapping[str, str] = environment.get("variables") or {}
    tools: Mapping[str, str | None] = environment.get("tools") or {}
    distributions = tuple(_distributions(environment.get("packages") or {}))
    libraries = tuple(_libraries(host, environment.get("libraries") or {}, variables))
    return Evidence(
        host=host,
        python=host.python,
        environment=None,
        distributions=distributions,
        torch=_torch(host, distributions),
        overrides=tuple(
            Override(variable=name, path=variables[name], exists=True, release=_release_in(variables[name]))
            for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
            if variables.get(name)
        ),
        variables=variables,
        libraries=libraries,
        tools=tools,
        nvcc=_release(tools.get("nvcc")),
        cuda_home=_release(tools.get("cuda_home")) or _release_in(variables.get("CUDA_HOME") or ""),
        caches=tuple(_caches(environment.get("files") or {}, variables)),
        files=environment.get("files") or {},
        errors=tuple(environment.get("errors") or ()),
    )


def _distributions(packages: Mapping[str, str]) -> Iterator[DistributionFacts]:
    for name, text in sorted(packages.items()):
        version, label = _version(text)
        yield DistributionFacts(name=canonicalize_name(name), version=version, label=label)


def _version(text: str) -> tuple[Version | None, str | None]:
    """A release, or a label alone."""
    try:
        version = Version(text.strip())
    except ValueError:
        match = _LABEL.search(text.lower())
        return None, match[0] if match else None
    return version, version.local


def _torch(host: Host, distributions: tuple[DistributionFacts, ...]) -> TorchFacts | None:
    one = next((item for item in distributions if item.name == "torch"), None)
    if one is None:
        return None
    if one.label == "cpu":
        return TorchFacts(version=one.version, cpu=True, evidence="table")
    cuda = cuda_of_label(one.label)
    if one.version is None:
        common = _common_code(host, cuda) if cuda else None
        return TorchFacts(
            version=None, cuda=cuda, cpu=False if cuda else None, architectures=common, evidence="inferred"
        )
    rows = _rows(host, one.version, cuda)
    row = rows[0] if rows else None
    if row is None:
        nearest = _common_code(host, cuda, near=one.version) if cuda else None
        return TorchFacts(
            version=one.version,
            cuda=cuda,
            cpu=False if cuda else None,
            architectures=nearest,
            evidence="inferred",
        )
    return TorchFacts(
        version=one.version,
        cuda=row.cuda,
        cpu=row.cuda is None,
        architectures=row.architectures or None,
        triton=Requirement(f"triton{row.triton}") if row.triton and len({one.triton for one in rows}) == 1 else None,
        evidence="table" if row.evidence == "wheel" else row.evidence,
    )


def _rows(host: Host, version: Version, cuda: CudaVersion | None) -> tuple[facts.TorchRow, ...]:
    """The table's builds: by their label; without one the main index's own, whose names carry none.

    A release without its last number (``2.7``) stands for all of that series.
    """
    if cuda is None and (version.is_prerelease or version.local):
        return ()
    os, machine = host.os or "linux", host.machine or "x86_64"
    wanted = version.release
    exact = version.base_version if len(wanted) > 2 else None
    return tuple(
        row
        for row in facts.torch_rows()
        if (row.os, row.machine) == (os, machine)
        and (row.on_main if cuda is None else row.cuda == cuda)
        and (row.version == Version(exact) if exact else row.version.release[:2] == wanted)
        and not version.is_prerelease
    )


def _common_code(host: Host, cuda: CudaVersion | None, near: Version | None = None) -> tuple[Architecture, ...] | None:
    """The code of a build that the table does not know: of the nearest release under its label, or of all of them.

    Without a release the union is taken, so that only what no build of the label holds counts as missing.
    """
    os, machine = host.os or "linux", host.machine or "x86_64"
    rows = [row for row in facts.torch_rows() if (row.cuda, row.os, row.machine) == (cuda, os, machine)]
    if not rows:
        return None
    if near is None:
        return tuple(sorted({item for row in rows for item in row.architectures}))
    below = [row for row in rows if row.version <= Version(near.base_version)]
    return (below[-1] if below else rows[0]).architectures


def _release(text: str | None) -> CudaVersion | None:
    try:
        return CudaVersion.parse(text) if text else None
    except ValueError:
        return _release_in(text or "")


def _release_in(path: str) -> CudaVersion | None:
    """The release that a toolkit's folder name tells, e.g. ``/usr/local/cuda-12.1/bin/ptxas``."""
    match = re.search(r"cuda[-/_]?(\d{2})[._-](\d{1,2})(?!\d)", path)
    return CudaVersion(int(match[1]), int(match[2])) if match else None


def _libraries(host: Host, named: Mapping[str, str], variables: Mapping[str, str]) -> Iterator[FoundLibrary]:
    found = dict(named)
    if host.cuda_library and "libcuda.so.1" not in found:
        found["libcuda.so.1"] = host.cuda_library
    for soname, path in sorted(found.items()):
        yield FoundLibrary(
            soname=soname, path=path, how=_how(path, variables), version=version_in_name(PurePosixPath(path))
        )


def _how(path: str, variables: Mapping[str, str]) -> LoadPath:
    folder = path.rpartition("/")[0]
    if path in re.split("[: ]", variables.get("LD_PRELOAD", "")):
        return "LD_PRELOAD"
    if folder in [part.rstrip("/") for part in variables.get("LD_LIBRARY_PATH", "").split(":")]:
        return "LD_LIBRARY_PATH"
    prefix = variables.get("CONDA_PREFIX")
    return "conda" if prefix and path.startswith(prefix) else "facts"


def _caches(files: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[CacheFolder]:
    """``files`` may describe a cache: ``{"~/.triton/cache": {"filesystem": "nfs4", "writable": false}}``."""
    for path, said in files.items():
        if isinstance(said, dict) and ("triton" in path or path == variables.get("TRITON_CACHE_DIR")):
            yield CacheFolder(
                kind="triton",
                path=path,
                writable=said.get("writable"),
                executable=said.get("executable"),
                filesystem=said.get("filesystem"),
                foreign=tuple(map(str, said.get("foreign") or ())),
            )
