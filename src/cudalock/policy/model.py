"""What a program may rely on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cudalock.findings import Finding

__all__ = ["Attention", "Policy"]

Attention = Literal["flash_attention_2", "sdpa", "eager"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Whether Triton and torch.compile can be trusted here, and the attention that will work.

    Attributes:
        triton_trusted: whether kernels written in Triton will compile and run on every GPU.
        triton_reason: why, or why not.
        compile_trusted: whether ``torch.compile`` will work.
        compile_reason: why, or why not.
        attention: the best backend that will work, as ``attn_implementation`` of transformers names it.
        attention_reason: why it, and why not a better one.
        dtype: ``bfloat16``, ``float16`` or ``float32``: the smallest type in which all GPUs calculate.
        dtype_keyword: what the installed transformers calls it.
        findings: what is wrong, by the codes of the catalogue.
    """

    triton_trusted: bool
    triton_reason: str
    compile_trusted: bool
    compile_reason: str
    attention: Attention
    attention_reason: str
    dtype: str = "float32"
    dtype_keyword: str = "dtype"
    findings: tuple[Finding, ...] = ()

    def as_kwargs(self, *, dtype: bool = False) -> dict[str, Any]:
        """Keyword arguments for ``from_pretrained`` of transformers.

        Args:
            dtype: also the type of the weights, as text: from transformers 4.56 on ``dtype``, before ``torch_dtype``.
        """
        arguments: dict[str, Any] = {"attn_implementation": self.attention}
        if dtype:
            arguments[self.dtype_keyword] = self.dtype
        return arguments

    def to_json(self) -> dict[str, Any]:
        """The policy as JSON."""
        return {
            "triton": {"trusted": self.triton_trusted, "reason": self.triton_reason},
            "compile": {"trusted": self.compile_trusted, "reason": self.compile_reason},
            "attention": {"backend": self.attention, "reason": self.attention_reason},
            "dtype": self.dtype,
            "findings": [finding.to_json() for finding in self.findings],
        }
