"""What both halves of the faithful copy share: metadata and texts stored once, dates, what is assumed and why."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from faithful.names import epoch, extras_of
from faithful.plain import PLAIN
from faithful.torch_builds import TorchFacts, minor

HERE = Path(__file__).parent
LABEL_PAGES = (
    "cpu",
    "cu117",
    "cu118",
    "cu121",
    "cu124",
    "cu126",
    "cu128",
    "cu129",
    "cu130",
    "cu132",
    "cu134",
    "rocm7.2",
    "rocm6.3",
    "xpu",
)
FAMILY = ("torch", "torchvision", "torchaudio", "torchcodec", "torchao", "xformers", "triton", "pytorch-triton")
# Mirrored pages of foreign projects (pytorch.md 1): live for the labels still made, frozen to the oldest files elsewhere.
LINKED = (
    "filelock",
    "sympy",
    "mpmath",
    "pillow",
    "networkx",
    "numpy",
    "fsspec",
    "typing-extensions",
    "cuda-bindings",
    "cuda-pathfinder",
    "cuda-toolkit",
)
RELEASED = {  # first commit of the release matrix that names it; 2.14.0 on: assumed
    "1.13.0": "2022-10-28", "2.14.0": "2026-09-02", "2.14.1": "2026-10-14", "2.15.0": "2026-11-18",
}  # fmt: skip
XFORMERS_TORCH = {
    "0.0.22.post7": "2.1.0",
    "0.0.23.post1": "2.1.2",
    "0.0.24": "2.2.0",
    "0.0.29.post1": "2.5.1",
    "0.0.33": "2.9.0",
}
ASSUMED = {
    "matrix": "release_matrix_test_infra.json and pytorch.md 2: built for this release; no lock recorded the file",
    "2.14.1": "pytorch.md 2: 2.14.x has cu126 cu130 cu132; no file of 2.14.1 was recorded",
    "2.15.0": "pytorch.md 2: the wheel's table names 13.0 13.2 13.4, CUDA 12 dropped (RFC pytorch#190385); promotion not verified",
    "companion": "companion of a torch build with that label; no lock recorded the file",
    "root": "triton lies in the root of the index since 3.1; no lock recorded the file",
}


class Collector:
    """Collects metadata, architectures and file rows, each text stored once."""

    def __init__(self, facts: Path) -> None:
        self.facts = facts
        self.torch = TorchFacts(facts)
        self.requires = json.loads((facts / "pypi_requires.json").read_text())
        self.closure = json.loads((HERE / "closure.json").read_text())["packages"]
        self.metadata: dict[str, int] = {}
        self.texts: dict[str, int] = {}
        self.main: defaultdict[str, list[list[Any]]] = defaultdict(list)
        self.pytorch: defaultdict[str, defaultdict[str, list[list[Any]]]] = defaultdict(lambda: defaultdict(list))
        self.seen: set[tuple[str, str]] = set()

    def metadata_id(
        self,
        name: str,
        requires: list[str],
        requires_python: str | None,
        extras: list[str],
        dynamic: tuple[str, ...] = (),
    ) -> int:
        text = json.dumps([name, requires_python, requires, extras, list(dynamic)])
        return self.metadata.setdefault(text, len(self.metadata))

    def text_id(self, text: str | None) -> int:
        return -1 if text is None else self.texts.setdefault(text, len(self.texts))

    def index_metadata(self, name: str, version: str, label: str, platform: str, python: str) -> int:
        """Metadata of a file of the PyTorch index; companions name torch without a local part."""
        base = version.split("+", maxsplit=1)[0]
        if name == "torch":
            if base not in self.torch.releases:
                return self.metadata_id(name, [], None, [])
            requires = self.torch.index_requires(base, label, platform, python)
            return self.metadata_id(name, requires, self.torch.requires_python(base), extras_of(requires))
        known = self.requires.get(name, {}).get("packages", {}).get(name, {})
        if base in known:
            reference = known[base]["by_platform"][known[base]["reference"]]
            return self.metadata_id(
                name, reference["requires_dist"], reference["requires_python"], extras_of(reference["requires_dist"])
            )
        plain = {(row.name, row.version): row for row in PLAIN}.get((name, base))
        if plain:
            return self.metadata_id(name, list(plain.requires), plain.requires_python, [])
        requires = [f"torch=={XFORMERS_TORCH[base]}", "numpy"] if base in XFORMERS_TORCH and name == "xformers" else []
        return self.metadata_id(name, requires, None, [])

    def released(self, version: str) -> int:
        nearest = version if version in RELEASED or version in self.torch.matrix else f"{minor(version)}.1"
        return epoch(RELEASED.get(version) or self.torch.matrix[nearest]["date"])

    def torch_of(self, project: str, version: str, requires: list[str]) -> str:
        """The release of torch whose date a companion's files get."""
        for release in reversed(self.torch.versions()):
            triton = self.torch.main_requires(release, "manylinux_2_28_x86_64", "cp311")
            if project == "triton" and any(
                r.startswith("triton") and Requirement(r).specifier.contains(version) for r in triton
            ):
                return release
            if any(str(Requirement(r)) == f"torch=={release}" for r in requires):
                return release
        late = project == "vllm" or (project, version) in {
            ("torchvision", "0.29.1"),
            ("torchvision", "0.29.2"),
            ("torchaudio", "2.11.1"),
        }
        return "2.14.1" if late else "2.11.0"
