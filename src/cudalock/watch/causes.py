"""Why a kernel was compiled again: what of its specialisation differs from the nearest variant before it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Cause", "causes_of", "CauseKind", "differences", "Variant"]

CauseKind = Literal[
    "first",
    "dtype",
    "divisibility",
    "equal-to-1",
    "optional",
    "constexpr",
    "option",
    "device",
    "target",
    "source",
    "again",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One difference between two variants of a kernel.

    Attributes:
        kind: ``dtype``, ``divisibility`` (by 16; of an address or a number), ``equal-to-1`` (the number 1 is compiled
            in), ``optional`` (None or not), ``constexpr``, ``option`` (``num_warps`` and so on), ``device``, ``target``
            (another architecture), ``source`` (the kernel's text or what it refers to), ``again`` (nothing differs),
            ``first``.
        argument: the argument or option; None where it is about the whole kernel.
        before, after: the two values as text.
    """

    kind: CauseKind
    argument: str | None = None
    before: str | None = None
    after: str | None = None

    def __str__(self) -> str:
        if self.kind == "first":
            return "first variant"
        if self.kind == "again":
            return "nothing differs: the same variant was compiled before"
        if self.kind == "source":
            return "the kernel's source, or a function or global that it uses, is another"
        return f"{self.argument or self.kind}: {self.before} -> {self.after}"

    def to_json(self) -> dict[str, Any]:
        """The cause as it stands in a command's JSON answer."""
        return {
            "kind": self.kind,
            "argument": self.argument,
            "before": self.before,
            "after": self.after,
            "text": str(self),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One specialisation of a kernel.

    Attributes:
        arguments: name -> ``type``, ``divisible``, ``constant``, ``is_constant``, ``constexpr``, as the hook has it.
        options: what the compiler was told: ``num_warps``, ``num_stages`` ...
        target: backend and architecture.
        device: index of the GPU, None if unknown.
        source: hash of the kernel's text and of all that it uses.
        tuned: names of arguments and options that an autotuner was trying out.
    """

    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    target: tuple[Any, ...] = ()
    device: int | None = None
    source: str | None = None
    tuned: tuple[str, ...] = ()

    def fingerprint(self, *, without_tuned: bool = False) -> str:
        """What tells variants apart, as text; without what an autotuner was trying out, if so asked."""
        left_out = self.tuned if without_tuned else ()
        return json.dumps(
            [
                {name: dict(value) for name, value in self.arguments.items() if name not in left_out},
                {name: value for name, value in self.options.items() if name not in left_out},
                self.target,
                self.device,
                self.source,
            ],
            sort_keys=True,
        )


def causes_of(variant: Variant, before: Iterable[Variant]) -> tuple[Cause, ...]:
    """Why ``variant`` was compiled although the variants ``before`` were there: what differs from the nearest of them.

    The nearest is the one with the fewest differences; of several the latest.
    """
    nearest: tuple[Cause, ...] | None = None
    for other in before:
        found = differences(other, variant)
        if nearest is None or len(found) <= len(nearest):
            nearest = found
    if nearest is None:
        return (Cause(kind="first"),)
    return nearest or (Cause(kind="again"),)


def differences(old: Variant, new: Variant) -> tuple[Cause, ...]:
    """All that differs between two variants, arguments in order first; empty if nothing does."""
    found: list[Cause] = []
    for name in dict.fromkeys((*old.arguments, *new.arguments)):
        found += _of_argument(name, old.arguments.get(name), new.arguments.get(name))
    for name in sorted({*old.options, *new.options}):
        before, after = old.options.get(name), new.options.get(name)
        if before != after:
            found.append(Cause(kind="option", argument=name, before=str(before), after=str(after)))
    if old.target != new.target:
        found.append(Cause(kind="target", before=_target(old.target), after=_target(new.target)))
    if old.device is not None and new.device is not None and old.device != new.device:
        found.append(Cause(kind="device", before=str(old.device), after=str(new.device)))
    if old.source != new.source:
        found.append(Cause(kind="source"))
    return tuple(found)


def _of_argument(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[Cause]:
    if old is None or new is None:
        return [Cause(kind="source")]  # another list of arguments is another kernel of the same name
    before, after = old.get("constant"), new.get("constant")
    if old.get("constexpr") or new.get("constexpr"):
        changed = before != after or type(before) is not type(after)
        return [Cause(kind="constexpr", argument=name, before=repr(before), after=repr(after))] if changed else []
    if old.get("is_constant") != new.get("is_constant") or before != after:
        is_optional = any(it.get("is_constant") and it.get("constant") is None for it in (old, new))
        kind: CauseKind = "optional" if is_optional else "equal-to-1"
        return [Cause(kind=kind, argument=name, before=_constant(old), after=_constant(new))]
    found = []
    if old.get("type") != new.get("type"):
        found.append(Cause(kind="dtype", argument=name, before=str(old.get("type")), after=str(new.get("type"))))
    if bool(old.get("divisible")) != bool(new.get("divisible")):
        found.append(Cause(kind="divisibility", argument=name, before=_divisible(old), after=_divisible(new)))
    return found


def _constant(argument: Mapping[str, Any]) -> str:
    if argument.get("is_constant"):
        return "None" if argument.get("constant") is None else f"the constant {argument.get('constant')}"
    return f"any {argument.get('type')}"


def _divisible(argument: Mapping[str, Any]) -> str:
    what = "an address" if str(argument.get("type") or "").startswith("*") else "a number"
    return f"{what} {'' if argument.get('divisible') else 'not '}divisible by 16"


def _target(target: tuple[Any, ...]) -> str:
    return ":".join(str(part) for part in target)
