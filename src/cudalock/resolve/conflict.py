"""Why there is no answer, in a few sentences: who wants what, or which facts of the machine clash with which build."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version
from resolvelib.structs import RequirementInformation

from cudalock import facts
from cudalock.candidates import TORCH, TRITON_NAMES, Candidate, VersionWish
from cudalock.compat import Reason, Verdict, companion_lacks_gpu, refusals_by_fact, remedies
from cudalock.errors import AnswerIsNo, CudalockError
from cudalock.resolve.context import Context
from cudalock.resolve.missing import missing_file, unknown_package
from cudalock.resolve.notes import torch_options
from cudalock.resolve.provider import Provider
from cudalock.resolve.reach import out_of_reach, pytorch_could_help, unpublished_cuda, with_pytorch
from cudalock.resolve.wants import (
    BUILD,
    BuildChoice,
    BuildWant,
    Choice,
    FitsWant,
    ImpossibleWant,
    PackageWant,
    Want,
    plain,
    who_wants,
)

__all__ = ["explain"]

_Cause = RequirementInformation[Want, Choice]
_MOST_SHOWN = 8
_MOST_ALTERNATIVES = 12
# What the target lacks is the better name for the fault, also where another package leads to it.
_ABOUT_TARGET = frozenset({"glibc-too-old", "musl-unsupported", "no-wheel-for-python"})


def explain(provider: Provider, roots: Sequence[PackageWant], causes: Collection[_Cause]) -> CudalockError:
    """The error for a resolution that failed.

    Args:
        provider: of the failed run.
        roots: what was asked for.
        causes: the requirements that the resolver could not satisfy together.
    """
    context = provider.context
    names = list(dict.fromkeys(c.requirement.identifier for c in causes if isinstance(c.requirement, PackageWant)))
    involves_torch = TORCH in names or any(c.requirement.identifier == BUILD for c in causes)
    family = any(name in facts.torch_family() for name in names)
    if context.pages.fault is not None and (involves_torch or family) and pytorch_could_help(context, roots):
        return context.pages.unreachable(_why_pytorch(context))
    for name in sorted(names):
        wants = _wants(causes, name)
        error = _one_package(context, name, wants)
        if error is not None:
            return error
    for name in sorted(TRITON_NAMES.intersection(names)):
        refused_triton = _no_triton(context, name, _wants(causes, name))
        if refused_triton is not None:
            return refused_triton
    if TORCH in names:
        refusal = _no_torch(context, _wants(causes, TORCH))
        if refusal is not None:
            return refusal
    for cause in causes:
        if isinstance(cause.requirement, ImpossibleWant) and cause.requirement.missing is not None:
            want, parent = cause.requirement.missing
            error = _one_package(context, want.identifier, [(want, parent)])
            if error is not None:
                return error
    return _conflict(provider, roots, list(causes))


def _why_pytorch(context: Context) -> str:
    """Why the main index alone does not do, as far as its builds were judged: the clash that most of them share."""
    shared = refusals_by_fact(Verdict(refusals=reasons) for _build, reasons in context.torch.refused.values())
    return f"the main index alone admits nothing: {shared[0].sentence}" if shared else ""


def _wants(causes: Iterable[_Cause], name: str) -> list[tuple[PackageWant, Choice | None]]:
    return [
        (cause.requirement, cause.parent)
        for cause in causes
        if isinstance(cause.requirement, PackageWant) and cause.requirement.identifier == name
    ]


def _one_package(context: Context, name: str, wants: list[tuple[PackageWant, Choice | None]]) -> CudalockError | None:
    """The error of a package that is not there, or not for this target, whatever the others want."""
    project = canonicalize_name(name)
    packages = [want for want, _parent in wants]
    who = "; ".join(dict.fromkeys(who_wants(want, parent) for want, parent in wants[:_MOST_SHOWN]))
    if (lacking := companion_lacks_gpu(name, context.target)) is not None:
        return _lacks_gpu(lacking, who)
    if context.direct_urls(project, packages):
        return None
    error = _not_served(context, project, packages, who)
    indirect = wants and all(isinstance(parent, Candidate) for _want, parent in wants)
    if error is None or not indirect or error.code in _ABOUT_TARGET:
        return error
    return _dependency_missing(error)


def _lacks_gpu(lacking: Reason, who: str) -> AnswerIsNo:
    package = lacking.facts["package"]
    return AnswerIsNo(
        "extension-lacks-gpu",
        f"{lacking.sentence} ({who})",
        hint=f"leave {package} out, or name only GPUs that it runs on with --gpu",
        details={"package": package, "reasons": [lacking.to_json()]},
    )


def _dependency_missing(error: AnswerIsNo) -> AnswerIsNo:
    """The same error of a package that nobody asked for by name: what asks for it cannot be installed."""
    return AnswerIsNo(
        "index-dependency-missing",
        error.message,
        hint=f"{error.hint}; or do without what requires it",
        details={**error.details, "cause": error.code},
    )


def _not_served(context: Context, project: NormalizedName, packages: list[PackageWant], who: str) -> AnswerIsNo | None:
    name = str(project)
    listings = [context.pages.main(project), *(p for p in context.pages.loaded(project) if p.ref.index == "pytorch")]
    if not any(listing.found for listing in listings):
        return unknown_package(context, project, who)
    # First with nothing said about the version, then for each requirement by itself
    for want in [None, *packages]:
        wish = context.wish(project, [want] if want is not None else [])
        if want is None:
            wish = VersionWish(prereleases=True)
        error = missing_file(context, project, wish, listings, who, asked=plain(want.requirement) if want else name)
        if error is not None:
            return error
    return None


def _no_torch(context: Context, wants: list[tuple[PackageWant, Choice | None]]) -> AnswerIsNo | None:
    """The error that no build of torch is admitted: for all wants together, or for every alternative among them.

    Of many versions of one companion, each wants another torch; together they want none.
    """
    direct = [pair for pair in wants if not isinstance(pair[1], Candidate)]
    alternatives = [pair for pair in wants if isinstance(pair[1], Candidate)]
    refusal = _no_build(context, wants) or _no_build(context, direct)
    if refusal is not None or len(alternatives) < 2:
        return refusal
    for pair in alternatives[:_MOST_ALTERNATIVES]:
        wish = context.wish(TORCH, [want for want, _parent in [*direct, pair]])
        if next(context.torch.admitted(wish), None) is not None:
            return None
    newest = max(alternatives, key=lambda pair: pair[1].version if isinstance(pair[1], Candidate) else Version("0"))
    return _no_build(context, [*direct, newest])


def _no_build(context: Context, wants: list[tuple[PackageWant, Choice | None]]) -> AnswerIsNo | None:
    """The error that no build of torch which the requirements allow is admitted by the rules."""
    packages = [want for want, _parent in wants]
    wish = context.wish(TORCH, packages)
    if context.direct_urls(TORCH, packages) or next(context.torch.admitted(wish), None) is not None:
        return None
    refused = [
        (build, reasons)
        for build, reasons in context.torch.refused.values()
        if wish.allows(build.version) or wish.allows(Version(build.version.public))
    ]
    if not refused:
        return None
    _load_all_labels(context)
    asked = ", ".join(dict.fromkeys(plain(want.requirement) for want in packages)) or "torch"
    helpful = remedies(
        torch_options(context, wish.specifiers), context.target, context.policy, asked=_limit(context, wants)
    )
    clash = _worth_saying(refusals_by_fact(Verdict(refusals=reasons) for _build, reasons in refused))
    if (unpublished := unpublished_cuda(context, wish)) is not None:
        clash = (unpublished,)
    elif beyond := out_of_reach(context, wish):
        clash = (*clash[:2], *(reason for reason, _remedy in beyond))
        helpful = (*helpful, *(remedy for _reason, remedy in beyond))
    named = [] if asked == "torch" else [asked]
    limits = ", ".join([*named, *_constraints(context)])
    wanted = f"torch that satisfies {limits}" if limits else "torch"
    sentences = [reason.sentence for reason in clash]
    if (remedy := with_pytorch(context, wish)) is not None:
        helpful = (remedy, *helpful)
    hint = "; or ".join(remedy.sentence for remedy in helpful[:4]) or "nothing that cudalock knows of admits a build"
    return AnswerIsNo(
        "no-admissible-build",
        f"no build of {wanted} runs on {_machine(context)}: " + "; ".join(sentences),
        hint=hint,
        details={
            "requirement": asked,
            "reasons": [reason.to_json() for reason in clash],
            "refused": [
                {"torch": str(build.version), "source": build.source, "label": build.label, "cuda": _text(build.cuda),
                 "reasons": [reason.to_json() for reason in reasons]}
                for build, reasons in refused
            ],
            "remedies": [remedy.to_json() for remedy in helpful],
        },
    )  # fmt: skip


def _constraints(context: Context) -> list[str]:
    found = context.constraints.get(TORCH, ())
    return [f"the constraint {plain(one.requirement)} ({one.origin})" for one in found]


def _limit(context: Context, wants: list[tuple[PackageWant, Choice | None]]) -> str:
    """What limits torch, for a sentence that begins with "drop": the user's own words, or whose requirement it is."""
    limits = [
        f"or loosen {parent.name}, which requires {plain(want.requirement)}"
        if isinstance(parent, Candidate)
        else plain(want.requirement)
        for want, parent in wants
        if want.requirement.specifier
    ]
    return ", ".join(dict.fromkeys([*limits, *_constraints(context)]))


def _no_triton(context: Context, name: str, wants: list[tuple[PackageWant, Choice | None]]) -> AnswerIsNo | None:
    """The error that rule R3 refuses every release of triton that was asked for."""
    project = canonicalize_name(name)
    packages = [want for want, _parent in wants]
    wish = context.wish(project, packages)
    if context.direct_urls(project, packages) or next(context.triton.admitted(project, wish, None), None) is not None:
        return None
    reasons = context.triton.refusals(project, wish)
    if not reasons:
        return None
    best = next(context.triton.admitted(project, VersionWish(), None), None)
    asked = ", ".join(dict.fromkeys(plain(want.requirement) for want in packages))
    return AnswerIsNo(
        "no-admissible-build",
        f"no {asked} works on {_machine(context)}: " + "; ".join(reason.sentence for reason in reasons[:2]),
        hint=f"{name} {best[0]} is admitted" if best else "--without-triton waives the rule",
        details={"requirement": asked, "reasons": [reason.to_json() for reason in reasons]},
    )


def _load_all_labels(context: Context) -> None:
    """Remedies look at what the requirements left out too, so every label's page counts now."""
    from cudalock.index.model import PageRef

    if not context.pages.may_use_pytorch(TORCH) or context.target.cpu:
        return
    refs = [PageRef("pytorch", TORCH, row.label) for row in facts.labels()]
    context.pages.announce(refs)
    for ref in refs:
        context.pages.of_label(ref.label or "", TORCH)


def _worth_saying(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Two or three facts: those about the machine, unless there are only others."""
    about_machine = [reason for reason in reasons if reason.code != "torch-is-cpu-build"]
    return tuple((about_machine or list(reasons))[:3])


def _machine(context: Context) -> str:
    target = context.target
    if target.cpu:
        return f"a CPU-only target (Python {target.python}, {target.platform})"
    gpus = ", ".join(dict.fromkeys(str(gpu) for gpu in target.gpus))
    driver = f" with driver {target.driver}" if target.driver is not None else ""
    return f"{gpus}{driver} (Python {target.python}, {target.platform})"


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _conflict(provider: Provider, roots: Sequence[PackageWant], causes: list[_Cause]) -> AnswerIsNo:
    context = provider.context
    sentences: list[str] = []
    data: list[dict[str, Any]] = []
    for name in dict.fromkeys(cause.requirement.identifier for cause in causes):
        wants = _wants(causes, name)
        if wants:
            clauses = _clauses(wants)
            constraints = context.constraints.get(canonicalize_name(name), ())
            clauses += [f"the constraint in {c.origin} says {plain(c.requirement)}" for c in constraints]
            sentences += clauses
            wanted = [{"by": _by(parent, want), "requirement": plain(want.requirement)} for want, parent in wants]
            wanted += [{"by": f"constraint {c.origin}", "requirement": plain(c.requirement)} for c in constraints]
            data.append({"package": name, "wanted": wanted})
    sentences += [c.requirement.sentence for c in causes if isinstance(c.requirement, ImpossibleWant)]
    misfits = _misfits(provider, causes)
    sentences += [reason.sentence for reason in misfits]
    shown = list(dict.fromkeys(sentences))
    more = f"; and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
    return AnswerIsNo(
        "requirements-conflict",
        "the requirements cannot all hold: " + "; ".join(shown[:_MOST_SHOWN]) + more,
        hint=_hint(roots, causes),
        details={"conflicts": data, "reasons": [reason.to_json() for reason in misfits]},
    )


def _clauses(wants: list[tuple[PackageWant, Choice | None]]) -> list[str]:
    """Who wants what; of many versions of one package that want different things, the newest and how many there are."""
    direct = [who_wants(want, parent) for want, parent in wants if not isinstance(parent, Candidate)]
    by_parent: dict[str, list[tuple[Candidate, PackageWant]]] = {}
    for want, parent in wants:
        if isinstance(parent, Candidate):
            by_parent.setdefault(parent.name, []).append((parent, want))
    clauses = direct
    for name in sorted(by_parent):
        found = sorted(by_parent[name], key=lambda pair: pair[0].version, reverse=True)
        clauses.append(who_wants(found[0][1], found[0][0]))
        others = {pair[0].version for pair in found[1:]} - {found[0][0].version}
        if others:
            clauses[-1] += f" (as do {len(others)} earlier versions, or another {found[0][1].identifier})"
    return clauses


def _by(parent: Choice | None, want: PackageWant) -> str:
    return f"{parent.name} {parent.version}" if isinstance(parent, Candidate) else want.origin or "argument"


def _misfits(provider: Provider, causes: list[_Cause]) -> list[Reason]:
    builds = [cause.requirement.judged for cause in causes if isinstance(cause.requirement, BuildWant)]
    fits = [cause.requirement for cause in causes if isinstance(cause.requirement, FitsWant)]
    found = [reason for judged in builds for fit in fits for reason in provider.misfits(fit, BuildChoice(judged))]
    return list({(reason.code, reason.sentence): reason for reason in found}.values())[:4]


def _hint(roots: Sequence[PackageWant], causes: list[_Cause]) -> str:
    involved = {cause.requirement.identifier for cause in causes}
    involved |= {cause.parent.name for cause in causes if isinstance(cause.parent, Candidate)}
    narrowed = [
        f"{plain(want.requirement)} ({want.origin or 'argument'})"
        for want in roots
        if want.identifier in involved and (want.requirement.specifier or want.requirement.url)
    ]
    if narrowed:
        return "loosen or drop one of these: " + ", ".join(dict.fromkeys(narrowed))
    return "drop one of the packages named, or give it a version that goes with the others"
