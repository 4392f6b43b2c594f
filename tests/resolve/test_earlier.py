"""What keeps an earlier target's answer from serving for another one: each place where GPUs and driver have a say."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cudalock.candidates import CompanionCandidates, FileRules, Pages, VersionWish
from cudalock.compat import Policy
from cudalock.errors import AnswerIsNo
from cudalock.requirements.model import Request
from cudalock.resolve import Earlier, Resolution, ResolveOptions, resolve
from cudalock.target import Target
from support.memory_index import MemoryIndex
from support.torch_world import add_companion, stock
from support.world import asked, make_target, versions

H100 = make_target("9.0", driver="580.65.06")
A100 = make_target("8.0", driver="580.65.06")


class Run:
    """One run of a command: the targets one after the other."""

    def __init__(self) -> None:
        self.index = stock(MemoryIndex())
        self.earlier = Earlier()
        self.options = ResolveOptions(build_metadata=self.index.metadata)

    def __call__(self, target: Target, *texts: str) -> Resolution:
        request = Request(requirements=asked(*texts), allow_build=frozenset({canonicalize_name("flash-attn")}))
        return resolve(request, target, self.index, policy=Policy(), options=self.options, earlier=self.earlier)

    def refusal(self, target: Target, *texts: str) -> str:
        with pytest.raises(AnswerIsNo) as refused:
            self(target, *texts)
        return refused.value.code


@pytest.fixture
def run() -> Run:
    return Run()


def test_a_gpu_and_driver_for_which_nothing_changes_get_the_same_answer(run: Run) -> None:
    first, again = run(H100, "torch"), run(A100, "torch")
    assert versions(again) == versions(first)
    assert len(run.earlier) == 1
    assert again.triple is not None and first.triple is not None
    assert [str(gpu.gpu) for gpu in again.triple.verdict.gpus] == ["8.0"]
    assert [str(gpu.gpu) for gpu in first.triple.verdict.gpus] == ["9.0"]


def test_the_driver_decides_on_torch(run: Run) -> None:
    newer, older = (run(make_target("9.0", driver=driver), "torch") for driver in ("580.65.06", "535.161.08"))
    assert (versions(newer)["torch"], versions(older)["torch"]) == ("2.15.0+cu130", "2.14.1+cu126")
    assert len(run.earlier) == 2


def test_the_gpu_decides_on_torch(run: Run) -> None:
    newer, older = (run(make_target(gpu, driver="580.65.06"), "torch", "triton") for gpu in ("9.0", "7.0"))
    assert versions(newer)["torch"] == "2.15.0+cu130"
    assert versions(older)["torch"] == "2.14.1+cu126"
    assert len(run.earlier) == 2


def test_the_gpu_decides_on_triton(run: Run) -> None:
    assert versions(run(H100, "triton==3.2.0")) == {"triton": "3.2.0"}
    assert run.refusal(make_target("10.0", driver="580.65.06"), "triton==3.2.0") == "no-admissible-build"
    assert versions(run(A100, "triton==3.2.0")) == {"triton": "3.2.0"}
    assert len(run.earlier) == 1


def test_the_gpu_decides_on_a_companion(run: Run) -> None:
    run.index.add("flash-attn", "2.8.3", sdist=True, overrides={"Dynamic": "Requires-Dist"})
    for name in ("einops", "setuptools", "wheel", "packaging", "ninja", "psutil"):
        run.index.add(name, "1.0")
    assert "flash-attn" in versions(run(A100, "flash-attn", "torch"))
    assert run.refusal(make_target("7.5", driver="580.65.06"), "flash-attn", "torch") == "extension-lacks-gpu"
    assert "flash-attn" in versions(run(H100, "flash-attn", "torch"))
    assert len(run.earlier) == 1


def test_the_driver_decides_under_which_labels_companions_are_looked_for(run: Run) -> None:
    add_companion(run.index, "torchvision", "0.26.0", "torch==2.11.0", label="cu126")

    def companions(driver: str) -> CompanionCandidates:
        target = make_target("9.0", driver=driver)
        return CompanionCandidates(Pages(run.index), FileRules.of(target, Request()), target, Policy())

    before = companions("580.65.06")
    wish = VersionWish(specifiers=SpecifierSet("==0.26.0+cu126"))
    assert [str(version) for version, _ in before.candidates(canonicalize_name("torchvision"), wish, None)]
    assert companions("580.95.05").decides_as(before)
    assert not companions("535.161.08").decides_as(before)
    assert companions("535.161.08").decides_as(companions("580.65.06")), "no label was asked for"
