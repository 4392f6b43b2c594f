"""For programs: what can be relied on here, before torch is imported.

Example:
    ::

        from cudalock.policy import policy

        here = policy(strict="raise")
        model = AutoModelForCausalLM.from_pretrained(name, **here.as_kwargs(dtype=True))
        if here.compile_trusted:
            model = torch.compile(model)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from cudalock.errors import AnswerIsNo
from cudalock.findings import Finding
from cudalock.host.model import Host
from cudalock.policy.decide import decide, off_pin
from cudalock.policy.model import Attention, Policy
from cudalock.policy.surroundings import Surroundings, read_surroundings

__all__ = ["Attention", "confirm", "Policy", "policy", "TritonPinWarning"]


class TritonPinWarning(UserWarning):
    """Triton is not the version that torch requires."""


def policy(
    *,
    strict: Literal["warn", "raise", "ignore"] = "warn",
    clear_stale: bool = False,
    host: Host | None = None,
    path: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Policy:
    """What can be relied on in this environment, on this machine. Imports neither torch nor transformers.

    Args:
        strict: what to do when triton is not the version that torch requires: ``warn``, ``raise`` or ``ignore``.
        clear_stale: remove cached kernels that this environment can never use again (``cudalock kernels prune``).
        host: the machine; default: this one, as ``cudalock detect`` reads it.
        path: folders with packages in place of ``sys.path``.
        environ: variables in place of the process's.

    Raises:
        AnswerIsNo: ``triton-off-pin`` or ``triton-missing`` with ``strict="raise"``.
    """
    here = read_surroundings(path, environ)
    wrong = off_pin(here)
    if wrong is not None and strict != "ignore":
        _complain(wrong, strict)
    if host is None:
        from cudalock.host import detect

        host = detect()
    if clear_stale:
        _clear_stale(here, host, environ)
    return decide(here, host)


def confirm(found: Policy) -> Policy:
    """Asks torch itself: imports it, and flash-attn if that was chosen, and takes back what does not hold.

    Returns:
        The same policy, or one that trusts less, with the reason in torch's own words.
    """
    try:
        import torch
    except (ImportError, OSError) as error:
        reason = f"torch does not import: {error}"
        return replace(
            found,
            triton_trusted=False,
            triton_reason=reason,
            compile_trusted=False,
            compile_reason=reason,
            attention="eager",
            attention_reason=reason,
        )
    if found.triton_trusted and not torch.cuda.is_available():
        reason = "torch.cuda.is_available() is False"
        found = replace(found, triton_trusted=False, triton_reason=reason, compile_trusted=False, compile_reason=reason)
        if found.attention == "flash_attention_2":
            return replace(found, attention="sdpa", attention_reason=reason)
    if found.attention == "flash_attention_2":
        try:
            __import__("flash_attn")
        except (ImportError, OSError) as error:
            return replace(found, attention="sdpa", attention_reason=f"flash-attn does not import: {error}")
    return found


def _complain(wrong: Finding, strict: str) -> None:
    if strict == "raise":
        raise AnswerIsNo(wrong.code, wrong.message, hint=wrong.fix, details=dict(wrong.evidence))
    warnings.warn(f"{wrong.message}; {wrong.fix}", TritonPinWarning, stacklevel=3)


def _clear_stale(here: Surroundings, host: Host, environ: Mapping[str, str] | None) -> None:
    from cudalock.kernels import kernel_environment, prune, read_caches

    environment = kernel_environment(host, environ=environ)
    mine = next(iter(here.tritons.values())) if len(here.tritons) == 1 else None
    prune(read_caches(environ), replace(environment, triton=mine), delete=True)
