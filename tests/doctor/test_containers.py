"""Base images and containerd's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cudalock.doctor import containerd_findings, evidence_from_facts, image_findings
from cudalock.doctor.rules.images import requirement_met
from cudalock.errors import UsageError
from cudalock.host import parse_facts
from cudalock.versions import CudaVersion, DriverVersion
from support.locks import a_lock, linux_target

RIGHT = """
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
"""


def lint(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return [(finding.code, finding.severity) for finding in containerd_findings(path)]


def test_the_right_configuration(tmp_path: Path) -> None:
    assert lint(tmp_path, RIGHT) == []
    assert lint(tmp_path, RIGHT.replace("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")) == []


def test_an_invented_runtime_type(tmp_path: Path) -> None:
    text = RIGHT.replace("io.containerd.runc.v2", "io.containerd.nvidia.v2")
    assert lint(tmp_path, text) == [("containerd-runtime-invalid", "error")]
    (finding,) = containerd_findings(tmp_path / "config.toml")
    assert "containerd-shim-nvidia-v2" in finding.message
    assert "io.containerd.runc.v2" in str(finding.fix)


@pytest.mark.parametrize("binary", ["", '    BinaryName = "/usr/bin/runc"\n'])
def test_a_runtime_without_its_program(tmp_path: Path, binary: str) -> None:
    line = '    BinaryName = "/usr/bin/nvidia-container-runtime"\n'
    assert lint(tmp_path, RIGHT.replace(line, binary)) == [("containerd-runtime-invalid", "error")]


def test_no_nvidia_runtime_and_the_old_one(tmp_path: Path) -> None:
    assert lint(tmp_path, "version = 2\n") == [("containerd-runtime-invalid", "warning")]
    old = RIGHT.replace("io.containerd.runc.v2", "io.containerd.runtime.v1.linux")
    assert lint(tmp_path, old) == [("containerd-runtime-invalid", "warning")]


@pytest.mark.parametrize("text", ["plugins = 1\n", '[plugins]\n"io.containerd.grpc.v1.cri" = 3\n'])
def test_a_configuration_of_another_shape(tmp_path: Path, text: str) -> None:
    assert lint(tmp_path, text) == [("containerd-runtime-invalid", "warning")]


def test_unreadable_configurations(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not TOML") as broken:
        lint(tmp_path, "version = [")
    assert broken.value.code == "containerd-config-invalid"
    with pytest.raises(UsageError) as missing:
        containerd_findings(tmp_path / "none.toml")
    assert missing.value.code == "containerd-config-missing"


def image(name: str, host: dict[str, Any], lock: Any = None) -> list[tuple[str, str]]:
    evidence = evidence_from_facts(*parse_facts({"schema": 1, "host": host}))
    return [(finding.code, finding.severity) for finding in image_findings(name, evidence, lock)]


GEFORCE = {"name": "NVIDIA GeForce RTX 4090", "compute_capability": "8.9"}
A100 = {"name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0"}


def test_image_and_driver() -> None:
    name = "nvidia/cuda:12.8.1-devel-ubuntu22.04"
    assert image(name, {"driver": "570.124.06", "gpus": [GEFORCE]}) == []
    assert image(name, {"driver": "535.161.08", "gpus": [GEFORCE]}) == [("container-requires-newer-cuda", "error")]
    assert image(name, {"driver": "535.161.08", "gpus": [A100]}) == [("compat-library-in-use", "info")]
    assert image(name, {}) == []


def test_image_and_lock() -> None:
    lock = a_lock(linux_target("9.0"))
    assert lock.triple is not None
    assert lock.triple.cuda is not None
    host = {"driver": "590.48.01"}
    wanted = lock.triple.cuda
    assert image(f"nvidia/cuda:{wanted}.1-devel-ubuntu22.04", host, lock) == []
    other = 13 if wanted.major == 12 else 12
    assert image(f"nvidia/cuda:{other}.0.1-devel-ubuntu22.04", host, lock) == [("toolkit-mismatch", "warning")]


def test_image_with_an_old_c_library() -> None:
    assert image("nvidia/cuda:11.8.0-base-ubuntu18.04", {}) == [("glibc-too-old", "error")]


@pytest.mark.parametrize("name", ["python:3.12", "nvidia/cuda:latest", "nvidia/cuda"])
def test_other_images(name: str) -> None:
    with pytest.raises(UsageError, match=r"nvidia/cuda"):
        image(name, {})


REQUIRE = "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=tesla,driver>=535,driver<536"


@pytest.mark.parametrize(
    ("text", "cuda", "driver", "met"),
    [
        (REQUIRE, "12.4", "550.54.14", True),
        (REQUIRE, "12.2", "525.60.13", False),
        (REQUIRE, "12.2", "535.161.08", None),  # it depends on the brand, which is not known
        ("cuda>=12.8", None, None, None),
        ("CUDA>=12.3", "11.4", "470.57.02", True),  # an unknown property is ignored
        ("", "12.2", "535.161.08", None),
    ],
)
def test_requirement(text: str, cuda: str | None, driver: str | None, met: bool | None) -> None:
    parsed = CudaVersion.parse(cuda) if cuda else None
    assert requirement_met(text, cuda=parsed, driver=DriverVersion(driver) if driver else None) is met
