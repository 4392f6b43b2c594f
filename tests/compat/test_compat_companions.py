from __future__ import annotations

import pytest
from packaging.version import Version

from cudalock.compat.companions import (
    companion_fits,
    companion_lacks_gpu,
    companion_notes,
    cuda_major_of_distribution,
)
from cudalock.versions import CudaVersion
from support.judging import linux_target, make_build


def codes(
    name: str, version: str, torch: str, torch_cuda: str | None, *, cuda: str | None = None, cpu: bool = False
) -> list[str]:
    build = make_build(torch, torch_cuda, "sm_90" if torch_cuda else "")
    known = CudaVersion.parse(cuda) if cuda else None
    return [reason.code for reason in companion_fits(name, Version(version), build, cuda=known, cpu=cpu)]


@pytest.mark.parametrize(
    ("name", "version", "torch", "fits"),
    [
        ("torchvision", "0.24.1", "2.9.1", True),
        ("torchvision", "0.24.1+cu128", "2.9.1", True),
        ("torchvision", "0.24.0", "2.9.1", False),
        ("torchvision", "0.29.2", "2.15.0", True),
        ("torchaudio", "2.11.0", "2.14.0", True),
        ("torchaudio", "2.11.0", "2.10.0", False),  # its own metadata is silent
        ("xformers", "0.0.35", "2.12.0", True),
        ("some-project", "1.0", "2.9.1", True),
    ],
)
def test_pairs(name: str, version: str, torch: str, fits: bool) -> None:
    assert codes(name, version, torch, "12.8") == ([] if fits else ["companion-mismatch"])


def test_one_cuda_major() -> None:
    assert codes("torchvision", "0.24.1+cu126", "2.9.1", "12.8") == []
    assert codes("torchvision", "0.24.1+cu130", "2.9.1", "12.8") == ["cuda-majors-mixed"]
    assert codes("torchvision", "0.24.1", "2.9.1", "12.8", cuda="13.0") == ["cuda-majors-mixed"]
    assert codes("torchvision", "0.24.1+cpu", "2.9.1", "12.8") == ["companion-cuda-mismatch"]
    assert codes("torchvision", "0.24.1", "2.9.1", "12.8", cpu=True) == ["companion-cuda-mismatch"]
    assert codes("torchvision", "0.24.1+cu128", "2.9.1+cpu", None) == ["companion-cuda-mismatch"]
    assert codes("torchvision", "0.24.1+cpu", "2.9.1+cpu", None) == []


def test_the_minor_where_a_release_insists() -> None:
    assert codes("torchaudio", "2.11.0+cu130", "2.14.0+cu132", "13.2") == ["companion-cuda-mismatch"]
    assert codes("torchaudio", "2.11.1+cu130", "2.14.0+cu132", "13.2") == []
    assert codes("torchaudio", "2.11.0+cu132", "2.14.0+cu132", "13.2") == []


def test_binaries_only_up_to_some_cuda() -> None:
    assert codes("bitsandbytes", "0.46.0", "2.8.0+cu129", "12.9") == ["bitsandbytes-no-binary"]
    assert codes("bitsandbytes", "0.46.0", "2.8.0", "12.8") == []


def test_cuda_versioned_distributions() -> None:
    assert codes("nvidia-cublas-cu12", "12.8.4.1", "2.9.1", "12.8") == []
    assert codes("nvidia-cublas-cu12", "12.8.4.1", "2.11.0", "13.0") == ["cuda-majors-mixed"]
    assert codes("cuda-bindings", "12.9.4", "2.11.0", "13.0") == ["cuda-majors-mixed"]
    assert codes("nvidia-nvjitlink", "13.5.37", "2.15.0", "13.2") == []
    assert codes("nvidia-cufft", "12.0.0.61", "2.15.0", "13.2") == []  # its own number, of CUDA 13
    assert codes("nvidia-ml-py", "13.615.71", "2.9.1", "12.8") == []
    assert codes("nvidia-cublas-cu12", "12.8.4.1", "2.9.1+cpu", None) == []


def test_majors_of_distributions() -> None:
    assert cuda_major_of_distribution("nvidia_cudnn_cu13", Version("9.26.0.51")) == 13
    assert cuda_major_of_distribution("cuda-toolkit", Version("12.6.3")) == 12
    assert cuda_major_of_distribution("numpy", Version("2.1")) is None


def test_a_companion_that_works_with_less_is_a_note() -> None:
    build = make_build("2.9.1", "12.8", "sm_90")
    assert codes("torchao", "0.14.1", "2.9.1", "12.8") == []
    assert [note.code for note in companion_notes("torchao", Version("0.14.1"), build)] == ["companion-mismatch"]
    assert companion_notes("torchao", Version("0.15.0"), build) == ()
    assert companion_notes("torchvision", Version("0.24.0"), build) == ()


@pytest.mark.parametrize(
    ("version", "torch", "fits"),
    [
        ("3.4.0.post21", "2.8.0", True),
        ("3.7.1.post27", "2.8.0", False),  # newer than the one that torch 2.8 is paired with, and in no pair
        ("3.5.1", "2.8.0", False),
        ("3.7.1.post27", "2.13.0", True),  # nothing is known of either
        ("3.0.0", "2.8.0", True),  # older than the table: not known
    ],
)
def test_a_release_that_no_pair_covers_does_not_outrun_the_paired_one(version: str, torch: str, fits: bool) -> None:
    assert codes("triton-windows", version, f"{torch}+cu128", "12.8") == ([] if fits else ["companion-mismatch"])


@pytest.mark.parametrize(
    ("numpy", "torch", "fits"),
    [
        ("1.26.4", "2.2.2", True),
        ("2.0.0", "2.2.2", False),
        ("2.3.5", "2.2.0+cu121", False),
        ("2.3.5", "2.3.0", True),
        ("2.3.5", "2.15.0", True),
    ],
)
def test_numpy_2_beside_a_torch_that_was_compiled_for_numpy_1(numpy: str, torch: str, fits: bool) -> None:
    assert codes("numpy", numpy, torch, "12.1") == ([] if fits else ["numpy2-with-old-torch"])


def test_compilers_that_come_for_both_majors_belong_to_none() -> None:
    assert codes("nvidia-cutlass-dsl-libs-cu12", "4.8.1", "2.14.0", "13.0") == []
    assert cuda_major_of_distribution("nvidia-cutlass-dsl-libs-cu13", Version("4.8.1")) is None


def test_an_extension_that_needs_a_newer_gpu() -> None:
    reason = companion_lacks_gpu("flash_attn", linux_target("580.65.06", "7.5", "9.0"))
    assert reason is not None
    assert reason.code == "extension-lacks-gpu"
    assert reason.facts["needs"] == "8.0"
    assert len(reason.facts["gpus"]) == 1
    assert companion_lacks_gpu("flash_attn", linux_target("580.65.06", "8.0")) is None
    assert companion_lacks_gpu("torchvision", linux_target("580.65.06", "5.0")) is None
