"""Builds ``index.json.xz``, the faithful copy of both indexes for tests: ``python tests/faithful/build.py FACTS``.

FACTS is the facts folder of the project. Besides it only what is committed here is read: ``closure.json`` (metadata of
the CUDA packages, from the real main index) and ``plain.py``. The result is deterministic. What is recorded and what
is not:

* files of the PyTorch index that public locks recorded, with their true hashes (or none, where the index gave none),
  upload times and hosts; every other file that the release matrix lists is made up for all Pythons of its release and
  marked as assumed, with the source;
* the main index's torch, triton and companions for all recorded tags, with true requirements and, where they were
  read, true hashes; CUDA packages as read by ``closure.py`` for x86_64, their aarch64 files made up beside them;
* vllm keeps of its long closure only what this copy can satisfy.

Left out: macOS, ROCm and XPU but for a few files, cu116, nightlies.
"""

from __future__ import annotations

import json
import lzma
import sys
import tomllib
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from faithful.names import (
    NO_SIDECAR,
    SIDECAR,
    epoch,
    extras_of,
    index_platform,
    machine_of,
    on_arm,
    project_of,
    sidecar_of,
    wheels,
)
from faithful.plain import PLAIN
from faithful.torch_builds import LABELS, TorchFacts, minor

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
TRITON_OF = {"2.14.0": "3.8.0", "2.14.1": "3.8.0", "2.15.0": "3.9.0"}
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


class Builder:
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

    # --- the main index -------------------------------------------------------------------------------------------

    def add_main(
        self, name: str, filename: str, sha256: str | None, metadata: int, time: int, arch: str | None = None
    ) -> None:
        if ("main", filename) not in self.seen:
            self.seen.add(("main", filename))
            self.main[name].append([filename, sha256 or 0, metadata, time, self.text_id(arch)])

    def main_torch(self) -> None:
        for version in self.torch.versions():
            release = self.torch.releases[version]
            for filename, sha256, platform, python in wheels("torch", version, release):
                requires = self.torch.main_requires(version, platform, python)
                metadata = self.metadata_id("torch", requires, self.torch.requires_python(version), extras_of(requires))
                arch = self.torch.main_architectures(version, platform)
                self.add_main("torch", filename, sha256, metadata, self.released(version), arch)

    def main_companions(self) -> None:
        for project in ("triton", "torchvision", "torchaudio", "xformers", "bitsandbytes", "torchao", "vllm"):
            for version, release in self.requires[project]["packages"][project].items():
                reference = release["by_platform"][release["reference"]]
                requires = reference["requires_dist"]
                if project == "vllm":
                    requires = self.reduced(requires)
                metadata = self.metadata_id(project, requires, reference["requires_python"], extras_of(requires))
                time = self.released(self.torch_of(project, version, requires))
                for filename, sha256, _, _ in wheels(project, version, release):
                    self.add_main(project, filename, sha256, metadata, time)
        for version, sdist in self.requires["flash-attn"]["packages"]["flash-attn"].items():
            dynamic = ("requires-dist",) if "requires-dist" in sdist["dynamic"] else ()
            metadata = self.metadata_id("flash-attn", sdist["requires_dist"], sdist["requires_python"][0], [], dynamic)
            self.add_main("flash-attn", sdist["filename"], sdist["sha256"], metadata, self.released("2.8.0"))
            assert version in sdist["filename"]
        for version, torch in (("3.2.0.post19", "2.6.0"), ("3.3.1.post21", "2.7.1"), ("3.4.0.post21", "2.8.0"),
                               ("3.5.1.post23", "2.9.1"), ("3.6.0.post26", "2.11.0"), ("3.7.1.post27", "2.13.0")):  # fmt: skip
            metadata = self.metadata_id("triton-windows", [], ">=3.9,<3.15", [])
            for python in ("cp310", "cp311", "cp312", "cp313", "cp314"):
                filename = f"triton_windows-{version}-{python}-{python}-win_amd64.whl"
                self.add_main("triton-windows", filename, None, metadata, self.released(torch))

    def main_closure(self) -> None:
        for entry in self.closure.values():
            name, requires = project_of(entry["filename"]), entry["requires_dist"]
            if name == "vllm":
                requires = self.reduced(requires)
            metadata = self.metadata_id(name, requires, entry["requires_python"], entry["provides_extra"])
            filename, time = (
                entry["filename"],
                self.released("2.0.0" if "cu11" in name else "2.8.0" if "cu12" in name else "2.9.0"),
            )
            self.add_main(name, filename, entry["sha256"], metadata, time)
            pythons = ("cp310", "cp311", "cp313", "cp314") if "cp312-cp312" in filename else ()
            free = ("cp313-cp313t", "cp314-cp314t") if name == "cuda-bindings" else ()
            others = [filename.replace("cp312-cp312", f"{p}-{p}") for p in pythons] + [
                filename.replace("cp312-cp312", p) for p in free
            ]
            for other in others:
                self.add_main(name, other, None, metadata, time)
            if "-cu11" not in name and "x86_64" in filename and not name.startswith("vllm"):
                for x86 in (filename, *others):
                    self.add_main(name, on_arm(x86), None, metadata, time)

    def main_plain(self) -> None:
        for row in PLAIN:
            dist = row.name.replace("-", "_")
            metadata = self.metadata_id(
                row.name, list(row.requires), row.requires_python, extras_of(list(row.requires))
            )
            time = epoch(f"{row.year}-01-15")
            for tag in row.tags.split():
                pair = {"py3": "py3-none", "abi3": "cp39-abi3"}.get(tag, f"{tag.removesuffix('t')}-{tag}")
                for platform in (
                    "manylinux2014_x86_64.manylinux_2_17_x86_64",
                    "manylinux2014_aarch64.manylinux_2_17_aarch64",
                    "win_amd64",
                    "musllinux_1_2_x86_64",
                ):
                    self.add_main(row.name, f"{dist}-{row.version}-{pair}-{platform}.whl", None, metadata, time)
            if not row.tags:
                self.add_main(row.name, f"{dist}-{row.version}-py3-none-any.whl", None, metadata, time)

    def reduced(self, requires: list[str]) -> list[str]:
        """vllm's requirements without those that this copy does not serve or serves too old."""
        served: defaultdict[str, list[str]] = defaultdict(list)
        for row in PLAIN:
            served[row.name].append(row.version)
        kept = []
        for text in requires:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            optional = requirement.marker is not None and "extra" in str(requirement.marker)
            if not optional and (
                name in {*FAMILY, "nvidia-cutlass-dsl"} or any(requirement.specifier.contains(v) for v in served[name])
            ):
                kept.append(text)
        return kept

    # --- the PyTorch index ----------------------------------------------------------------------------------------

    def add_pytorch(
        self, label: str, name: str, filename: str, metadata: int, *, sha256: str | None = "", time: int = 0,
        sidecar: int = SIDECAR, r2: bool = True, arch: str | None = None, assumed: str | None = None,
    ) -> None:  # fmt: skip
        """``sha256`` "" stands for a made-up hash, None for no hash at all."""
        if (label, filename) in self.seen:
            return
        self.seen.add((label, filename))
        known = 1 if sha256 == "" else sha256 or 0
        mark = -1 if assumed is None else list(ASSUMED).index(assumed)
        self.pytorch[label][name].append([filename, known, metadata, time, sidecar, int(r2), self.text_id(arch), mark])

    def recorded(self) -> None:
        wheels_json = json.loads((self.facts / "pytorch_index_wheels.json").read_text())["wheels"]
        for wheel in sorted(wheels_json, key=lambda w: (w["filename"], w["index"])):
            url = urlsplit(wheel.get("url") or wheel.get("url_inferred") or "")
            parts = url.path.split("/")
            if not url.netloc.endswith("pytorch.org") or parts[1] != "whl" or len(parts) not in {3, 4}:
                continue
            label = parts[2] if len(parts) == 4 else ""
            filename, name = wheel["filename"], canonicalize_name(wheel["name"])
            if (wheel["index"].endswith(".whl") and "url" not in wheel) or label not in ("", *LABEL_PAGES):
                continue
            if label.startswith(("rocm", "xpu")) and "cp312" not in filename:
                continue
            if ("%2B" in filename and "rocm" not in filename) or ("macosx" in filename and "cp312" not in filename):
                continue
            version, platform, python = (
                filename.split("-")[1],
                filename[:-4].split("-")[-1],
                filename[:-4].split("-")[-2],
            )
            metadata = self.index_metadata(name, unquote(version), label, platform, python)
            arch = (
                self.torch.index_architectures(version.split("+")[0], label, platform)
                if name == "torch" and version.split("+")[0] in self.torch.releases
                else None
            )
            time = int(datetime.fromisoformat(wheel["upload_time"]).timestamp()) if wheel.get("upload_time") else 0
            self.add_pytorch(
                label, name, filename, metadata, sha256=wheel.get("sha256"), time=time, sidecar=sidecar_of(name, filename),
                r2=url.netloc.startswith("download-r2"), arch=arch,
            )  # fmt: skip

    def made_torch(self) -> None:
        for version in self.torch.versions():
            release = self.torch.releases[version]
            pythons = {key: tags for tag, tags in release["wheel_tags_on_pypi"].items() if (key := machine_of(tag))}
            assumed = version if version in ASSUMED else "matrix"
            for label in (*LABELS[minor(version)], "cpu"):
                for machine in ("x86_64", "aarch64", "amd64"):
                    platform = index_platform(version, label, machine)
                    if platform is None:
                        continue
                    local = "" if machine == "aarch64" and Version(version) < Version("2.6") else f"+{label}"
                    for tag in pythons.get(machine, []):
                        metadata = self.index_metadata("torch", version, label, platform, tag.split("-")[1])
                        self.add_pytorch(
                            label, "torch", f"torch-{version}{local}-{tag}-{platform}.whl", metadata, time=self.released(version),
                            arch=self.torch.index_architectures(version, label, platform), assumed=assumed,
                            sidecar=sidecar_of("torch", f"torch-{version}"),
                        )  # fmt: skip
                    self.made_companions(version, label, machine, platform)

    def made_companions(self, torch: str, label: str, machine: str, platform: str) -> None:
        for project, bare_until in (("torchvision", "0.24.1"), ("torchaudio", "2.9.1")):
            for version, release in self.requires[project]["packages"][project].items():
                if not self.pairs(project, version, torch, label):
                    continue
                tags = {m: t for tag, t in release["wheel_tags_on_pypi"].items() if (m := machine_of(tag))}.get(
                    machine, []
                )
                bare = machine == "aarch64" and Version(version) <= Version(bare_until)
                metadata = self.index_metadata(project, version, label, platform, "")
                for tag in tags:
                    filename = f"{project}-{version}{'' if bare else f'+{label}'}-{tag}-{platform}.whl"
                    self.add_pytorch(
                        label,
                        project,
                        filename,
                        metadata,
                        time=self.released(torch),
                        assumed="companion",
                        sidecar=sidecar_of(project, filename),
                    )

    def pairs(self, project: str, version: str, torch: str, label: str) -> bool:
        """Whether the label's page gets that release of a companion because of that release of torch."""
        if project == "torchvision" and version in {"0.29.1", "0.29.2"}:
            return torch == {"0.29.1": "2.14.1", "0.29.2": "2.15.0"}[version]
        if project == "torchaudio" and version == "2.11.0":
            return torch == "2.11.0"  # no cu132 wheel (pytorch.md 1, known quirks)
        if project == "torchaudio" and version == "2.11.1":
            return torch == "2.14.1"
        requires = self.requires[project]["packages"][project][version]
        return f"torch=={torch}" in [
            str(Requirement(r)) for r in requires["by_platform"][requires["reference"]]["requires_dist"]
        ]

    def made_xformers(self) -> None:
        """xformers' releases lie, under one bare name, on the pages of the labels of the torch that they pin."""
        for version, release in self.requires["xformers"]["packages"]["xformers"].items():
            torch = {"0.0.35": "2.11.0"}.get(version) or self.torch_of(
                "xformers", version, release["by_platform"]["linux_x86_64"]["requires_dist"]
            )
            metadata = self.index_metadata("xformers", version, "", "", "")
            for label in (name for name in LABELS[minor(torch)] if name not in {"cu118", "cu129"}):
                for filename, _, _, _ in wheels("xformers", version, release):
                    self.add_pytorch(
                        label,
                        "xformers",
                        filename,
                        metadata,
                        time=self.released(torch),
                        assumed="companion",
                        sidecar=NO_SIDECAR,
                    )

    def made_triton(self) -> None:
        for version in ("3.5.0", "3.5.1", "3.6.0", "3.7.0", "3.7.1", "3.8.0", "3.9.0"):
            release = self.requires["triton"]["packages"]["triton"][version]
            reference = release["by_platform"][release["reference"]]
            metadata = self.metadata_id("triton", reference["requires_dist"], reference["requires_python"], [])
            for platform, tags in release["wheel_tags_on_pypi"].items():
                for tag in tags:
                    self.add_pytorch(
                        "",
                        "triton",
                        f"triton-{version}-{tag}-{platform}.whl",
                        metadata,
                        assumed="root",
                        time=self.released("2.9.0"),
                    )

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

    # --- dates and output -----------------------------------------------------------------------------------------

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

    def links(self) -> dict[str, dict[str, int]]:
        """label -> project -> how many of the main index's files its mirrored page lists."""
        projects = [*LINKED, *(p for p in self.main if p.startswith("nvidia-"))]
        live = ("cu126", "cu128", "cu129", "cu130", "cu132", "cu134")
        pages = {
            label: dict.fromkeys(projects, 10_000 if label in live else 2)
            for label in ("cpu", "cu118", "cu121", "cu124", *live)
        }
        del pages["cu134"]["cuda-pathfinder"]  # was missing there (test-infra 80e5be824)
        return pages

    def assemblers(self) -> dict[str, list[Any]]:
        """triton release -> version of ptxas, of ptxas-blackwell, first architecture of the latter."""
        rows = tomllib.loads((self.facts / "triton.toml").read_text())["triton"]
        return {
            v: [row["ptxas"], row.get("ptxas_blackwell"), row.get("blackwell_from")]
            for row in rows
            for v in row["versions"]
        }

    def document(self) -> dict[str, Any]:
        self.main_torch()
        self.main_companions()
        self.main_closure()
        self.main_plain()
        self.recorded()
        self.made_torch()
        self.made_xformers()
        self.made_triton()
        return {
            "schema": 1,
            "metadata": [json.loads(text) for text in self.metadata],
            "texts": list(self.texts),
            "assumed": list(ASSUMED.values()),
            "triton": self.assemblers(),
            "main": {name: sorted(files) for name, files in sorted(self.main.items())},
            "pytorch": {
                label: {n: sorted(f, key=str) for n, f in sorted(pages.items())}
                for label, pages in sorted(self.pytorch.items())
            },
            "labels": list(LABEL_PAGES),
            "links": self.links(),
        }


def main() -> None:
    document = Builder(Path(sys.argv[1])).document()
    raw = json.dumps(document, separators=(",", ":")).encode()
    target = HERE / "index.json.xz"
    target.write_bytes(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME))
    files = (
        sum(len(f) for f in document["main"].values()),
        sum(len(f) for p in document["pytorch"].values() for f in p.values()),
    )
    print(
        f"{files[0]} files on main, {files[1]} on pytorch, {len(document['metadata'])} metadata, {target.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
