"""Refusals that name what is missing: the CUDA release, the glibc, the Python, the GPU, the dependency."""

from __future__ import annotations

import time

import pytest
from packaging.utils import canonicalize_name

from cudalock.compat import Policy
from cudalock.errors import AnswerIsNo, CudalockError, TransportError
from cudalock.index.model import CoreMetadata, IndexFile, PageRef
from cudalock.resolve import Resolution, ResolveOptions
from support.memory_index import LINUX
from support.torch_world import add_torch, add_triton, stock
from support.world import World, make_target, versions

OTHER = "cp312-cp312-manylinux_2_28_aarch64"


def refusal(world: World, *requirements: str, **changes: object) -> CudalockError:
    with pytest.raises(AnswerIsNo) as error:
        world(*requirements, **changes)  # type: ignore[arg-type] # passed on as it is
    return error.value


def codes(error: CudalockError) -> set[str]:
    return {reason["code"] for reason in error.details["reasons"]}


@pytest.fixture
def torch_world(world: World) -> World:
    stock(world.index)
    return world


def test_a_cuda_release_that_is_not_published_is_told_with_those_that_are(torch_world: World) -> None:
    error = refusal(torch_world, "torch==2.11.0", policy=Policy(cuda="13.1"))
    assert error.code == "no-admissible-build"
    assert "no build with CUDA 13.1 is published" in error.message
    assert "cu126 cu128 cu130" in error.message
    assert error.hint == "--cuda 13.0 admits 2.11.0"
    assert versions(torch_world("torch==2.11.0", policy=Policy(cuda="13.0")))["torch"] == "2.11.0"


def test_a_published_cuda_release_without_code_for_the_gpu_offers_the_nearest_that_has_it(torch_world: World) -> None:
    target = make_target("12.0", driver="580.95.05")
    error = refusal(torch_world, "torch", target=target, policy=Policy(cuda="12.4"))
    assert (error.hint or "").startswith("--cuda 12.8 admits 2.11.0+cu128, and no --cuda at all 2.15.0+cu130")
    found = torch_world("torch", target=target, policy=Policy(cuda="12.8"))
    assert versions(found)["torch"] == "2.11.0+cu128"


def old_and_new(world: World, *, new: str) -> None:
    """torch 2.6.0 for an old system and no code for Blackwell, 2.11.0 with its code for another one."""
    for name in ("cuda-toolkit", "filelock"):
        world.index.add(name, "13.0.2", extras={"cudart": []})
    world.index.add("nvidia-cuda-runtime-cu12", "12.4.127")
    add_triton(world.index, "3.2.0", tags="cp312-cp312-manylinux_2_17_x86_64")
    add_triton(world.index, "3.6.0", tags=new)
    add_torch(world.index, "2.6.0", "12.4", triton="==3.2.0", tags="cp312-cp312-manylinux_2_17_x86_64")
    add_torch(world.index, "2.11.0", "13.0", triton="==3.6.0", tags=new)


def test_builds_that_would_serve_the_gpu_and_need_a_newer_glibc_are_named(world: World) -> None:
    old_and_new(world, new=LINUX)
    old = make_target("12.0", driver="580.95.05", platform="x86_64-manylinux_2_17")
    error = refusal(world, "torch", target=old)
    assert codes(error) == {"gpu-not-in-wheel", "glibc-too-old"}
    assert "need glibc 2.28, and the target has 2.17" in error.message
    assert "--platform x86_64-manylinux_2_28" in (error.hint or "")
    newer = make_target("12.0", driver="580.95.05", platform="x86_64-manylinux_2_28")
    assert versions(world("torch", target=newer))["torch"] == "2.11.0"


def test_builds_that_would_serve_the_gpu_on_another_python_are_named(world: World) -> None:
    old_and_new(world, new="cp313-cp313-manylinux_2_28_x86_64")
    error = refusal(world, "torch", target=make_target("12.0", driver="580.95.05"))
    assert codes(error) == {"gpu-not-in-wheel", "no-wheel-for-python"}
    assert "--python 3.13 admits 2.11.0" in (error.hint or "")
    found = world("torch", target=make_target("12.0", driver="580.95.05", python="3.13"))
    assert versions(found)["torch"] == "2.11.0"


def test_files_for_another_machine_are_not_offered(world: World) -> None:
    old_and_new(world, new=OTHER)
    error = refusal(world, "torch", target=make_target("12.0", driver="580.95.05"))
    assert codes(error) == {"gpu-not-in-wheel"}


def test_an_extension_that_does_not_run_on_the_gpu_is_refused_before_anything_is_built(torch_world: World) -> None:
    built: list[str] = []

    def build(file: IndexFile) -> CoreMetadata:
        built.append(file.filename)
        return torch_world.index.metadata(file)

    torch_world.index.add("flash-attn", "2.8.3", sdist=True, overrides={"Dynamic": "Requires-Dist"})
    for name in ("einops", "setuptools", "wheel", "packaging", "ninja", "psutil"):
        torch_world.index.add(name, "1.0")
    options = ResolveOptions(build_metadata=build)
    turing = make_target("9.0", "7.5", driver="580.65.06")
    error = refusal(torch_world, "torch", "flash-attn", target=turing, allow_build=["flash-attn"], options=options)
    assert error.code == "extension-lacks-gpu"
    assert "8.0 or above" in error.message
    assert "7.5" in error.message
    assert "9.0" not in error.message
    assert not built
    found = torch_world("torch", "flash-attn", allow_build=["flash-attn"], options=options)
    assert versions(found)["flash-attn"] == "2.8.3"
    assert {"einops", "ninja"} <= versions(found).keys(), "what the table says that it and its build require"
    assert not built, "its build cannot be asked before torch is there"


def without(world: World, project: str) -> None:
    """Leaves a project with a file for another machine only."""
    del world.index.files[PageRef("main", canonicalize_name(project))]
    world.index.add(project, "13.0.96", tags="py3-none-manylinux_2_17_aarch64")


def test_a_dependency_deep_down_without_a_file_for_the_target_is_named(torch_world: World) -> None:
    without(torch_world, "nvidia-cuda-runtime")
    for name in ("alpha", "beta", "gamma", "delta"):
        for number in range(12):
            torch_world.index.add(name, f"1.{number}")
    begun = time.monotonic()
    error = refusal(torch_world, "torch>=2.15", "alpha", "beta", "gamma", "delta")
    assert error.code == "index-dependency-missing"
    assert "nvidia-cuda-runtime" in error.message
    assert "cuda-toolkit 13.0.2 requires nvidia-cuda-runtime==13.0.96" in error.message
    assert error.details["cause"] == "no-wheel-for-platform"
    assert time.monotonic() - begun < 5


def test_an_older_torch_without_the_missing_dependency_is_taken_and_the_reason_said(torch_world: World) -> None:
    without(torch_world, "nvidia-cuda-runtime")
    found: Resolution = torch_world("torch")
    assert versions(found)["torch"] == "2.14.1+cu126"
    assert len(found.held_back) == 1
    assert "requires nvidia-cuda-runtime==" in found.held_back[0]
    assert "keeps torch from 2.15.0" in found.held_back[0]


def test_a_newer_driver_is_not_praised_for_what_the_constraint_excludes(torch_world: World) -> None:
    old = make_target("9.0", driver="535.161.08")
    free = torch_world("torch", target=old)
    assert "newer-driver-unlocks" in {note.code for note in free.notes}
    limited = torch_world("torch", target=old, constraints=["torch<=2.14.1"])
    assert versions(limited)["torch"] == versions(free)["torch"] == "2.14.1+cu126"
    assert "newer-driver-unlocks" not in {note.code for note in limited.notes}


def test_a_newer_driver_is_not_praised_for_what_this_one_admits_by_minor_version(torch_world: World) -> None:
    held = torch_world("torch", constraints=["torch<=2.14.1"])
    assert versions(held)["torch"] == "2.14.1"
    assert not [note for note in held.notes if note.code == "newer-driver-unlocks"]
    assert held.held_back == ("the constraint torch<=2.14.1 (constraints.txt:1) keeps torch from 2.15.0",)


WINDOWS = "cp312-cp312-win_amd64"


@pytest.fixture
def windows(world: World) -> World:
    """What Windows finds: CPU builds on the main index, the CUDA builds on the PyTorch index."""
    world.target = make_target("8.9", driver="581.80", platform="win-amd64")
    world.index.add("filelock", "3.20")
    world.index.add("torch", "2.11.0", "filelock", tags=WINDOWS)
    world.index.add("torch", "2.11.0+cu130", "filelock", tags=WINDOWS, label="cu130")
    return world


def test_windows_takes_the_cuda_build_of_the_pytorch_index(windows: World) -> None:
    assert versions(windows("torch"))["torch"] == "2.11.0+cu130"


def test_windows_without_the_pytorch_index_says_why_it_is_needed(windows: World) -> None:
    windows.index.silent.add("pytorch")
    with pytest.raises(TransportError) as caught:
        windows("torch")
    assert (caught.value.code, caught.value.exit_status) == ("index-unreachable", 3)
    assert "torch 2.11.0 from the main index is a CPU build" in caught.value.message
    assert "--pytorch-index-url" in (caught.value.hint or "")


def test_windows_that_leaves_the_pytorch_index_out_is_told_what_it_would_admit(windows: World) -> None:
    error = refusal(windows, "torch==2.11.0", options=ResolveOptions(pytorch="never"))
    assert error.code == "no-admissible-build"
    assert codes(error) == {"torch-is-cpu-build"}
    assert error.hint == "drop --no-pytorch-index: 2.11.0+cu130 (CUDA 13.0) is admitted, by cudalock's tables"
    beyond = make_target("7.5", driver="456.71", platform="win-amd64")  # a driver of CUDA 11
    nothing = refusal(windows, "torch==2.11.0", target=beyond, options=ResolveOptions(pytorch="never"))
    assert "--no-pytorch-index" not in (nothing.hint or "")


def test_a_companion_of_which_every_version_leads_to_a_torch_without_code_for_the_gpu(torch_world: World) -> None:
    add_torch(torch_world.index, "2.5.1", "12.4", triton="==3.2.0")
    for version, torch in {"0.21.0": "2.6.0", "0.20.1": "2.5.1"}.items():
        torch_world.index.add("torchvision", version, f"torch=={torch}", tags=LINUX)
    error = refusal(torch_world, "torchvision", target=make_target("12.0", driver="580.95.05"))
    assert error.code == "no-admissible-build"
    assert codes(error) == {"gpu-not-in-wheel"}
    assert "torch==2.6.0" in error.message
    assert (error.hint or "").startswith("drop or loosen torchvision, which requires torch==2.6.0: 2.15.0+cu130 ")
    found = torch_world("torchvision")  # an H100 has no such trouble
    assert versions(found)["torch"] == "2.6.0"


def test_a_constraint_that_leaves_no_build_is_named_as_what_to_drop(torch_world: World) -> None:
    target = make_target("12.0", driver="580.95.05")
    error = refusal(torch_world, "torch", target=target, constraints=["torch<2.9"])
    assert "no build of torch that satisfies the constraint torch<2.9 (constraints.txt:1) runs" in error.message
    assert (error.hint or "").startswith("drop the constraint torch<2.9 (constraints.txt:1): 2.15.0+cu130 ")


def test_a_conflict_that_the_silent_pytorch_index_could_not_lift_is_a_conflict(torch_world: World) -> None:
    torch_world.index.silent.add("pytorch")
    error = refusal(torch_world, "torch==2.9.1", "triton==3.6.0")
    assert (error.code, error.exit_status) == ("requirements-conflict", 1)
    assert "triton==3.5.1" in error.message and "triton==3.6.0" in error.message
    # no label has code for it, and the driver's branch is the last that drives it
    kepler = refusal(torch_world, "torch==2.11.0", target=make_target("3.5", driver="470.256.02"))
    assert (kepler.code, kepler.exit_status) == ("no-admissible-build", 1)


@pytest.mark.parametrize("requirements", [("torch>=2.9", "triton==3.6.0"), ("torch>=2.14",)])
def test_a_refusal_that_the_silent_pytorch_index_might_lift_names_it(
    torch_world: World, requirements: tuple[str, ...]
) -> None:
    """Another release that goes with the triton; a build for an old GPU; either on an old driver."""
    torch_world.index.silent.add("pytorch")
    with pytest.raises(TransportError) as caught:
        torch_world(*requirements, target=make_target("7.0", driver="535.161.08"))
    assert caught.value.exit_status == 3


def test_a_name_next_to_a_well_known_one_that_somebody_else_registered(torch_world: World) -> None:
    torch_world.index.add("pytorch", "1.0", sdist=True)
    error = refusal(torch_world, "pytorch")
    assert error.code == "source-only"
    assert (error.hint or "").startswith("did you mean torch?")
    missing = refusal(torch_world, "torchvison")
    assert missing.details["near"][0] == "torchvision"
    assert len(missing.details["near"]) == len(set(missing.details["near"]))
