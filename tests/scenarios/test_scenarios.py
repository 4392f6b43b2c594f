"""Every scenario against the faithful indexes: the triple that is right for the machine, or a refusal people can act on."""

from __future__ import annotations

import json

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cudalock.errors import CudalockError
from cudalock.resolve import Resolution, resolve
from faithful.reader import FaithfulReader
from scenarios.scenario import Scenario, load

FAMILY = frozenset({
    "torch", "torchvision", "torchaudio", "torchcodec", "torchao", "xformers", "triton", "pytorch-triton",
})  # fmt: skip


def run(scenario: Scenario, reader: FaithfulReader) -> Resolution:
    return resolve(scenario.request(), scenario.target(), reader, policy=scenario.policy(), options=scenario.options())


@pytest.mark.parametrize("scenario", [s for s in load() if s.get("expect")], ids=str)
def test_answer(scenario: Scenario) -> None:
    reader = FaithfulReader(pytorch_reachable=scenario.get("pytorch-reachable", True))
    resolution = run(scenario, reader)
    triple = resolution.triple
    assert triple is not None
    expect = scenario.get("expect")
    found = {
        "torch": str(triple.torch),
        "triton": str(triple.triton or ""),
        "cuda": str(triple.cuda) if triple.cuda else None,
        "source": triple.build.source,
        "mode": str(triple.verdict.mode) if triple.verdict.mode else None,
    }
    assert {key: found[key] for key in expect} == expect
    pins = {pin.name: pin for pin in resolution.pins}
    for name, wanted in scenario.get("pins", {}).items():
        assert SpecifierSet(wanted).contains(pins[canonicalize_name(name)].version), pins[
            canonicalize_name(name)
        ].version
    for name, source in scenario.get("sources", {}).items():
        assert pins[canonicalize_name(name)].file.page.index == source
    assert not [name for name in scenario.get("absent", ()) if name in pins]
    codes = {note.code for note in (*resolution.notes, *triple.verdict.notes)}
    assert set(scenario.get("notes", ())) <= codes
    assert bool(resolution.warnings) == scenario.get("warnings", False)
    for word in scenario.get("held-back", ()):
        assert any(word in sentence for sentence in resolution.held_back)
    for words in scenario.get("target-notes", ()):
        assert any(words in note for note in scenario.target().notes)
    only_family_from_pytorch(reader, resolution)


@pytest.mark.parametrize("scenario", [s for s in load() if s.get("refuse")], ids=str)
def test_refusal(scenario: Scenario) -> None:
    refuse = scenario.get("refuse")
    reader = FaithfulReader(pytorch_reachable=scenario.get("pytorch-reachable", True))
    with pytest.raises(CudalockError) as caught:
        run(scenario, reader)
    error = caught.value
    assert error.exit_status in {1, 2, 3}
    if "code" in refuse:
        assert error.code == refuse["code"], error.message
    text = f"{error.message}\n{error.hint}\n{json.dumps(dict(error.details), ensure_ascii=False)}"
    for words in refuse.get("says", ()):
        assert any(word in text for word in words.split("|")), text
    shown = f"{error.message}\n{error.hint}"
    assert not [words for words in refuse.get("never-says", ()) if words in shown], shown
    assert error.hint, "a refusal names the next step"
    only_family_from_pytorch(reader, None)


def only_family_from_pytorch(reader: FaithfulReader, resolution: Resolution | None) -> None:
    """Rule R6: no other name is ever asked of the PyTorch index, and no other file is taken from it."""
    assert {str(ref.project) for ref in reader.log if ref.index == "pytorch"} <= FAMILY
    if resolution is not None:
        assert {str(pin.name) for pin in resolution.pins if pin.file.page.index == "pytorch"} <= FAMILY
