"""What is watched while the resolver works: which pins are still wanted, and whether it goes round in circles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from resolvelib import BaseReporter
from resolvelib.structs import RequirementInformation, State

from cudalock.resolve.wants import Choice, PackageWant, Want

__all__ = ["Observer", "Stuck", "wanted_identifiers"]

_Cause = RequirementInformation[Want, Choice]
_MOST_REPEATS = 500


class Stuck(Exception):  # noqa: N818 - it is caught by the resolver's caller and never shown
    """The same conflict has come up so often that stepping back through unrelated packages will not resolve it.

    Args:
        causes: of the first conflict of all, which concerns the best candidates.
    """

    def __init__(self, causes: Sequence[_Cause]) -> None:
        super().__init__()
        self.causes = causes


class Observer(BaseReporter[Want, Choice, str]):
    """Tells ``after_step`` where things stand and ``on_conflict`` of conflicts; gives up where nothing comes of them.

    Raises:
        Stuck: in the midst of resolution.
    """

    def __init__(self, after_step: Callable[[State[Want, Choice, str]], None], on_conflict: Callable[[], None]) -> None:
        self._after_step = after_step
        self._on_conflict = on_conflict
        self._seen: Counter[frozenset[str]] = Counter()
        self._first: Sequence[_Cause] = ()

    def ending_round(self, index: int, state: State[Any, Any, Any]) -> None:
        """After every step."""
        self._after_step(state)

    def resolving_conflicts(self, causes: Collection[_Cause]) -> None:
        """Before every step back."""
        self._on_conflict()
        self._first = self._first or list(causes)
        conflict = frozenset(f"{cause.parent} {_text(cause.requirement)}" for cause in causes)
        self._seen[conflict] += 1
        if self._seen[conflict] > _MOST_REPEATS:
            raise Stuck(self._first)


def wanted_identifiers(state: State[Want, Choice, str]) -> set[str]:
    """The identifiers that something which was asked for leads to, by the pins as they are."""
    wanted: set[str] = set()
    children: dict[int, list[str]] = {}
    for identifier, criterion in state.criteria.items():
        for information in criterion.information:
            if information.parent is None:
                wanted.add(identifier)
            else:
                children.setdefault(id(information.parent), []).append(identifier)
    pending = list(wanted)
    while pending:
        pinned = state.mapping.get(pending.pop())
        for child in children.get(id(pinned), ()) if pinned is not None else ():
            if child not in wanted:
                wanted.add(child)
                pending.append(child)
    return wanted


def _text(want: Want) -> str:
    return str(want.requirement) if isinstance(want, PackageWant) else want.identifier
