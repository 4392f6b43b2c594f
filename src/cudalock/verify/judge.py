"""Which finding a failed rung is: from the error's own words and from the numbers of libcuda and NVML, purely.

The texts are those that torch, triton, ptxas and the CUDA libraries print; CUDA's error numbers are ``CUresult`` of
the CUDA driver API reference, NVML's ``nvmlReturn_t`` of the NVML API reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cudalock import facts
from cudalock.compat.architecture import serving_architecture
from cudalock.findings import Finding
from cudalock.verify.model import Rung
from cudalock.versions import Architecture, ComputeCapability, CudaVersion

__all__ = ["judge_machine_code", "judge_rung", "key_line"]

_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"Value '\w+' is not defined for option '?-?-?gpu-name", "assembler-does-not-know-gpu"),
    (r"is not a recognized processor for this target", "triton-too-old-for-gpu"),
    (r"unsupported toolchain|UNSUPPORTED_PTX_VERSION|error code:? 222", "ptx-newer-than-driver"),
    (r"no kernel image is available|NO_BINARY_FOR_GPU|invalid value for --gpu-architecture", "gpu-not-in-wheel"),
    (r"device kernel image is invalid|CUDA_ERROR_INVALID_IMAGE", "assembler-newer-than-driver"),
    (
        r"Failed to find C compiler|InvalidC(xx|pp)Compiler|No working C\+?\+? compiler|'(gcc|cc|clang)'",
        "host-compiler-missing",
    ),
    (r"Python\.h: No such file", "python-headers-missing"),
    (r"libcuda\.so cannot found|cannot find -lcuda|libcuda\.so[.\d]*: cannot open", "libcuda-not-found"),
    (r"forward compatibility was attempted on non supported HW", "compat-on-geforce"),
    (
        r"unsupported display driver ?/ ?cuda driver combination|[Dd]river/library version mismatch",
        "driver-library-mismatch",
    ),
    (r"system not yet initialized", "fabric-manager-mismatch"),
    (r"driver is a stub library", "libcuda-stub-loaded"),
    (r"driver version is insufficient|NVIDIA driver on your system is too old", "driver-too-old"),
    (r"Found no NVIDIA driver", "driver-not-found"),
    (r"Torch not compiled with CUDA|was built without CUDA", "torch-is-cpu-build"),
    (r"too old to be supported by the [Tt]riton", "gpu-below-triton"),
    (r"No module named '(triton|pytorch_triton)", "triton-missing"),
    (r"No module named 'torch'", "torch-missing"),
    (r"lib(cu|nv|nccl)\w*\.so[.\d]*: cannot open shared object file", "missing-nvidia-dependency"),
    (r"version `GLIBC_[\d.]+' not found", "glibc-too-old"),
    (r"undefined symbol", "library-shadowed"),
    (r"compiled using NumPy 1|_ARRAY_API not found", "numpy2-with-old-torch"),
    (r"Permission denied: .*(triton|cache)", "triton-cache-unwritable"),
    (r"out of memory", "gpu-out-of-memory"),
)
_TABLE = tuple((re.compile(pattern), code) for pattern, code in _PATTERNS)

_CU_INIT = {
    34: "libcuda-stub-loaded",
    35: "driver-too-old",
    802: "fabric-manager-mismatch",
    803: "driver-library-mismatch",
    804: "compat-on-geforce",
    999: "container-lost-gpu",
}
_NVML_LIBRARY_MISMATCH = 18
_NVML_UNKNOWN = 999

_KEY_LINES = (
    r"^.*\bptxas\S*\s+(?:fatal|error)\s*:.*$",
    r"^.*(?:fatal error|No such file or directory|cannot open shared object|undefined symbol).*$",
    r"^.*(?:CUDA error|CUDA_ERROR|Triton Error).*$",
)


def key_line(text: str) -> str:
    """The line of an error that says what is wrong: ptxas's or the compiler's own, else the first that is not empty."""
    for pattern in _KEY_LINES:
        if match := re.search(pattern, text, re.MULTILINE):
            return match[0].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no message"


def judge_rung(rung: Rung, *, error: str, assembler_override: str | None = None) -> Finding:
    """Names the fault of a rung that failed, hung or crashed; ``error`` is everything that it printed about it."""
    if rung.name == "gpu" and (found := _judge_gpu(rung.data)):
        code, message = found
        return _finding(code, message, rung)
    for pattern, code in _TABLE:
        if pattern.search(error) and (rung.outcome != "timeout"):
            if code == "assembler-does-not-know-gpu":
                return _finding(code, _assembler_message(rung, assembler_override), rung)
            return _finding(code, f"{rung.name}: {rung.detail}", rung)
    if rung.outcome == "timeout":
        return _finding("gpu-test-hung", f"{rung.name}: {rung.detail}", rung)
    if rung.outcome == "crashed":
        return _finding("gpu-test-crashed", f"{rung.name}: {rung.detail}", rung)
    if rung.data.get("kind") == "numbers":
        return _finding("results-differ", f"{rung.name}: {rung.detail}", rung)
    return _finding("gpu-test-failed", f"{rung.name}: {rung.detail}", rung)


def _assembler_message(rung: Rung, override: str | None) -> str:
    where = f" (the one that {override} names)" if override else ""
    wanted = re.search(r"Value '(\w+)'", rung.detail)
    gpu = f"{wanted[1]}" if wanted else "the GPU"
    return f"triton's assembler{where} does not know {gpu}: {rung.detail}"


def _judge_gpu(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """The fault behind a GPU that cannot be used, most specific first."""
    nvml, init = data.get("nvmlInit"), data.get("cuInit")
    if nvml == _NVML_LIBRARY_MISMATCH:
        return (
            "driver-library-mismatch",
            "the loaded kernel driver and the driver's libraries are of different versions",
        )
    if init in _CU_INIT:
        code = _CU_INIT[init]
        return code, f"cuInit fails with error {init}: {_meaning(code)}"
    hidden = data.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and not (data.get("cuda_devices") or data.get("gpus")):
        shown = "is empty" if not hidden.strip() else f"is {hidden!r}"
        if nvml == 0 or init is not None:
            return "no-gpu-visible", f"CUDA_VISIBLE_DEVICES {shown}: no GPU is visible to this process"
    if nvml == _NVML_UNKNOWN:
        return "container-lost-gpu", "NVML fails with error 999: the container has lost its GPU"
    if "libcuda" in data:
        if nvml == 0:
            return "libcuda-not-found", f"the driver is there but its library is not found: {data['libcuda']}"
        return "driver-not-found", f"this machine has no NVIDIA driver ({data['libcuda']})"
    if init is not None and init != 0 and not data.get("gpus"):
        return "driver-not-found", f"the driver shows no GPU (cuInit fails with error {init})"
    return None


def judge_machine_code(data: Mapping[str, Any]) -> tuple[str, tuple[Finding, ...]]:
    """Rule R2 on what the installed torch reports: (text, findings), an error for every GPU that it does not serve.

    ``data`` holds ``architectures`` (as ``torch.cuda.get_arch_list`` gives them), ``capabilities`` (numbers), ``cuda``
    and ``cuda_driver`` (texts or None).
    """
    architectures = tuple(Architecture.parse(text) for text in data["architectures"])
    cuda = CudaVersion.parse(data["cuda"])
    driver = CudaVersion.parse(data["cuda_driver"]) if data.get("cuda_driver") else None
    texts: list[str] = []
    findings: list[Finding] = []
    for number in data["capabilities"]:
        gpu = ComputeCapability(number // 10, number % 10)
        serving = serving_architecture(architectures, gpu, cuda, driver)
        evidence = {"gpu": str(gpu), "architectures": list(data["architectures"]), "cuda": str(cuda)}
        if serving.architecture is None:
            code = "ptx-newer-than-driver" if serving.refused_ptx else "gpu-not-in-wheel"
            holds = " ".join(data["architectures"]) or "no machine code"
            message = f"the installed torch has no code for compute capability {gpu}: it holds {holds}"
            findings.append(_catalogued(code, message, evidence))
            texts.append(message)
            continue
        texts.append(f"{serving.architecture} serves {gpu}")
        if serving.architecture.ptx:
            message = f"compute capability {gpu} is served by PTX only, which the driver compiles at first use"
            findings.append(_catalogued("gpu-only-by-ptx", message, evidence, severity="warning"))
    return "; ".join(texts), tuple(findings)


def _finding(code: str, message: str, rung: Rung) -> Finding:
    evidence = {"rung": rung.name, "outcome": rung.outcome, "text": rung.detail, **_plain(rung.data)}
    return _catalogued(code, message, evidence)


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value not in (None, [], {})}


def _catalogued(code: str, message: str, evidence: Mapping[str, Any], *, severity: str = "error") -> Finding:
    row = facts.finding_codes().get(code)
    return Finding(
        code=code,
        severity="warning" if severity == "warning" else "error",
        message=message,
        evidence=evidence,
        cause=row.meaning if row else None,
        fix=row.fix if row else None,
    )


def _meaning(code: str) -> str:
    row = facts.finding_codes().get(code)
    return row.title if row else code
