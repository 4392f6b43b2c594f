"""Candidates of torch: every build there is for the target, judged by rules R1 to R3, in the order of rule R5.

Lazily: nothing is fetched for a release that is not visited, no label's page where the main index's own build wins
anyway, and of the builds of one release only those are read that the cheaper facts leave standing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cudalock import facts
from cudalock.builds import Build, cuda_of_label, read_build
from cudalock.candidates.files import FileRules
from cudalock.candidates.labels import build_of_row, labels_to_ask, optimistic_build
from cudalock.candidates.model import FileIdentity, JudgedBuild
from cudalock.candidates.names import parse_file_name
from cudalock.candidates.pages import Pages
from cudalock.candidates.plain import VersionWish, ordered_versions
from cudalock.candidates.replay import Replay
from cudalock.candidates.triton import TORCH, TritonCandidates
from cudalock.compat import Mode, Policy, Reason, Verdict, judge, judge_without_triton, preference
from cudalock.errors import AnswerIsNo
from cudalock.facts import TorchRow
from cudalock.index.model import IndexFile, PageRef
from cudalock.progress import SILENT, Reporter
from cudalock.target.model import Target

__all__ = ["TorchCandidates"]

_MAIN = "main"


@dataclass(frozen=True, slots=True)
class _Prospect:
    """A file that is there, with what is known of it before its metadata was fetched; None: not even its CUDA."""

    file: IndexFile
    build: Build | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class _Known(_Prospect):
    """A file of which at least the CUDA version is known."""

    build: Build


@dataclass(slots=True)
class TorchCandidates:
    """All builds of torch for a target.

    Attributes:
        refused: builds passed over so far with the reasons, in the order in which they were looked at.
        given: the files that :meth:`admitted` came up with, in that order, each with what was asked; None: no more.
    """

    pages: Pages
    rules: FileRules
    triton: TritonCandidates
    target: Target
    policy: Policy
    reporter: Reporter = SILENT
    refused: dict[FileIdentity, tuple[Build, tuple[Reason, ...]]] = field(default_factory=dict)
    given: list[tuple[VersionWish, FileIdentity | None]] = field(default_factory=list)
    _judged: dict[FileIdentity, JudgedBuild] = field(default_factory=dict)
    _admitted: dict[VersionWish, Replay[JudgedBuild]] = field(default_factory=dict)

    def admitted(self, wish: VersionWish) -> Iterator[JudgedBuild]:
        """The builds that the rules admit: the existing pin first, then the newest release, within it as R5 says."""
        if wish not in self._admitted:
            self._admitted[wish] = Replay(self._once_each(wish))
        return iter(self._admitted[wish])

    def _once_each(self, wish: VersionWish) -> Iterator[JudgedBuild]:
        given: set[FileIdentity] = set()
        for judged in self._in_order(wish):
            identity = judged.file.page, judged.file.filename
            if identity not in given:
                given.add(identity)
                self.given.append((wish, identity))
                yield judged
        self.given.append((wish, None))

    def decides_as(self, other: TorchCandidates) -> bool:
        """Whether the very same files come for this target, asked in the order in which another one's were asked.

        And from the same pages: which labels were looked at counts for triton too, and is told.
        """
        if any(page.index == "direct" for page, _ in other._judged):
            return False  # those were judged beside the order
        asked: dict[VersionWish, Iterator[JudgedBuild]] = {}
        for wish, identity in other.given:
            judged = next(asked.setdefault(wish, self.admitted(wish)), None)
            if (judged and (judged.file.page, judged.file.filename)) != identity:
                return False
        return [one.ref for one in self.pages.loaded(TORCH)] == [one.ref for one in other.pages.loaded(TORCH)]

    def judge_file(self, file: IndexFile) -> JudgedBuild:
        """One file read and judged; what is refused is remembered with its reasons.

        Raises:
            TransportError: the index does not deliver it.
        """
        identity = file.page, file.filename
        if identity not in self._judged:
            self.reporter.message("debug", f"judging {file.filename} from {_place(file.page)}")
            judged = self._read(file)
            self._judged[identity] = judged
            if not judged.verdict.admitted:
                self.refused[identity] = judged.build, judged.verdict.refusals
        return self._judged[identity]

    def files(self, *, above: Version | None = None) -> Iterator[IndexFile]:
        """The best file for the target of every version on every page that was read so far.

        Args:
            above: only versions of newer releases than this.
        """
        for listing in self.pages.loaded(TORCH):
            for version, files in listing.files.items():
                if above is not None and _release(version) <= above:
                    continue
                file = self.rules.best(files, pinned=True)
                if file is not None:
                    yield file

    def known_build(self, file: IndexFile) -> Build | None:
        """What the judgement or the table says of a file, None where the wheel would have to be read."""
        judged = self._judged.get((file.page, file.filename))
        return judged.build if judged is not None else self._from_table(file)

    def judged(self, file: IndexFile) -> JudgedBuild | None:
        """What the rules said of a file, None if it was not read."""
        return self._judged.get((file.page, file.filename))

    def judged_build(self, build: Build) -> JudgedBuild | None:
        """The judgement of the file that a build was read from, None if no such file was read."""
        place = build.version, build.source, build.label
        for judged in self._judged.values():
            if (judged.build.version, judged.build.source, judged.build.label) == place:
                return judged
        return None

    def table_triton(self, file: IndexFile) -> Requirement | None:
        """What the table says that a file requires of triton on the target's Python; None if nothing or unknown."""
        row = self._row(file)
        if row is None or row.triton is None:
            return None
        return _triton_of(row.triton, row.triton_python, f"{self.target.python.major}.{self.target.python.minor}")

    # -- order

    def _in_order(self, wish: VersionWish) -> Iterator[JudgedBuild]:
        if self.pages.pytorch == "require":  # it must answer, also where nothing of it is needed
            for label in labels_to_ask(self.target, self.policy)[:1]:
                self.pages.of_label(label, TORCH)
        yield from self._preferred(wish)
        done: set[Version] = set()
        while (release := self._next_release(wish, done)) is not None:
            own = self._main_own(release, wish)
            if own is not None:
                yield own
            refs = self._label_refs(release)
            self.pages.announce(refs)
            for ref in refs:
                self.pages.of_label(ref.label or "", TORCH)
            newer = self._next_release(wish, done)
            if newer is not None and newer > release and own is None:
                continue  # the labels' pages hold a release that the main index has not
            done.add(release)
            yield from self._of_release(release, wish)

    def _preferred(self, wish: VersionWish) -> Iterator[JudgedBuild]:
        version = wish.preferred
        if version is None or not wish.allows(version):
            return
        label = (version.local or "").split(".")[0]
        listing = self.pages.of_label(label, TORCH) if label else self.pages.main(TORCH)
        file = self.rules.best(listing.files.get(version, ()), pinned=True)
        if file is not None:
            judged = self.judge_file(file)
            if judged.verdict.admitted:
                yield judged

    def _next_release(self, wish: VersionWish, done: set[Version]) -> Version | None:
        finals, prereleases = ordered_versions(self._releases(), _public(wish))
        for release in finals or prereleases:
            if release not in done:
                return release
        return None

    def _releases(self) -> set[Version]:
        self.pages.main(TORCH)
        found = {_release(version) for listing in self.pages.loaded(TORCH) for version in listing.files}
        if not found:  # the main index has no torch at all: the labels' pages must say what there is
            refs = [PageRef("pytorch", TORCH, label) for label in labels_to_ask(self.target, self.policy)]
            self.pages.announce(refs)
            for ref in refs:
                found |= {_release(version) for version in self.pages.of_label(ref.label or "", TORCH).files}
        return found

    def _label_refs(self, release: Version) -> list[PageRef]:
        if not self.pages.may_use_pytorch(TORCH):
            return []
        return [PageRef("pytorch", TORCH, label) for label in labels_to_ask(self.target, self.policy, release)]

    def _main_own(self, release: Version, wish: VersionWish) -> JudgedBuild | None:
        """The main index's own build of a release, if it is admitted and native: no label can offer a better."""
        for prospect in self._prospects(self.pages.main(TORCH).of_release(release), wish):
            native = prospect.build is None or prospect.verdict.mode is Mode.NATIVE or self.target.cpu
            if native and prospect.verdict.admitted:
                judged = self.judge_file(prospect.file)
                if judged.verdict.admitted and (judged.verdict.mode is Mode.NATIVE or self.target.cpu):
                    return judged
        return None

    def _of_release(self, release: Version, wish: VersionWish) -> Iterator[JudgedBuild]:
        """The admitted builds of a release in R5's order; only those are read that nothing refuses beforehand."""
        files = [file for listing in self.pages.loaded(TORCH) for file in listing.of_release(release)]
        prospects = self._prospects(files, wish)
        self.pages.announce_metadata(prospect.file for prospect in prospects if prospect.verdict.admitted)
        for prospect in sorted(map(self._known, prospects), key=self._preference):
            if prospect.verdict.admitted:
                judged = self.judge_file(prospect.file)
                if judged.verdict.admitted:
                    yield judged
            else:
                identity = prospect.file.page, prospect.file.filename
                self.refused.setdefault(identity, (prospect.build, prospect.verdict.refusals))

    def _known(self, prospect: _Prospect) -> _Known:
        if prospect.build is not None:
            return _Known(prospect.file, prospect.build, prospect.verdict)
        judged = self.judge_file(prospect.file)
        return _Known(judged.file, judged.build, judged.verdict)

    def _preference(self, prospect: _Known) -> tuple[int, int, int, str]:
        return preference(prospect.build, prospect.verdict, self.target)

    # -- what is known of a file

    def _prospects(self, files: Iterable[IndexFile], wish: VersionWish) -> list[_Prospect]:
        """One file for each page and version that fits, judged as far as that costs no request."""
        grouped: dict[tuple[PageRef, Version], list[IndexFile]] = {}
        for file in files:
            name = parse_file_name(file.filename, TORCH)
            if name is not None and wish.allows(name.version):
                grouped.setdefault((file.page, name.version), []).append(file)
        found = []
        for (_page, version), group in grouped.items():
            best = self.rules.best(group, pinned=wish.pins(version))
            if best is not None:
                build = self._known_or_guessed(best, version)
                verdict = judge_without_triton(build, self.target, self.policy) if build is not None else Verdict()
                found.append(_Prospect(best, build, verdict))
        return found

    def _known_or_guessed(self, file: IndexFile, version: Version) -> Build | None:
        known = self.known_build(file)
        if known is not None:
            return known
        cuda = cuda_of_label(version.local) or cuda_of_label(file.page.label)
        if cuda is None:
            return None
        return optimistic_build(version, cuda, self.target, source=file.page.index, label=file.page.label)

    def _from_table(self, file: IndexFile) -> Build | None:
        row = self._row(file)
        name = parse_file_name(file.filename, TORCH)
        if row is None or name is None:
            return None
        return replace(build_of_row(row), version=name.version, source=file.page.index, label=file.page.label)

    def _row(self, file: IndexFile) -> TorchRow | None:
        name = parse_file_name(file.filename, TORCH)
        if name is None or file.page.index == "direct":
            return None
        platform = self.target.platform
        label = file.page.label or (name.version.local or "").split(".")[0] or None
        place = label if label is not None else _MAIN
        return _rows(platform.os, platform.machine).get((_release(name.version), place))

    def _read(self, file: IndexFile) -> JudgedBuild:
        metadata = self.pages.reader.metadata(file)
        platform = self.target.platform
        try:
            build = read_build(
                file,
                metadata,
                self.pages.reader,
                os=platform.os,
                machine=platform.machine,
                environment=self.target.marker_environment,
            )
        except AnswerIsNo as error:
            return JudgedBuild(file=file, build=_unreadable(file, metadata.version), verdict=_unread(error))
        triton = None if self.target.cpu else self.triton.required_by(build.triton, file.page.label)
        verdict = judge(build, self.target, triton=triton, policy=self.policy)
        return JudgedBuild(file=file, build=build, verdict=verdict, triton=triton)


@lru_cache(maxsize=4096)
def _release(version: Version) -> Version:
    """A version without its local part."""
    return Version(version.public)


@cache
def _triton_of(specifier: str, pythons: str | None, python: str) -> Requirement | None:
    if pythons and not SpecifierSet(pythons).contains(Version(python)):
        return None
    return Requirement(f"triton{specifier}")


@cache
def _rows(os: str, machine: str) -> dict[tuple[Version, str], TorchRow]:
    """(release, label or the main index) -> what the table says of the build; of several rows the first."""
    found: dict[tuple[Version, str], TorchRow] = {}
    for row in facts.torch_rows():
        if (row.os, row.machine) == (os, machine):
            for place in ([_MAIN] if row.on_main else []) + ([row.label] if row.label is not None else []):
                found.setdefault((row.version, place), row)
    return found


def _public(wish: VersionWish) -> VersionWish:
    """The wish as it speaks of releases: without local parts, and without the existing pin."""
    if not wish.names_local:
        return VersionWish(specifiers=wish.specifiers, prereleases=wish.prereleases)
    text = re.sub(r"\+[A-Za-z0-9._-]+", "", str(wish.specifiers))
    return VersionWish(specifiers=SpecifierSet(text), prereleases=wish.prereleases)


def _place(page: PageRef) -> str:
    return f"{page.index}/{page.label}" if page.label else page.index


def _unreadable(file: IndexFile, version: Version) -> Build:
    return Build(
        version=version,
        cuda=None,
        architectures=(),
        source=file.page.index,
        label=file.page.label,
        origin=file.filename,
    )


def _unread(error: AnswerIsNo) -> Verdict:
    return Verdict(refusals=(Reason(rule="R2", code=error.code, sentence=error.message, facts=dict(error.details)),))
