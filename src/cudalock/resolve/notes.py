"""What is worth knowing of an answer: what it rests on, what held it back, what would unlock more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName
from packaging.version import Version
from resolvelib.resolvers import Result

from cudalock import facts
from cudalock.builds import Build, TritonRelease, known_triton
from cudalock.candidates import TORCH, Candidate, build_of_row
from cudalock.compat import Reason, TorchOption, best_admitted, companion_notes, unlocked_by_driver
from cudalock.index.model import IndexFile
from cudalock.resolve.context import Context
from cudalock.resolve.missing import slips
from cudalock.resolve.model import Triple
from cudalock.resolve.provider import Provider
from cudalock.resolve.wants import Choice, PackageWant, Want, who_wants

Found = Result[Want, Choice, str]

__all__ = ["Found", "held_back", "notes_of", "torch_options", "warnings_of", "with_table_triton", "with_triton"]


def torch_options(
    context: Context, wanted: SpecifierSet | None = None, *, above: Version | None = None
) -> list[TorchOption]:
    """Every build of torch that is there for the target and whose facts are known without reading a wheel.

    Args:
        context: of the resolution.
        wanted: builds outside it are marked as not wanted.
        above: only newer releases than this; of the others not even the files are looked at.
    """
    options = []
    for file in context.torch.files(above=above):
        build = context.torch.known_build(file)
        if build is None:
            continue
        judged = context.torch.judged(file)
        build, triton = (judged.build, judged.triton) if judged else with_table_triton(context, build, file)
        allowed = wanted is None or wanted.contains(build.version, prereleases=True)
        options.append(TorchOption(build=build, triton=triton, wanted=allowed))
    return options


def with_table_triton(context: Context, build: Build, file: IndexFile) -> tuple[Build, TritonRelease | None]:
    """The table's word on the triton of a build that was not read."""
    return with_triton(build, context.torch.table_triton(file))


def with_triton(build: Build, requirement: Requirement | None) -> tuple[Build, TritonRelease | None]:
    """A build that requires this triton, and the newest release known that satisfies it."""
    if requirement is None:
        return build, None
    return replace(build, triton=requirement), _newest_triton(str(requirement.specifier))


@cache
def _newest_triton(specifier: str) -> TritonRelease | None:
    specifiers = SpecifierSet(specifier)
    known = [row.version for row in facts.triton_rows() if specifiers.contains(row.version)]
    return known_triton(max(known)) if known else None


def notes_of(
    provider: Provider, found: Found, triple: Triple | None, chosen: Mapping[NormalizedName, Candidate]
) -> tuple[Reason, ...]:
    """The notes of a resolution, in a fixed order."""
    notes: list[Reason] = []
    if triple is not None:
        wants = [i.requirement for i in found.criteria[TORCH].information if isinstance(i.requirement, PackageWant)]
        notes += triple.verdict.notes
        notes += _evidence(triple)
        notes += _companion_notes(triple, chosen)
        notes += _unlocked(provider.context, triple, provider.context.wish(TORCH, wants).specifiers)
    notes += _missing_extras(provider, chosen)
    notes += slips(name for name in chosen if any(i.parent is None for i in found.criteria[name].information))
    return tuple({(reason.code, reason.sentence): reason for reason in notes}.values())


def warnings_of(context: Context, triple: Triple | None) -> tuple[Reason, ...]:
    """What may make the answer worse than it could be."""
    fault = context.pages.fault
    if triple is None:
        return ()
    if fault is None:
        return tuple(_kept_unasked(context, triple))
    warning = Reason(
        rule="choice",
        code="pytorch-index-unreachable",
        sentence=(
            f"the PyTorch index did not answer, so torch {triple.torch} is the best of the main index alone; "
            "a better build may exist (--pytorch-index-url names a mirror)"
        ),
        facts={"index": "pytorch", "cause": fault.message},
    )
    return (warning,)


def _kept_unasked(context: Context, triple: Triple) -> Iterator[Reason]:
    """An existing pin of the main index's own build is kept without a question to the PyTorch index.

    Such a lock was made when that index did not answer, or for another driver: the warning holds as long as it does.
    """
    pages, release = context.pages, Version(triple.torch.public)
    kept = context.preferred.get(TORCH) == triple.torch and triple.build.source == "main"
    if not kept or "pytorch" in pages.heard or not pages.may_use_pytorch(TORCH) or context.target.cpu:
        return
    options = [TorchOption(build=triple.build, triton=triple.triton_release)]
    for row in facts.torch_rows():
        own_place = (row.os, row.machine) == (context.target.platform.os, context.target.platform.machine)
        if own_place and row.version == release and row.label is not None:
            version = Version(f"{release}+{row.label}")
            build = replace(build_of_row(row), version=version, source="pytorch")
            build, triton = with_triton(build, Requirement(f"triton{row.triton}") if row.triton else None)
            options.append(TorchOption(build=build, triton=triton))
    best = best_admitted(options, context.target, context.policy)
    if best is None or best[0].build.source == "main":
        return
    better = best[0].build
    yield Reason(
        rule="choice",
        code="pytorch-index-not-asked",
        sentence=(
            f"the existing pin of torch {triple.torch} is kept, and the PyTorch index was not asked: by cudalock's "
            f"tables it has {better.version} (CUDA {better.cuda}), which suits this target better; "
            "--upgrade-package torch takes it"
        ),
        facts={"index": "pytorch", "kept": str(triple.torch), "better": str(better.version)},
    )


def held_back(provider: Provider, found: Found, triple: Triple) -> tuple[str, ...]:
    """Which requirements kept torch from a newer release that the rules admit; judged by the tables alone."""
    context = provider.context
    release = Version(triple.torch.public)
    newer = torch_options(context, above=release)
    best = best_admitted([o for o in newer if not o.build.version.is_prerelease], context.target, context.policy)
    if best is None:
        return ()
    newest = best[0].build.version
    against = _against(provider, found, newest)
    if TORCH in context.preferred:
        allowed = [option for option in newer if not _against(provider, found, option.build.version)]
        kept = best_admitted([o for o in allowed if not o.build.version.is_prerelease], context.target, context.policy)
        if kept is not None:
            version = kept[0].build.version
            return (f"the existing pin is kept; --upgrade-package torch moves torch to {version}", *against)
    sentences = against
    if not sentences and TORCH in context.preferred:
        sentences = [f"the existing pin is kept; --upgrade-package torch moves torch to {newest}"]
    elif not sentences:
        sentences = [_what_lacks(provider, best[0].build)]
    return tuple(dict.fromkeys(sentences))


def _against(provider: Provider, found: Found, version: Version) -> list[str]:
    """The requirements and constraints that rule a release of torch out, one sentence each."""
    sentences = [
        f"{who_wants(information.requirement, information.parent)}, which keeps torch from {version}"
        for information in found.criteria[TORCH].information
        if isinstance(information.requirement, PackageWant)
        and not information.requirement.requirement.specifier.contains(version, prereleases=True)
    ]
    sentences += [
        f"the constraint {constraint.requirement} ({constraint.origin}) keeps torch from {version}"
        for constraint in provider.context.constraints.get(TORCH, ())
        if not constraint.requirement.specifier.contains(version, prereleases=True)
    ]
    return sentences


def _what_lacks(provider: Provider, build: Build) -> str:
    """Why a build that the rules admit was not taken, where no requirement on torch stands against it."""
    judged = provider.context.torch.judged_build(build)
    if judged is not None:
        version = judged.build.version
        lacking = provider.lacking_for(Candidate(name=TORCH, version=version, file=judged.file, judged=judged))
        if lacking is not None:
            return f"{lacking}, which keeps torch from {version}"
    return f"no consistent set of the other requirements was found with torch {build.version}"


def _evidence(triple: Triple) -> Iterable[Reason]:
    if triple.cuda is not None and triple.build.evidence == "wheel" and triple.build.origin.endswith(".whl"):
        yield Reason(
            rule="R2",
            code="read-from-wheel",
            sentence=f"what torch {triple.torch} supports was read from the wheel itself, not from cudalock's tables",
            facts={"torch": str(triple.torch), "file": triple.build.origin},
        )


def _companion_notes(triple: Triple, chosen: Mapping[NormalizedName, Candidate]) -> Iterator[Reason]:
    for name in sorted(chosen):
        yield from companion_notes(name, chosen[name].version, triple.build)


def _unlocked(context: Context, triple: Triple, wanted: SpecifierSet) -> Iterator[Reason]:
    """A newer release that the requirements allow and only the driver stands against."""
    if context.target.cpu:
        return
    options = torch_options(context, wanted, above=Version(triple.torch.public))
    newer = [option for option in options if option.wanted]
    if best_admitted(newer, context.target, context.policy) is not None:
        return
    remedy = unlocked_by_driver(newer, context.target, context.policy, triple.build)
    if remedy is not None:
        yield Reason(rule="R1", code="newer-driver-unlocks", sentence=remedy.sentence, facts=remedy.to_json())


def _missing_extras(provider: Provider, chosen: Mapping[NormalizedName, Candidate]) -> Iterator[Reason]:
    for name in sorted(chosen):
        candidate = chosen[name]
        for extra in sorted(candidate.extras - provider.metadata(candidate).extras):
            yield Reason(
                rule="choice",
                code="extra-unknown",
                sentence=f"{name} {candidate.version} has no extra {extra!r}",
                facts={"package": name, "extra": extra},
            )
