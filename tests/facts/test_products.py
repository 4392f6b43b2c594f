"""Names of products are understood the way people and tools write them; what is ambiguous is never guessed."""

from __future__ import annotations

import pytest

from cudalock import facts
from cudalock.versions import ComputeCapability, DriverVersion

CC = ComputeCapability.parse


CAPABILITIES = sorted({capability for found in facts.product_names().values() for capability in found})


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_every_product_resolves_to_its_capability(capability: ComputeCapability) -> None:
    for name in (name for name, found in facts.product_names().items() if capability in found):
        for written in (name, f"NVIDIA {name}", name.upper(), f"  {name.lower()} "):
            assert capability in facts.find_product(written).capabilities, written


def test_only_names_of_several_chips_are_ambiguous() -> None:
    several = {name for name, found in facts.product_names().items() if len(facts.find_product(name).capabilities) > 1}
    assert several == {
        "GeForce GT 730", "GeForce GT 730M", "GeForce GT 740M", "GeForce GTX 750 Ti", "GeForce GTX 860M", "TITAN X",
    }  # fmt: skip


def test_there_are_as_many_products_as_the_sources_list() -> None:
    assert len(facts.product_names()) >= 590


@pytest.mark.parametrize(
    ("name", "capability", "forward"),
    [
        ("RTX 4090", "8.9", False), ("H100", "9.0", True), ("A100-SXM4-40GB", "8.0", True), ("NVIDIA H200", "9.0", True),
        ("B200", "10.0", True), ("V100", "7.0", True), ("GTX 1080", "6.1", False), ("K80", "3.7", True),
        ("T4", "7.5", True), ("L4", "8.9", True), ("GB10", "12.1", None), ("Jetson AGX Orin", "8.7", True),
        ("Thor", "11.0", True), ("RTX PRO 6000 Blackwell", "12.0", None), ("rtx3090ti", "8.6", False),
        ("GTX1080Ti", "6.1", False), ("H100 80GB HBM3", "9.0", True), ("Tesla V100-SXM2-16GB", "7.0", True),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9", False), ("NVIDIA A10-24Q", "8.6", True),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "8.0", True), ("RTX 6000 Ada", "8.9", None), ("RTX A4000", "8.6", None),
        ("Quadro RTX 5000", "7.5", None), ("MSI GeForce RTX 3060 12GB", "8.6", False), ("A6000", "8.6", None),
        ("NVIDIA TITAN X (Pascal)", "6.1", False), ("GTX TITAN X", "5.2", False), ("titan v", "7.0", False),
        ("DGX Spark", "12.1", None), ("5090", "12.0", False), ("L40S", "8.9", True), ("GH200", "9.0", True),
        ("B300", "10.3", True), ("GB200", "10.0", True), ("RTX 5070 Ti", "12.0", False),
    ],
)  # fmt: skip
def test_names_as_people_write_them(name: str, capability: str, forward: bool | None) -> None:
    found = facts.find_product(name)
    assert found.capabilities == (CC(capability),)
    assert found.forward_compatible is forward


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("GeForce RTX 2050", "8.6"), ("GeForce MX570", "8.6"), ("GeForce RTX 3050 A Laptop GPU", "8.9"),
        ("RTX 3050", "8.6"), ("GeForce GT 1030", "6.1"),
    ],
)  # fmt: skip
def test_names_that_mislead(name: str, capability: str) -> None:
    assert facts.find_product(name).capabilities == (CC(capability),)


@pytest.mark.parametrize(
    ("name", "capabilities"),
    [
        ("GTX 750 Ti", ["3.0", "5.0"]), ("GT 730", ["3.0", "3.5"]), ("GeForce GTX 860M", ["3.0", "5.0"]),
        ("RTX 6000", ["7.5", "8.9"]), ("RTX 5000", ["7.5", "8.9"]), ("TITAN X", ["5.2", "6.1"]),
    ],
)  # fmt: skip
def test_ambiguous_names_give_all_capabilities(name: str, capabilities: list[str]) -> None:
    assert facts.find_product(name).capabilities == tuple(CC(text) for text in capabilities)


def test_integrated_gpus() -> None:
    assert facts.find_product("Jetson Orin Nano").integrated
    assert facts.find_product("GB10").integrated
    assert not facts.find_product("H100").integrated


def test_lowest_driver_of_a_product() -> None:
    assert facts.find_product("B200").min_driver == DriverVersion("570.133.20")
    assert facts.find_product("RTX 5090").min_driver == DriverVersion("570.86.16")
    assert facts.find_product("GTX 1080").min_driver is None


@pytest.mark.parametrize("name", ["RTX 9090", "MI300X", "", "   ", "RTX", "GeForce", "NVIDIA", "💥", "x" * 5000])
def test_unknown_names_are_typed_errors(name: str) -> None:
    with pytest.raises(facts.UnknownProduct) as raised:
        facts.find_product(name)
    assert raised.value.code == "gpu-unknown"
    assert raised.value.exit_status == 2


def test_near_names_are_offered() -> None:
    with pytest.raises(facts.UnknownProduct) as raised:
        facts.find_product("GeForce RTX 4190")
    assert "GeForce RTX 4090" in raised.value.details["near"]
    assert "GeForce RTX 4090" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("device", "capability"),
    [("2330", "9.0"), ("0x2b85", "12.0"), ("2B86", "12.0"), ("20b0", "8.0"), ("FFFF", None), ("zz", None), ("", None)],
)
def test_product_of_pci(device: str, capability: str | None) -> None:
    assert facts.product_of_pci(device) == (CC(capability) if capability else None)
