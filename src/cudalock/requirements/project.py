"""A project's own dependencies: ``[project]`` with its extras and ``[dependency-groups]`` of a ``pyproject.toml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from cudalock.errors import UsageError
from cudalock.files import read_file
from cudalock.requirements.model import AskedRequirement
from cudalock.requirements.parsing import parse_requirement
from cudalock.spelling import near_words
from cudalock.toml import parse_toml

__all__ = ["Project", "read_project"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The parts of a ``pyproject.toml`` that say what the project needs.

    Attributes:
        shown: the file's name in origins and errors.
        name: of the project, None if the file has no ``[project]``.
        dependencies: as written.
        extras: normalised name -> as written.
        groups: the table ``[dependency-groups]``.
    """

    shown: str
    name: NormalizedName | None
    dependencies: tuple[str, ...]
    extras: Mapping[NormalizedName, tuple[str, ...]]
    groups: Mapping[str, Any]
    dynamic: frozenset[str] = frozenset()

    def asked(self, extras: Sequence[str] = (), groups: Sequence[str] = ()) -> tuple[AskedRequirement, ...]:
        """The dependencies, those of the named extras and those of the named groups, the project's own name expanded.

        Raises:
            UsageError: code ``extra-unknown``, ``group-unknown``, ``requirement-invalid`` or ``project-invalid``.
        """
        self._refuse_dynamic("dependencies")
        found = [*self._parsed(self.dependencies, self.shown)]
        for extra in extras:
            found += self._of_extra(extra, seen=())
        for group in groups:
            found += self._of_group(group)
        return tuple(dict.fromkeys(item for asked in found for item in self._expanded(asked, seen=())))

    def _refuse_dynamic(self, key: str) -> None:
        if key in self.dynamic:
            raise UsageError(
                "project-dependencies-dynamic",
                f"{self.shown}: project.{key} is dynamic, so only the project's build backend knows it",
                hint="write the requirements to a file and give it with -r FILE, or name them on the command line",
                details={"file": self.shown},
            )

    def _parsed(self, texts: Iterable[str], origin: str) -> list[AskedRequirement]:
        return [AskedRequirement(requirement=parse_requirement(text, origin), origin=origin) for text in texts]

    def _of_extra(self, extra: str, seen: tuple[NormalizedName, ...]) -> list[AskedRequirement]:
        name = canonicalize_name(extra)
        if name not in self.extras:
            self._refuse_dynamic("optional-dependencies")
            raise UsageError(
                "extra-unknown",
                f"{self.shown}: the project has no extra {extra!r}",
                hint=_choices("extras", name, sorted(self.extras)),
                details={"file": self.shown, "extra": extra, "known": sorted(self.extras)},
            )
        asked = self._parsed(self.extras[name], f"{self.shown} extra {name}")
        return [item for one in asked for item in self._expanded(one, (*seen, name))]

    def _expanded(self, asked: AskedRequirement, seen: tuple[NormalizedName, ...]) -> list[AskedRequirement]:
        """Replaces the project's own name (``proj[all]``) by what its extras ask for, under the same marker."""
        requirement = asked.requirement
        if self.name is None or canonicalize_name(requirement.name) != self.name:
            return [asked]
        found: list[AskedRequirement] = []
        for extra in sorted(map(canonicalize_name, requirement.extras)):
            if extra in seen:
                continue  # what an extra includes of itself is there already
            found += [_under(requirement, item) for item in self._of_extra(extra, seen)]
        return found

    def _of_group(self, group: str) -> list[AskedRequirement]:
        from packaging.dependency_groups import DependencyGroupResolver

        known = sorted({str(canonicalize_name(name)) for name in self.groups})
        if canonicalize_name(group) not in known:
            raise UsageError(
                "group-unknown",
                f"{self.shown}: there is no dependency group {group!r}",
                hint=_choices("groups", canonicalize_name(group), known),
                details={"file": self.shown, "group": group, "known": known},
            )
        try:
            requirements = DependencyGroupResolver(self.groups).resolve(group)
        except (Exception, ExceptionGroup) as error:  # the faults of the table come as a group of many kinds
            raise _invalid(self.shown, "dependency-groups", _reasons(error)) from error
        origin = f"{self.shown} group {canonicalize_name(group)}"
        return self._parsed(map(str, requirements), origin)


def read_project(location: Path) -> Project:
    """Reads a project's folder or its ``pyproject.toml``.

    Raises:
        UsageError: code ``project-missing`` (no such file), ``project-invalid`` (not TOML, or a table of another shape)
            or ``requirement-invalid``.
    """
    path = location / "pyproject.toml" if location.is_dir() else location
    shown = path.name if path.name == "pyproject.toml" else str(path)
    try:
        document = parse_toml(read_file(path).decode("utf-8"))
    except FileNotFoundError as error:
        raise UsageError(
            "project-missing",
            f"there is no project here: no file {path}",
            hint="name what you want, e.g. `cudalock resolve torch`, or give a file with -r FILE",
            details={"file": str(path)},
        ) from error
    except (OSError, ValueError) as error:
        raise _invalid(shown, None, getattr(error, "strerror", None) or str(error)) from error
    return _project(document, shown)


def _project(document: Mapping[str, Any], shown: str) -> Project:
    table = _table(document, "project", shown)
    groups = _table(document, "dependency-groups", shown)
    if not table and not groups:
        raise UsageError(
            "project-invalid",
            f"{shown}: it has neither [project] nor [dependency-groups], so it asks for nothing",
            hint="name what you want, e.g. `cudalock resolve torch`",
            details={"file": shown},
        )
    name = table.get("name")
    if name is not None and not isinstance(name, str):
        raise _invalid(shown, "project.name", "expected a string")
    extras: dict[NormalizedName, tuple[str, ...]] = {}
    for extra, texts in _table(table, "optional-dependencies", shown, "project.").items():
        extras[canonicalize_name(extra)] = _strings(texts, shown, f"project.optional-dependencies.{extra}")
    return Project(
        shown=shown,
        name=canonicalize_name(name) if name else None,
        dependencies=_strings(table.get("dependencies", []), shown, "project.dependencies"),
        extras=extras,
        groups=groups,
        dynamic=frozenset(_strings(table.get("dynamic", []), shown, "project.dynamic")),
    )


def _table(document: Mapping[str, Any], key: str, shown: str, prefix: str = "") -> Mapping[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, Mapping):
        raise _invalid(shown, f"{prefix}{key}", "expected a table")
    return value


def _strings(value: Any, shown: str, path: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _invalid(shown, path, "expected a list of strings")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise _invalid(shown, f"{path}[{index}]", "expected a string")
    return tuple(value)


def _invalid(shown: str, path: str | None, reason: str) -> UsageError:
    where = f"{shown}: {path}" if path else shown
    return UsageError("project-invalid", f"{where}: {reason}", details={"file": shown, "path": path})


def _reasons(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_reasons(inner) for inner in error.exceptions)
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _choices(what: str, name: str, known: Sequence[str]) -> str:
    if not known:
        return f"the project declares no {what}"
    near = near_words(name, known, most=1)
    return f"did you mean `{near[0]}`?" if near else f"it has the {what} {', '.join(known)}"


def _under(outer: Requirement, item: AskedRequirement) -> AskedRequirement:
    if outer.marker is None:
        return item
    requirement = Requirement(str(item.requirement))
    requirement.marker = outer.marker if requirement.marker is None else outer.marker & requirement.marker
    return AskedRequirement(requirement=requirement, origin=item.origin)
