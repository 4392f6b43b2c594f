"""What differs between two specialisations, in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalock.watch import Variant, causes_of
from cudalock.watch.causes import differences


def argument(kind: str | None = "i32", *, divisible: bool = False, **more: Any) -> dict[str, Any]:
    return {"type": kind, "divisible": divisible, "constant": None, "is_constant": False, "constexpr": False, **more}


def constexpr(value: Any) -> dict[str, Any]:
    return argument(None, constant=value, is_constant=True, constexpr=True)


def variant(**changes: Any) -> Variant:
    arguments = {"x": argument("*fp32", divisible=True), "n": argument(divisible=True), "BLOCK": constexpr(64)}
    values: dict[str, Any] = {
        "options": {"num_warps": 4, "num_stages": 3}, "target": ("cuda", 90), "device": 0, "source": "abc",
    }  # fmt: skip
    values |= {key: changes.pop(key) for key in [*values, "tuned"] if key in changes}
    return Variant(arguments=arguments | changes, **values)


ONE = argument(None, constant=1, is_constant=True)
NONE = argument(None, constant=None, is_constant=True)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"x": argument("*bf16", divisible=True)}, "dtype: x: *fp32 -> *bf16"),
        ({"x": argument("*fp32")}, "divisibility: x: an address divisible by 16 -> an address not divisible by 16"),
        ({"n": argument()}, "divisibility: n: a number divisible by 16 -> a number not divisible by 16"),
        ({"n": ONE}, "equal-to-1: n: any i32 -> the constant 1"),
        ({"x": NONE}, "optional: x: any *fp32 -> None"),
        ({"BLOCK": constexpr(128)}, "constexpr: BLOCK: 64 -> 128"),
        ({"BLOCK": constexpr("64")}, "constexpr: BLOCK: 64 -> '64'"),
        ({"options": {"num_warps": 8, "num_stages": 3}}, "option: num_warps: 4 -> 8"),
        ({"target": ("cuda", 80)}, "target: target: cuda:90 -> cuda:80"),
        ({"device": 1}, "device: device: 0 -> 1"),
        ({"source": "def"}, "source: the kernel's source, or a function or global that it uses, is another"),
        ({}, "again: nothing differs: the same variant was compiled before"),
    ],
)
def test_one_difference_is_named(changes: dict[str, Any], text: str) -> None:
    (cause,) = causes_of(variant(**changes), [variant()])
    assert f"{cause.kind}: {cause}" == text
    assert cause.to_json()["text"] == str(cause)


def test_the_first_variant_has_no_cause() -> None:
    assert [cause.kind for cause in causes_of(variant(), [])] == ["first"]


def test_a_type_and_its_alignment_are_two_differences() -> None:
    causes = causes_of(variant(x=argument("*fp16")), [variant()])
    assert [(cause.kind, cause.argument) for cause in causes] == [("dtype", "x"), ("divisibility", "x")]


def test_the_nearest_variant_counts_not_the_last() -> None:
    far = variant(x=argument("*fp16"), n=ONE, BLOCK=constexpr(128))
    (cause,) = causes_of(variant(BLOCK=constexpr(256)), [variant(), far])
    assert str(cause) == "BLOCK: 64 -> 256"


def test_an_unknown_device_is_no_difference() -> None:
    assert differences(variant(device=None), variant(device=1)) == ()


variants = st.builds(
    variant,
    x=st.sampled_from([argument("*fp32"), argument("*fp16", divisible=True), NONE]),
    n=st.sampled_from([argument(), argument(divisible=True), ONE]),
    BLOCK=st.builds(constexpr, st.sampled_from([16, 32, True, 1])),
    source=st.sampled_from(["a", "b"]),
    device=st.sampled_from([0, 1]),
)


@given(variants, variants)
def test_variants_differ_exactly_if_their_fingerprints_do(old: Variant, new: Variant) -> None:
    assert (old.fingerprint() != new.fingerprint()) == bool(differences(old, new))
    assert len(differences(old, new)) == len(differences(new, old))
