from __future__ import annotations

import pytest

from cudalock.builds.label import cuda_of, cuda_of_label, platform_of, triton_requirement
from support.torch_wheels import metadata_of

X86 = "torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl"
ARM = "torch-2.9.1-cp312-cp312-manylinux_2_28_aarch64.whl"
WINDOWS = "torch-2.9.1-cp312-cp312-win_amd64.whl"
MAC = "torch-2.9.1-cp312-none-macosx_11_0_arm64.whl"
GATED = 'nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux" and platform_machine == "x86_64"'
LINUX_ONLY = 'cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"'


def cuda(requires: list[str], filename: str, label: str | None = None, version: str = "2.9.1") -> str | None:
    found = cuda_of(metadata_of(version, requires), filename, label)
    return str(found) if found else None


def test_from_requirements_on_the_wheels_own_platform() -> None:
    assert cuda([GATED], X86) == "12.8"
    assert cuda([GATED], ARM) is None  # lists them for x86_64 only: a CPU build
    assert cuda([GATED], WINDOWS) is None
    assert cuda([LINUX_ONLY], X86) == "13.0"
    assert cuda([LINUX_ONLY], ARM) == "13.0"
    assert cuda([LINUX_ONLY], WINDOWS) is None
    assert cuda([LINUX_ONLY], MAC) is None


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("nvidia-cuda-runtime-cu11 (==11.7.99)", "11.7"),
        ("nvidia-cuda-runtime-cu12==12.1.105", "12.1"),
        ("nvidia-cuda-runtime==13.0.96", "13.0"),
        ("cuda-toolkit==13.2.*", "13.2"),
        ("nvidia-cudnn-cu13==9.26.0.51", None),  # not the toolkit's number
        ("cuda-bindings<14,>=13.0.3", None),
        ("nvidia-cuda-runtime-cu12>=12", None),
        ("numpy", None),
    ],
)
def test_which_requirement_tells(requirement: str, expected: str | None) -> None:
    assert cuda([requirement], X86) == expected


def test_toolkit_outranks_its_parts() -> None:
    assert cuda(["nvidia-cuda-nvrtc==13.5.37", "cuda-toolkit==13.2.2"], X86) == "13.2"


def test_the_local_version_outranks_everything() -> None:
    name = "torch-2.9.1+{}-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert cuda([GATED], name.format("cu126")) == "12.6"
    assert cuda([GATED], name.format("cpu"), "cu128") is None
    assert cuda([GATED], name.format("rocm6.4")) is None
    assert cuda([], name.format("cu118")) == "11.8"
    assert cuda([], "torch-2.8.0+cu129-cp312-cp312-manylinux_2_28_aarch64.whl") == "12.9"


def test_the_page_speaks_last() -> None:
    vision = "torchvision-0.24.0-cp312-cp312-manylinux_2_28_aarch64.whl"
    assert cuda(["torch==2.9.0"], vision, "cu130") == "13.0"
    assert cuda(["torch==2.9.0"], vision, "cpu") is None
    assert cuda([GATED], X86, "cu130") == "12.8"


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("cu128", "12.8"),
        ("cu118.with.pypi.cudnn", "11.8"),
        ("cpu", None),
        ("rocm6.3", None),
        (None, None),
        ("cute", None),
        ("cu92", "9.2"),
    ],
)
def test_labels(label: str | None, expected: str | None) -> None:
    found = cuda_of_label(label)
    assert (str(found) if found else None) == expected


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        (X86, ("linux", "x86_64")),
        (ARM, ("linux", "aarch64")),
        (WINDOWS, ("windows", "x86_64")),
        (MAC, ("macos", "aarch64")),
        ("torch-2.5.1+cu118-cp312-cp312-linux_x86_64.whl", ("linux", "x86_64")),
        ("torch-2.0.0-cp311-cp311-manylinux2014_aarch64.whl", ("linux", "aarch64")),
        ("torch-2.0.0-cp311-cp311-manylinux1_x86_64.whl", ("linux", "x86_64")),
        ("demo-1.0-py3-none-any.whl", None),
        ("not a wheel", None),
    ],
)
def test_platforms(filename: str, expected: tuple[str, str] | None) -> None:
    assert platform_of(filename) == expected


def test_triton_by_python_and_platform() -> None:
    metadata = metadata_of("2.5.1", ['triton==3.1.0; platform_system == "Linux" and python_version < "3.13"'])
    for python, expected in (("3.12", "==3.1.0"), ("3.13", None)):
        found = triton_requirement(
            metadata, X86, environment={"python_version": python, "python_full_version": f"{python}.0"}
        )
        assert (str(found.specifier) if found else None) == expected
    assert triton_requirement(metadata, WINDOWS) is None
    assert triton_requirement(metadata_of("2.1.0", ["pytorch-triton==2.1.0"]), X86) is not None
