"""Walks ahead of the solver, so that what it asks for next has already come.

The solver pins one package after the other, and each brings a page and metadata to wait for. A scout follows the same
requirements in the background as soon as they are known: page, likeliest file, its metadata, and what that requires.
It knows one requirement at a time and decides nothing: a guess that turns out wrong has cost one request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from cudalock.candidates import TORCH, TRITON_NAMES, fitting_files
from cudalock.resolve.context import Context
from cudalock.resolve.wants import PackageWant

__all__ = ["MOST_AT_ONCE", "Scout", "growing_batches"]

T = TypeVar("T")

MOST_AT_ONCE = 8
"""As many versions of a project, at most, have their metadata fetched together when one after the other is refused."""


class Scout:
    """Asks ahead for the closure of requirements. Safe for threads.

    Args:
        context: what the resolution works with; only read here.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._followed: set[tuple[NormalizedName, str, frozenset[str]]] = set()

    def follow(self, requirements: Iterable[Requirement]) -> None:
        """Goes after requirements that hold on the target; returns at once."""
        for requirement in requirements:
            project = canonicalize_name(requirement.name)
            extras = frozenset(canonicalize_name(extra) for extra in requirement.extras)
            key = (project, str(requirement.specifier), extras)
            if key in self._followed or requirement.url is not None:
                continue
            self._followed.add(key)
            pages = self._context.pages
            if self._may_guess(project):
                pages.reader.ahead(partial(self._walk, project, requirement, extras))
            else:
                pages.announce([pages.main_ref(project)])

    def glance(self, requirements: Iterable[Requirement]) -> None:
        """Goes after requirements and the pages of what these require, no further; returns at once.

        For what was asked for before anything is decided: which version it will be is open, but the projects that it
        leads to are mostly the same.
        """
        for requirement in requirements:
            project = canonicalize_name(requirement.name)
            if requirement.url is None and self._may_guess(project):
                extras = frozenset(canonicalize_name(extra) for extra in requirement.extras)
                self._context.pages.reader.ahead(partial(self._glance, project, requirement, extras))

    def _may_guess(self, project: NormalizedName) -> bool:
        """Not where the choice hangs on more than version and file: torch, triton, what comes from torch's page."""
        routed = self._context.pages.may_use_pytorch(project)
        return not routed and project != TORCH and project not in TRITON_NAMES

    def _walk(self, project: NormalizedName, requirement: Requirement, extras: frozenset[str]) -> None:
        if _is_likely(project, requirement):
            self.follow(self._next(project, requirement, extras))
        else:
            self._context.pages.reader.page(self._context.pages.main_ref(project))

    def _glance(self, project: NormalizedName, requirement: Requirement, extras: frozenset[str]) -> None:
        names = {canonicalize_name(needed.name) for needed in self._next(project, requirement, extras)}
        pages = self._context.pages
        pages.reader.prefetch(pages=[pages.main_ref(name) for name in sorted(names)])

    def _next(self, project: NormalizedName, requirement: Requirement, extras: frozenset[str]) -> list[Requirement]:
        """What the likeliest file for a requirement requires."""
        context = self._context
        files = context.pages.glance(context.pages.main_ref(project))
        best = next(fitting_files([files], context.wish(project, [PackageWant(requirement)]), context.rules), None)
        if best is None or best[1].kind != "wheel":
            return []
        return context.requirements_of(context.pages.reader.metadata(best[1]), extras)


def _is_likely(project: NormalizedName, requirement: Requirement) -> bool:
    """NVIDIA's libraries require one another without a version, and one pin elsewhere decides for all."""
    return not project.startswith("nvidia-") or any(part.operator == "==" for part in requirement.specifier)


def growing_batches(items: Iterator[T], most: int) -> Iterator[list[T]]:
    """Batches of a third of what was refused so far: who has refused many will probably refuse the next."""
    taken = 0
    while batch := list(islice(items, min(max(taken // 3, 1), most))):
        yield batch
        taken += len(batch)
