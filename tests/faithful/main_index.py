"""The main index of the faithful copy: torch, its companions, the CUDA packages and plain dependencies."""

from __future__ import annotations

from collections import defaultdict

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from faithful.collect import FAMILY, Collector
from faithful.names import epoch, extras_of, on_arm, project_of, wheels
from faithful.plain import PLAIN


class MainIndex(Collector):
    """Fills ``main``."""

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
                               ("3.5.1.post23", "2.9.1"), ("3.6.0.post26", "2.11.0"), ("3.7.1.post27", "2.13.0"), ("3.8.0.post29", "2.14.1")):  # fmt: skip
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
