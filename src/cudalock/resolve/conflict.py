"""Why there is no answer, in a few sentences: who wants what, or which facts of the machine clash with which build."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version
from resolvelib.structs import RequirementInformation

from cudalock import facts
from cudalock.candidates import TORCH, TRITON_NAMES, Candidate, VersionWish
from cudalock.compat import Reason, Verdict, refusals_by_fact, remedies
from cudalock.errors import AnswerIsNo, CudalockError
from cudalock.resolve.context import Context
from cudalock.resolve.missing import missing_file, unknown_package
from cudalock.resolve.notes import torch_options
from cudalock.resolve.provider import Provider
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
    if context.pages.fault is not None and (involves_torch or family):
        return context.pages.unreachable()
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
        refusal = _no_build(context, _wants(causes, TORCH))
        if refusal is not None:
            return refusal
    return _conflict(provider, roots, list(causes))


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
    if context.direct_urls(project, packages):
        return None
    listings = [context.pages.main(project), *(p for p in context.pages.loaded(project) if p.ref.index == "pytorch")]
    who = "; ".join(dict.fromkeys(who_wants(want, parent) for want, parent in wants[:_MOST_SHOWN]))
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
    asked = ", ".join(dict.fromkeys(plain(want.requirement) for want in packages))
    helpful = remedies(torch_options(context, wish.specifiers), context.target, context.policy, asked=asked)
    clash = _worth_saying(refusals_by_fact(Verdict(refusals=reasons) for _build, reasons in refused))
    wanted = "torch" if asked == "torch" else f"torch that satisfies {asked}"
    sentences = [reason.sentence for reason in clash]
    hint = "; or ".join(remedy.sentence for remedy in helpful[:4]) or "nothing that cudalock knows of admits a build"
    if context.pages.pytorch == "never":
        hint += "; --no-pytorch-index left the builds of the PyTorch index out"
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
