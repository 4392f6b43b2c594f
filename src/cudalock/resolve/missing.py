"""Why a package has no file for the target: unknown to the index, or no wheel for its Python, platform or libc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from packaging.tags import Tag
from packaging.utils import NormalizedName, canonicalize_name

from cudalock import facts
from cudalock.candidates import Listing, Refusal, VersionWish, fitting_files, parse_file_name
from cudalock.compat import Reason
from cudalock.errors import AnswerIsNo
from cudalock.index.model import IndexFile
from cudalock.resolve.context import Context
from cudalock.spelling import is_slip_of, near_words
from cudalock.target.model import Platform

__all__ = ["glibc_floor", "missing_file", "pythons_of", "slips", "unknown_package"]

_GLIBC = re.compile(r"manylinux_(\d{1,9})_(\d{1,9})_(.+)")
_OLD_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_MOST_REASONS = 3
_VERY_CLOSE = 0.8
_LINKS_HINT = "have the index write its links without spaces and other characters that a URL may not hold as they are"


def unknown_package(context: Context, project: NormalizedName, who: str) -> AnswerIsNo:
    """The error that no index that may serve the project knows it."""
    index = context.pages.main_ref(project).index
    near = _near(project, [want.identifier for want in context.roots()])
    hint = _meant(near) or "check the spelling, or map it to an index in [tool.cudalock.sources]"
    return AnswerIsNo(
        "package-not-found",
        f"the {index} index does not know {project} ({who})",
        hint=hint,
        details={"package": project, "index": index, "near": near},
    )


def slips(asked: Iterable[NormalizedName]) -> Iterator[Reason]:
    """Notes on names that are there but look like slips of well-known ones: such names are registered by others."""
    for project in sorted(set(asked) - _well_known()):
        for known in sorted(_well_known()):
            if is_slip_of(project, known):
                yield Reason(
                    rule="choice",
                    code="name-like-another",
                    sentence=f"{project} is another project than {known}; if it was meant, correct the requirement",
                    facts={"package": project, "meant": known},
                )


def _well_known() -> set[NormalizedName]:
    return {canonicalize_name(name) for name in (*facts.torch_family(), *facts.companions())}


def _near(project: NormalizedName, more: Iterable[str] = (), *, cutoff: float = 0.6) -> list[str]:
    """The names well known to cudalock, and ``more``, that ``project`` may be a slip of; none for one of them."""
    family = _well_known()
    if project in family:
        return []
    return near_words(project, sorted({*family, *more} - {project}), cutoff=cutoff)


def _meant(near: Sequence[str]) -> str:
    return f"did you mean {', '.join(near)}?" if near else ""


def missing_file(
    context: Context, project: NormalizedName, wish: VersionWish, listings: Sequence[Listing], who: str, *, asked: str
) -> AnswerIsNo | None:
    """The error that the versions in question have no file for the target; None if one has."""
    pages = [listing.files for listing in listings]
    if next(fitting_files(pages, wish, context.rules), None) is not None:
        return None
    versions = {version for page in pages for version in page if wish.allows(version)}
    if not versions:
        return _no_version(context, project, listings, wish, who, asked)
    files = [file for page in pages for version in sorted(versions, reverse=True) for file in page.get(version, ())]
    refusals = [r for file in files if (r := context.rules.refusal(file, pinned=False)) is not None]
    left_out = _left_out(project, listings, wish)
    if files:
        code, sentence, hint = _classify(context, project, files, refusals)
        sentence += f"; {_said_left_out(left_out)}" if left_out else ""
    else:
        code, sentence, hint = "links-unusable", _said_left_out(left_out), _LINKS_HINT
    if near := _near(project, cutoff=_VERY_CLOSE):  # names like these are also registered, by others
        hint = f"{_meant(near)} Otherwise {hint}"
    return AnswerIsNo(
        code,
        f"{asked} has no file for Python {context.target.python} on {context.target.platform}: {sentence} ({who})",
        hint=hint,
        details={
            "package": project,
            "requirement": asked,
            "pythons": pythons_of(files),
            "platforms": _platforms(files),
            "refusals": [{"code": r.code, "message": r.sentence} for r in refusals[:20]],
            **({"left_out": left_out[:20]} if left_out else {}),
        },
    )


def _left_out(project: NormalizedName, listings: Sequence[Listing], wish: VersionWish) -> list[str]:
    """The files of the versions in question that a page has and that cannot be had."""
    names = {name for listing in listings for name in listing.unusable}
    parsed = ((name, parse_file_name(name, project)) for name in sorted(names))
    return [name for name, parts in parsed if parts is not None and wish.allows(parts.version)]


def _said_left_out(names: Sequence[str]) -> str:
    if not names:
        return "the index lists files that cannot be used"
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    were, them = ("were", "them") if len(names) > 1 else ("was", "it")
    return f"{names[0]}{more} {were} left out because the links to {them} on the index's page cannot be used"


def _no_version(
    context: Context, project: NormalizedName, listings: Sequence[Listing], wish: VersionWish, who: str, asked: str
) -> AnswerIsNo | None:
    if left_out := _left_out(project, listings, wish):
        return AnswerIsNo(
            "links-unusable",
            f"no usable file of {asked}: {_said_left_out(left_out)} ({who})",
            hint=_LINKS_HINT,
            details={"package": project, "requirement": asked, "left_out": left_out[:20]},
        )
    if not wish.specifiers:
        return AnswerIsNo(
            "package-not-found",
            f"the index lists no usable file of {project} ({who})",
            hint=_meant(_near(project)) or "check the spelling and the index that is configured",
            details={"package": project},
        )
    usable = fitting_files([listing.files for listing in listings], VersionWish(), context.rules)
    newest = [str(version) for version, _file in usable][:5]
    constraints = [f"{c.requirement} ({c.origin})" for c in context.constraints.get(project, ())]
    limited = f", constrained by {', '.join(constraints)}" if constraints else ""
    return AnswerIsNo(
        "requirements-conflict",
        f"no version of {project} satisfies {wish.specifiers} ({who}{limited})",
        hint=f"the newest for this target are {', '.join(newest)}" if newest else "loosen the requirement",
        details={"package": project, "requirement": asked, "newest": newest},
    )


def _classify(
    context: Context, project: NormalizedName, files: Sequence[IndexFile], refusals: Sequence[Refusal]
) -> tuple[str, str, str]:
    """Code, reason and hint."""
    wheels = [file for file in files if file.kind == "wheel"]
    other = [refusal for refusal in refusals if refusal.code in {"yanked", "too-new"}]
    if other:
        sentences = "; ".join(refusal.sentence for refusal in other[:_MOST_REASONS])
        hint = "name a version with ==" if other[0].code == "yanked" else "give a later --exclude-newer"
        return other[0].code, sentences, hint
    if not wheels:
        return (
            "source-only",
            "there is only a source distribution",
            f"allow it to be built with --allow-build {project}, or take a version that has wheels",
        )
    tags = [tag for file in wheels for tag in _tags(file)]
    platform = context.target.platform
    own = {tag.platform for tag in context.rules.ranks}
    if context.rules.musl:  # that is also what old wheels for glibc say
        own = {name for name in own if not name.startswith("linux_")}
    if any(tag.platform in own for tag in tags):
        pythons = ", ".join(pythons_of(f for f in wheels if any(tag.platform in own for tag in _tags(f))))
        return (
            "no-wheel-for-python",
            f"there are wheels for Python {pythons} only" if pythons else "its wheels are for other Pythons",
            f"take one of these with --python: {pythons}" if pythons else "take another --python",
        )
    return _classify_platform(platform, tags, _platforms(wheels))


def _classify_platform(platform: Platform, tags: Sequence[Tag], platforms: list[str]) -> tuple[str, str, str]:
    libc = platform.libc
    if platform.os == "linux" and libc is not None:
        floors = [floor for tag in tags if (floor := glibc_floor(tag.platform, platform.machine)) is not None]
        if libc[0] == "musl" and floors:
            return (
                "musl-unsupported",
                f"its wheels are for glibc, and the target has musl {libc[1][0]}.{libc[1][1]}",
                "take a target with glibc, for example a Debian or Red Hat based image",
            )
        if libc[0] == "glibc" and floors and min(floors) > libc[1]:
            lowest = min(floors)
            return (
                "glibc-too-old",
                f"its wheels need glibc {lowest[0]}.{lowest[1]}, and the target has {libc[1][0]}.{libc[1][1]}",
                f"take an older version of it, or a system with glibc {lowest[0]}.{lowest[1]} or later",
            )
    return (
        "no-wheel-for-platform",
        f"there are wheels for {', '.join(platforms)} only" if platforms else "it has no wheel for any platform",
        "take another --platform, or a version that has a wheel for this one",
    )


def glibc_floor(text: str, machine: str) -> tuple[int, int] | None:
    """The lowest glibc that a platform tag admits; None if it is not a tag of glibc for this machine."""
    if match := _GLIBC.fullmatch(text):
        return (int(match[1]), int(match[2])) if match[3] == machine else None
    prefix, _, rest = text.partition("_")
    return _OLD_GLIBC.get(prefix) if rest == machine else None


def _tags(file: IndexFile) -> frozenset[Tag]:
    name = parse_file_name(file.filename, file.page.project)
    return name.tags if name is not None else frozenset()


def pythons_of(files: Iterable[IndexFile]) -> list[str]:
    """The Pythons that wheels name, ascending: ``3.9``, ``3.13t``."""
    found = {
        (int(match[1]), int(match[2]), tag.abi.endswith("t"))
        for file in files
        for tag in _tags(file)
        if (match := re.fullmatch(r"cp(\d)(\d{1,9})", tag.interpreter))
    }
    return [f"{major}.{minor}{'t' if free else ''}" for major, minor, free in sorted(found)]


def _platforms(files: Iterable[IndexFile]) -> list[str]:
    return sorted({tag.platform for file in files for tag in _tags(file)})
