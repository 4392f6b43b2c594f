"""Refreshes data/torch.toml and data/triton.toml from the package indexes.

    python data/update.py              prints a unified diff of what would change
    python data/update.py --write      writes it
    python data/update.py --labels     reads inferred rows of the PyTorch index's labels too (about 10 MB a wheel)

Read by ranged requests out of the wheels themselves: the CUDA version and architectures of releases of torch that
the table does not know, torch's requirement on triton, and the assemblers in new releases of triton. Rows that were
written by hand are kept unless a wheel says otherwise.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packaging.version import Version

    from cudalock.builds import Build
    from cudalock.index.model import IndexFile, IndexReader
    from cudalock.versions import Architecture

DATA = Path(__file__).resolve().parent
PLATFORMS = {
    "linux-x86_64": ("linux", "x86_64"),
    "linux-aarch64": ("linux", "aarch64"),
    "win-amd64": ("windows", "x86_64"),
}
_ORDER = {name: number for number, name in enumerate(PLATFORMS)}


# --- rows: pure functions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a wheel of torch said: the row of a build, and its requirement on triton."""

    place: str
    platform: str
    cuda: str
    code: str
    triton: str | None = None
    triton_python: str | None = None

    @property
    def row(self) -> list[str]:
        """The row as it stands in the table."""
        return [self.place, self.platform, self.cuda, self.code, "wheel", "BINARY" if self.code else "CPU"]


@dataclass(slots=True)
class TorchTable:
    """data/torch.toml: what is written by hand above the releases, and the releases."""

    head: str
    releases: list[dict[str, Any]] = field(default_factory=list)


def parse_torch(text: str) -> TorchTable:
    """Splits the table into its hand-written head and its releases."""
    head = text.partition("\n[[release]]\n")[0]
    return TorchTable(f"{head}\n", tomllib.loads(text).get("release", []))


def render_torch(table: TorchTable) -> str:
    """The table as text; parsing it again gives the same table."""
    return table.head + "\n".join(render_release(release) for release in table.releases)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def render_release(release: Mapping[str, Any]) -> str:
    """One release as text."""
    lines = ["[[release]]", f"version = {_quoted(release['version'])}"]
    lines += [f"{key} = {_quoted(release[key])}" for key in ("triton", "triton_python") if release.get(key)]
    if release.get("triton_on"):
        places = ", ".join(f"{key} = [{', '.join(map(_quoted, it))}]" for key, it in release["triton_on"].items())
        lines.append(f"triton_on = {{ {places} }}")
    lines.append(f"source = {_quoted(release['source'])}")
    builds = [f"  [{', '.join(map(_quoted, build))}]," for build in release["builds"]]
    return "\n".join([*lines, "builds = [", *builds, "]", ""])


def short_code(architectures: Iterable[Architecture]) -> str:
    """Architectures in the short form of the table: ``75 80 90a ptx120``."""
    ordered = sorted(architectures, key=lambda it: (it.ptx, it.capability, it.suffix))
    return " ".join(f"{'ptx' if it.ptx else ''}{it.capability.number}{it.suffix}" for it in ordered)


def _build_order(build: Sequence[str]) -> tuple[int, int, str]:
    kind = 0 if build[0] == "main" else 2 if build[0] == "cpu" else 1
    return kind, _ORDER[build[1]], build[0]


def merge_builds(builds: Iterable[Sequence[str]], measured: Iterable[Measured]) -> list[list[str]]:
    """The builds with the measured ones in place of what stood there, in the order of the table."""
    merged = {(build[0], build[1]): list(build) for build in builds}
    for found in measured:
        merged[found.place, found.platform] = found.row
    return sorted(merged.values(), key=_build_order)


def merge_release(release: Mapping[str, Any] | None, version: str, measured: Sequence[Measured]) -> dict[str, Any]:
    """A release with what its wheels said; ``release`` is None if the table does not have it yet."""
    merged: dict[str, Any] = dict(release or {"version": version, "source": "METADATA", "builds": []})
    merged["builds"] = merge_builds(merged["builds"], measured)
    with_triton = [found for found in measured if found.triton]
    if with_triton:
        merged["triton"] = with_triton[0].triton
        if with_triton[0].triton_python:
            merged["triton_python"] = with_triton[0].triton_python
        places = {key: set(value) for key, value in merged.get("triton_on", {}).items()}
        for found in with_triton:
            places.setdefault(found.platform, set()).update({"labels", found.place} & {"main", "labels"})
        merged["triton_on"] = {
            key: [kind for kind in ("main", "labels") if kind in places[key]] for key in PLATFORMS if key in places
        }
    return merged


def merge_releases(
    table: TorchTable, measured: Mapping[str, Sequence[Measured]], key: Callable[[str], Any]
) -> TorchTable:
    """The table with all that was measured, by version; ``key`` orders versions."""
    known = {release["version"]: release for release in table.releases}
    for version, found in measured.items():
        if found:
            known[version] = merge_release(known.get(version), version, found)
    return TorchTable(table.head, [known[version] for version in sorted(known, key=key)])


def triton_line(version: str, assemblers: Mapping[str, str], blackwell_from: int | None) -> str:
    """One release of triton as a line of the table."""
    parts = [f"versions = [{_quoted(version)}]", f"ptxas = {_quoted(assemblers['ptxas'])}"]
    if "ptxas-blackwell" in assemblers and blackwell_from is not None:
        parts.append(f"ptxas_blackwell = {_quoted(assemblers['ptxas-blackwell'])}")
        parts += [f"blackwell_from = {blackwell_from}", 'blackwell_override = "TRITON_PTXAS_BLACKWELL_PATH"']
    return f"  {{ {', '.join(parts)}, source = {_quoted('WHEEL')} }},"


def add_lines(text: str, section: str, lines: Iterable[str]) -> str:
    """The text with lines added at the end of the list ``section = [ ... ]``."""
    start = text.index(f"\n{section} = [\n")
    end = text.index("\n]\n", start) + 1
    return text[:end] + "".join(f"{line}\n" for line in lines) + text[end:]


def python_bound(marker: str) -> str | None:
    """The upper bound on Python in a marker, as the table states it: ``python_version < "3.16"`` -> ``<3.16``."""
    found = re.search(r"python(?:_full)?_version\s*<\s*['\"](\d+\.\d+)", marker)
    return f"<{found[1]}" if found else None


# --- what the indexes say ----------------------------------------------------------------------------------------


def _platform_of(filename: str) -> str | None:
    from cudalock.builds import platform_of

    found = platform_of(filename)
    return next((name for name, pair in PLATFORMS.items() if pair == found), None)


def _wheels(files: Iterable[IndexFile]) -> dict[Version, dict[str, IndexFile]]:
    """For every final release one wheel a platform: Python and ABI do not change what the rows hold."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import InvalidVersion, Version

    chosen: dict[Version, dict[str, IndexFile]] = {}
    for file in files:
        try:
            version = parse_wheel_filename(file.filename)[1]
        except (InvalidWheelFilename, InvalidVersion):
            continue
        platform = _platform_of(file.filename)
        if platform is None or version.is_prerelease or version.is_devrelease or file.yanked:
            continue
        release = chosen.setdefault(Version(version.public), {})
        if platform not in release or "cp312" in file.filename:
            release[platform] = file
    return chosen


def _environment(platform: str) -> dict[str, str]:
    from packaging.markers import default_environment

    os, machine = PLATFORMS[platform]
    environment = {key: str(value) for key, value in default_environment().items()}
    windows = os == "windows"
    environment |= {
        "sys_platform": "win32" if windows else "linux",
        "platform_system": "Windows" if windows else "Linux",
        "os_name": "nt" if windows else "posix",
        "platform_machine": "AMD64" if windows else machine,
        "python_version": "3.12",
        "python_full_version": "3.12.0",
    }
    return environment


def _measure(file: IndexFile, place: str, platform: str, reader: IndexReader) -> Measured:
    from cudalock.builds import read_build

    metadata = reader.metadata(file)
    os, machine = PLATFORMS[platform]
    build: Build = read_build(
        file, metadata, reader, os=os, machine=machine, environment=_environment(platform), require_wheel=True
    )
    triton = build.triton
    return Measured(
        place=place,
        platform=platform,
        cuda=str(build.cuda) if build.cuda else "cpu",
        code=short_code(build.architectures),
        triton=str(triton.specifier) if triton is not None else None,
        triton_python=python_bound(str(triton.marker)) if triton is not None and triton.marker else None,
    )


def measure_torch(table: TorchTable, reader: IndexReader) -> dict[str, list[Measured]]:
    """What the main index's wheels of releases newer than the table say."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from cudalock.index.model import PageRef

    newest = max(Version(release["version"]) for release in table.releases)
    page = reader.page(PageRef("main", canonicalize_name("torch")))
    return {
        str(version): [_measure(file, "main", platform, reader) for platform, file in sorted(wheels.items())]
        for version, wheels in _wheels(page.files).items()
        if version > newest
    }


def measure_labels(table: TorchTable, reader: IndexReader) -> dict[str, list[Measured]]:
    """What the PyTorch index's wheels say where the table's row is inferred."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from cudalock.index.model import PageRef

    wanted: dict[str, list[tuple[str, str]]] = {}
    for release in table.releases:
        for build in release["builds"]:
            if build[4] == "inferred":
                wanted.setdefault(build[0], []).append((release["version"], build[1]))
    found: dict[str, list[Measured]] = {}
    for label, rows in wanted.items():
        page = reader.page(PageRef("pytorch", canonicalize_name("torch"), label))
        wheels = _wheels(file for file in page.files if f"/{label}/" in file.url)
        for version, platform in rows:
            file = wheels.get(Version(version), {}).get(platform)
            if file is None:
                print(f"torch {version}+{label} for {platform}: not on the index", file=sys.stderr)
            else:
                found.setdefault(version, []).append(_measure(file, label, platform, reader))
    return found


def measure_triton(text: str, reader: IndexReader) -> list[str]:
    """Lines for the releases of triton that are newer than the table."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from cudalock.builds import inspect_file
    from cudalock.index.model import PageRef

    known = [Version(version) for row in tomllib.loads(text)["triton"] for version in row["versions"]]
    page = reader.page(PageRef("main", canonicalize_name("triton")))
    lines = []
    for version, wheels in sorted(_wheels(page.files).items()):
        if version > max(known) and (file := wheels.get("linux-x86_64")) is not None:
            found = inspect_file(file, reader)
            if found.assemblers and "ptxas" in found.assemblers:
                lines.append(triton_line(str(version), found.assemblers, found.blackwell_from))
    return lines


# --- the command -------------------------------------------------------------------------------------------------


def diff(path: Path, old: str, new: str) -> str:
    """A unified diff of one table."""
    return "".join(
        difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/data/{path.name}", f"b/data/{path.name}"
        )
    )


def refreshed(folder: Path, reader: IndexReader, *, labels: bool) -> dict[Path, tuple[str, str]]:
    """Both tables before and after."""
    from packaging.version import Version

    torch_path, triton_path = folder / "torch.toml", folder / "triton.toml"
    torch_text, triton_text = torch_path.read_text(encoding="utf-8"), triton_path.read_text(encoding="utf-8")
    table = merge_releases(parse_torch(torch_text), measure_torch(parse_torch(torch_text), reader), Version)
    if labels:
        table = merge_releases(table, measure_labels(table, reader), Version)
    return {
        torch_path: (torch_text, render_torch(table)),
        triton_path: (triton_text, add_lines(triton_text, "triton", measure_triton(triton_text, reader))),
    }


def main(arguments: Sequence[str] | None = None, *, folder: Path = DATA, reader: IndexReader | None = None) -> int:
    """Runs the command; a ``reader`` given is used instead of the configured indexes."""
    parser = argparse.ArgumentParser(description="Refreshes data/torch.toml and data/triton.toml from the indexes.")
    parser.add_argument("--write", action="store_true", help="write the tables (else only print the diff)")
    parser.add_argument("--labels", action="store_true", help="read the PyTorch index where rows are inferred")
    parser.add_argument("--index-url", help="main index instead of the configured one")
    options = parser.parse_args(arguments)
    from cudalock.errors import CudalockError
    from cudalock.index import IndexClient, IndexSettings

    try:
        if reader is not None:
            tables = refreshed(folder, reader, labels=options.labels)
        else:
            with IndexClient(IndexSettings(main_url=options.index_url)) as client:
                tables = refreshed(folder, client, labels=options.labels)
    except CudalockError as error:
        print(f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else []), sep="\n", file=sys.stderr)
        return error.exit_status
    for path, (old, new) in tables.items():
        sys.stdout.write(diff(path, old, new))
        if options.write and new != old:
            tomllib.loads(new)  # never write a table that does not parse
            path.write_text(new, encoding="utf-8")
    if all(old == new for old, new in tables.values()):
        print("the tables are up to date", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
