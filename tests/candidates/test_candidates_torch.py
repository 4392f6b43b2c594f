"""Pages and labels that are asked, and the order in which builds of torch are offered."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock.candidates import FileRules, Pages, Replay, TorchCandidates, TritonCandidates, VersionWish, labels_to_ask
from cudalock.compat import Policy
from cudalock.errors import TransportError
from cudalock.requirements.model import Request
from cudalock.target import Target
from support.memory_index import MemoryIndex
from support.torch_world import add_torch, stock
from support.world import make_target

TORCH = canonicalize_name("torch")
H100 = make_target("9.0", driver="580.65.06")


def candidates(index: MemoryIndex, target: Target, policy: Policy | None = None) -> TorchCandidates:
    pages, rules = Pages(index), FileRules.of(target, Request())
    policy = policy or Policy()
    return TorchCandidates(pages, rules, TritonCandidates(pages, rules, target, policy), target, policy)


def offered(torch: TorchCandidates, specifiers: str = "") -> list[str]:
    """Versions in order, the main index's own marked."""
    found = torch.admitted(VersionWish(specifiers=SpecifierSet(specifiers)))
    return [f"{one.build.version}{'' if one.build.label else ' main'}" for one in found]


def test_order_of_rule_5_within_releases() -> None:
    order = offered(candidates(stock(MemoryIndex()), H100))
    assert order[:6] == [
        "2.15.0+cu130",  # native, of the driver's major
        "2.15.0 main",  # the main index's own, 13.2 by minor-version compatibility
        "2.15.0+cu132",
        "2.15.0+cu134",
        "2.14.1 main",  # the main index's own is native
        "2.14.1+cu130",
    ]


def test_driver_535_prefers_the_main_indexs_own_12_4_to_a_native_older_major() -> None:
    index = stock(MemoryIndex())
    index.add("nvidia-cuda-runtime-cu11", "11.8.89")
    index.add(
        "torch",
        "2.6.0+cu118",
        "nvidia-cuda-runtime-cu11==11.8.89",
        "triton==3.2.0",
        label="cu118",
        tags="cp312-cp312-linux_x86_64",
    )
    order = offered(candidates(index, make_target("8.0", driver="535.161.08")), "==2.6.0")
    assert order == ["2.6.0 main", "2.6.0+cu118"]


def test_only_the_first_is_read_until_more_is_asked() -> None:
    index = stock(MemoryIndex())
    torch = candidates(index, H100)
    first = next(torch.admitted(VersionWish()))
    assert str(first.build.version) == "2.15.0+cu130"
    assert index.read == ["torch-2.15.0+cu130-cp312-cp312-manylinux_2_28_x86_64.whl"]


def test_a_release_that_the_table_does_not_know_is_read_from_the_wheel() -> None:
    from support.wheels import make_wheel

    body = b"\0" * 64 + b"sm_75 sm_80 sm_86 sm_90 sm_100 sm_120" + b"\0" * 64
    _name, content = make_wheel("torch", "9.9.0", files={"torch/lib/libtorch_python.so": body})
    index = stock(MemoryIndex())
    add_torch(index, "9.9.0", "13.0", triton="~=3.9.0", content=content)
    torch = candidates(index, H100)
    first = next(torch.admitted(VersionWish()))
    assert (str(first.build.version), first.build.evidence) == ("9.9.0", "wheel")
    assert [str(a) for a in first.build.architectures] == ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


def test_refusals_are_remembered_once_with_their_reasons() -> None:
    torch = candidates(stock(MemoryIndex()), make_target("7.0", driver="580.65.06"))
    assert offered(torch, ">=2.14") == ["2.14.1+cu126"]
    assert offered(torch, ">=2.14") == ["2.14.1+cu126"]
    refused = [str(build.version) for build, _reasons in torch.refused.values()]
    assert refused == ["2.15.0", "2.14.1"]
    assert all(reasons for _build, reasons in torch.refused.values())


def test_labels_by_driver_gpu_release_and_policy() -> None:
    assert labels_to_ask(make_target("7.0", driver="580.65.06"), Policy(), Version("2.14.1")) == ("cu126",)
    assert labels_to_ask(H100, Policy(), Version("2.15.0")) == ("cu134", "cu132", "cu130")
    assert labels_to_ask(make_target("9.0", driver="535.161.08"), Policy(), Version("2.15.0")) == ()
    assert labels_to_ask(H100, Policy(cuda="12.6"), Version("2.14.1")) == ("cu126",)
    assert labels_to_ask(H100, Policy(cuda="15.1")) == ("cu151",)
    assert labels_to_ask(make_target(cpu=True), Policy()) == ("cpu",)
    assert "cu118" in labels_to_ask(make_target("8.0", driver="450.80.02"), Policy())


def test_pages_route_by_name() -> None:
    index = stock(MemoryIndex())
    index.add("numpy", "9.0", label="cu130")
    pages = Pages(index)
    assert not pages.of_label("cu130", canonicalize_name("numpy")).found
    assert pages.of_label("cu130", TORCH).found
    assert not Pages(index, pytorch="never").of_label("cu130", TORCH).found
    assert index.pytorch_projects() == {"torch"}


def test_pytorch_index_is_given_up_after_its_first_failure() -> None:
    index = stock(MemoryIndex())
    index.silent.add("pytorch")
    pages = Pages(index)
    assert not pages.of_label("cu130", TORCH).found
    assert not pages.of_label("cu126", TORCH).found
    assert index.labels_asked("torch") == {"cu130"}
    assert pages.fault is not None
    with pytest.raises(TransportError):
        Pages(index, pytorch="require").of_label("cu130", TORCH)
    index.silent.add("main")
    with pytest.raises(TransportError):
        Pages(index).main(TORCH)


def test_replay_makes_each_item_once() -> None:
    made: list[int] = []

    def source() -> object:
        for number in range(3):
            made.append(number)
            yield number

    replay: Replay[int] = Replay(source())  # type: ignore[arg-type] # a generator
    assert next(iter(replay)) == 0
    assert made == [0]
    assert list(replay) == list(replay) == [0, 1, 2]
    assert made == [0, 1, 2]
