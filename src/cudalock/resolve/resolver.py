"""From a request and a target to one consistent set of files: the triple and everything that comes with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version
from resolvelib import Resolver
from resolvelib.resolvers import ResolutionImpossible, ResolutionTooDeep

from cudalock import facts
from cudalock.builds import TritonRelease
from cudalock.candidates import TORCH, TRITON_NAMES, Candidate, parse_file_name
from cudalock.compat import Policy, judge
from cudalock.errors import AnswerIsNo, InternalError
from cudalock.index.model import IndexReader, PageRef
from cudalock.progress import SILENT, Reporter
from cudalock.requirements.model import Request
from cudalock.resolve.context import Context
from cudalock.resolve.earlier import Earlier, Solved
from cudalock.resolve.model import Pin, Resolution, Triple
from cudalock.resolve.notes import Found, held_back, notes_of, warnings_of
from cudalock.resolve.observer import Observer, Stuck
from cudalock.resolve.options import ResolveOptions
from cudalock.resolve.provider import Provider
from cudalock.resolve.wants import PackageWant
from cudalock.target.model import Target

__all__ = ["resolve"]

_DEFAULT_OPTIONS = ResolveOptions()
_MOST_RUNS = 4


def resolve(
    request: Request,
    target: Target,
    reader: IndexReader,
    *,
    policy: Policy,
    preferred: Mapping[NormalizedName, Version] = MappingProxyType({}),
    options: ResolveOptions = _DEFAULT_OPTIONS,
    reporter: Reporter = SILENT,
    earlier: Earlier | None = None,
) -> Resolution:
    """One file for every package that the request leads to on the target, and the triple if it leads to torch.

    The same request, target, options and index contents give the same answer, whatever the order in which the index
    answers.

    Args:
        request: what is asked for.
        target: the kind of machine that it must run on.
        reader: the indexes.
        policy: what the user allows (``--cuda``, ``--compat``, ``--without-triton``).
        preferred: existing pins, kept where nothing speaks against them and no upgrade was asked for.
        options: use of the PyTorch index, sources, how to get the metadata of source distributions.
        reporter: told what goes on.
        earlier: what was resolved from the same reader before, for other targets; this answer is added. It saves time
            and changes nothing.

    Raises:
        AnswerIsNo: ``requirements-conflict``, ``no-admissible-build``, ``package-not-found``, ``no-wheel-for-python``,
            ``no-wheel-for-platform``, ``glibc-too-old``, ``musl-unsupported``, ``source-only``, ``links-unusable``.
        UsageError: a direct URL or a source distribution that cannot be used.
        TransportError: an index that is needed does not deliver.
    """
    make = partial(Context.make, request, target, reader, policy, preferred, options, reporter)
    if earlier is not None and (again := earlier.find(make)) is not None:
        context, solved = again
        return _resolution(Provider(context, solved.torch_page), solved.found, solved.chosen)
    context = make()
    roots = context.roots()
    reporter.step(f"resolving {len(roots)} requirement{'s' if len(roots) != 1 else ''}")
    _announce(context, roots)
    page: PageRef | None = None
    for _run in range(_MOST_RUNS):
        known_page = page
        provider = Provider(context, known_page)
        provider.scout.glance(want.requirement for want in roots)
        found = _solve(provider, roots)
        torch = found.mapping.get(TORCH)
        page = torch.file.page if isinstance(torch, Candidate) else None
        chosen = _bound(provider, found, page)
        if _same_needs(provider, found, chosen):
            if earlier is not None:
                earlier.add(Solved(context=context, torch_page=known_page, found=found, chosen=chosen))
            return _resolution(provider, found, chosen)
    raise InternalError("resolution-unsettled", "the companions of torch do not settle on one page")


def _announce(context: Context, roots: Iterable[PackageWant]) -> None:
    """What the answer will surely need is asked for before the first question."""
    names = [canonicalize_name(want.identifier) for want in roots if want.requirement.url is None]
    if any(name in facts.torch_family() or name in facts.companions() for name in names):
        names += [TORCH, canonicalize_name("triton")]
    context.pages.announce(context.pages.main_ref(name) for name in names)


def _solve(provider: Provider, roots: list[PackageWant]) -> Found:
    context = provider.context
    try:
        observer = Observer(provider.observe, provider.take_care)
        return Resolver(provider, observer).resolve(roots, max_rounds=context.options.max_rounds)
    except (ResolutionImpossible, Stuck) as error:
        from cudalock.resolve.conflict import explain  # much, and only failures need it

        raise explain(provider, roots, error.causes) from None
    except ResolutionTooDeep:
        raise AnswerIsNo(
            "requirements-conflict",
            f"no consistent set of versions was found within {context.options.max_rounds} steps",
            hint="narrow the requirements, for example by naming versions for the packages that matter",
        ) from None


def _bound(provider: Provider, found: Found, page: PageRef | None) -> dict[NormalizedName, Candidate]:
    """The candidates with their real files: a compiled companion's comes from torch's own page (rule R6)."""
    return {
        candidate.name: _with_own_file(provider.context, candidate, page)
        for candidate in found.mapping.values()
        if isinstance(candidate, Candidate)
    }


def _with_own_file(context: Context, candidate: Candidate, page: PageRef | None) -> Candidate:
    if not candidate.representative or page is None or page.index == "direct":
        return candidate
    file = context.companions.bound_file(candidate.name, candidate.version, page, exact=False)
    name = parse_file_name(file.filename, candidate.name) if file is not None else None
    if file is None or name is None:
        raise InternalError(
            "resolution-unsettled", f"{candidate.name} {candidate.version} was chosen and is not on torch's page"
        )
    return replace(candidate, file=file, version=name.version, representative=False)


def _same_needs(provider: Provider, found: Found, chosen: Mapping[NormalizedName, Candidate]) -> bool:
    """Whether the real files require what the files that stood for them required; else resolution starts over."""
    for before in found.mapping.values():
        if isinstance(before, Candidate):
            after = chosen[before.name]
            if before.identity != after.identity and _needs(provider, before) != _needs(provider, after):
                return False
    return True


def _needs(provider: Provider, candidate: Candidate) -> set[str]:
    requirements = provider.context.requirements_of(provider.metadata(candidate), candidate.extras)
    return {str(_unmarked(requirement)) for requirement in requirements}


def _unmarked(requirement: Requirement) -> Requirement:
    return _parsed_unmarked(str(requirement))


@lru_cache(maxsize=8192)  # twenty targets ask for much the same
def _parsed_unmarked(text: str) -> Requirement:
    requirement = Requirement(text)
    requirement.marker = None
    return requirement


def _resolution(provider: Provider, found: Found, chosen: Mapping[NormalizedName, Candidate]) -> Resolution:
    context = provider.context
    triple = _triple(context, chosen)
    return Resolution(
        pins=tuple(_pin(provider, found, chosen, name) for name in sorted(chosen)),
        triple=triple,
        indexes=tuple(sorted(context.pages.heard)),
        notes=notes_of(provider, found, triple, chosen),
        warnings=warnings_of(context, triple),
        refused=tuple(context.torch.refused.values()) if triple is not None else (),
        held_back=held_back(provider, found, triple) if triple is not None else (),
    )


def _pin(provider: Provider, found: Found, chosen: Mapping[NormalizedName, Candidate], name: NormalizedName) -> Pin:
    candidate = chosen[name]
    metadata = provider.metadata(candidate)
    requirements = provider.context.requirements_of(metadata, candidate.extras)
    return Pin(
        name=name,
        version=candidate.version,
        file=candidate.file,
        extras=candidate.extras,
        requires=tuple(sorted((_unmarked(requirement) for requirement in requirements), key=str)),
        requires_python=str(metadata.requires_python) or candidate.file.requires_python or None,
        wanted_by=tuple(sorted(_wanted_by(found, chosen, name))),
    )


def _wanted_by(found: Found, chosen: Mapping[NormalizedName, Candidate], name: NormalizedName) -> set[str]:
    wanting: set[str] = set()
    for information in found.criteria[name].information:
        parent = information.parent
        if parent is None:
            wanting.add("")
        elif isinstance(parent, Candidate) and parent.name in chosen and found.mapping.get(parent.name) is parent:
            wanting.add(parent.name)
    return wanting


def _triple(context: Context, chosen: Mapping[NormalizedName, Candidate]) -> Triple | None:
    torch = chosen.get(TORCH)
    if torch is None or torch.judged is None:
        return None
    build = torch.judged.build
    version, release = _triton(context, chosen)
    required = release if build.triton is not None and not context.target.cpu else None
    verdict = judge(build, context.target, triton=required, policy=context.policy)
    if not verdict.admitted:
        raise InternalError(
            "resolution-unsettled",
            f"torch {build.version} was chosen and is refused with triton {version}: {verdict.refusals[0].sentence}",
        )
    return Triple(
        torch=build.version, triton=version, cuda=build.cuda, build=build, triton_release=release, verdict=verdict
    )


def _triton(
    context: Context, chosen: Mapping[NormalizedName, Candidate]
) -> tuple[Version | None, TritonRelease | None]:
    for name in sorted(TRITON_NAMES, reverse=True):
        candidate = chosen.get(name)
        if candidate is not None:
            return candidate.version, context.triton.release(candidate.version, candidate.file)
    return None, None
