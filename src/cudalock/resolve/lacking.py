"""Requirements that nothing on the indexes can satisfy on the target, whatever else is chosen: known without a search.

A project all of whose files are for other machines stands in the way of everything that leads to it. Looking through
the closure of a candidate once costs a few pages; finding out by stepping back through all its neighbours can take
for ever, and ends in a sentence about the wrong package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from packaging.utils import NormalizedName, canonicalize_name

from cudalock.candidates import TORCH, TRITON_NAMES, Candidate
from cudalock.resolve.context import Context
from cudalock.resolve.wants import ImpossibleWant, PackageWant, Want, who_wants

__all__ = ["Lacking"]

_FEW = 3  # a requirement that leaves more candidates than these is taken to have one that works


@dataclass(slots=True)
class Lacking:
    """Finds what is lacking, and remembers it by requirement.

    Attributes:
        candidates: of a project, for one requirement by itself.
        needs: what a candidate requires.
    """

    context: Context
    candidates: Callable[[NormalizedName, PackageWant], Iterator[Candidate]]
    needs: Callable[[Candidate], Iterable[Want]]
    _known: dict[tuple[str, str, frozenset[str]], ImpossibleWant | None] = field(default_factory=dict)

    def of(self, candidate: Candidate, wants: Iterable[Want]) -> ImpossibleWant | None:
        """What a candidate with these needs leads to and nothing serves; None if nothing is known to be lacking."""
        packages = [want for want in wants if isinstance(want, PackageWant)]
        names = [canonicalize_name(want.identifier) for want in packages]
        self.context.pages.announce(self.context.pages.main_ref(name) for name in names)
        for want in packages:
            found = self._of_want(candidate, want)
            if found is not None:
                return found
        return None

    def _of_want(self, parent: Candidate, want: PackageWant) -> ImpossibleWant | None:
        project = canonicalize_name(want.identifier)
        if want.requirement.url or project == TORCH or project in TRITON_NAMES:
            return None
        if self.context.companions.is_routed(project):
            return None
        key = project, str(want.requirement.specifier), want.extras
        if key not in self._known:
            self._known[key] = None  # a circle is no reason
            self._known[key] = self._look(parent, project, want)
        return self._known[key]

    def _look(self, parent: Candidate, project: NormalizedName, want: PackageWant) -> ImpossibleWant | None:
        found = list(islice(self.candidates(project, want), _FEW + 1))
        if not found:
            target = self.context.target
            nothing = f"of which there is no file for Python {target.python} on {target.platform}"
            return ImpossibleWant(f"{who_wants(want, parent)}, {nothing}", missing=(want, parent))
        if len(found) > _FEW or any(candidate.file.kind == "sdist" for candidate in found):
            return None
        first: ImpossibleWant | None = None
        for candidate in found:
            lacking = self.of(candidate, self.needs(candidate))
            if lacking is None:
                return None
            first = first or lacking
        return first
