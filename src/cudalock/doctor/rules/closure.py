"""The CUDA wheels below torch: missing, mixed, doubled, off their pins."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock import facts
from cudalock.doctor.collect.distributions import belongs_to_stack
from cudalock.doctor.model import DistributionFacts
from cudalock.doctor.rules.situation import Situation, make_finding
from cudalock.findings import Finding

__all__ = ["RULES"]

_MOST_FILES = 5
_SHARED = re.compile(r"nvidia-(cudnn|nccl|cusparselt|nvshmem)-cu\d\d")
"""Wheels whose folder does not depend on the CUDA major: two of them own the same files (wheels_nccl facts)."""


def missing(situation: Situation) -> Iterator[Finding]:
    """CUDA wheels that torch requires and that are not there, or whose files are gone."""
    evidence = situation.evidence
    torch = evidence.named("torch")
    if evidence.complete and torch is not None:
        gone = [
            one for one in torch.requires or () if _is_cuda(one) and evidence.named(canonicalize_name(one.name)) is None
        ]
        if gone:
            names = ", ".join(one.name for one in gone)
            yield make_finding(
                "missing-nvidia-dependency",
                f"{names} {'is' if len(gone) == 1 else 'are'} required by {situation.torch_name} and not installed",
                {"missing": [f"{one.name}{one.specifier}" for one in gone]},
                fix=f"install {' '.join(f'{one.name}{one.specifier}' for one in gone)}",
                verified=True,
            )
    for one in evidence.distributions:
        if one.missing_files and one.name.startswith("nvidia-"):
            message = f"files of {one.name} {one.version} are gone, e.g. {one.missing_files[0]}"
            evidence_of = {"distribution": one.name, "files": list(one.missing_files)}
            fix = f"reinstall {one.name}=={one.version}"
            yield make_finding("missing-nvidia-dependency", message, evidence_of, fix=fix, verified=True)


def _is_cuda(requirement: Requirement) -> bool:
    name = canonicalize_name(requirement.name)
    return name.startswith(("nvidia-", "cuda-"))


def majors(situation: Situation) -> Iterator[Finding]:
    """CUDA wheels of another major than torch's."""
    torch = situation.evidence.torch
    if torch is None:
        return
    cuda = torch.cuda
    found: dict[int, list[DistributionFacts]] = {}
    for one in situation.evidence.distributions:
        major = facts.cuda_major_of_package(one.name, one.version or Version("0"))
        if major and not facts.is_placeholder(one.name):
            found.setdefault(major, []).append(one)
    if torch.cpu and found:
        names = sorted(one.name for group in found.values() for one in group)
        message = f"{situation.torch_name} is a CPU build and needs none of {', '.join(names[:3])}"
        yield make_finding("unused-nvidia-libraries", message, {"distributions": names})
    if cuda is None:
        return
    for major, group in sorted(found.items()):
        if major != cuda.major:
            yield _other_major(situation, major, group)


def _other_major(situation: Situation, major: int, group: list[DistributionFacts]) -> Finding:
    names = sorted(one.name for one in group)
    torch = situation.evidence.torch
    wanted_by = _wanted_by(situation, frozenset(names))
    # another project's own libraries (cupy of another major) lie in folders of their own and harm nothing
    harmless = bool(wanted_by) and not any(_SHARED.fullmatch(name) for name in names)
    return make_finding(
        "cuda-majors-mixed",
        f"{', '.join(names[:3])} {'is' if len(names) == 1 else 'are'} of CUDA {major}, unlike torch",
        {
            "distributions": names,
            "cuda": major,
            "torch_cuda": str(torch.cuda) if torch else None,
            "wanted_by": wanted_by,
        },
        severity="warning" if harmless else None,
        fix=f"uninstall {' '.join(names)}" if not wanted_by else None,
        verified=not wanted_by,
    )


def _wanted_by(situation: Situation, names: frozenset[str]) -> list[str]:
    return sorted(
        one.name
        for one in situation.evidence.distributions
        if one.name not in names
        and any(canonicalize_name(requirement.name) in names for requirement in one.requires or ())
    )


def clobbered(situation: Situation) -> Iterator[Finding]:
    """Files of the stack that two distributions own with different contents."""
    evidence = situation.evidence
    owners: dict[str, list[tuple[DistributionFacts, str]]] = {}
    for one in evidence.distributions:
        if one.place == "environment":
            for path, digest in (one.files or {}).items():
                owners.setdefault(path, []).append((one, digest))
    pairs: dict[tuple[str, str], list[str]] = {}
    for path, owned in owners.items():
        if len(owned) > 1 and len({digest for _, digest in owned}) > 1 and any(_ours(one) for one, _ in owned):
            names: list[str] = sorted(one.name for one, _ in owned)
            first, second = names[0], names[-1]
            if first != second:
                pairs.setdefault((first, second), []).append(path)
    for (first, second), paths in sorted(pairs.items()):
        yield _clobber(first, second, sorted(paths, key=lambda path: (".so" not in path, path)))
    if not pairs:
        yield from _clobbered_by_name(evidence.distributions)
    for one in evidence.distributions:
        if one.missing_files and one.name in {"torch", "triton", "pytorch-triton"}:
            message = f"files of {one.name} {one.version} are gone, e.g. {one.missing_files[0]}"
            evidence_of = {"distribution": one.name, "files": list(one.missing_files)}
            cause = "another distribution that owned them too was uninstalled, or an installation was cut short"
            yield make_finding("files-clobbered", message, evidence_of, cause=cause, fix=f"reinstall {one.name}")


def _ours(one: DistributionFacts) -> bool:
    return belongs_to_stack(one.name) or one.name in facts.companions()


def _clobber(first: str, second: str, paths: list[str]) -> Finding:
    return make_finding(
        "files-clobbered",
        f"{first} and {second} both own {paths[0]}" + (f" and {len(paths) - 1} more files" if len(paths) > 1 else ""),
        {"distributions": [first, second], "files": paths[:_MOST_FILES]},
        fix=f"uninstall {first} and {second}, then install the one that torch requires",
    )


def _clobbered_by_name(distributions: tuple[DistributionFacts, ...]) -> Iterator[Finding]:
    """The same from names alone, where no RECORD is known: wheels that share one folder."""
    groups: dict[str, list[str]] = {}
    for one in distributions:
        if one.files is None and (match := _SHARED.fullmatch(one.name)):
            groups.setdefault(match[1], []).append(one.name)
    for component, names in sorted(groups.items()):
        if len(names) > 1:
            yield _clobber(names[0], names[1], [f"nvidia/{component}/lib"])


def pins(situation: Situation) -> Iterator[Finding]:
    """NCCL and cuDNN against torch's own requirement."""
    torch = situation.evidence.named("torch")
    for requirement in (torch.requires or ()) if torch else ():
        name = canonicalize_name(requirement.name)
        installed = situation.evidence.named(name)
        if installed is None or installed.version is None:
            continue
        if requirement.specifier.contains(Version(installed.version.public), prereleases=True):
            continue
        code = "nccl-off-pin" if "nccl" in name else "cudnn-mixed" if "cudnn" in name else None
        if code:
            wanted = f"{requirement.name}{requirement.specifier}"
            message = (
                f"{name} {installed.version} is installed, and {situation.torch_name} requires {requirement.specifier}"
            )
            evidence = {"installed": str(installed.version), "required": wanted}
            yield make_finding(code, message, evidence, fix=f"install {wanted}", verified=True)


def nccl_trouble(situation: Situation) -> Iterator[Finding]:
    """Reported trouble of the NCCL that is there; it matters where several GPUs talk to each other."""
    for one in situation.evidence.distributions:
        if not one.name.startswith("nvidia-nccl") or one.version is None:
            continue
        for row in facts.nccl_trouble(one.version):
            several = len(situation.host.gpus) > 1 and row.strength != "claim"
            yield make_finding(
                "nccl-known-bad",
                f"NCCL {one.version} has reported trouble: {row.symptom}",
                {
                    "version": str(one.version),
                    "symptom": row.symptom,
                    "fixed_in": row.fixed_in,
                    "workaround": row.workaround,
                    "references": list(row.references),
                    "strength": row.strength,
                },
                severity="warning" if several else "info",
                fix=row.workaround,
            )


def unresolved(situation: Situation) -> Iterator[Finding]:
    """Libraries that torch's own files need and that nothing provides."""
    names = situation.evidence.files.get("unresolved_by_torch") or []
    names = [name for name in names if not name.startswith(("libcuda.so", "libnvidia-ml"))]
    if names:
        message = f"{situation.torch_name} needs {', '.join(names)}, which the loader does not find"
        yield make_finding("undeclared-needed-library", message, {"libraries": names})


RULES = (missing, majors, clobbered, pins, nccl_trouble, unresolved)
