"""Companions of torch: which page a compiled one comes from (rule R6) and which torch it implies (rule R4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock import facts
from cudalock.builds import Build, cuda_of_label
from cudalock.candidates.files import FileRules
from cudalock.candidates.labels import labels_to_ask
from cudalock.candidates.names import parse_file_name
from cudalock.candidates.pages import Listing, Pages
from cudalock.candidates.plain import VersionWish, fitting_files
from cudalock.candidates.triton import TORCH, TRITON_NAMES
from cudalock.compat import Policy, Reason, companion_fits, companion_lacks_gpu
from cudalock.index.model import IndexFile, PageRef
from cudalock.target.model import Target
from cudalock.versions import CudaVersion

__all__ = ["CompanionCandidates", "implies_torch", "paired_torch"]


def paired_torch(project: NormalizedName, version: Version) -> SpecifierSet | None:
    """The releases of torch that a companion's release needs by the table.

    None if the table does not say, or if with other releases it only does less (torchao).
    """
    row = facts.companions().get(project)
    return row.torch_for(version) if row is not None and row.mismatch == "error" else None


def implies_torch(project: NormalizedName) -> bool:
    """Whether a companion cannot do without torch, even where its own metadata does not say so."""
    row = facts.companions().get(project)
    return row is not None and row.requires_torch


@dataclass(slots=True)
class CompanionCandidates:
    """The compiled companions that may lie on a PyTorch page."""

    pages: Pages
    rules: FileRules
    target: Target
    policy: Policy
    _lacking: dict[NormalizedName, bool] = field(default_factory=dict)
    _labels: tuple[str, ...] | None = None

    def is_routed(self, project: NormalizedName) -> bool:
        """Whether torch's page decides where this project comes from."""
        return project != TORCH and project not in TRITON_NAMES and self.pages.may_use_pytorch(project)

    def candidates(
        self, project: NormalizedName, wish: VersionWish, torch_page: PageRef | None
    ) -> Iterator[tuple[Version, IndexFile]]:
        """One file for every release, best first.

        Args:
            project: its name.
            wish: what is asked of its version.
            torch_page: where torch comes from, as far as that is decided. Its label's page is looked at first; the file
                stands for its version only, since torch may yet come from another page.
        """
        main = self.pages.main(project)
        if torch_page is not None and torch_page.label is not None:
            listings = [self.pages.of_label(torch_page.label, project), main]
        elif wish.names_local or not self._has_fitting(main, wish):
            listings = [main, *self._label_listings(project)]
        else:
            listings = [main]
        seen: set[Version] = set()
        for version, file in fitting_files([listing.files for listing in listings], wish, self.rules):
            release = version if wish.names_local else Version(version.public)
            if release not in seen:
                seen.add(release)
                yield version, file

    def bound_file(
        self, project: NormalizedName, version: Version, torch_page: PageRef, *, exact: bool
    ) -> IndexFile | None:
        """The very file that goes with a torch from the given page: from the same page (rule R6).

        Args:
            project: its name.
            version: of the companion.
            torch_page: where torch comes from.
            exact: whether the local part of the version was asked for by name.

        Returns:
            None if that page has no such file for the target. A wheel without machine code may come from the main
            index in any case.
        """
        if torch_page.label is None:
            return self._file(self.pages.main(project), version, exact=exact)
        found = self._file(self.pages.of_label(torch_page.label, project), version, exact=exact)
        if found is not None:
            return found
        elsewhere = self._file(self.pages.main(project), version, exact=exact)
        return elsewhere if elsewhere is not None and _is_pure(elsewhere) else None

    def refusals(
        self, project: NormalizedName, version: Version, file: IndexFile, build: Build, *, declared: bool
    ) -> tuple[Reason, ...]:
        """Why a companion's file does not go with a build of torch (rule R4), empty if it does.

        Args:
            project: its name.
            version: of the file.
            file: the very file.
            build: of torch.
            declared: whether its own metadata names the torch that it goes with; then the table of pairs is not asked.
        """
        label = file.page.label
        reasons = companion_fits(project, version, build, cuda=cuda_of_label(label), cpu=label == "cpu")
        reasons = tuple(reason for reason in reasons if not (declared and reason.code == "companion-mismatch"))
        return reasons or self._made_for_main(project, version, file, build)

    def lacks_gpu(self, project: NormalizedName) -> bool:
        """Whether no release of the project runs on one of the target's GPUs."""
        if project not in self._lacking:
            self._lacking[project] = companion_lacks_gpu(project, self.target) is not None
        return self._lacking[project]

    def decides_as(self, other: CompanionCandidates) -> bool:
        """Whether for this target the GPUs and the driver decide all that they were asked for another one as there."""
        if other._labels is not None and labels_to_ask(self.target, self.policy) != other._labels:
            return False
        return all(self.lacks_gpu(project) == lacking for project, lacking in other._lacking.items())

    def _made_for_main(
        self, project: NormalizedName, version: Version, file: IndexFile, build: Build
    ) -> tuple[Reason, ...]:
        """A compiled companion that only the main index has (vllm) was built against the main index's own torch."""
        row = facts.companions().get(project)
        several_cuda = row is not None and bool(row.cuda_ceilings)  # bitsandbytes holds a library for each
        if row is None or not row.compiled or several_cuda or project in facts.torch_family():
            return ()
        if build.cuda is None or file.page.index == "direct" or file.kind != "wheel" or _is_pure(file):
            return ()
        own = self._cuda_of_mains_torch(Version(build.version.public))
        if own is None or own.major == build.cuda.major:
            return ()
        reason = Reason(
            rule="R4",
            code="cuda-majors-mixed",
            sentence=(
                f"{project} {version} is made for the main index's torch {build.version.public} of CUDA {own}, "
                f"and torch {build.version} has CUDA {build.cuda}"
            ),
            facts={"companion": project, "version": str(version), "torch": str(build.version), "cuda": str(own)},
        )
        return (reason,)

    def _cuda_of_mains_torch(self, release: Version) -> CudaVersion | None:
        platform = self.target.platform
        for row in facts.torch_rows():
            if row.on_main and row.version == release and (row.os, row.machine) == (platform.os, platform.machine):
                return row.cuda
        return None

    def _has_fitting(self, listing: Listing, wish: VersionWish) -> bool:
        return next(fitting_files([listing.files], wish, self.rules), None) is not None

    def _label_listings(self, project: NormalizedName) -> list[Listing]:
        self._labels = labels = labels_to_ask(self.target, self.policy)
        self.pages.announce(PageRef("pytorch", project, label) for label in labels)
        return [self.pages.of_label(label, project) for label in labels]

    def _file(self, listing: Listing, version: Version, *, exact: bool) -> IndexFile | None:
        if exact:
            return self.rules.best(listing.files.get(version, ()), pinned=True)
        return self.rules.best(listing.of_release(Version(version.public)), pinned=True)


def _is_pure(file: IndexFile) -> bool:
    name = parse_file_name(file.filename, canonicalize_name(file.page.project))
    return name is not None and any(tag.platform == "any" for tag in name.tags)
