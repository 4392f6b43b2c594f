"""The rules of resolution, as the resolver asks for them.

One identifier stands for a project whatever extras are wanted of it: a candidate carries all extras that anyone wants,
and a new extra sends the project back to be pinned again with it, so that extras never come apart from their project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version
from resolvelib import AbstractProvider
from resolvelib.structs import RequirementInformation, State

from cudalock import facts
from cudalock.candidates import (
    TORCH,
    TRITON_NAMES,
    Candidate,
    JudgedBuild,
    Replay,
    VersionWish,
    fitting_files,
    implies_torch,
    paired_torch,
    parse_file_name,
)
from cudalock.compat import Reason, cuda_major_of_distribution
from cudalock.index.model import CoreMetadata, IndexFile, PageRef
from cudalock.resolve.context import Context, direct_file
from cudalock.resolve.distribution import problem_of, read_metadata
from cudalock.resolve.lacking import Lacking
from cudalock.resolve.observer import wanted_identifiers
from cudalock.resolve.scout import MOST_AT_ONCE, Scout, growing_batches
from cudalock.resolve.wants import (
    BUILD,
    IMPOSSIBLE,
    BuildChoice,
    BuildWant,
    Choice,
    FitsWant,
    ImpossibleWant,
    PackageWant,
    Want,
    satisfies,
)

if TYPE_CHECKING:
    from resolvelib.providers import Preference

__all__ = ["Provider"]


class Provider(AbstractProvider[Want, Choice, str]):
    """Answers the resolver's questions.

    Args:
        context: what the resolution works with.
        torch_page: where torch comes from, if that is known beforehand from an earlier run.
    """

    def __init__(self, context: Context, torch_page: PageRef | None = None) -> None:
        self.context = context
        self.scout = Scout(context)
        self.torch_page = torch_page
        self._page_is_given = torch_page is not None
        self._metadata: dict[tuple[PageRef, str], CoreMetadata] = {}
        self._needs: dict[tuple[PageRef, str, frozenset[str]], tuple[Want, ...]] = {}
        self._fits: dict[tuple[PageRef, str, PageRef, str], tuple[Reason, ...]] = {}
        self._listed: dict[tuple[NormalizedName, VersionWish, PageRef | None], Replay[tuple[Version, IndexFile]]] = {}
        self._unwanted: frozenset[str] = frozenset()
        self._followed: dict[int, Candidate] = {}  # by id(): looked up for every pin after every step
        self._hollow: dict[int, Candidate] = {}
        self._satisfied: dict[tuple[int, int], tuple[PackageWant, Candidate, bool]] = {}
        self._lacking = Lacking(context, self._plain_candidates, self._needs_of)
        self._careful = False

    # -- what the resolver asks

    def identify(self, requirement_or_candidate: Want | Choice) -> str:
        """The project's name, or one of the two identifiers that are no project."""
        if isinstance(requirement_or_candidate, Candidate):
            return requirement_or_candidate.name
        if isinstance(requirement_or_candidate, BuildChoice):
            return BUILD
        return requirement_or_candidate.identifier

    def get_preference(
        self,
        identifier: str,
        resolutions: Mapping[str, Choice],
        candidates: Mapping[str, Iterator[Choice]],
        information: Mapping[str, Iterator[RequirementInformation[Want, Choice]]],
        backtrack_causes: Sequence[RequirementInformation[Want, Choice]],
    ) -> Preference:
        """First torch, then whatever may yet move torch, and torch's own closure last."""
        if identifier in {BUILD, IMPOSSIBLE}:
            return 0, 0, 0, identifier
        if identifier in self._unwanted:
            return 9, 0, 0, identifier
        known = list(information[identifier])
        pinned = any(isinstance(i.requirement, PackageWant) and i.requirement.pins for i in known)
        asked = any(i.parent is None for i in known)
        troubled = any(
            self.identify(cause.requirement) == identifier
            or (cause.parent is not None and self.identify(cause.parent) == identifier)
            for cause in backtrack_causes
        )
        return _rank(identifier, pinned=pinned, asked=asked), 0 if troubled else 1, 0 if pinned else 1, identifier

    def find_matches(
        self,
        identifier: str,
        requirements: Mapping[str, Iterator[Want]],
        incompatibilities: Mapping[str, Iterator[Choice]],
    ) -> Callable[[], Iterator[Choice]] | list[Choice]:
        """The candidates, best first; for projects lazily, and in the light of what torch is at that moment."""
        wants = list(requirements[identifier])
        refused = list(incompatibilities[identifier])
        if identifier == IMPOSSIBLE:
            return []
        if identifier == BUILD:
            return [choice for choice in self._build_choices(wants) if choice not in refused]
        packages = [want for want in wants if isinstance(want, PackageWant)]
        return partial(self._not_refused, canonicalize_name(identifier), packages, refused)

    def is_satisfied_by(self, requirement: Want, candidate: Choice) -> bool:
        """Whether a choice still does when another requirement has come."""
        if isinstance(candidate, BuildChoice):
            if isinstance(requirement, BuildWant):
                return candidate.identity == requirement.identity
            return isinstance(requirement, FitsWant) and not self.misfits(requirement, candidate)
        if not isinstance(requirement, PackageWant) or id(candidate) in self._hollow:
            return False
        # The resolver asks this of every pin after every step.
        key = id(requirement), id(candidate)
        if key not in self._satisfied:
            self._satisfied[key] = requirement, candidate, satisfies(requirement, candidate)
        return self._satisfied[key][2]

    def get_dependencies(self, candidate: Choice) -> Iterable[Want]:
        """What a choice brings with it; the pages of what it requires are fetched in the background at once."""
        if isinstance(candidate, BuildChoice):
            return ()
        if candidate.name in self._unwanted:
            self._hollow[id(candidate)] = candidate
            return ()
        key = (*candidate.identity, candidate.extras)
        if key not in self._needs:
            self._needs[key] = tuple(self._needs_of(candidate))
        wants = self._needs[key]
        if self._careful and (lacking := self._lacking.of(candidate, wants)) is not None:
            wants = (*wants, lacking)
        names = [canonicalize_name(want.identifier) for want in wants if isinstance(want, PackageWant)]
        self.context.pages.announce(self.context.pages.main_ref(name) for name in names)
        return wants

    # -- also asked by those who read the result

    def metadata(self, candidate: Candidate) -> CoreMetadata:
        """The metadata of a candidate's file.

        Raises:
            UsageError: ``build-metadata-unknown``, for a source distribution that does not declare it statically.
            ToolError: its build was asked and failed.
            TransportError: the index does not deliver it.
        """
        if candidate.identity not in self._metadata:
            self._metadata[candidate.identity] = read_metadata(self.context, candidate.file)
        return self._metadata[candidate.identity]

    def misfits(self, want: FitsWant, choice: BuildChoice) -> tuple[Reason, ...]:
        """Why a distribution does not go with the torch build; empty if it does or if the question does not arise."""
        judged = choice.judged
        if judged is None:
            return ()
        release = Version(judged.build.version.public)
        if want.torches is not None and not want.torches.contains(release, prereleases=True):
            return ()
        key = (want.file.page, want.file.filename, judged.file.page, judged.file.filename)
        if key not in self._fits:
            self._fits[key] = self._judge_fit(want, judged)
        return self._fits[key]

    def observe(self, state: State[Want, Choice, str]) -> None:
        """Takes note of where things stand after a step.

        torch's page is where its companions are looked for first. What a pin requires is fetched ahead. And what nobody
        wants any more, because torch was moved after it had been asked for, must not bring its own wants: the resolver
        still pins it, hollow, and drops it in the end. Should someone want it again, a hollow pin does not do.
        """
        torch = state.mapping.get(TORCH)
        if not self._page_is_given:
            self.torch_page = torch.file.page if isinstance(torch, Candidate) else None
        for pin in state.mapping.values():
            if id(pin) not in self._followed and isinstance(pin, Candidate):
                self._followed[id(pin)] = pin
                needs = self._needs.get((*pin.identity, pin.extras), ())
                self.scout.follow(want.requirement for want in needs if isinstance(want, PackageWant))
        self._unwanted = frozenset(state.criteria) - wanted_identifiers(state) - {BUILD, IMPOSSIBLE}

    def take_care(self) -> None:
        """After the first conflict: a candidate whose closure lacks a file for the target is not tried any more.

        The resolver would find out as well, but only after it has put the rest of the closure together each time.
        """
        self._careful = True

    def lacking_for(self, candidate: Candidate) -> str | None:
        """What a candidate needs and nothing serves on the target, as a sentence."""
        lacking = self._lacking.of(candidate, tuple(self._needs_of(candidate)))
        return lacking.sentence if lacking is not None else None

    # -- candidates

    def _not_refused(
        self, project: NormalizedName, wants: list[PackageWant], refused: list[Choice]
    ) -> Iterator[Choice]:
        extras = frozenset(extra for want in wants for extra in want.extras)
        candidates = self._candidates(project, wants, extras)
        judged = project == TORCH or project in TRITON_NAMES  # each is read for that, so none is taken early
        for batch in growing_batches(candidates, most=1 if judged else MOST_AT_ONCE):
            self.context.pages.announce_metadata(candidate.file for candidate in batch)
            for candidate in batch:
                if not any(isinstance(other, Candidate) and _covers(other, candidate) for other in refused):
                    yield candidate

    def _candidates(
        self, project: NormalizedName, wants: list[PackageWant], extras: frozenset[str]
    ) -> Iterator[Candidate]:
        if self.context.companions.lacks_gpu(project):
            return
        wish = self.context.wish(project, wants)
        if urls := self.context.direct_urls(project, wants):
            yield from self._direct(project, urls, wish, extras)
        elif project == TORCH:
            for judged in self.context.torch.admitted(wish):
                version = judged.build.version
                yield Candidate(name=project, version=version, file=judged.file, extras=extras, judged=judged)
        else:
            routed = self.context.companions.is_routed(project)
            for version, file in self._files(project, wish, routed=routed):
                yield Candidate(
                    name=project,
                    version=version,
                    file=file,
                    extras=extras,
                    representative=routed and not wish.names_local,
                )

    def _plain_candidates(self, project: NormalizedName, want: PackageWant) -> Iterator[Candidate]:
        """The candidates of a project that depend on nothing but one requirement."""
        wish = self.context.wish(project, [want])
        for version, file in self._files(project, wish, routed=False):
            yield Candidate(name=project, version=version, file=file, extras=want.extras)

    def _files(
        self, project: NormalizedName, wish: VersionWish, *, routed: bool
    ) -> Iterable[tuple[Version, IndexFile]]:
        if project in TRITON_NAMES:  # depends on which pages of torch were read
            return self.context.triton.admitted(project, wish, self.torch_page.label if self.torch_page else None)
        key = (project, wish, self.torch_page if routed else None)
        if key not in self._listed:
            self._listed[key] = Replay(self._list(project, wish, routed=routed))
        return self._listed[key]

    def _list(self, project: NormalizedName, wish: VersionWish, *, routed: bool) -> Iterator[tuple[Version, IndexFile]]:
        if routed:
            return self.context.companions.candidates(project, wish, self.torch_page)
        return fitting_files([self.context.pages.main(project).files], wish, self.context.rules)

    def _direct(
        self, project: NormalizedName, urls: set[str], wish: VersionWish, extras: frozenset[str]
    ) -> Iterator[Candidate]:
        files = {direct_file(project, url)[1].url: direct_file(project, url) for url in sorted(urls)}
        if len(files) != 1:
            return
        version, file = next(iter(files.values()))
        if not wish.allows(version) or self.context.rules.refusal(file, pinned=True) is not None:
            return
        judged = None
        if project == TORCH:
            judged = self.context.torch.judge_file(file)
            if not judged.verdict.admitted:
                return
        yield Candidate(name=project, version=version, file=file, extras=extras, judged=judged)

    def _build_choices(self, wants: list[Want]) -> list[Choice]:
        builds = {want.identity: want.judged for want in wants if isinstance(want, BuildWant)}
        if len(builds) > 1:
            return []
        choice = BuildChoice(next(iter(builds.values()), None))
        fits = [want for want in wants if isinstance(want, FitsWant)]
        return [] if any(self.misfits(want, choice) for want in fits) else [choice]

    # -- what a candidate needs

    def _needs_of(self, candidate: Candidate) -> Iterator[Want]:
        metadata = self.metadata(candidate)
        problem = problem_of(self.context, candidate, metadata)
        if problem is not None:
            yield ImpossibleWant(problem)
            return
        if candidate.judged is not None:
            yield BuildWant(candidate.judged)
        requirements = self.context.requirements_of(metadata, candidate.extras)
        torches = _torch_of(requirements)
        declared = torches is not None
        if candidate.name != TORCH and not declared and implies_torch(candidate.name):
            torches = paired_torch(candidate.name, candidate.version) or SpecifierSet()
            requirements.append(Requirement(f"torch{torches}"))
        if _must_fit(candidate):
            yield FitsWant(
                project=candidate.name,
                version=candidate.version,
                file=candidate.file,
                torches=torches,
                declared=declared,
                routed=self.context.companions.is_routed(candidate.name) and candidate.file.page.index != "direct",
                exact=not candidate.representative,
            )
        for requirement in requirements:
            yield PackageWant(requirement)

    def _judge_fit(self, want: FitsWant, judged: JudgedBuild) -> tuple[Reason, ...]:
        file, page = want.file, judged.file.page
        version = want.version
        if want.routed and page.index in {"main", "pytorch"}:
            bound = self.context.companions.bound_file(want.project, version, page, exact=want.exact)
            if bound is None:
                return (_not_on_page(want, page),)
            file, version = bound, _version_of(bound, version)
        return self.context.companions.refusals(want.project, version, file, judged.build, declared=want.declared)


def _rank(identifier: str, *, pinned: bool, asked: bool) -> int:
    """When a project is decided: early what settles torch, late what only follows from torch."""
    if asked and pinned:
        return 1
    if identifier == TORCH:
        return 2
    if identifier in facts.companions() or identifier in facts.torch_family() - TRITON_NAMES:
        return 3
    if asked:
        return 4
    follows_torch = identifier in TRITON_NAMES or identifier.startswith(("nvidia-", "cuda-"))
    return 6 if follows_torch else 5


def _covers(refused: Candidate, candidate: Candidate) -> bool:
    """Whether a refused candidate speaks against another: the same file, with no more extras."""
    if refused.representative and candidate.representative:
        same = refused.version.public == candidate.version.public
    else:
        same = refused.identity == candidate.identity
    return same and refused.extras <= candidate.extras


def _must_fit(candidate: Candidate) -> bool:
    """Whether there can be torch builds that a candidate does not go with though no metadata says so."""
    name = candidate.name
    if name == TORCH or name in TRITON_NAMES:
        return False
    return (
        name in facts.companions()
        or name in facts.implied_bounds()
        or name in facts.torch_family()
        or cuda_major_of_distribution(name, candidate.version) is not None
    )


def _torch_of(requirements: Iterable[Requirement]) -> SpecifierSet | None:
    found = [requirement.specifier for requirement in requirements if canonicalize_name(requirement.name) == TORCH]
    if not found:
        return None
    specifiers = SpecifierSet()
    for specifier in found:
        specifiers &= specifier
    return specifiers


def _version_of(file: IndexFile, fallback: Version) -> Version:
    name = parse_file_name(file.filename, file.page.project)
    return name.version if name is not None else fallback


def _not_on_page(want: FitsWant, page: PageRef) -> Reason:
    where = f"label {page.label} of the PyTorch index" if page.label else "the main index"
    return Reason(
        rule="R4",
        code="companion-mismatch",
        sentence=f"{where} has no {want.project} {want.version.public} for the target beside its torch",
        facts={"companion": want.project, "version": str(want.version), "page": page.label or page.index},
    )
