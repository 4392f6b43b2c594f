"""What a program may rely on in an environment: ``data/programs.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import Version

from cudalock.facts.loader import cached, table
from cudalock.versions import ComputeCapability

__all__ = ["attention_limits", "AttentionLimits", "compile_since"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLimits:
    """The least versions for an attention backend, and the GPUs for a floating-point type.

    Attributes:
        sdpa_torch, sdpa_transformers: for PyTorch's own fused attention.
        flash_attn, flash_transformers: for FlashAttention 2.
        dtype_keyword_since: transformers that names the keyword ``dtype`` instead of ``torch_dtype``.
        bfloat16_from, float16_from: least compute capability with arithmetic in that type.
    """

    sdpa_torch: Version
    sdpa_transformers: Version
    flash_attn: Version
    flash_transformers: Version
    dtype_keyword_since: Version
    bfloat16_from: ComputeCapability
    float16_from: ComputeCapability


@cached
def attention_limits() -> AttentionLimits:
    """How transformers decides. Source: its ``utils/import_utils.py``, see ``data/programs.toml``."""
    row = table("programs").section("attention")
    types = table("programs").section("dtypes")
    return AttentionLimits(
        sdpa_torch=row.parsed("sdpa_torch", Version),
        sdpa_transformers=row.parsed("sdpa_transformers", Version),
        flash_attn=row.parsed("flash_attn", Version),
        flash_transformers=row.parsed("flash_transformers", Version),
        dtype_keyword_since=row.parsed("dtype_keyword_since", Version),
        bfloat16_from=types.parsed("bfloat16_from", ComputeCapability.parse),
        float16_from=types.parsed("float16_from", ComputeCapability.parse),
    )


@cached
def _compile() -> Mapping[str, Version]:
    rows = table("programs").by_key("compile", lambda row: row.text("python"))
    return {python: row.parsed("torch", Version) for python, row in rows.items()}


def compile_since(python: tuple[int, int]) -> Version | None:
    """The first torch whose torch.compile accepts a Python; None for one that every torch since 2.0 accepts.

    A Python newer than the table's newest is taken to be accepted: it would be wrong to refuse what nobody has tried.
    """
    return _compile().get(f"{python[0]}.{python[1]}")
