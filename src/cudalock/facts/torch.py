"""Builds of torch and the labels of the PyTorch index: ``data/torch.toml`` and ``data/labels.toml``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from packaging.version import Version

from cudalock.facts.loader import Row, cached, table
from cudalock.versions import Architecture, ComputeCapability, CudaVersion

__all__ = ["LabelRow", "labels", "parse_code", "torch_row", "torch_rows", "TorchRow"]

_EVIDENCE: dict[str, Literal["wheel", "table", "inferred"]] = {
    "wheel": "wheel",
    "table": "table",
    "inferred": "inferred",
}
_PLATFORMS: dict[str, tuple[Literal["linux", "windows"], str]] = {
    "linux-x86_64": ("linux", "x86_64"),
    "linux-aarch64": ("linux", "aarch64"),
    "win-amd64": ("windows", "x86_64"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRow:
    """One build of torch: one release from one place for one platform.

    Attributes:
        version: without a local part.
        cuda: the CUDA version it was built with; None for a CPU build.
        label: of the PyTorch index (``cu126``, ``cpu``); None for the main index's own build.
        on_main: whether it is the main index's own build.
        os, machine: ``linux`` or ``windows``; ``x86_64`` or ``aarch64``.
        architectures: machine code and PTX in it, ascending; empty for a CPU build.
        triton: specifier of torch's own requirement on triton, None if it has none on this platform.
        triton_python: the requirement holds for these Pythons only, e.g. ``<3.13``; None for all.
        evidence: ``wheel`` (measured on this very wheel), ``table`` (a build script or the release's own table
            says so) or ``inferred`` (taken from a neighbour, or the sources conflict).
        note: why it is inferred or what conflicts, None if there is nothing to say.
        source: where it was read.
    """

    version: Version
    cuda: CudaVersion | None
    label: str | None
    on_main: bool
    os: Literal["linux", "windows"]
    machine: str
    architectures: tuple[Architecture, ...]
    triton: str | None
    evidence: Literal["wheel", "table", "inferred"]
    triton_python: str | None = None
    note: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """A label of the PyTorch index under which CUDA builds of torch lie.

    Attributes:
        label: e.g. ``cu126``.
        cuda: the CUDA version of its builds.
        first_torch: first release with a build under it.
        last_torch: last release with one; None while builds are still made.
        source: where it was read.
    """

    label: str
    cuda: CudaVersion
    first_torch: Version
    last_torch: Version | None
    source: str


@cached
def _architecture(word: str) -> Architecture:
    ptx = word.startswith("ptx")
    number = word.removeprefix("ptx")
    suffix: Literal["", "a", "f"] = "a" if number.endswith("a") else "f" if number.endswith("f") else ""
    digits = number.removesuffix(suffix) if suffix else number
    if not digits.isdigit() or not 2 <= len(digits) <= 3:
        raise ValueError(f"not an architecture: {word!r} (expected e.g. 90, 100f or ptx120)")
    return Architecture(ComputeCapability(int(digits[:-1]), int(digits[-1])), suffix, ptx)


@cached
def parse_code(text: str) -> tuple[Architecture, ...]:
    """The architectures in the short form of the table: ``75 80 90a ptx120``.

    Raises:
        ValueError: a word is not one.
    """
    return tuple(sorted((_architecture(word) for word in text.split()), key=_by_kind))


def _by_kind(architecture: Architecture) -> tuple[bool, ComputeCapability, str]:
    return architecture.ptx, architecture.capability, architecture.suffix


def _version(text: str) -> Version:
    try:
        return Version(text)
    except ValueError as error:
        raise ValueError(str(error)) from error


def _builds_of(release: Row, notes: Row) -> Iterator[TorchRow]:
    version = release.parsed("version", _version)
    triton = release.text_or_none("triton")
    triton_python = release.text_or_none("triton_python")
    seen: set[tuple[str, str]] = set()
    for build in release.lists("builds"):
        if not 6 <= len(build) <= 7:
            release.fail(f"a build needs place, platform, CUDA, code, evidence and source, got {build!r}")
        place, platform, cuda_text, code, evidence, source = build[:6]
        if platform not in _PLATFORMS:
            release.fail(f"unknown platform {platform!r}")
        if evidence not in _EVIDENCE:
            release.fail(f"unknown evidence {evidence!r}")
        if (place, platform) in seen:
            release.fail(f"{place} for {platform} stands in it twice")
        seen.add((place, platform))
        os, machine = _PLATFORMS[platform]
        cuda = release.parse(cuda_text, CudaVersion.parse) if cuda_text != "cpu" else None
        if (cuda is None) != (not code):
            release.fail(f"{place} for {platform}: a CUDA build has code and a CPU build has none")
        if place not in {"main", "cpu"} and (cuda is None or place != cuda.label):
            release.fail(f"label {place!r} does not fit CUDA {cuda_text}")
        note = None
        if len(build) == 7:
            note = notes.text(build[6])
        has_triton = triton is not None and place in _triton_places(release, platform)
        yield TorchRow(
            version=version,
            cuda=cuda,
            label=None if place == "main" else place,
            on_main=place == "main",
            os=os,
            machine=machine,
            architectures=release.parse(code, parse_code),
            triton=triton if has_triton and cuda is not None else None,
            triton_python=triton_python if has_triton and cuda is not None else None,
            evidence=_EVIDENCE[evidence],
            note=note,
            source=release.source_of(source),
        )


def _triton_places(release: Row, platform: str) -> frozenset[str]:
    """Where builds for a platform require triton: a list of ``main``/``labels``, by platform."""
    where = release.values.get("triton_on", {}).get(platform, [])
    places = set(where) - {"labels"}
    if "labels" in where:
        places |= {build[0] for build in release.lists("builds")} - {"main", "cpu"}
    return frozenset(places)


@cached
def torch_rows() -> tuple[TorchRow, ...]:
    """All known builds of torch, releases ascending; within a release the main index's own first.

    Source: measured on the main index's wheels, build scripts and the releases' own tables, see ``data/torch.toml``.
    """
    content = table("torch")
    notes = content.section("notes")
    releases = content.by_key("release", lambda row: row.parsed("version", _version))
    return tuple(build for version in sorted(releases) for build in _builds_of(releases[version], notes))


@cached
def _by_release() -> dict[Version, tuple[TorchRow, ...]]:
    found: dict[Version, tuple[TorchRow, ...]] = {}
    for row in torch_rows():
        found[row.version] = (*found.get(row.version, ()), row)
    return found


def torch_row(
    version: Version, *, cuda: CudaVersion | None, os: str, machine: str, on_main: bool | None = None
) -> TorchRow | None:
    """The build of a release with this CUDA version (None: CPU) on a platform, None if it is unknown.

    Args:
        version: a local part is ignored.
        cuda: CUDA version of the build.
        os: ``linux`` or ``windows``.
        machine: ``x86_64`` or ``aarch64`` (``amd64`` and ``arm64`` are understood).
        on_main: only the main index's own build, or only another one; None prefers the main index's own.
    """
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine)
    for row in _by_release().get(Version(version.public), ()):
        if row.cuda == cuda and row.os == os and row.machine == machine and on_main in {None, row.on_main}:
            return row
    return None


@cached
def labels() -> tuple[LabelRow, ...]:
    """The labels of the PyTorch index with CUDA builds of torch, by CUDA version.

    Source: PyTorch's own release matrix and wheels recorded in public lock files, see ``data/labels.toml``.
    """
    found = [
        LabelRow(
            label=label,
            cuda=row.parse(label, CudaVersion.parse),
            first_torch=row.parsed("first", _version),
            last_torch=row.parsed_or_none("last", _version),
            source=row.source,
        )
        for label, row in table("labels").by_key("label", lambda row: row.text("label")).items()
    ]
    return tuple(sorted(found, key=lambda row: row.cuda))


@cached
def torch_pythons(version: Version) -> frozenset[str]:
    """The Pythons (``3.12``, ``3.14t``) for which every CUDA build of a release has wheels.

    Source: tags of the releases' files, see ``pythons`` in ``data/torch.toml``.
    """
    public = Version(version.public)
    have: frozenset[str] = frozenset()
    for row in table("torch").rows("pythons"):
        if row.parsed("since", _version) <= public:
            have = frozenset(row.text("have").split())
    return have
