"""The kinds of fault that the doctor promises to find, and where each is found by the real collector.

A row names the kind, the code that comes first, and the tests: functions of the modules beside this one that put the
fault into a real environment or a recorded machine, run ``Patient.examine`` (which collects, then judges), or give the
file or name that is to be linted.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cudalock import facts

KINDS: list[tuple[str, str, str]] = [
    ("GPU not in wheel", "gpu-not-in-wheel", "faults.gpu_not_in_wheel"),
    ("torch replaced by a CPU build", "torch-is-cpu-build", "faults.torch_replaced_by_a_cpu_build"),
    ("CPU metadata over a CUDA build", "torch-is-cpu-build", "faults.cpu_metadata_over_files_of_a_cuda_build"),
    ("triton off its pin", "triton-off-pin", "faults.triton_off_its_pin"),
    ("triton doubled", "triton-two-distributions", "faults.triton_twice"),
    ("triton missing", "triton-missing", "faults.triton_missing"),
    ("assembler not knowing the GPU", "assembler-does-not-know-gpu", "faults.assembler_that_does_not_know_the_gpu"),
    ("assembler newer than the driver", "assembler-newer-than-driver", "faults.assembler_newer_than_the_driver"),
    ("TRITON_PTXAS_PATH", "assembler-overridden", "faults.an_old_assembler_named_by_a_variable"),
    ("driver below the floor", "driver-too-old", "machines.driver_below_the_floor"),
    ("driver/library mismatch", "driver-library-mismatch", "machines.driver_and_library_of_different_releases"),
    ("compat library on GeForce", "compat-on-geforce", "machines.compat_library_on_geforce"),
    ("compat folder on GeForce, error 804", "compat-on-geforce", "libcuda.a_compat_folder_on_geforce"),
    ("stub libcuda", "libcuda-stub-loaded", "faults.stub_of_libcuda"),
    ("stub libcuda, error 34", "libcuda-stub-loaded", "machines.what_initialising_cuda_says"),
    ("libcuda shadowed through LD_PRELOAD", "libcuda-shadowed", "faults.another_libcuda_before_the_drivers"),
    ("libcuda shadowed through conda", "libcuda-shadowed", "libcuda.libcuda_in_condas_folder"),
    ("libcuda shadowed through a compat folder", "libcuda-shadowed", "libcuda.an_older_libcuda_in_a_compat_folder"),
    ("PTX newer than the driver", "ptx-newer-than-driver", "machines.torch_that_could_only_run_by_ptx_of_a_newer_cuda"),
    ("the same of an extension", "ptx-newer-than-driver", "faults.extension_whose_ptx_the_driver_does_not_read"),
    ("companion mismatch", "companion-mismatch", "faults.companion_of_another_torch"),
    ("CUDA label mismatch", "companion-cuda-mismatch", "faults.companion_of_another_cuda"),
    ("two CUDA majors", "cuda-majors-mixed", "faults.two_cuda_majors"),
    ("files owned by two distributions", "files-clobbered", "faults.two_distributions_own_one_file"),
    ("files taken by another removal", "files-clobbered", "faults.triton_whose_files_another_removal_took"),
    ("missing nvidia dependency", "missing-nvidia-dependency", "faults.missing_cuda_wheel"),
    ("missing files of one", "missing-nvidia-dependency", "faults.files_of_a_cuda_wheel_are_gone"),
    ("NCCL off its pin", "nccl-off-pin", "faults.nccl_off_its_pin"),
    ("NCCL known bad", "nccl-known-bad", "faults.known_bad_nccl_between_several_gpus"),
    ("cuDNN mixed", "cudnn-mixed", "faults.ld_library_path_puts_another_cudnn_first"),
    ("LD_LIBRARY_PATH shadowing", "library-shadowed", "faults.ld_library_path_puts_an_older_nvjitlink_first"),
    ("extension of another torch", "extension-abi-mismatch", "extensions.for_another_torch"),
    ("extension of another CUDA major", "extension-cuda-major-mismatch", "extensions.for_another_cuda_major"),
    ("extension of another GPU", "extension-lacks-gpu", "extensions.for_another_gpu"),
    ("extension of a newer glibc", "extension-glibc-too-new", "extensions.for_a_newer_system"),
    ("bitsandbytes", "bitsandbytes-no-binary", "extensions.bitsandbytes_whose_libraries_are_all_of_another_cuda"),
    ("NumPy 2 with an old torch", "numpy2-with-old-torch", "faults.numpy_2_with_an_old_torch"),
    ("gcc missing", "host-compiler-missing", "faults.no_compiler"),
    ("Python.h missing", "python-headers-missing", "faults.no_python_headers"),
    ("stale cache", "triton-cache-stale", "faults.stale_cache"),
    ("unwritable cache", "triton-cache-unwritable", "faults.cache_that_cannot_be_written"),
    ("cache on NFS", "triton-cache-on-network-filesystem", "machines.cache_on_a_network_file_system"),
    ("container's CUDA", "container-requires-newer-cuda", "machines.container_that_requires_a_newer_cuda"),
    ("containerd lint", "containerd-runtime-invalid", "containers.an_invented_runtime_type"),
    ("image lint against the driver", "container-requires-newer-cuda", "containers.image_and_driver"),
    ("image lint against the lock", "toolkit-mismatch", "containers.image_and_lock"),
    ("MIG", "mig-one-instance-visible", "machines.mig_and_mixed_gpus"),
    ("mixed GPUs", "mixed-architectures", "machines.mig_and_mixed_gpus"),
    ("mixed GPUs of which one is not served", "gpu-not-in-wheel", "machines.mixed_gpus_of_which_one_is_not_served"),
]
NOTHING_ABOVE_INFO: list[tuple[str, str]] = [
    ("a healthy H200", "machines.h200"),
    ("the warning of GB10 about the maximum", "machines.gb10_with_torchs_warning_of_the_highest_capability"),
    ("machine code of 8.6 on an RTX 4090", "machines.machine_code_of_8_6_on_an_rtx_4090"),
    ("CUDA 12.8 wheels on a 13.0 driver", "machines.cuda_12_8_wheels_on_a_13_0_driver"),
    ("LD_LIBRARY_PATH that shadows nothing", "machines.search_path_that_shadows_nothing"),
    ("LD_LIBRARY_PATH with the same release", "machines.search_path_with_the_same_release"),
    ("conda's Python with the driver's libcuda", "libcuda.condas_python_without_another_libcuda"),
    ("a cache on a local disk", "machines.cache_on_a_local_disk"),
]


@cache
def module(name: str) -> ModuleType:
    path = Path(__file__).with_name(f"test_{name}.py")
    spec = importlib.util.spec_from_file_location(f"kinds_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def source_of(reference: str) -> str:
    """The test's text, with its parameters and with the helpers of its module that it calls."""
    name, _, function = reference.partition(".")
    held = module(name)
    test: Callable[..., Any] = getattr(held, f"test_{function}")
    text = inspect.getsource(test)
    helpers = [
        inspect.getsource(value)
        for key, value in vars(held).items()
        if f"{key}(" in text and inspect.isfunction(value) and value.__module__ == held.__name__ and value is not test
    ]
    return "\n".join([text, *helpers])


@pytest.mark.parametrize(("kind", "code", "reference"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_a_kind_is_found_by_the_collector(kind: str, code: str, reference: str) -> None:
    text = source_of(reference)
    assert code in facts.finding_codes()
    assert f'"{code}"' in text, f"{kind}: {reference} does not look for {code}"
    assert any(call in text for call in (".examine(", "containerd_findings(", "image_findings(")), reference


@pytest.mark.parametrize(("kind", "reference"), NOTHING_ABOVE_INFO, ids=[kind for kind, _ in NOTHING_ABOVE_INFO])
def test_a_healthy_kind_is_silent(kind: str, reference: str) -> None:
    text = source_of(reference)
    assert ".examine(" in text, kind
    assert '!= "info"' in text, f"{kind}: {reference} lets warnings pass"
    assert "== []" in text, kind
