"""File names of both indexes: which platform tag, build tag and machine a wheel has, and other small questions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from packaging.utils import canonicalize_name
from packaging.version import Version

from faithful.torch_builds import minor

__all__ = [
    "NO_SIDECAR", "SIDECAR", "WRONG_SIDECAR", "epoch", "extras_of", "index_platform", "machine_of", "on_arm", "project_of",
    "sidecar_of", "wheels",
]  # fmt: skip

SIDECAR, NO_SIDECAR, WRONG_SIDECAR = 1, 0, 2


def wheels(project: str, version: str, release: dict[str, Any]) -> list[tuple[str, str | None, str, str]]:
    """(file name, sha256 or None, platform tag, ABI tag) of every wheel that the main index has, macOS left out."""
    known = {entry["filename"]: entry["sha256"] for entry in release["by_platform"].values()}
    rows = []
    for platform, tags in release["wheel_tags_on_pypi"].items():
        if platform.startswith("macosx"):
            continue
        build = next((parts[2] for f in known if len(parts := f[:-4].split("-")) == 6 and parts[5] == platform), None)
        for tag in tags:
            stem = "-".join([project.replace("-", "_"), version, *([build] if build else []), tag, platform])
            rows.append((f"{stem}.whl", known.get(f"{stem}.whl"), platform, tag.split("-")[1]))
    return rows


def index_platform(version: str, label: str, machine: str) -> str | None:
    """The platform tag of the index's builds, None where there is none of that release, label and machine."""
    release, cuda = Version(version), label.startswith("cu")
    if machine == "amd64":
        gone = (label == "cu129" and release >= Version("2.9")) or label == "cu134"
        return None if gone else "win_amd64"
    if machine == "x86_64":
        modern = release >= Version("2.7") or (release >= Version("2.6") and label in {"cu126", "cpu"})
        return "manylinux_2_28_x86_64" if modern else "linux_x86_64"
    if not cuda:
        return "manylinux_2_28_aarch64" if release >= Version("2.6") else None
    first = {
        "cu124": "2.5.1",
        "cu126": "2.6.0",
        "cu128": "2.7.0",
        "cu129": "2.8.0",
        "cu130": "2.9.0",
        "cu132": "2.12.0",
        "cu134": "2.15.0",
    }
    absent = {("cu126", "2.7"), ("cu126", "2.8"), ("cu128", "2.8"), ("cu124", "2.6"), ("cu124", "2.4")}
    if label not in first or release < Version(first[label]) or (label, minor(version)) in absent:
        return None
    return "linux_aarch64" if release < Version("2.7") else "manylinux_2_28_aarch64"


def machine_of(platform: str) -> str | None:
    if platform.startswith("macosx") or platform == "win_arm64":
        return None
    return next((m for m in ("x86_64", "aarch64", "amd64") if platform.endswith(m)), None)


def sidecar_of(name: str, filename: str) -> int:
    """Sidecars exist since January 2025; jinja2's and mpmath's are wrong (pytorch#197552), torchaudio's cp310 one is our own invention."""
    if name in {"jinja2", "mpmath"} or filename.startswith("torchaudio-2.11.0+cu128-cp310-cp310-manylinux_2_28_x86"):
        return WRONG_SIDECAR
    old = ("torch", "torchvision", "torchaudio")
    if name in old and Version(unquote(filename.split("-")[1])) < Version({"torchvision": "0.20"}.get(name, "2.5")):
        return NO_SIDECAR
    return NO_SIDECAR if name in {"xformers", "numpy", "pillow", "markupsafe"} else SIDECAR


def on_arm(filename: str) -> str:
    """The aarch64 wheel beside an x86_64 one; nothing older than manylinux2014 exists there."""
    stem, platforms = filename.removesuffix(".whl").rsplit("-", 1)
    old = re.search(r"manylinux(1|2010|_2_5|_2_12)_", platforms)
    arm = "manylinux2014_aarch64.manylinux_2_17_aarch64" if old else platforms.replace("x86_64", "aarch64")
    return f"{stem}-{arm}.whl"


def project_of(filename: str) -> str:
    return canonicalize_name(filename.split("-", maxsplit=1)[0])


def extras_of(requires: list[str]) -> list[str]:
    return sorted({m for text in requires for m in re.findall(r"extra == ['\"]([\w-]+)['\"]", text)})


def epoch(date: str) -> int:
    return int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp())
