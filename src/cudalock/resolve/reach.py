"""What the indexes serve of torch and the target cannot have: for refusals that name what is missing.

Files are sorted out by their tags before any rule sees them. That is right for the choice, and would be silent in a
refusal: where the builds that are left have no code for the GPU, those that were left out may well have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock import facts
from cudalock.builds import cuda_of_label, platform_of
from cudalock.candidates import TORCH, VersionWish, build_of_row, paired_torch, parse_file_name
from cudalock.compat import Reason, Remedy, TorchOption, best_admitted, judge
from cudalock.facts import TorchRow
from cudalock.index.model import IndexFile
from cudalock.resolve.context import Context
from cudalock.resolve.missing import glibc_floor, pythons_of
from cudalock.resolve.notes import with_table_triton, with_triton
from cudalock.resolve.wants import PackageWant
from cudalock.versions import CudaVersion

__all__ = ["out_of_reach", "pytorch_could_help", "unpublished_cuda", "with_pytorch"]


_Halves = tuple[frozenset[tuple[str, str]], frozenset[str]]


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """A build that the rules admit, and the one thing that keeps its file from the target: glibc, or its Python."""

    option: TorchOption
    glibc: tuple[int, int] | None
    python: str | None

    @property
    def release(self) -> Version:
        return Version(self.option.build.version.public)


def out_of_reach(context: Context, wish: VersionWish) -> list[tuple[Reason, Remedy]]:
    """What a newer glibc or another Python would admit: the fact and the way out, at most one of each kind.

    Args:
        context: of the resolution; every page of torch that counts was read already.
        wish: what is asked of torch.
    """
    left_out = list(_left_out(context, wish))
    found = []
    if by_glibc := [one for one in left_out if one.glibc is not None]:
        found.append(_for_glibc(context, by_glibc))
    if by_python := [one for one in left_out if one.python is not None]:
        found.append(_for_python(context, by_python))
    return found


def unpublished_cuda(context: Context, wish: VersionWish) -> Reason | None:
    """That no build of the CUDA release which the user named is published, with those that are; None if one is."""
    if context.policy.cuda is None:
        return None
    asked = CudaVersion.parse(context.policy.cuda)
    published: dict[Version, set[CudaVersion]] = {}
    for file in context.torch.files():
        name = parse_file_name(file.filename, TORCH)
        if name is None or name.version.is_prerelease or not _allows(wish, name.version):
            continue
        build = context.torch.known_build(file)
        cuda = build.cuda if build is not None else cuda_of_label(name.version.local) or cuda_of_label(file.page.label)
        if cuda is not None:
            published.setdefault(Version(name.version.public), set()).add(cuda)
    if not published or any(asked in found for found in published.values()):
        return None
    release = max(published)
    there = sorted(published[release])
    return Reason(
        rule="choice",
        code="requirements-conflict",
        sentence=(
            f"no build with CUDA {asked} is published; torch {release} is there with CUDA "
            f"{', '.join(map(str, there))} ({' '.join(cuda.label for cuda in there)})"
        ),
        facts={"asked": str(asked), "torch": str(release), "published": [cuda.label for cuda in there]},
    )


def _allows(wish: VersionWish, version: Version) -> bool:
    return wish.allows(version) or wish.allows(Version(version.public))


def _left_out(context: Context, wish: VersionWish) -> Iterator[_LeftOut]:
    own = context.target.platform.os, context.target.platform.machine
    options: dict[tuple[str, Version], TorchOption | None] = {}
    halves = _halves(context.target.tags)
    for listing in context.pages.loaded(TORCH):
        for version, files in listing.files.items():
            if version.is_prerelease or not _allows(wish, version):
                continue
            for file in files:
                needs = _needs(context, file, halves) if platform_of(file.filename) == own else None
                if needs is None:
                    continue
                key = file.page.label or "", version
                if key not in options:
                    options[key] = _admitted(context, file)
                option = options[key]
                if option is not None:
                    yield _LeftOut(option, *needs)


def _admitted(context: Context, file: IndexFile) -> TorchOption | None:
    build = context.torch.known_build(file)
    if build is None:
        return None
    build, triton = with_table_triton(context, build, file)
    admitted = judge(build, context.target, triton=triton, policy=context.policy).admitted
    return TorchOption(build=build, triton=triton) if admitted else None


def _needs(context: Context, file: IndexFile, halves: _Halves) -> tuple[tuple[int, int] | None, str | None] | None:
    """The glibc or the Python that a file needs and the target lacks; None if it is neither, or both at once."""
    refusal = context.rules.refusal(file, pinned=True)
    name = parse_file_name(file.filename, TORCH)
    if refusal is None or name is None or refusal.code not in {"no-wheel-for-platform", "no-wheel-for-python"}:
        return None
    interpreters, platforms = halves
    for_python = any((tag.interpreter, tag.abi) in interpreters for tag in name.tags)
    for_platform = any(tag.platform in platforms for tag in name.tags)
    if for_platform and not (for_python and refusal.code == "no-wheel-for-platform"):
        pythons = pythons_of([file])
        return (None, pythons[0]) if pythons and pythons[0] != str(context.target.python) else None
    libc = context.target.platform.libc
    if for_python and libc is not None and libc[0] == "glibc":
        floors = [f for tag in name.tags if (f := glibc_floor(tag.platform, context.target.platform.machine))]
        return (min(floors), None) if floors and min(floors) > libc[1] else None
    return None


def _halves(tags: Iterable[Tag]) -> _Halves:
    """The interpreters with their ABIs and the platforms that wheels for the target may be made for."""
    return frozenset((tag.interpreter, tag.abi) for tag in tags), frozenset(tag.platform for tag in tags)


def _best(context: Context, left_out: Sequence[_LeftOut]) -> _LeftOut:
    options = {id(one.option): one for one in left_out}
    best = best_admitted((one.option for one in options.values()), context.target, context.policy)
    return options[id(best[0])] if best is not None else left_out[0]


def _for_glibc(context: Context, left_out: Sequence[_LeftOut]) -> tuple[Reason, Remedy]:
    target = context.target
    floor = min(one.glibc for one in left_out if one.glibc is not None)
    reachable = [one for one in left_out if one.glibc == floor]
    best = _best(context, reachable)
    first = min(one.release for one in reachable)
    libc = target.platform.libc[1] if target.platform.libc else (0, 0)
    option = f"--platform {target.platform.machine}-manylinux_{floor[0]}_{floor[1]}"
    needs, has = f"glibc {floor[0]}.{floor[1]}", f"{libc[0]}.{libc[1]}"
    span = f"{first}" if first == best.release else f"{first} to {best.release}"
    version = str(best.option.build.version)
    reason = Reason(
        rule="choice",
        code="glibc-too-old",
        sentence=f"builds of torch {span} would serve it; their wheels need {needs}, and the target has {has}",
        facts={"first": str(first), "newest": version, "needs": f"{floor[0]}.{floor[1]}", "has": has},
    )
    sentence = f"a system with {needs} or later ({option}) admits {version} (CUDA {best.option.build.cuda})"
    return reason, Remedy(kind="platform", sentence=sentence, admits=version, option=option)


def _for_python(context: Context, left_out: Sequence[_LeftOut]) -> tuple[Reason, Remedy]:
    own = context.target.python
    pythons = sorted({one.python for one in left_out if one.python is not None}, key=lambda text: (_minor(text), text))
    same_kind = [text for text in pythons if text.endswith("t") == str(own).endswith("t")] or pythons
    nearest = min(same_kind, key=lambda text: abs(_minor(text) - own.minor))
    best = _best(context, [one for one in left_out if one.python == nearest])
    version = str(best.option.build.version)
    reason = Reason(
        rule="choice",
        code="no-wheel-for-python",
        sentence=f"builds that would serve it have wheels for Python {', '.join(pythons)} and not for {own}",
        facts={"pythons": pythons, "python": str(own), "newest": version},
    )
    sentence = f"--python {nearest} admits {version} (CUDA {best.option.build.cuda})"
    return reason, Remedy(kind="python", sentence=sentence, admits=version, option=f"--python {nearest}")


def _minor(text: str) -> int:
    return int(text.rstrip("t").partition(".")[2])


def with_pytorch(context: Context, wish: VersionWish) -> Remedy | None:
    """What the PyTorch index would admit, by the tables, where the user left it out; None otherwise."""
    target = context.target
    if context.pages.pytorch != "never" or target.cpu:
        return None
    options = []
    for row in facts.torch_rows():
        build = build_of_row(row)
        if row.on_main or (row.os, row.machine) != (target.platform.os, target.platform.machine):
            continue
        if not _allows(wish, build.version):
            continue
        build, triton = with_triton(build, Requirement(f"triton{row.triton}") if row.triton else None)
        options.append(TorchOption(build=build, triton=triton))
    best = best_admitted(options, target, context.policy)
    if best is None:
        return None
    version = str(best[0].build.version)
    sentence = f"drop --no-pytorch-index: {version} (CUDA {best[0].build.cuda}) is admitted, by cudalock's tables"
    return Remedy(kind="pytorch-index", sentence=sentence, admits=version, option="--no-pytorch-index")


def pytorch_could_help(context: Context, roots: Sequence[PackageWant]) -> bool:
    """Whether the PyTorch index, which did not answer, may have a build that what was asked for admits.

    Builds of releases that the tables do not know may be anything. Of those that they know, one helps if the rules
    admit it and its triton is among those asked for.
    """
    wish = _wish_of_torch(context, roots)
    target = context.target
    rows = [row for row in facts.torch_rows() if (row.os, row.machine) == (target.platform.os, target.platform.machine)]
    known = {row.version for row in rows}
    listed = {Version(version.public) for listing in context.pages.loaded(TORCH) for version in listing.files}
    if not known or target.cpu or any(_allows(wish, release) for release in listed - known):
        return True
    newest = max(known)
    later = {Version(f"{newest.major}.{newest.minor + 1}"), *_named(wish)}
    if any(release > newest and _allows(wish, release) for release in later):
        return True
    labelled = [row for row in rows if row.label is not None]
    return any(_allows_label(wish, row) and _admits(context, row, roots) for row in labelled)


def _wish_of_torch(context: Context, roots: Sequence[PackageWant]) -> VersionWish:
    """What is asked of torch, also by companions of which one release is asked for."""
    wish = context.wish(TORCH, [want for want in roots if want.identifier == TORCH])
    specifiers = wish.specifiers
    for want in roots:
        for specifier in want.requirement.specifier:
            if specifier.operator == "==" and not specifier.version.endswith(".*"):
                paired = paired_torch(canonicalize_name(want.identifier), Version(specifier.version))
                specifiers &= paired if paired is not None else SpecifierSet()
    return VersionWish(specifiers=specifiers, prereleases=wish.prereleases)


def _named(wish: VersionWish) -> Iterator[Version]:
    for specifier in wish.specifiers:
        if specifier.operator != "===":
            yield Version(specifier.version.removesuffix(".*"))


def _allows_label(wish: VersionWish, row: TorchRow) -> bool:
    return wish.allows(Version(f"{row.version}+{row.label}"))


def _admits(context: Context, row: TorchRow, roots: Sequence[PackageWant]) -> bool:
    python = Version(f"{context.target.python.major}.{context.target.python.minor}")
    needs = row.triton if row.triton_python is None or SpecifierSet(row.triton_python).contains(python) else None
    build, triton = with_triton(build_of_row(row), Requirement(f"triton{needs}") if needs else None)
    if not judge(build, context.target, triton=triton, policy=context.policy).admitted:
        return False
    if needs is None:
        return True
    project = canonicalize_name("triton")
    wish = context.wish(project, [want for want in roots if want.identifier == project])
    there = {release.version for release in facts.triton_rows()}
    there |= {version for listing in context.pages.loaded(project) for version in listing.files}
    wanted = SpecifierSet(needs)
    there |= {Version(one.version) for one in wanted if one.operator == "==" and not one.version.endswith(".*")}
    return any(wish.allows(version) and wanted.contains(version, prereleases=True) for version in there)
