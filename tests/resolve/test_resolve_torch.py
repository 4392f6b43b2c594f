"""torch, triton, CUDA and the companions: rules R1 to R6 inside the resolution."""

from __future__ import annotations

import pytest

from cudalock.compat import Policy
from cudalock.errors import AnswerIsNo, TransportError
from cudalock.resolve import Resolution, ResolveOptions
from support.torch_world import add_companion, add_torch, add_triton, stock
from support.world import World, make_target, versions

V100 = make_target("7.0", driver="580.65.06")
RTX_5090_ON_570 = make_target("12.0", driver="570.86.16")


@pytest.fixture
def torch_world(world: World) -> World:
    stock(world.index)
    return world


def triple(found: Resolution) -> tuple[str, str | None, str, str]:
    """(torch, triton, CUDA, where torch comes from)."""
    assert found.triple is not None
    answer = found.triple
    place = answer.build.label or answer.build.source
    return str(answer.torch), str(answer.triton) if answer.triton else None, str(answer.cuda), place


def test_newest_native_build_of_the_drivers_major(torch_world: World) -> None:
    found = torch_world("torch")
    assert triple(found) == ("2.15.0+cu130", "3.9.0", "13.0", "cu130")
    assert found.indexes == ("main", "pytorch")
    assert set(versions(found)) == {"cuda-toolkit", "filelock", "nvidia-cuda-runtime", "torch", "triton"}
    assert versions(found)["nvidia-cuda-runtime"] == "13.0.96"


def test_no_label_is_asked_where_the_main_indexs_own_build_is_native(torch_world: World) -> None:
    found = torch_world("torch", target=make_target("12.0", driver="610.43"))
    assert triple(found) == ("2.15.0", "3.9.0", "13.2", "main")
    assert torch_world.index.pytorch_projects() == set()
    assert found.indexes == ("main",)


def test_older_gpu_gets_the_last_release_that_holds_its_code(torch_world: World) -> None:
    found = torch_world("torch", target=V100)
    assert triple(found) == ("2.14.1+cu126", "3.8.0", "12.6", "cu126")
    assert {note.code for note in found.notes} >= {"architecture-end-of-life"}
    assert str(found.refused[0][0].version) == "2.15.0"
    assert found.refused[0][1][0].code == "gpu-not-in-wheel"


def test_only_labels_that_can_serve_are_asked(torch_world: World) -> None:
    torch_world("torch", target=V100)
    assert torch_world.index.labels_asked("torch") == {"cu126"}


def test_triton_of_the_driver_decides_the_release(torch_world: World) -> None:
    assert triple(torch_world("torch", target=RTX_5090_ON_570)) == ("2.11.0+cu128", "3.6.0", "12.8", "cu128")


def test_without_triton_waives_its_rule(torch_world: World) -> None:
    found = torch_world("torch", target=RTX_5090_ON_570, policy=Policy(without_triton=True))
    assert triple(found)[:3] == ("2.11.0+cu128", "3.6.0", "12.8")  # 2.14.1+cu126 holds no code for it
    hopper = make_target("9.0", driver="535.161.08")
    assert triple(torch_world("torch==2.9.1", target=hopper))[0] == "2.9.1"


def test_named_label(torch_world: World) -> None:
    assert triple(torch_world("torch", policy=Policy(cuda="12.6")))[0] == "2.14.1+cu126"
    assert triple(torch_world("torch==2.9.1+cu128"))[0] == "2.9.1+cu128"
    assert triple(torch_world("torch==2.9.1"))[0] == "2.9.1"


def test_existing_pin_is_kept(torch_world: World) -> None:
    found = torch_world("torch", preferred={"torch": "2.14.1+cu130", "triton": "3.8.0"})
    assert triple(found)[0] == "2.14.1+cu130"
    assert found.held_back == ("the existing pin is kept; --upgrade-package torch moves torch to 2.15.0+cu130",)
    moved = torch_world("torch", preferred={"torch": "2.14.1+cu130"}, upgrade_packages=["torch"])
    assert triple(moved)[0] == "2.15.0+cu130"
    not_admitted = torch_world("torch", target=V100, preferred={"torch": "2.15.0+cu130"})
    assert triple(not_admitted)[0] == "2.14.1+cu126"


# -- companions


def test_companion_comes_from_the_page_of_torchs_label(torch_world: World) -> None:
    for label in (None, "cu126", "cu130"):
        add_companion(torch_world.index, "torchvision", "0.29.2", "torch>=2.14.0", label=label)
    assert versions(torch_world("torch", "torchvision"))["torchvision"] == "0.29.2+cu130"
    assert versions(torch_world("torchvision", target=V100))["torchvision"] == "0.29.2+cu126"
    native = make_target("12.0", driver="610.43")
    assert versions(torch_world("torchvision", target=native))["torchvision"] == "0.29.2"


def test_same_file_name_on_every_page_is_told_apart(torch_world: World) -> None:
    index = torch_world.index
    for label in (None, "cu126", "cu130"):  # as torchvision 0.24.0 for aarch64: no local version, other bytes
        index.add("torchvision", "0.24.1", "torch==2.9.1", label=label, tags="cp312-cp312-manylinux_2_28_x86_64")
    found = torch_world("torchvision", "torch==2.9.1+cu130")
    pin = next(pin for pin in found.pins if pin.name == "torchvision")
    assert (pin.file.page.index, pin.file.page.label) == ("pytorch", "cu130")
    other = torch_world("torchvision", "torch==2.9.1")
    assert next(pin for pin in other.pins if pin.name == "torchvision").file.page.index == "main"


def test_companion_moves_torch_and_r5_still_orders_its_builds(torch_world: World) -> None:
    for label in (None, "cu126", "cu128", "cu130"):
        add_companion(torch_world.index, "torchvision", "0.24.1", "torch==2.9.1", label=label)
    found = torch_world("torch", "torchvision<0.25")
    # the main index's own 2.9.1 (12.8) is native on driver 580, so it goes before 2.9.1+cu130
    assert triple(found) == ("2.9.1", "3.5.1", "12.8", "main")
    assert versions(found)["torchvision"] == "0.24.1"
    assert found.held_back == ("torchvision 0.24.1 requires torch==2.9.1, which keeps torch from 2.15.0+cu130",)


def test_torch_moves_to_a_page_that_has_the_companion(torch_world: World) -> None:
    add_companion(torch_world.index, "torchvision", "0.29.2", "torch>=2.14.0")  # not on any label's page
    found = torch_world("torch", "torchvision")
    # cu130 would be native, but only the main index has the companion
    assert triple(found)[0] == "2.15.0"
    assert versions(found)["torchvision"] == "0.29.2"


def test_companion_without_a_torch_requirement_pairs_by_the_table(torch_world: World) -> None:
    for label in (None, "cu126", "cu130"):
        add_companion(torch_world.index, "torchaudio", "2.9.1", label=label)
    found = torch_world("torchaudio")
    assert triple(found)[0] == "2.9.1"
    assert next(pin for pin in found.pins if pin.name == "torch").wanted_by == ("torchaudio",)


def test_files_in_the_root_of_the_index_are_not_the_labels_own(torch_world: World) -> None:
    index = torch_world.index
    index.add("torchvision", "0.30.0", "torch", label="cu130", folder="", tags="cp312-cp312-manylinux_2_28_x86_64")
    add_companion(index, "torchvision", "0.29.2", "torch>=2.14.0", label="cu130")
    add_companion(index, "torchvision", "0.29.2", "torch>=2.14.0")
    assert versions(torch_world("torchvision", "torch"))["torchvision"] == "0.29.2+cu130"


def test_requirements_of_the_very_file_that_is_chosen(torch_world: World) -> None:
    index = torch_world.index
    add_companion(index, "torchvision", "0.24.1", "torch==2.9.1", "only-main")
    add_companion(index, "torchvision", "0.24.1", "torch==2.9.1", "only-label", label="cu130")
    for name in ("only-main", "only-label"):
        index.add(name, "1.0")
    assert "only-label" in versions(torch_world("torchvision", "torch==2.9.1+cu130"))
    assert "only-main" in versions(torch_world("torchvision", "torch==2.9.1"))


def test_pin_like_vllms(torch_world: World) -> None:
    index = torch_world.index
    index.add("vllm", "0.33.0", "torch==2.14.1", "torchvision==0.29.1", tags="cp38-abi3-manylinux_2_28_x86_64")
    index.add("vllm", "0.9.0", "torch==2.9.1", tags="cp38-abi3-manylinux_2_28_x86_64")
    for label in (None, "cu126", "cu130"):
        add_companion(index, "torchvision", "0.29.1", "torch>=2.14.0", label=label)
    found = torch_world("torch", "vllm")
    assert (versions(found)["torch"], versions(found)["vllm"]) == ("2.14.1", "0.33.0")
    assert found.held_back == ("vllm 0.33.0 requires torch==2.14.1, which keeps torch from 2.15.0+cu130",)


# -- one CUDA


def test_cuda_wheels_of_another_major_move_torch(torch_world: World) -> None:
    index = torch_world.index
    index.add("nvidia-cudnn-cu12", "9.1", tags="py3-none-manylinux_2_17_x86_64")
    index.add("needs-cu12", "1.0", "nvidia-cudnn-cu12", "torch")
    found = torch_world("needs-cu12")
    assert triple(found) == ("2.14.1+cu126", "3.8.0", "12.6", "cu126")


def test_wheels_without_a_cuda_version_are_exempt(torch_world: World) -> None:
    torch_world.index.add("nvidia-ml-py", "12.560.30")
    assert triple(torch_world("torch", "nvidia-ml-py==12.560.30"))[0] == "2.15.0+cu130"


def test_cuda_wheels_alone_do_not_lead_to_torch(torch_world: World) -> None:
    index = torch_world.index
    for name in ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13"):
        index.add(name, "9.1", tags="py3-none-manylinux_2_17_x86_64")
    found = torch_world("nvidia-cudnn-cu12", "nvidia-cudnn-cu13")
    assert found.triple is None
    assert index.pytorch_projects() == set()


def test_two_cuda_majors_are_a_conflict_that_names_both(torch_world: World) -> None:
    torch_world.index.add("nvidia-cudnn-cu12", "9.1", tags="py3-none-manylinux_2_17_x86_64")
    with pytest.raises(AnswerIsNo) as error:
        torch_world("torch==2.15.0", "nvidia-cudnn-cu12")
    assert error.value.code == "requirements-conflict"
    assert "nvidia-cudnn-cu12" in error.value.message
    assert "CUDA 12" in error.value.message


# -- the PyTorch index


def test_no_other_name_is_ever_asked_of_the_pytorch_index(torch_world: World) -> None:
    index = torch_world.index
    for label in ("cu126", "cu130"):  # copies of foreign projects, newer than the main index's
        index.add("filelock", "99.0", label=label)
        index.add("nvidia-cuda-runtime", "13.0.96", label=label)
        add_companion(index, "torchvision", "0.29.2", "torch>=2.14.0", "pillow", label=label)
        index.add("pillow", "99.0", label=label)
    index.add("pillow", "12.0")
    found = torch_world("torch", "torchvision", target=V100)
    assert versions(found)["filelock"] == "3.20"
    assert versions(found)["pillow"] == "12.0"
    assert index.pytorch_projects() <= {"torch", "torchvision", "triton"}


def test_triton_comes_from_the_main_index_where_both_serve_it(torch_world: World) -> None:
    add_triton(torch_world.index, "3.9.0", "3.9.5", label="cu130")
    found = torch_world("torch")
    pin = next(pin for pin in found.pins if pin.name == "triton")
    assert (str(pin.version), pin.file.page.index) == ("3.9.0", "main")


def test_triton_from_the_pytorch_index_where_the_main_index_has_none(world: World) -> None:
    world.index.add("filelock", "3.20")
    world.index.add("nvidia-cuda-runtime-cu12", "12.6.77", tags="py3-none-manylinux_2_17_x86_64")
    add_torch(world.index, "2.14.1", "12.6", label="cu126", triton="~=3.8.0")
    add_triton(world.index, "3.8.0", label="cu126")
    found = world("torch", target=V100)
    assert next(pin for pin in found.pins if pin.name == "triton").file.page.index == "pytorch"


def test_unreachable_and_the_main_index_admits_one(torch_world: World) -> None:
    torch_world.index.silent.add("pytorch")
    found = torch_world("torch")
    assert triple(found) == ("2.15.0", "3.9.0", "13.2", "main")
    assert found.indexes == ("main",)
    assert [warning.code for warning in found.warnings] == ["pytorch-index-unreachable"]
    assert found.triple is not None
    assert found.triple.verdict.mode == "minor"


def test_a_rerun_with_the_lock_of_a_silent_day_still_says_that_a_better_build_exists(torch_world: World) -> None:
    torch_world.index.silent.add("pytorch")
    first = torch_world("torch")
    pins = {str(pin.name): str(pin.version) for pin in first.pins}
    for silent in (True, False):  # the pin is kept either way, without a question to the index
        (torch_world.index.silent.add if silent else torch_world.index.silent.discard)("pytorch")
        again = torch_world("torch", preferred=pins)
        assert triple(again) == triple(first)
        assert [warning.code for warning in again.warnings] == ["pytorch-index-not-asked"]
        assert "2.15.0+cu130" in again.warnings[0].sentence
        assert "--upgrade-package torch" in again.warnings[0].sentence
    upgraded = torch_world("torch", preferred=pins, upgrade_packages=["torch"])
    assert str(upgraded.triple.torch if upgraded.triple else "") == "2.15.0+cu130"
    assert upgraded.warnings == ()


def test_a_kept_pin_that_no_label_betters_needs_no_warning(torch_world: World) -> None:
    target = make_target("9.0", driver="595.10")  # of CUDA 13.2: the main index's own build is native
    found = torch_world("torch", target=target, preferred={"torch": "2.15.0"})
    assert triple(found)[3] == "main"
    assert found.warnings == ()
    left_out = torch_world("torch", preferred={"torch": "2.15.0"}, options=ResolveOptions(pytorch="never"))
    assert left_out.warnings == ()


def test_unreachable_and_needed(torch_world: World) -> None:
    torch_world.index.silent.add("pytorch")
    with pytest.raises(TransportError) as error:
        torch_world("torch>=2.11", target=V100)
    assert error.value.code == "index-unreachable"
    assert "--pytorch-index-url" in (error.value.hint or "")
    with pytest.raises(TransportError):
        torch_world("torch", policy=Policy(cuda="13.0"))
    with pytest.raises(TransportError):
        torch_world("torch==2.9.1+cu130")
    with pytest.raises(TransportError):
        torch_world("torch", options=ResolveOptions(pytorch="require"))


@pytest.mark.parametrize("driver", ["580.65.06", "610.43"])  # with the latter the main index's own build is native
def test_required_means_asked_whatever_is_pinned(torch_world: World, driver: str) -> None:
    require, target = ResolveOptions(pytorch="require"), make_target("9.0", driver=driver)
    assert "pytorch" in torch_world("torch", preferred={"torch": "2.15.0"}, options=require, target=target).indexes
    torch_world.index.silent.add("pytorch")
    for preferred in ({"torch": "2.15.0"}, {}):
        with pytest.raises(TransportError):
            torch_world("torch", preferred=preferred, options=require, target=target)


def test_unreachable_does_not_matter_without_torch(torch_world: World) -> None:
    torch_world.index.silent.add("pytorch")
    assert torch_world("filelock").warnings == ()


def test_never_asks_and_never_warns(torch_world: World) -> None:
    found = torch_world("torch", options=ResolveOptions(pytorch="never"))
    assert triple(found)[0] == "2.15.0"
    assert found.warnings == ()
    assert torch_world.index.pytorch_projects() == set()


def test_cpu_target_takes_the_cpu_label(torch_world: World) -> None:
    torch_world.index.add("torch", "2.15.0+cpu", "filelock", label="cpu", tags="cp312-cp312-manylinux_2_28_x86_64")
    found = torch_world("torch", target=make_target(cpu=True))
    assert versions(found) == {"torch": "2.15.0+cpu", "filelock": "3.20"}
    assert torch_world.index.labels_asked("torch") == {"cpu"}


# -- refusals and notes


def test_refusal_names_the_facts_and_what_would_help(torch_world: World) -> None:
    with pytest.raises(AnswerIsNo) as error:
        torch_world("torch==2.14.1", target=RTX_5090_ON_570)
    refused = error.value
    assert refused.code == "no-admissible-build"
    assert "570.86.16" in refused.message
    assert "2.11.0+cu128" in (refused.hint or "")
    assert {remedy["kind"] for remedy in refused.details["remedies"]} >= {"pin", "driver"}
    assert all(remedy["verified_by_rules"] for remedy in refused.details["remedies"])


def test_two_gpus_that_no_build_serves(torch_world: World) -> None:
    with pytest.raises(AnswerIsNo) as error:
        torch_world("torch", target=make_target("6.1", "12.0", driver="580.65.06"))
    assert error.value.code == "no-admissible-build"
    assert {remedy["kind"] for remedy in error.value.details["remedies"]} == {"gpus"}


def test_what_a_newer_driver_would_unlock(torch_world: World) -> None:
    found = torch_world("torch", target=make_target("9.0", driver="535.161.08"))
    assert triple(found)[0] == "2.14.1+cu126"
    note = next(note for note in found.notes if note.code == "newer-driver-unlocks")
    assert note.facts["admits"].startswith("2.15.0")
    assert "minor-compat-in-use" in {note.code for note in found.notes}


def test_nothing_is_fetched_for_releases_that_are_not_visited(torch_world: World) -> None:
    torch_world("torch")
    read = {name for name in torch_world.index.read if name.startswith("torch-")}
    assert {name.split("-")[1].split("+")[0] for name in read} == {"2.15.0"}
    assert torch_world.index.opened == []  # the table knows them all


def test_constraint_that_holds_torch_back(torch_world: World) -> None:
    found = torch_world("torch", constraints=["torch<2.15"])
    assert triple(found)[0] == "2.14.1"
    assert found.held_back == ("the constraint torch<2.15 (constraints.txt:1) keeps torch from 2.15.0",)


def test_two_runs_are_equal(torch_world: World) -> None:
    for label in (None, "cu126", "cu130"):
        add_companion(torch_world.index, "torchvision", "0.24.1", "torch==2.9.1", label=label)
    assert torch_world("torchvision", "torch") == torch_world("torch", "torchvision")
