"""Everything one resolution works with, put together once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from packaging.markers import Marker, prepare_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock.candidates import (
    CompanionCandidates,
    FileRules,
    Pages,
    TorchCandidates,
    TritonCandidates,
    VersionWish,
    parse_file_name,
)
from cudalock.compat import Policy
from cudalock.errors import UsageError
from cudalock.index.model import CoreMetadata, IndexFile, IndexReader, PageRef
from cudalock.markers import holds_prepared
from cudalock.progress import SILENT, Reporter
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve.options import ResolveOptions
from cudalock.resolve.wants import PackageWant
from cudalock.target.model import Target

__all__ = ["Context", "direct_file"]

_SHA256 = re.compile(r"sha256=([0-9a-f]{64})")


@dataclass(slots=True, kw_only=True)
class Context:
    """The request, the target and the sources of candidates.

    Attributes:
        constraints: project -> what limits it without asking for it.
        preferred: existing pins that are to be kept where nothing speaks against them.
    """

    request: Request
    target: Target
    policy: Policy
    options: ResolveOptions
    reporter: Reporter = SILENT
    pages: Pages
    rules: FileRules
    torch: TorchCandidates
    triton: TritonCandidates
    companions: CompanionCandidates
    constraints: Mapping[NormalizedName, tuple[AskedRequirement, ...]] = field(default_factory=dict)
    preferred: Mapping[NormalizedName, Version] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        request: Request,
        target: Target,
        reader: IndexReader,
        policy: Policy,
        preferred: Mapping[NormalizedName, Version],
        options: ResolveOptions,
        reporter: Reporter,
    ) -> Context:
        """Puts it together; nothing is fetched yet."""
        pages = Pages(
            reader, sources=options.sources, pytorch=options.pytorch, needed=policy.cuda is not None and not target.cpu
        )
        rules = FileRules.of(target, request)
        triton = TritonCandidates(pages, rules, target, policy)
        kept = {} if request.upgrade else {n: v for n, v in preferred.items() if n not in request.upgrade_packages}
        context = cls(
            request=request,
            target=target,
            policy=policy,
            options=options,
            reporter=reporter,
            pages=pages,
            rules=rules,
            triton=triton,
            torch=TorchCandidates(pages, rules, triton, target, policy, reporter),
            companions=CompanionCandidates(pages, rules, target, policy),
            preferred=kept,
            environment={str(k): str(v) for k, v in prepare_environment(target.marker_environment).items()},
        )
        context.constraints = context._by_project(request.constraints)
        return context

    def wish(self, project: NormalizedName, wants: Iterable[PackageWant]) -> VersionWish:
        """What requirements and constraints together ask of a project's version."""
        specifiers = SpecifierSet()
        for requirement in self._requirements(project, wants):
            specifiers &= requirement.specifier
        return VersionWish(
            specifiers=specifiers,
            prereleases=project in self.request.prerelease,
            preferred=self.preferred.get(project),
        )

    def direct_urls(self, project: NormalizedName, wants: Iterable[PackageWant]) -> set[str]:
        """The URLs that requirements and constraints name for a project."""
        return {requirement.url for requirement in self._requirements(project, wants) if requirement.url}

    def decides_as(self, other: Context) -> bool:
        """Whether GPUs and driver decide all that they were asked in another resolution as they did there."""
        return (
            self.companions.decides_as(other.companions)
            and self.torch.decides_as(other.torch)
            and self.triton.decides_as(other.triton)
        )

    def roots(self) -> list[PackageWant]:
        """What was asked for and holds on the target."""
        return [
            PackageWant(asked.requirement, asked.origin)
            for asked in self.request.requirements
            if self.holds(asked.requirement.marker)
        ]

    def holds(self, marker: Marker | None, extra: str = "") -> bool:
        """Whether a marker holds on the target; a comparison that has no meaning does not."""
        if marker is None:
            return True
        return _holds(marker, extra, tuple(self.environment.items()))

    def requirements_of(self, metadata: CoreMetadata, extras: frozenset[str]) -> list[Requirement]:
        """The requirements that hold on the target, those of the extras included and extras of extras followed."""
        found: dict[int, Requirement] = {}
        pending, seen = ["", *sorted(extras)], set[str]()
        while pending:
            extra = pending.pop(0)
            seen.add(extra)
            for number, requirement in enumerate(metadata.requires):
                if number in found or not self.holds(requirement.marker, extra):
                    continue
                if canonicalize_name(requirement.name) == metadata.name:  # ``all`` = the project's own other extras
                    more = sorted(canonicalize_name(name) for name in requirement.extras)
                    pending += [name for name in more if name not in seen and name not in pending]
                else:
                    found[number] = requirement
        return [found[number] for number in sorted(found)]

    def _requirements(self, project: NormalizedName, wants: Iterable[PackageWant]) -> list[Requirement]:
        asked = [want.requirement for want in wants]
        return asked + [constraint.requirement for constraint in self.constraints.get(project, ())]

    def _by_project(
        self, constraints: Iterable[AskedRequirement]
    ) -> dict[NormalizedName, tuple[AskedRequirement, ...]]:
        found: dict[NormalizedName, tuple[AskedRequirement, ...]] = {}
        for constraint in constraints:
            if self.holds(constraint.requirement.marker):
                name = canonicalize_name(constraint.requirement.name)
                found[name] = (*found.get(name, ()), constraint)
        return found


@lru_cache(maxsize=65_536)
def _holds(marker: Marker, extra: str, environment: tuple[tuple[str, str], ...]) -> bool:
    """Remembered, because several targets of one run mostly share Python and platform."""
    return holds_prepared(marker, dict(environment), extra)


def direct_file(project: NormalizedName, url: str) -> tuple[Version, IndexFile]:
    """The file that a requirement with a URL (``name @ https://.../name-1.0-py3-none-any.whl``) names.

    Raises:
        UsageError: ``direct-url-invalid``, if the URL's last part is not a wheel or source distribution of the project.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError("direct-url-invalid", f"{url!r} is no URL: {error}", hint="check its host") from error
    filename = unquote(parts.path.rsplit("/", 1)[-1])
    name = parse_file_name(filename, project)
    if name is None:
        raise UsageError(
            "direct-url-invalid",
            f"the URL of {project} does not end in the name of a wheel of {project}: {filename!r}",
            hint=f"give the wheel itself, for example {project} @ https://files.example/{project}-1.0-py3-none-any.whl",
        )
    digest = _SHA256.search(parts.fragment)
    file = IndexFile(
        page=PageRef("direct", project),
        url=url.partition("#")[0],
        filename=filename,
        hashes={"sha256": digest[1]} if digest else {},
    )
    return name.version, file
