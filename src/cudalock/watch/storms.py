"""When is it a storm, what makes it, and what ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cudalock.findings import Finding
from cudalock.watch.model import Compilation, CompiledFunction, WatchedKernel

__all__ = ["count_of_storm", "function_storm", "kernel_storm"]

_Ranked = Sequence[tuple[tuple[str, str | None], int]]


def count_of_storm(compilations: tuple[Compilation, ...]) -> int:
    """How many compilations count: the most in one process, or the different ones in all of them if those are more.

    The ranks of a job compile the same variants each. What an autotuner tries out for one variant counts once.
    """
    compiled = [it for it in compilations if it.action == "compiled"]
    in_process: Counter[int] = Counter()
    rounds: set[tuple[int, str]] = set()
    different: set[str] = set()
    for one in compiled:
        fingerprint = one.variant.fingerprint(without_tuned=True)
        different.add(fingerprint)
        if not one.tuned:
            in_process[one.pid] += 1
        elif (one.pid, fingerprint) not in rounds:
            rounds.add((one.pid, fingerprint))
            in_process[one.pid] += 1
    return max(len(different), *in_process.values()) if in_process else 0


def kernel_storm(kernel: WatchedKernel, threshold: int) -> Finding | None:
    """The finding if the kernel was compiled more often than the threshold allows."""
    count = count_of_storm(kernel.compilations)
    if count <= threshold:
        return None
    compiled = [it for it in kernel.compilations if it.action == "compiled" and not it.tuned]
    causes = Counter((cause.kind, cause.argument) for it in compiled for cause in it.causes if cause.kind != "first")
    ranked = causes.most_common()
    capturing = sum(it.capturing for it in compiled)
    autocast = sorted({it.autocast or "off" for it in compiled})
    evidence: dict[str, Any] = {
        "kernel": kernel.name,
        "file": kernel.file,
        "line": kernel.line,
        "compiled": count,
        "threshold": threshold,
        "seconds": round(kernel.seconds, 3),
        "causes": [{"kind": kind, "argument": argument, "count": n} for (kind, argument), n in ranked],
        "autocast": autocast,
        "while_capturing": capturing,
    }
    return Finding(
        code="recompile-storm",
        severity="warning",
        message=f"kernel {kernel.name} was compiled {count} times (threshold {threshold}): {kernel.seconds:.1f} s",
        evidence=evidence,
        cause=_cause(ranked, autocast, capturing),
        fix=_fix(ranked, autocast, capturing),
    )


def function_storm(function: CompiledFunction, threshold: int) -> Finding | None:
    """The finding if torch.compile compiled a function until it gave up, or above the threshold."""
    given_up = function.limit is not None and function.compiled >= function.limit
    if function.compiled <= threshold and not given_up:
        return None
    tail = f", its limit of {function.limit}: further calls run without compilation" if given_up else ""
    return Finding(
        code="recompile-storm",
        severity="warning",
        message=f"torch.compile compiled {function.name} {function.compiled} times{tail}",
        evidence={**function.to_json(), "threshold": threshold},
        cause=f"it was compiled again because: {function.reasons[0]}" if function.reasons else None,
        fix="mark sizes that change with torch._dynamo.mark_dynamic, and keep autocast and gradients in one state",
    )


def _name(kind: str, argument: str | None) -> str:
    return {
        "dtype": f"the type of {argument}",
        "divisibility": f"whether {argument} is divisible by 16",
        "equal-to-1": f"whether {argument} is 1",
        "optional": f"whether {argument} is None",
        "constexpr": f"the constexpr {argument}",
        "option": f"the option {argument}",
        "device": "the GPU",
        "target": "the architecture",
        "source": "the kernel's source",
        "again": "nothing: the same variant was compiled again",
    }.get(kind, kind)


def _cause(ranked: _Ranked, autocast: list[str], capturing: int) -> str:
    parts = [f"{_name(kind, argument)} ({n} times)" for (kind, argument), n in ranked[:3]]
    text = f"what changed: {', '.join(parts)}" if parts else "an autotuner ran for many variants"
    if len(autocast) > 1:
        text += f"; autocast was {' and '.join(autocast)}"
    if capturing:
        text += f"; {capturing} of them while a CUDA graph was being captured"
    return text


def _fix(ranked: _Ranked, autocast: list[str], capturing: int) -> str:
    steps: list[str] = []
    kind, argument = ranked[0][0] if ranked else ("", None)
    if kind == "constexpr":
        steps.append(f"round {argument} up to a few values, or pass it as an ordinary argument")
    elif kind == "equal-to-1":
        steps.append(f'declare the kernel with @triton.jit(do_not_specialize=["{argument}"])')
    elif kind == "divisibility":
        steps.append(f'declare the kernel with @triton.jit(do_not_specialize_on_alignment=["{argument}"])')
    elif kind == "dtype" and len(autocast) > 1:
        steps.append(f"cast {argument} to one type before the kernel: what autocast makes of it changes")
    elif kind == "dtype":
        steps.append(f"pass {argument} in one type")
    elif kind == "option":
        steps.append(f"choose {argument} once")
    elif kind == "optional":
        steps.append(f"pass {argument} always or never")
    elif kind == "source":
        steps.append("define the kernel once, without values that change in its closure")
    elif kind == "again":
        steps.append(
            "define the kernel once, outside of loops, and keep TRITON_CACHE_DIR and leave TRITON_ALWAYS_COMPILE unset"
        )
    else:
        steps.append("give the autotuner fewer configurations and round sizes up to a few values")
    if capturing:
        steps.append("run each variant once before the CUDA graph is captured")
    return "; ".join(steps)
