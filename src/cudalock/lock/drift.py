"""Whether an environment holds what a lock says: one finding for each way in which it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock.findings import Finding
from cudalock.lock.environment import InstalledPackages
from cudalock.lock.interpreter import possible_answers, possible_pythons
from cudalock.lock.model import Lock
from cudalock.versions import CudaVersion

__all__ = ["drift_findings", "to_reinstall"]

_TORCH = canonicalize_name("torch")
_TRITONS = (canonicalize_name("triton"), canonicalize_name("pytorch-triton"), canonicalize_name("triton-windows"))
_TOOLS = frozenset(map(canonicalize_name, ("pip", "setuptools", "wheel", "uv")))
_SYNC = "`cudalock install --venv DIR --sync` brings the environment back to the lock"
_SHOWN = 8


def drift_findings(lock: Lock, environment: InstalledPackages) -> tuple[Finding, ...]:
    """Compares the installed distributions with the lock, worst first; no findings of severity error: they agree.

    Packages beyond the lock are a warning (pip, setuptools, wheel and uv are none); everything else is an error.
    """
    comparison = _Comparison(lock=lock, environment=environment, wanted=_wanted(lock, environment))
    return (
        *comparison.cut_short(),
        *comparison.torch(),
        *comparison.tritons(),
        *comparison.missing(),
        *comparison.other_versions(),
        *comparison.half_installed(),
        *comparison.damaged(),
        *comparison.installed_twice(),
        *comparison.beyond(),
    )


def to_reinstall(lock: Lock, environment: InstalledPackages) -> frozenset[NormalizedName]:
    """What an installer that compares versions would take for installed, and which is not what the lock says."""
    comparison = _Comparison(lock=lock, environment=environment, wanted=_wanted(lock, environment))
    torch = {_TORCH} if any(comparison.torch()) else set()
    unfit = {*environment.damaged, *torch, *comparison.incomplete_ones()}
    return frozenset(unfit & comparison.wanted.keys() & environment.packages.keys())


def _wanted(lock: Lock, environment: InstalledPackages) -> dict[NormalizedName, Version | None]:
    """The packages that belong into this environment; only another tool's lock has markers to look at.

    Where the environment does not say what a marker asks about, its package may be there or not: it counts if it is.
    """
    pythons: list[Mapping[str, str]] | None = None
    wanted: dict[NormalizedName, Version | None] = {}
    possible: dict[NormalizedName, list[Version | None]] = {}
    for package in lock.pylock.packages:
        answers = {True}
        if package.marker is not None:
            pythons = possible_pythons(environment) if pythons is None else pythons
            answers = possible_answers(package.marker, pythons)
        if answers == {True}:
            wanted[package.name] = package.version
        elif True in answers:
            possible.setdefault(package.name, []).append(package.version)
    for name, versions in possible.items():
        for installed in environment.packages.get(name, ()):
            for version in versions:
                if name not in wanted and _same(version, installed.version):
                    wanted[name] = version
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """A lock's packages (None: no version recorded) beside an environment's; a method for each kind of difference."""

    lock: Lock
    environment: InstalledPackages
    wanted: Mapping[NormalizedName, Version | None]

    def cut_short(self) -> Iterator[Finding]:
        if self.environment.incomplete:
            yield Finding(
                code="venv-incomplete",
                severity="error",
                message=f"an installation into {self.environment.venv} was begun and did not end",
                evidence={"venv": str(self.environment.venv)},
                fix=f"`cudalock install --venv {self.environment.venv} --clear` makes it anew",
            )

    def torch(self) -> Iterator[Finding]:
        """Torch's version and, as two builds of one release can share it, the CUDA release in its own files."""
        version = self._version_of(_TORCH)
        if version is None or _TORCH not in self.wanted:
            return
        wanted = self.wanted[_TORCH]
        cuda = self.lock.triple.cuda if self.lock.triple else None
        stated = self.environment.torch_cuda or ("cpu" if version.partition("+")[2].startswith("cpu") else None)
        code = "torch-not-from-lock"
        if cuda is not None and stated == "cpu":
            code = "torch-is-cpu-build"
            message = f"the installed torch {version} is a CPU build, and the lock's is for CUDA {cuda}"
        elif not _same(wanted, version):
            message = f"torch {version} is installed, and the lock has {wanted}"
        elif self.lock.triple is not None and not _same_cuda(stated, cuda):
            installed = "the CPU" if stated == "cpu" else f"CUDA {stated}"
            message = f"the installed torch {version} is for {installed}, and the lock's is for {cuda or 'the CPU'}"
        else:
            return
        evidence = {
            "lock": str(wanted),
            "installed": version,
            "lock_cuda": str(cuda) if cuda else None,
            "installed_cuda": stated,
        }
        yield Finding(code=code, severity="error", message=message, evidence=evidence, fix=_SYNC)

    def tritons(self) -> Iterator[Finding]:
        present = {name: version for name in _TRITONS if (version := self._version_of(name)) is not None}
        if len(present) > 1:
            both = " and ".join(f"{name} {version}" for name, version in present.items())
            yield Finding(
                code="triton-two-distributions",
                severity="error",
                message=f"{both} are installed together and own the same files",
                evidence={str(name): version for name, version in present.items()},
                fix="`cudalock install --clear` makes the environment anew: removing one takes files of the other",
            )
        for name, version in present.items():
            if name in self.wanted and not _same(self.wanted[name], version):
                yield Finding(
                    code="triton-off-pin",
                    severity="error",
                    message=f"{name} {version} is installed, and torch and the lock need {self.wanted[name]}",
                    evidence={"lock": str(self.wanted[name]), "installed": version},
                    fix=_SYNC,
                )

    def missing(self) -> Iterator[Finding]:
        missing = [name for name in sorted(self.wanted) if name not in self.environment.packages]
        if missing:
            yield _drift(f"{_count(missing)} of the lock {_are(missing)} not installed: {_list(missing)}", missing)

    def other_versions(self) -> Iterator[Finding]:
        """Torch and triton have findings of their own, and so has NCCL: torch loads the one that it was built with."""
        other: dict[NormalizedName, str] = {}
        for name in sorted(self.wanted.keys() - {_TORCH, *_TRITONS}):
            version = self._version_of(name)
            if version is not None and not _same(self.wanted[name], version):
                other[name] = f"{name} {version} instead of {self.wanted[name]}"
        nccl = [name for name in other if name.startswith("nvidia-nccl-")]
        for name in nccl:
            yield _drift(f"{other.pop(name)} is installed", [name], code="nccl-off-pin")
        if other:
            texts = _list(list(other.values()))
            yield _drift(f"{_count(other)} {_are(other)} installed in another version: {texts}", list(other))

    def half_installed(self) -> Iterator[Finding]:
        if broken := self.incomplete_ones():
            what = "METADATA or RECORD is missing"
            yield _drift(f"{_list(broken)} {_are(broken)} installed incompletely: {what}", broken)

    def incomplete_ones(self) -> list[NormalizedName]:
        packages = self.environment.packages
        return [name for name in sorted(self.wanted) if any(not one.complete for one in packages.get(name, ()))]

    def damaged(self) -> Iterator[Finding]:
        """Files of the lock's packages that are gone or altered; of a torch that is another one, that was said."""
        other = {_TORCH} if any(self.torch()) else set()
        damaged = {n: paths for n, paths in self.environment.damaged.items() if n in self.wanted and n not in other}
        if not damaged:
            return
        texts = [f"{n} ({p[0]}{f' and {len(p) - 1} more' if len(p) > 1 else ''})" for n, p in damaged.items()]
        yield Finding(
            code="files-damaged",
            severity="error",
            message=f"files of {_count(damaged)} are missing or altered: {_list(texts)}",
            evidence={
                "packages": list(damaged),
                "files": {str(name): list(paths[:_SHOWN]) for name, paths in damaged.items()},
            },
            fix=_SYNC,
        )

    def installed_twice(self) -> Iterator[Finding]:
        for name, several in self.environment.packages.items():
            if len(several) > 1:
                versions = " and ".join(one.version for one in several)
                yield _drift(f"{name} is installed {len(several)} times: {versions}", [name], code="files-clobbered")

    def beyond(self) -> Iterator[Finding]:
        surplus = [
            f"{name} {several[0].version}"
            for name, several in self.environment.packages.items()
            if name not in self.wanted and name not in _TOOLS
        ]
        if surplus:
            yield Finding(
                code="lock-drift",
                severity="warning",
                message=f"{_count(surplus)} {_are(surplus)} installed that the lock does not have: {_list(surplus)}",
                evidence={"beyond": surplus},
                fix=_SYNC,
            )

    def _version_of(self, name: NormalizedName) -> str | None:
        found = self.environment.packages.get(name)
        return found[0].version if found else None


def _same(wanted: Version | None, installed: str) -> bool:
    if wanted is None:
        return True
    try:
        return Version(installed) == wanted
    except ValueError:
        return False


def _same_cuda(stated: str | None, wanted: CudaVersion | None) -> bool:
    """Whether torch's own statement agrees with the lock; without a statement there is nothing against it."""
    if stated is None:
        return True
    if stated == "cpu" or wanted is None:
        return (stated == "cpu") == (wanted is None)
    try:
        return CudaVersion.parse(stated) == wanted
    except ValueError:
        return True


def _drift(message: str, names: Sequence[str], *, code: str = "lock-drift") -> Finding:
    return Finding(code=code, severity="error", message=message, evidence={"packages": list(names)}, fix=_SYNC)


def _count(items: Collection[str]) -> str:
    return f"{len(items)} package{'' if len(items) == 1 else 's'}"


def _are(items: Collection[str]) -> str:
    return "is" if len(items) == 1 else "are"


def _list(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
