"""What may be chosen for the target, and why the rest may not."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.utils import NormalizedName
from packaging.version import Version

from cudalock.builds.model import Build, TritonRelease
from cudalock.compat.model import Verdict
from cudalock.index.model import IndexFile, PageRef

__all__ = ["Candidate", "FileIdentity", "JudgedBuild", "Refusal"]

FileIdentity = tuple[PageRef, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why one file is not for the target: a code of the findings catalogue (or of this stage) and one sentence."""

    file: IndexFile
    code: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBuild:
    """A file of torch that was read and judged by the rules R1 to R3.

    Attributes:
        triton: the release of triton that torch would get; None if it requires none, or none is there for the target.
    """

    file: IndexFile
    build: Build
    verdict: Verdict
    triton: TritonRelease | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """One file that can be installed on the target.

    Attributes:
        extras: of the project, wanted by someone.
        judged: for torch, what the rules said.
        representative: for a compiled companion, True where the file stands for its version on any page: which page
            it really comes from is decided by torch's.
    """

    name: NormalizedName
    version: Version
    file: IndexFile
    extras: frozenset[str] = frozenset()
    judged: JudgedBuild | None = None
    representative: bool = False

    @property
    def identity(self) -> FileIdentity:
        """A file is known by the page it was listed on and its name."""
        return self.file.page, self.file.filename

    def __repr__(self) -> str:
        where = f"{self.file.page.index}/{self.file.page.label}" if self.file.page.label else self.file.page.index
        return f"<{self.name} {self.version} from {where}>"
