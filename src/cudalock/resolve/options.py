"""What resolution can be told beyond the request, and the ports it reaches out through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from packaging.utils import NormalizedName

from cudalock.candidates import PytorchUse
from cudalock.index.model import CoreMetadata, IndexFile

__all__ = ["BuildMetadata", "ResolveOptions"]


class BuildMetadata(Protocol):
    """The port through which the metadata of a source distribution is had by building it."""

    def __call__(self, file: IndexFile) -> CoreMetadata:
        """The metadata that a build of this source distribution would have.

        Raises:
            ToolError: the build backend failed.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveOptions:
    """How to resolve.

    Attributes:
        pytorch: ``auto`` asks the PyTorch index where it may offer a better build and goes on without it where the main
            index alone admits one; ``never`` does not ask it; ``require`` makes it an error if it does not answer.
        sources: project -> name of the index that serves it instead of the main one.
        build_metadata: called for a source distribution that does not declare its requirements statically.
        max_rounds: after so many steps resolution gives up.
    """

    pytorch: PytorchUse = "auto"
    sources: Mapping[NormalizedName, str] = field(default_factory=dict)
    build_metadata: BuildMetadata | None = None
    max_rounds: int = 200_000
