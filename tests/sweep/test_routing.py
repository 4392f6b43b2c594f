"""Rule R6 on the wire: nothing but the torch family is ever asked of the PyTorch index, and each family name of its own page."""

from __future__ import annotations

import httpx
import pytest
from packaging.requirements import Requirement

from cudalock.compat import Policy
from cudalock.errors import AnswerIsNo
from cudalock.index import IndexClient, IndexSettings
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve import Resolution, resolve
from cudalock.target import TargetOptions, build_target
from faithful.serve import FaithfulIndexes

# design.md R6: what may come from a PyTorch index.
FAMILY = frozenset({
    "torch", "torchvision", "torchaudio", "torchcodec", "torchao", "xformers", "triton", "pytorch-triton",
})  # fmt: skip
H100_ON_580 = ("H100", "580.95.05", "linux-x86_64")
V100_ON_580 = ("V100", "580.95.05", "linux-x86_64")
RTX_5090_ON_570 = ("RTX 5090", "570.86.16", "linux-x86_64")
GB10_ON_580 = ("GB10", "580.95.05", "linux-aarch64")
T4_ON_WINDOWS = ("T4", "581.29", "win-amd64")
ASKED = {
    "torch": (["torch"], H100_ON_580),
    "torch torchvision transformers": (["torch", "torchvision", "transformers", "accelerate"], V100_ON_580),
    "torch torchvision torchaudio": (["torch", "torchvision", "torchaudio"], RTX_5090_ON_570),
    "vllm": (["vllm"], H100_ON_580),
    "vllm on Volta": (["vllm"], V100_ON_580),
    "xformers": (["xformers"], V100_ON_580),
    "xformers on Windows": (["xformers==0.0.33"], T4_ON_WINDOWS),
    "torchao bitsandbytes": (["torch", "torchao", "bitsandbytes"], RTX_5090_ON_570),
    "torch torchcodec on aarch64": (["torch", "torchcodec", "numpy"], GB10_ON_580),
    "torch of a label": (["torch==2.9.1+cu126", "numpy", "pillow"], H100_ON_580),
}


def answer(indexes: FaithfulIndexes, requirements: list[str], machine: tuple[str, str, str]) -> Resolution | None:
    """What resolution says over HTTP; None for a refusal."""
    gpu, driver, platform = machine
    target = build_target(TargetOptions(gpus=(gpu,), driver=driver, python="3.12", platform=platform))
    asked = tuple(AskedRequirement(requirement=Requirement(text), origin="argument") for text in requirements)
    settings = IndexSettings(main_url="https://main.example/simple/", retries=0)
    with IndexClient(settings, environ={}, transport=httpx.WSGITransport(app=indexes)) as client:
        try:
            return resolve(Request(requirements=asked), target, client, policy=Policy())
        except AnswerIsNo:
            return None


@pytest.mark.parametrize("name", ASKED)
def test_only_the_torch_family_is_asked_of_the_pytorch_index(name: str) -> None:
    indexes = FaithfulIndexes()
    found = answer(indexes, *ASKED[name])
    assert found is not None
    pages = {request.project for request in indexes.log if request.index == "pytorch" and request.project is not None}
    assert pages <= FAMILY
    # the main index's own torch is native there and what vllm is made for: no label is worth a request
    assert ("torch" in pages) == (name != "vllm")
    files = [
        request.path.rsplit("/", 1)[1]
        for request in indexes.log
        if request.index == "pytorch" and request.project is None
    ]
    assert {file.split("-")[0].lower().replace("_", "-") for file in files} <= FAMILY
    taken = {str(pin.name) for pin in found.pins if pin.file.page.index == "pytorch"}
    assert taken <= FAMILY


@pytest.mark.parametrize("requirements", [["numpy", "pillow"], ["transformers"], ["cuda-bindings", "filelock"]])
def test_without_torch_the_pytorch_index_is_not_asked_at_all(requirements: list[str]) -> None:
    indexes = FaithfulIndexes()
    found = answer(indexes, requirements, H100_ON_580)
    assert found is not None and found.triple is None
    assert {request.index for request in indexes.log} == {"main"}


def test_a_refusal_asks_no_more_than_an_answer() -> None:
    indexes = FaithfulIndexes()
    assert answer(indexes, ["torch==2.13.0", "torchvision", "numpy"], RTX_5090_ON_570) is None
    assert {request.project for request in indexes.log if request.index == "pytorch" and request.project} <= FAMILY
