"""What a chosen file says of itself: its metadata, however it is had, and what in it forbids the file."""

from __future__ import annotations

from dataclasses import replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cudalock import facts
from cudalock.candidates import TORCH, Candidate
from cudalock.errors import UsageError
from cudalock.index.model import CoreMetadata, IndexFile
from cudalock.resolve.context import Context

__all__ = ["problem_of", "read_metadata"]


def read_metadata(context: Context, file: IndexFile) -> CoreMetadata:
    """The metadata of a wheel or source distribution.

    A source distribution's is what it states statically, else what the table knows of a project whose build imports
    torch (asking that build is no use), else what its build answers. One that requires torch is built in the
    environment itself, after torch: what its build needs is then required like anything else.

    Raises:
        UsageError: ``build-metadata-unknown``, if nothing is known and no build can be asked.
        ToolError: its build was asked and failed.
        TransportError: the index does not deliver it.
    """
    metadata = context.pages.reader.metadata(file)
    if file.kind != "sdist":
        return metadata
    known = facts.source_builds().get(metadata.name)
    if known is not None:
        requires = {Requirement(text) for text in (*known.requires, *known.build_requires)}
        if "requires-dist" not in metadata.dynamic:
            requires |= set(metadata.requires)
        return replace(metadata, requires=tuple(sorted(requires, key=str)), dynamic=frozenset())
    return _with_tools(metadata, metadata if "requires-dist" not in metadata.dynamic else _asked(context, file))


def _with_tools(stated: CoreMetadata, found: CoreMetadata) -> CoreMetadata:
    if not any(canonicalize_name(requirement.name) == TORCH for requirement in found.requires):
        return found
    tools = [tool for tool in stated.build_requires if canonicalize_name(tool.name) != TORCH]
    return replace(found, requires=(*found.requires, *tools))


def _asked(context: Context, file: IndexFile) -> CoreMetadata:
    if context.options.build_metadata is not None:
        return context.options.build_metadata(file)
    raise UsageError(
        "build-metadata-unknown",
        f"{file.filename} does not state its requirements without being built",
        hint=f"give a wheel of it ({file.page.project} @ https://.../WHEEL), or leave {file.page.project} out",
        details={"file": file.filename},
    )


def problem_of(context: Context, candidate: Candidate, metadata: CoreMetadata) -> str | None:
    """What in the metadata forbids the candidate."""
    filename = candidate.file.filename
    if metadata.name != candidate.name or metadata.version.public != candidate.version.public:
        return f"{filename} says of itself that it is {metadata.name} {metadata.version}"
    if not metadata.requires_python.contains(context.rules.python, prereleases=True):
        return f"{filename} requires Python {metadata.requires_python}, not {context.rules.python}"
    if candidate.file.page.index != "direct":
        linked = next((str(r) for r in metadata.requires if r.url and context.holds(r.marker)), None)
        if linked is not None:
            return f"{filename} requires a file by its URL ({linked}), which a package on an index may not"
    return None
