"""The PyTorch index of the faithful copy: what locks recorded, and what the release matrix lists beside it."""

from __future__ import annotations

import json
from datetime import datetime
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from faithful.collect import ASSUMED, LABEL_PAGES, Collector
from faithful.names import NO_SIDECAR, SIDECAR, index_platform, machine_of, sidecar_of, wheels
from faithful.torch_builds import LABELS, minor


class PytorchIndex(Collector):
    """Fills ``pytorch``."""

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
