"""Which files of a page can be installed on the target at all; every check is one function with one reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import NormalizedName
from packaging.version import Version

from cudalock.candidates.model import Refusal
from cudalock.candidates.names import FileName, parse_file_name
from cudalock.index.model import IndexFile
from cudalock.requirements.model import Request
from cudalock.target.model import Target

__all__ = ["FileRules"]

_LAST_RANK = 1_000_000  # a source distribution comes after every wheel


@dataclass(slots=True)
class FileRules:
    """The target and the request, as far as they speak about files.

    Attributes:
        ranks: wheel tag -> its place in the target's order, 0 is best.
        python: full version of the target's Python.
        exclude_newer: files uploaded later, or at an unknown time, are not seen.
        musl: whether the target's C library is musl.
        allow_build: projects that may come as a source distribution.
    """

    ranks: dict[Tag, int]
    python: Version
    python_name: str = ""
    platform_name: str = ""
    musl: bool = False
    exclude_newer: datetime | None = None
    allow_build: frozenset[NormalizedName] = frozenset()
    _pythons: dict[str, bool] = field(default_factory=dict)
    _tag_ranks: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, target: Target, request: Request) -> FileRules:
        """The rules for one target and request."""
        full = target.marker_environment.get("python_full_version", f"{target.python.major}.{target.python.minor}")
        return cls(
            ranks={tag: rank for rank, tag in reversed(list(enumerate(target.tags)))},
            python=Version(full.rstrip("+")),
            python_name=str(target.python),
            platform_name=str(target.platform),
            musl=target.platform.libc is not None and target.platform.libc[0] == "musl",
            exclude_newer=request.exclude_newer,
            allow_build=request.allow_build,
        )

    def best(self, files: Iterable[IndexFile], *, pinned: bool = False) -> IndexFile | None:
        """The file of one version that suits the target best, None if none does.

        Args:
            files: all of one project and one version.
            pinned: whether the version was asked for by ``==``, which admits a yanked file.
        """
        best: IndexFile | None = None
        best_key: tuple[int, int, str] | None = None
        for file in files:
            name = parse_file_name(file.filename, file.page.project)
            if name is None or self._tag_rank(name) is None:
                continue
            if any(check(self, file, name, pinned) is not None for check in _CHECKS):
                continue
            # of two equally specific wheels the higher build tag is the later one
            key = self.rank(name), -name.build[0], name.build[1]
            if best_key is None or key < best_key:
                best, best_key = file, key
        return best

    def refusal(self, file: IndexFile, *, pinned: bool = False) -> Refusal | None:
        """Why a file is not for the target, None if it is."""
        name = parse_file_name(file.filename, file.page.project)
        if name is None:
            return Refusal(
                file=file, code="file-name-invalid", sentence=f"{file.filename} is not a well-formed file name"
            )
        return self._refuse(file, name, pinned=pinned)

    def rank(self, name: FileName) -> int:
        """How well a file suits the target: lower is better; only for files that are not refused."""
        rank = self._tag_rank(name)
        return _LAST_RANK if rank is None else rank

    def _tag_rank(self, name: FileName) -> int | None:
        """The place of a wheel's best tag in the target's order, None if it has none there; of others the last."""
        text = name.tag_text
        if text not in self._tag_ranks:
            found = (self.ranks[tag] for tag in name.tags if tag in self.ranks)
            self._tag_ranks[text] = min(found, default=None if text else _LAST_RANK)
        return self._tag_ranks[text]

    def admits_python(self, text: str | None) -> bool:
        """Whether a Requires-Python admits the target's Python; an unreadable one is taken as silent."""
        if not text:
            return True
        if text not in self._pythons:
            try:
                self._pythons[text] = SpecifierSet(text).contains(self.python, prereleases=True)
            except ValueError:
                self._pythons[text] = True
        return self._pythons[text]

    def _refuse(self, file: IndexFile, name: FileName, *, pinned: bool) -> Refusal | None:
        for check in _CHECKS:
            answer = check(self, file, name, pinned)
            if answer is not None:
                return Refusal(file=file, code=answer[0], sentence=answer[1])
        return None


_Answer = tuple[str, str] | None


def _check_kind(rules: FileRules, file: IndexFile, _name: FileName, _pinned: bool) -> _Answer:
    if file.kind == "wheel" or (file.kind == "sdist" and file.page.project in rules.allow_build):
        return None
    return (
        "source-only",
        f"{file.filename} is a source distribution, and --allow-build {file.page.project} was not given",
    )


def _check_tags(rules: FileRules, file: IndexFile, name: FileName, _pinned: bool) -> _Answer:
    if file.kind != "wheel" or any(tag in rules.ranks for tag in name.tags):
        return None
    return "no-wheel-for-platform", f"{file.filename} is not for Python {rules.python_name} on {rules.platform_name}"


def _check_musl(rules: FileRules, file: IndexFile, name: FileName, _pinned: bool) -> _Answer:
    """Old wheels of the PyTorch index are tagged ``linux_x86_64``, which every Linux accepts; they are for glibc."""
    if not rules.musl or file.kind != "wheel":
        return None
    fitting = [tag for tag in name.tags if tag in rules.ranks]
    if all(tag.platform.startswith("linux_") for tag in fitting):
        return "musl-unsupported", f"{file.filename} does not say that it is for musl"
    return None


def _check_python(rules: FileRules, file: IndexFile, _name: FileName, _pinned: bool) -> _Answer:
    if rules.admits_python(file.requires_python):
        return None
    return "no-wheel-for-python", f"{file.filename} requires Python {file.requires_python}, not {rules.python}"


def _check_age(rules: FileRules, file: IndexFile, _name: FileName, _pinned: bool) -> _Answer:
    if rules.exclude_newer is None:
        return None
    if file.upload_time is None:
        return "too-new", f"{file.filename} has no upload time, so --exclude-newer leaves it out"
    if file.upload_time > rules.exclude_newer:
        return "too-new", f"{file.filename} was uploaded {file.upload_time:%Y-%m-%d}, after --exclude-newer"
    return None


def _check_yanked(_rules: FileRules, file: IndexFile, _name: FileName, pinned: bool) -> _Answer:
    if file.yanked is False or pinned:
        return None
    reason = f" ({file.yanked})" if isinstance(file.yanked, str) and file.yanked else ""
    return "yanked", f"{file.filename} was yanked{reason}; == asks for it all the same"


_CHECKS: tuple[Callable[[FileRules, IndexFile, FileName, bool], _Answer], ...] = (
    _check_kind,
    _check_tags,
    _check_musl,
    _check_python,
    _check_age,
    _check_yanked,
)
