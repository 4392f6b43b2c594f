"""Source distributions that cannot be asked for their requirements before torch is in: ``data/source_builds.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cudalock.facts.loader import Row, cached, table

__all__ = ["SourceBuild", "source_builds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBuild:
    """What is known of a project whose build imports torch.

    Attributes:
        project: its normalized name.
        requires: what the built wheel declares, as requirements.
        build_requires: what must be installed beside torch for the build.
        source: where it was read.
    """

    project: str
    requires: tuple[str, ...]
    build_requires: tuple[str, ...]
    source: str


def _build(name: str, row: Row) -> SourceBuild:
    return SourceBuild(
        project=name,
        requires=row.texts("requires"),
        build_requires=row.texts("build_requires"),
        source=row.source,
    )


@cached
def source_builds() -> Mapping[str, SourceBuild]:
    """The projects by normalized name.

    Source: their source distributions, see ``data/source_builds.toml``.
    """
    rows = table("source_builds").by_key("build", lambda row: row.text("project"))
    return {name: _build(name, row) for name, row in rows.items()}
