"""What each build of torch requires and which architectures are in it, from the facts folder.

The main index's own metadata is recorded fact. For the builds of the PyTorch index the plain requirements are those of
the same release on the main index, and the CUDA part is taken from what public locks resolved (``lock_pins``), from
``monobase``'s pins, or, from 2.11 on, put together from the cuda-toolkit release of the label (facts/pytorch.md 2).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

__all__ = ["TorchFacts", "is_cuda_part"]

_ON_LINUX = 'platform_system == "Linux"'
_ON_LINUX_X86 = f'{_ON_LINUX} and platform_machine == "x86_64"'
_TOOLKIT = {"cu126": "12.6.3", "cu128": "12.8.1", "cu129": "12.9.1", "cu132": "13.2.1", "cu134": "13.4.3"}
_LATE_CU12 = {  # cudnn, cusparselt, nccl, nvshmem where no lock was found (pytorch.md 2: 2.14.0 cu126)
    "cu126": ("9.10.2.21", "0.7.1", "2.29.3", "3.4.5"),
    "cu128": ("9.19.0.56", "0.7.1", "2.28.9", "3.4.5"),
    "cu129": ("9.20.0.48", "0.8.1", "2.29.7", "3.4.5"),
}
_SEPARATE = ("nvidia-cudnn", "nvidia-cusparselt", "nvidia-nccl", "nvidia-nvshmem")
LABELS: dict[str, tuple[str, ...]] = {
    "1.13": ("cu117",),
    "2.0": ("cu117", "cu118"),
    "2.1": ("cu118", "cu121"),
    "2.2": ("cu118", "cu121"),
    "2.3": ("cu118", "cu121"),
    "2.4": ("cu118", "cu121", "cu124"),
    "2.5": ("cu118", "cu121", "cu124"),
    "2.6": ("cu118", "cu124", "cu126"),
    "2.7": ("cu118", "cu126", "cu128"),
    "2.8": ("cu126", "cu128", "cu129"),
    "2.9": ("cu126", "cu128", "cu129", "cu130"),
    "2.10": ("cu126", "cu128", "cu129", "cu130"),
    "2.11": ("cu126", "cu128", "cu129", "cu130"),
    "2.12": ("cu126", "cu129", "cu130", "cu132"),
    "2.13": ("cu126", "cu129", "cu130", "cu132"),
    "2.14": ("cu126", "cu130", "cu132"),
    "2.15": ("cu130", "cu132", "cu134"),
}


def is_cuda_part(requirement: str) -> bool:
    """Whether a requirement of torch is there for CUDA: nvidia wheels, cuda-toolkit, cuda-bindings, triton."""
    return Requirement(requirement).name.startswith(("nvidia-", "cuda-", "triton", "pytorch-triton"))


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


class TorchFacts:
    """Answers questions about releases and builds of torch from the facts folder."""

    def __init__(self, facts: Path) -> None:
        self.releases: dict[str, Any] = json.loads((facts / "pypi_requires.json").read_text())["torch"]["torch"]
        self.variants: dict[str, Any] = json.loads((facts / "torch_variants.json").read_text())
        arch = json.loads((facts / "torch_arch_lists.json").read_text())
        self.arch_rows: list[dict[str, Any]] = arch["build_arch_lists"]
        self.arch_flags: dict[str, Any] = arch["pypi_binary_arch_flags"]
        self.matrix: dict[str, Any] = json.loads((facts / "release_matrix_test_infra.json").read_text())["releases"]

    def versions(self) -> list[str]:
        return sorted(self.releases, key=Version)

    def default_label(self, version: str) -> str:
        """The label whose CUDA the main index's own x86_64 build has."""
        return next(str(k) for k, v in self.variants[version].items() if v.get("pypi_default_linux_x86_64"))

    def requires_python(self, version: str) -> str:
        return str(self.releases[version]["by_platform"]["linux_x86_64"]["requires_python"])

    def main_requires(self, version: str, platform: str, python: str) -> list[str]:
        """Requires-Dist of the main index's own wheel; ``platform`` is a platform tag, ``python`` an ABI tag."""
        by_platform = self.releases[version]["by_platform"]
        reference = list(by_platform[self.releases[version]["reference"]]["requires_dist"])
        key = platform_key(platform)
        later = f"{key}@py3.12"
        if later in by_platform and python.startswith(("cp312", "cp313")):
            key = later
        if key not in by_platform:  # 1.13: only linux x86_64 was read; the others hold no CUDA part
            return [line for line in reference if not is_cuda_part(line)]
        entry = by_platform[key]
        return reference if entry.get("requires_dist_same_as_linux_x86_64") else list(entry["requires_dist"])

    def index_requires(self, version: str, label: str, platform: str, python: str) -> list[str]:
        """Requires-Dist of the PyTorch index's build with that label."""
        lines = self.main_requires(version, platform, python)
        plain = [line for line in lines if not is_cuda_part(line)]
        if not label.startswith("cu"):
            return plain
        old = Version(version) < Version("2.4") and not platform.endswith("x86_64")
        old_arm = Version(version) < Version("2.7") and platform.endswith("aarch64")
        if old or old_arm or platform.startswith("macosx"):
            return plain
        linux = self.main_requires(version, "manylinux_2_28_x86_64", python)
        return plain + self._cuda_part(version, label, linux)

    def _cuda_part(self, version: str, label: str, linux: list[str]) -> list[str]:
        release = Version(version)
        triton = [line for line in linux if Requirement(line).name == "triton"]
        if release < Version("2.2"):
            return triton  # these builds bundle CUDA (facts: poetry and monobase pins hold triton alone)
        if label == self.default_label(version):
            return [line for line in linux if is_cuda_part(line)]
        if release < Version("2.11"):
            pins = self._pins(version, label)
            return [f"{name}=={pin}; {_ON_LINUX_X86}" for name, pin in sorted(pins.items())] + triton
        toolkit = "13.2.2" if (label, minor(version)) == ("cu132", "2.15") else self._toolkit(version, label)
        extras = "cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx"
        part = [f"cuda-toolkit[{extras}]=={toolkit}; {_ON_LINUX}"]
        if label.startswith("cu13"):
            separate = [line for line in linux if Requirement(line).name.startswith((*_SEPARATE, "cuda-bindings"))]
            return part + separate + triton
        votes = {
            name: ranks[0][0] for name, ranks in self.variants[version].get(label, {}).get("lock_pins", {}).items()
        }
        bindings = next(Requirement(line) for line in linux if Requirement(line).name == "cuda-bindings")
        part.append(f"cuda-bindings<13,>=12.9.4; {bindings.marker}")
        for name, fallback in zip(_SEPARATE, _LATE_CU12[label], strict=True):
            part.append(f"{name}-cu12=={votes.get(f'{name}-cu12', fallback)}; {_ON_LINUX}")
        return part + triton

    def _toolkit(self, version: str, label: str) -> str:
        if label == "cu130":
            return "13.0.2" if Version(version) < Version("2.13") else "13.0.3"
        return _TOOLKIT[label]

    def _pins(self, version: str, label: str) -> dict[str, str]:
        """Exact pins of the CUDA part, without triton; those of the nearest release where none were recorded."""
        nearest = sorted(self.releases, key=lambda v: _distance(Version(version), Version(v)))
        for candidate in nearest:
            variant = self.variants[candidate].get(label, {})
            votes = {name: ranks[0][0] for name, ranks in variant.get("lock_pins", {}).items()}
            pins = votes or variant.get("monobase", {}).get("direct_pins", {})
            chosen = {name: pin for name, pin in pins.items() if name.startswith(("nvidia", "cuda"))}
            if chosen:
                return chosen
        raise LookupError(f"no pins for torch {version} {label}")

    def main_architectures(self, version: str, platform: str) -> str | None:
        """The text in the main index's wheel, None for a CPU build."""
        machine = platform.rsplit("_", 1)[-1] if "aarch64" in platform else "x86_64"
        if not platform.startswith(("manylinux", "linux")):
            return None
        entry = self.arch_flags.get(f"{version}-{machine}")
        return None if entry is None else str(entry["flags"])

    def index_architectures(self, version: str, label: str, platform: str) -> str | None:
        """The text in the build of that label; of the nearest release with the label where no row is recorded."""
        if not label.startswith("cu"):
            return None
        key = platform_key(platform)
        if key == "linux_x86_64" and label == self.default_label(version):
            return self.main_architectures(version, platform)
        rows = [row for row in self.arch_rows if row["cuda"] == label and key in row["platform"]]
        if not rows:  # Windows builds without a row of their own: the Linux list, and 6.1 as in their siblings
            rows = [row for row in self.arch_rows if row["cuda"] == label and "linux_x86_64" in row["platform"]]
        if not rows:
            return None
        wanted = Version(version)
        later = reversed(rows)  # of two that are as near the later one: architectures are dropped, not added
        nearest = min(later, key=lambda row: _distance(wanted, Version(row["torch"])))
        return " ".join(
            [f"sm_{_number(cc)}" for cc in nearest["arch"]] + [f"compute_{_number(cc)}" for cc in nearest["ptx"]]
        )


def _distance(wanted: Version, row: Version) -> tuple[int, int]:
    return abs(wanted.major * 100 + wanted.minor - row.major * 100 - row.minor), abs(wanted.micro - row.micro)


def _number(capability: str) -> int:
    return int(capability.replace(".", ""))


def platform_key(platform: str) -> str:
    """Platform tag -> key of ``by_platform`` in the facts."""
    if platform.startswith("macosx"):
        return "macos_arm64"
    if platform.startswith("win"):
        return "win_amd64"
    machine = re.search(r"(x86_64|aarch64)", platform)
    return f"linux_{machine[1]}" if machine else platform
