"""Rule R4: one CUDA major for torch and everything compiled against it, and releases that pair with torch's.

Where a companion's own metadata names its torch, resolution sees that by itself; the table speaks where metadata is
silent (torchaudio 2.11.0 declares no torch).
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock import facts
from cudalock.builds.label import cuda_of_label
from cudalock.builds.model import Build
from cudalock.compat.model import Reason
from cudalock.target.model import Target
from cudalock.versions import CudaVersion

__all__ = ["companion_fits", "companion_lacks_gpu", "companion_notes", "cuda_major_of_distribution"]


def cuda_major_of_distribution(name: str, version: Version) -> int | None:
    """The CUDA major that a CUDA-versioned distribution belongs to, None for all that have none (``nvidia-ml-py``)."""
    return facts.cuda_major_of_package(canonicalize_name(name), version)


def companion_fits(
    name: str, version: Version, build: Build, *, cuda: CudaVersion | None = None, cpu: bool = False
) -> tuple[Reason, ...]:
    """Why a companion's file does not go with a build of torch; empty if it does.

    Args:
        name: of the companion, or of a CUDA-versioned ``nvidia-*`` / ``cuda-*`` distribution.
        version: of its file, local part included.
        build: of torch.
        cuda: what the file is known to be built with (its label, its local version, its requirements); None if unknown.
        cpu: whether the file is known to be a CPU build.

    Returns:
        Refusals of rule R4. Projects that the table does not know and that name no CUDA release always fit.
    """
    normalized = canonicalize_name(name)
    cuda = cuda or cuda_of_label(version.local)
    cpu = cpu or version.local == "cpu"
    row = facts.companions().get(normalized)
    unpaired = _unpaired(row, version, build) if row is not None and row.mismatch == "error" else ()
    return (*unpaired, *_bounded(normalized, version, build), *_one_cuda(normalized, version, build, cuda, cpu=cpu))


def companion_lacks_gpu(name: str, target: Target) -> Reason | None:
    """That no release of a compiled companion runs on a GPU of the target (flash-attn below 8.0); None if it may."""
    row = facts.companions().get(canonicalize_name(name))
    lowest = row.minimum_capability if row is not None else None
    if row is None or lowest is None or target.cpu:
        return None
    below = sorted({str(gpu) for gpu in target.gpus if gpu.compute_capability < lowest})
    if not below:
        return None
    return Reason(
        rule="R2",
        code="extension-lacks-gpu",
        sentence=f"{row.project} needs compute capability {lowest} or above, and the target has {', '.join(below)}",
        facts={"package": row.project, "needs": str(lowest), "gpus": below, "source": row.source},
    )


def companion_notes(name: str, version: Version, build: Build) -> tuple[Reason, ...]:
    """What a companion does less well beside this torch, though it works (torchao without its compiled parts)."""
    row = facts.companions().get(canonicalize_name(name))
    return tuple(_unpaired(row, version, build)) if row is not None and row.mismatch == "warning" else ()


def _unpaired(row: facts.CompanionRow, version: Version, build: Build) -> Iterator[Reason]:
    if row.fits_torch(version, build.version) is False:
        pairs = row.torch_for(version)
        yield Reason(
            rule="R4",
            code="companion-mismatch",
            sentence=f"{row.project} {version.public} goes with torch{pairs}, not with torch {build.version.public}",
            facts={
                "companion": row.project,
                "version": str(version),
                "torch": str(build.version),
                "pairs": str(pairs),
                "source": row.source,
            },
        )

    elif (newest := _outrun(row, version, build.version)) is not None:
        yield Reason(
            rule="R4",
            code="companion-mismatch",
            sentence=f"torch {build.version.public} goes with {row.project}{newest}, not with {version.public}",
            facts={
                "companion": row.project,
                "version": str(version),
                "torch": str(build.version),
                "wanted": str(newest),
                "source": row.source,
            },
        )


def _outrun(row: facts.CompanionRow, version: Version, torch: Version) -> SpecifierSet | None:
    """The releases that a torch is paired with, where a release that the table does not cover is newer than these."""
    if row.torch_for(version) is not None:
        return None
    paired = row.releases_for(torch)
    if paired is None:
        return None
    public = Version(version.public)
    newer = all(public > Version(specifier.version.removesuffix(".*")) for specifier in paired)
    return paired if newer and not paired.contains(public, prereleases=True) else None


def _bounded(name: NormalizedName, version: Version, build: Build) -> Iterator[Reason]:
    """Bounds that no metadata states (NumPy 2 beside a torch that was compiled for NumPy 1)."""
    for bound in facts.implied_bounds().get(name, ()):
        if not bound.admits(version, build.version):
            yield Reason(
                rule="R4",
                code=bound.code,
                sentence=f"{name} {version} does not go with torch {build.version.public}, which {bound.why}",
                facts={
                    "package": name,
                    "version": str(version),
                    "torch": str(build.version),
                    "torch_wanted": bound.torch,
                    "source": bound.source,
                },
            )


def _one_cuda(
    name: NormalizedName, version: Version, build: Build, cuda: CudaVersion | None, *, cpu: bool
) -> Iterator[Reason]:
    row = facts.companions().get(name)
    major = cuda.major if cuda else cuda_major_of_distribution(name, version)
    evidence = {
        "companion": name,
        "version": str(version),
        "cuda": str(cuda or major),
        "torch": str(build.version),
        "torch_cuda": str(build.cuda) if build.cuda else None,
    }
    if build.cuda is None:
        if cuda is not None and row is not None:
            sentence = f"{name} {version} is a CUDA {cuda} build and torch {build.version} is a CPU build"
            yield Reason(rule="R4", code="companion-cuda-mismatch", sentence=sentence, facts=evidence)
    elif cpu:
        sentence = f"{name} {version} is a CPU build and torch {build.version} is a CUDA {build.cuda} build"
        yield Reason(rule="R4", code="companion-cuda-mismatch", sentence=sentence, facts=evidence)
    elif major is not None and major != build.cuda.major:
        sentence = f"{name} {version} belongs to CUDA {cuda or major} and torch {build.version} to CUDA {build.cuda}"
        yield Reason(rule="R4", code="cuda-majors-mixed", sentence=sentence, facts=evidence)
    elif row is not None and cuda is not None and cuda != build.cuda and row.needs_same_minor(version):
        sentence = f"{name} {version} of CUDA {cuda} refuses a torch of CUDA {build.cuda}"
        yield Reason(rule="R4", code="companion-cuda-mismatch", sentence=sentence, facts=evidence)
    elif row is not None and (ceiling := row.cuda_ceiling(version)) is not None and ceiling < build.cuda:
        sentence = f"{name} {version} holds binaries up to CUDA {ceiling}, and torch {build.version} has {build.cuda}"
        code = "bitsandbytes-no-binary" if name == "bitsandbytes" else "companion-cuda-mismatch"
        yield Reason(rule="R4", code=code, sentence=sentence, facts=evidence)
