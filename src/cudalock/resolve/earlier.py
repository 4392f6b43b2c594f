"""What was resolved before in the same run: a target for which the rules decide the same gets the same answer.

Twenty targets are mostly a few Pythons and platforms with many GPUs and drivers. GPUs and driver have their say at few
places: which builds of torch and releases of triton are admitted, in which order, which labels are asked, and which
companions lack the GPU. Where they say the same as they said for an earlier target, whenever they were asked, the
solver would take the very same steps again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from packaging.utils import NormalizedName

from cudalock.candidates import Candidate
from cudalock.index.model import PageRef
from cudalock.resolve.context import Context
from cudalock.resolve.notes import Found

__all__ = ["Earlier", "Solved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """What the solver found for a target.

    Attributes:
        context: what it worked with, and was told.
        torch_page: where torch was known to come from, from the run before the last.
        chosen: the candidates with their real files.
    """

    context: Context
    torch_page: PageRef | None
    found: Found
    chosen: Mapping[NormalizedName, Candidate]


@dataclass(slots=True)
class Earlier:
    """The answers of one run, for :func:`cudalock.resolve.resolve`; all of them from the same reader."""

    _solved: list[Solved] = field(default_factory=list)

    def __len__(self) -> int:
        """How many different answers the solver had to find."""
        return len(self._solved)

    def add(self, solved: Solved) -> None:
        """Remembers an answer, unless it hung on what may be otherwise the next time."""
        if solved.context.pages.fault is None:
            self._solved.append(solved)

    def find(self, make: Callable[[], Context]) -> tuple[Context, Solved] | None:
        """An answer that is also that of another target, and a context of that target that has been asked the same.

        Args:
            make: a new context of the target.
        """
        context = make()
        for solved in self._solved:
            if not _asks_the_same(context, solved.context):
                continue
            if context.decides_as(solved.context):
                context.pages.heard |= solved.context.pages.heard
                return context, solved
            context = make()  # it has been asked, and remembers
        return None


def _asks_the_same(context: Context, other: Context) -> bool:
    """Whether the two differ in GPUs and driver at most."""
    target, before = context.target, other.target
    return (
        (target.cpu, target.platform, target.python, target.tags)
        == (before.cpu, before.platform, before.python, before.tags)
        and context.environment == other.environment
        and (context.request, context.policy, context.options) == (other.request, other.policy, other.options)
        and context.preferred == other.preferred
        and context.pages.reader is other.pages.reader
    )
