"""Names of wheels and source distributions, taken apart only as far as is needed and only once.

A page of a large project lists thousands of files, of which resolution looks at a few: version and tags are parsed
when they are asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from packaging.tags import Tag, parse_tag
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

__all__ = ["FileName", "parse_file_name", "parse_version"]

_BUILD = re.compile(r"(\d{1,18})(.*)")


@dataclass(frozen=True, slots=True)
class FileName:
    """The parts of a distribution's file name.

    Attributes:
        version: of the distribution, local part included.
        build: the wheel's build tag as a sortable pair, ``(0, "")`` where there is none.
        tag_text: the wheel's compressed tags (``cp312-cp312-manylinux_2_28_x86_64``), empty for a source distribution.
    """

    version: Version
    build: tuple[int, str] = (0, "")
    tag_text: str = ""

    @property
    def tags(self) -> frozenset[Tag]:
        """All tags of the wheel, compressed sets expanded."""
        return _tags(self.tag_text) if self.tag_text else frozenset()


@lru_cache(maxsize=16384)
def parse_version(text: str) -> Version | None:
    """A PEP 440 version, None if the text is not one."""
    try:
        return Version(text)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _tags(text: str) -> frozenset[Tag]:
    return frozenset(parse_tag(text))


@lru_cache(maxsize=1024)
def _normalized(name: str) -> NormalizedName:
    return canonicalize_name(name)


@lru_cache(maxsize=32768)
def parse_file_name(filename: str, project: NormalizedName) -> FileName | None:
    """The parts of a file's name, None if it is not a distribution of the project or not well-formed."""
    if filename.endswith(".whl"):
        return _parse_wheel(filename[: -len(".whl")].split("-"), project)
    for extension in (".tar.gz", ".zip"):
        if filename.endswith(extension):
            name, _, version_text = filename[: -len(extension)].rpartition("-")
            version = parse_version(version_text)
            return FileName(version) if version is not None and _normalized(name) == project else None
    return None


def _parse_wheel(parts: list[str], project: NormalizedName) -> FileName | None:
    if len(parts) not in {5, 6} or _normalized(parts[0]) != project:
        return None
    version = parse_version(parts[1])
    if version is None:
        return None
    build = (0, "")
    if len(parts) == 6:
        match = _BUILD.fullmatch(parts[2])
        if match is None:
            return None
        build = (int(match[1]), match[2])
    return FileName(version, build, "-".join(parts[-3:]))
