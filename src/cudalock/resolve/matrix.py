"""Releases of torch x CUDA builds: what the indexes serve, and what the rules say of each build for a target.

The same candidates and rules as in resolution, laid out instead of searched: the first admitted build in rule R5's
order is the one that resolution takes when nothing but torch is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cudalock import facts
from cudalock.builds import Build, TritonRelease
from cudalock.candidates import TORCH, VersionWish, parse_file_name
from cudalock.compat import Policy, Verdict, judge, preference
from cudalock.index.model import IndexFile, IndexReader, PageRef
from cudalock.progress import SILENT, Reporter
from cudalock.requirements.model import Request
from cudalock.resolve.context import Context
from cudalock.resolve.options import ResolveOptions
from cudalock.target.model import Target

__all__ = ["Matrix", "MatrixCell", "columns", "matrix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """One build that an index serves.

    Attributes:
        build: what is known of it; None if that would take reading the wheel, and it was not read.
        verdict: what the rules say; None without a target, or if the build is not known.
        triton: the release of triton that it would get.
    """

    file: IndexFile
    version: Version
    build: Build | None = None
    verdict: Verdict | None = None
    triton: TritonRelease | None = None

    @property
    def release(self) -> Version:
        """The release without its label."""
        return Version(self.version.public)

    @property
    def column(self) -> str:
        """The label of its CUDA (``cu126``), ``cpu``, or ``?`` if unknown; PyPI's own builds stand under theirs too."""
        if self.build is None:
            return self.file.page.label or "?"
        return self.build.cuda.label if self.build.cuda else "cpu"

    @property
    def admitted(self) -> bool:
        """Whether the rules admit it for the target."""
        return self.verdict is not None and self.verdict.admitted

    def to_json(self) -> dict[str, Any]:
        """The cell as it stands in the command's JSON answer."""
        build, verdict = self.build, self.verdict
        return {
            "version": str(self.version),
            "source": self.file.page.index,
            "label": self.file.page.label,
            "cuda": str(build.cuda) if build and build.cuda else None,
            "architectures": [str(architecture) for architecture in build.architectures] if build else None,
            "evidence": build.evidence if build else None,
            "triton": str(self.triton.version) if self.triton else None,
            "admitted": verdict.admitted if verdict else None,
            "compat": verdict.mode.value if verdict and verdict.admitted and verdict.mode else None,
            "refusals": [reason.to_json() for reason in verdict.refusals] if verdict else [],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All cells, newest release first, within a release in rule R5's order (admitted before refused).

    Attributes:
        chosen: the first admitted build in that order.
        indexes: names of the indexes that answered.
        missing: why the PyTorch index is missing, if it is.
    """

    cells: tuple[MatrixCell, ...]
    chosen: MatrixCell | None = None
    indexes: tuple[str, ...] = ()
    missing: str | None = None


def matrix(
    target: Target,
    reader: IndexReader,
    *,
    policy: Policy | None = None,
    specifiers: SpecifierSet | None = None,
    judged: bool = True,
    read_wheels: bool = True,
    options: ResolveOptions | None = None,
    reporter: Reporter = SILENT,
) -> Matrix:
    """Lays out the builds of torch.

    Args:
        target: the machine; its platform and Python decide which files count even where nothing is judged.
        reader: the indexes.
        policy: what the user allows.
        specifiers: only releases that these admit.
        judged: False applies no rule: what each build supports, for no machine in particular.
        read_wheels: a build that no table knows is read out of its wheel; else it stays unknown.
        options: how the PyTorch index is used.
        reporter: hears what is read.

    Raises:
        TransportError: an index that is needed does not deliver.
    """
    context = Context.make(Request(), target, reader, policy or Policy(), {}, options or ResolveOptions(), reporter)
    files = _files(context, VersionWish(specifiers=specifiers or SpecifierSet()))
    cells = [_cell(context, file, judged=judged, read_wheels=read_wheels) for file in files]
    cells.sort(key=lambda cell: _order(cell, target))
    fault = context.pages.fault
    return Matrix(
        cells=tuple(cells),
        chosen=next((cell for cell in cells if cell.admitted), None),
        indexes=tuple(sorted(context.pages.heard)),
        missing=fault.message if fault else None,
    )


def _files(context: Context, wish: VersionWish) -> list[IndexFile]:
    """The best file for the target of every version on every page, final releases only."""
    labels = ["cpu"] if context.target.cpu else [row.label for row in facts.labels()]
    refs = [PageRef("pytorch", TORCH, label) for label in labels if context.pages.may_use_pytorch(TORCH)]
    context.pages.announce([context.pages.main_ref(TORCH), *refs])
    listings = [context.pages.main(TORCH), *(context.pages.of_label(ref.label or "", TORCH) for ref in refs)]
    found = []
    for listing in listings:
        for version, files in listing.files.items():
            if not wish.allows(version) or version.is_prerelease:
                continue
            best = context.rules.best(files, pinned=wish.pins(version))
            if best is not None:
                found.append(best)
    return found


def _cell(context: Context, file: IndexFile, *, judged: bool, read_wheels: bool) -> MatrixCell:
    name = parse_file_name(file.filename, TORCH)
    version = name.version if name else Version("0")
    build = context.torch.known_build(file)
    if build is not None:
        build = replace(build, triton=context.torch.table_triton(file))
        triton = context.triton.required_by(build.triton, file.page.label)
        verdict = judge(build, context.target, triton=triton, policy=context.policy) if judged else None
        return MatrixCell(file=file, version=version, build=build, verdict=verdict, triton=triton)
    if not read_wheels:
        return MatrixCell(file=file, version=version)
    answer = context.torch.judge_file(file)
    verdict = answer.verdict if judged else None
    return MatrixCell(file=file, version=version, build=answer.build, verdict=verdict, triton=answer.triton)


def _order(cell: MatrixCell, target: Target) -> tuple[Any, ...]:
    release = [-part for part in cell.release.release] + [0] * (5 - len(cell.release.release))
    if cell.build is None or cell.verdict is None:
        cuda = cell.build.cuda if cell.build else None
        return (*release, 0, cell.file.page.index, -(cuda.major * 100 + cuda.minor) if cuda else 0, str(cell.version))
    return (*release, 0 if cell.admitted else 1, *preference(cell.build, cell.verdict, target))


def columns(cells: Iterable[MatrixCell]) -> list[str]:
    """The columns that the cells need, newest CUDA first, the unknown last."""

    def key(label: str) -> tuple[int, int]:
        digits = label.removeprefix("cu")
        return (0, -int(digits)) if digits.isdigit() else (1, 0)

    return sorted({cell.column for cell in cells}, key=key)
