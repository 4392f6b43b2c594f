"""Turns the recorded cases (one JSON object a line) into facts files with the expected findings.

Usage: ``python tests/doctor/convert_cases.py cases.jsonl tests/doctor/cases``

What a case's text does not decide stays unknown. Three things cannot be read off by a pattern and stand in tables here:
which message of a program a symptom paraphrases (``PRINTED``: the programs' own words), the packages of cases that tell
a story rather than a version (``PACKAGES``), and the catalogue's name of each diagnosis (``CODES``).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CODES = {
    "ARCH_NOT_IN_WHEEL": "gpu-not-in-wheel",
    "EXT_ARCH_MISSING": "extension-lacks-gpu",
    "TRITON_TWO_DISTS": "triton-two-distributions",
    "TRITON_TOO_OLD_FOR_ARCH": "triton-too-old-for-gpu",
    "TRITON_ARCH_UNSUPPORTED": "gpu-below-triton",
    "TRITON_PTXAS_MAJOR_GT_DRIVER": "assembler-newer-than-driver",
    "TRITON_OFF_PIN": "triton-off-pin",
    "TRITON_CACHE_ON_NFS": "triton-cache-on-network-filesystem",
    "TRITON_CACHE_STALE": "triton-cache-stale",
    "PTXAS_ARCH_UNKNOWN": "assembler-does-not-know-gpu",
    "PTXAS_OVERRIDE": "assembler-overridden",
    "PTX_NEWER_THAN_DRIVER": "ptx-newer-than-driver",
    "VGPU_GUEST": "vgpu-guest",
    "DRIVER_TOO_OLD": "driver-too-old",
    "DRIVER_LIBRARY_MISMATCH": "driver-library-mismatch",
    "DRIVER_PKG_IN_CONTAINER": "driver-package-in-container",
    "MINOR_COMPAT_LIMIT": "minor-compat-in-use",
    "SYSTEM_CUDA_NOT_ON_LOADER_PATH": "cuda-libraries-not-on-path",
    "TORCH_IS_CPU_BUILD": "torch-is-cpu-build",
    "FORWARD_COMPAT_POSSIBLE": "forward-compat-possible",
    "CUDA_COMPAT_ON_GEFORCE": "compat-on-geforce",
    "LIBCUDA_STUB": "libcuda-stub-loaded",
    "CONTAINER_REQUIRE_CUDA": "container-requires-newer-cuda",
    "COMPANION_CUDA_MISMATCH": "companion-cuda-mismatch",
    "COMPANION_MISMATCH": "companion-mismatch",
    "EXT_ABI_MISMATCH": "extension-abi-mismatch",
    "EXT_BUILD_TORCH_DIFFERS": "extension-build-differs",
    "EXT_CUDA_MAJOR_MISMATCH": "extension-cuda-major-mismatch",
    "FILE_CLOBBERED": "files-clobbered",
    "NCCL_OFF_PIN": "nccl-off-pin",
    "BNB_NO_BINARY_FOR_CUDA": "bitsandbytes-no-binary",
    "LIB_SHADOWED": "library-shadowed",
    "CUDNN_MIXED": "cudnn-mixed",
    "CUDNN_MAJOR_MISMATCH": "cudnn-mixed",
    "CUDNN_NOT_ON_PATH": "cuda-libraries-not-on-path",
    "MISSING_NVIDIA_DEP": "missing-nvidia-dependency",
    "UNUSED_NVIDIA_LIBS": "unused-nvidia-libraries",
    "UNDECLARED_ELF_NEEDED": "undeclared-needed-library",
    "WSL_LIBCUDA": "libcuda-not-found",
    "HOST_COMPILER_MISSING": "host-compiler-missing",
    "PYTHON_HEADERS_MISSING": "python-headers-missing",
    "DEP_CONFLICT": "requirements-conflict",
    "INDEX_DEP_PRUNED": "index-dependency-missing",
    "FLAVOUR_DRIFT": "lock-drift",
    "MIG_ONE_INSTANCE": "mig-one-instance-visible",
    "NO_WHEEL_FOR_PYTHON": "no-wheel-for-python",
    "MUSL_UNSUPPORTED": "musl-unsupported",
    "TARGET_UNKNOWN": "target-unknown",
    "NUMPY2_WITH_OLD_TORCH": "numpy2-with-old-torch",
}
# Said in words instead of by a name.
IN_WORDS = {"C050": ["compat-on-geforce"]}
# The symptom names the fault, and the answer only what would lift it.
ALSO = {"C051": ["driver-too-old"]}

NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
TOO_OLD = "The NVIDIA driver on your system is too old (found version {})"
PRINTED: dict[str, list[str]] = {
    **{name: [NO_IMAGE] for name in ("C001", "C002", "C004", "C011", "C013", "C016")},
    "C009": ["RuntimeError: CUDA error: device not ready"],
    "C020": ["RuntimeError: FlashAttention only supports Ampere GPUs or newer."],
    "C021": [
        "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error",
        "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
    ],
    "C022": ["ptxas-blackwell fatal   : Value 'sm_110a' is not defined for option 'gpu-name'"],
    "C025": ["ptxas fatal   : Value 'sm_100' is not defined for option 'gpu-name'"],
    "C026": ["ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'"],
    "C029": [NO_IMAGE, "ptxas /tmp/tmp.ptx, line 5; fatal   : PTX version 8.4 does not support .target 'sm_120a'"],
    "C030": ["RuntimeError: CUDA error: device kernel image is invalid"],
    "C031": ["RuntimeError: Triton Error [CUDA]: device kernel image is invalid"],
    "C032": ["RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain."],
    "C033": ["CUDA error 222 at ggml-cuda.cu:5548: the provided PTX was compiled with an unsupported toolchain."],
    "C035": [TOO_OLD.format(12070)],
    "C036": [TOO_OLD.format(12080)],
    "C037": ["CUDA error 35: CUDA driver version is insufficient for CUDA runtime version"],
    "C042": ["RuntimeError: CUDA error: operation not supported"],
    "C044": ["OSError: libnppicc.so.13: cannot open shared object file: No such file or directory"],
    "C050": ["Error 804: forward compatibility was attempted on non supported HW"],
    "C051": [TOO_OLD.format(12090)],
    "C053": ["CUDA Error 34: CUDA driver is a stub library"],
    "C056": ["nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver"],
    "C058": ["Failed to initialize NVML: Driver/library version mismatch"],
    "C060": ["RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions."],
    "C061": ["RuntimeError: Could not load libtorchcodec."],
    "C062": ["OSError: /site-packages/torchaudio/lib/libtorchaudio.so: undefined symbol: torch_library_impl"],
    "C064": ["ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs"],
    "C065": ["ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"],
    "C066": [
        "ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib"
    ],
    "C068": ["OSError: torch_scatter/_version_cuda.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSs"],
    "C072": ["ImportError: libcudart.so.13: cannot open shared object file: No such file or directory"],
    "C074": ["ImportError: torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume"],
    "C075": ["ImportError: torch/lib/libtorch_cuda.so: undefined symbol: ncclMemFree"],
    "C076": ["ImportError: torch/lib/libtorch_cuda.so: undefined symbol: ncclAlltoAll"],
    "C079": ["RuntimeError: Configured CUDA binary not found at bitsandbytes/libbitsandbytes_cuda129.so"],
    "C081": ["ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12"],
    "C082": ["RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"],
    "C083": ["RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasLtMatmul`"],
    "C084": ["Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9.1, libcudnn_cnn.so.9, libcudnn_cnn.so}"],
    "C085": ["ImportError: libcusparseLt.so.0: cannot open shared object file: No such file or directory"],
    "C088": ["/usr/bin/ld: cannot find -lcuda: No such file or directory"],
    "C089": ["RuntimeError: Failed to find C compiler. Please specify via CC environment variable."],
    "C090": ["/tmp/tmpx/cuda_utils.c:6:10: fatal error: Python.h: No such file or directory"],
    "C091": ["/tmp/tmpx/main.c:4:10: fatal error: Python.h: No such file or directory"],
    "C093": ["OSError: [Errno 116] Stale file handle: '/home/user/.triton/cache/X/cuda_utils.so'"],
    "C094": ["ImportError: DLL load failed while importing cuda_utils: The specified module could not be found."],
    "C095": ["ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler'"],
    "C098": ["ModuleNotFoundError: No module named 'triton.language'"],
    "C109": [
        "ERROR: Could not find a version that satisfies the requirement nvidia-cudnn-cu12==9.1.0.70 (from torch)",
        "ERROR: ResolutionImpossible",
    ],
    "C117": ["  × No solution found when resolving dependencies: torch depends on cuda-toolkit==13.0.2, unsatisfiable"],
    "C125": ["ImportError: libnvpl_lapack_lp64_gomp.so.0: cannot open shared object file: No such file or directory"],
    "C133": ["ERROR: No matching distribution found for torch"],
    "C137": ["A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.0 as it may crash."],
    "C138": ["RuntimeError: Found GPU which is too old to be supported by the triton GPU compiler: capability < 7.0"],
    "C139": ["RuntimeError: Found GPU which is too old to be supported by the triton GPU compiler: capability < 7.0"],
}

PACKAGES: dict[str, dict[str, str]] = {
    "C003": {"torch": "2.7.1+cu126"},  # the image's torch release is named in the answer, its flavour in the cause
    "C013": {"torch": "2.11+cu130"},  # >=2.11,<2.12 from the cu130 index
    "C015": {"torch": "cu128"},
    "C016": {"torch": "cu130", "vllm": "0.19.1rc1.dev391"},  # "default cu13 build"
    "C019": {"torch": "2.8+cu128"},
    "C038": {"torch": "cu130"},
    "C042": {"torch": "cu124"},  # built from source with toolkit 12.3 or 12.4
    "C062": {"torch": "2.6", "torchaudio": "2.11.0"},
    "C064": {"torch": "2.7.0+cu128", "flash-attn": "2.7.4.post1"},
    "C069": {"torch": "2.12.1+cu130", "flash-attn": "2.8.1+torch2.10"},
    "C101": {"torch": "2.9.0+cpu", "xformers": "0.0.33"},
    "C104": {"torch": "2.2.0+cpu", "xformers": "0.0.25.dev741+cu121"},
    "C109": {"torch": "2.6.0+cu124"},
    "C111": {"torch": "2.8.0"},
    "C113": {"torch": "2.7.0+cpu", "nvidia-cublas-cu12": "?", "nvidia-cudnn-cu12": "?"},
    "C124": {"torch": "2.13.0+cu130"},
    "C141": {"torch": "2.9.1"},
}
TOOLS: dict[str, dict[str, str | None]] = {
    "C089": {"cc": None},
    "C090": {"python_headers": None},
    "C091": {"python_headers": None},
}
FILES: dict[str, dict[str, Any]] = {"C093": {"~/.triton/cache": {"filesystem": "nfs"}}}
NO_PACKAGES = re.compile(r"cuda|system|ptxas|nvcc|image|nvidia-\*|nvidia-container-toolkit")


def host_of(case: dict[str, Any]) -> dict[str, Any]:
    """The machine, as far as the text decides it."""
    said = case["host"]
    host: dict[str, Any] = {"machine": said["machine"]}
    os = said["os"] or ""
    wsl = "WSL" in os
    if (os.startswith("Windows") and not wsl and "Linux" not in os) or os.startswith("Win11"):
        host["os"] = "windows"
    elif "Windows" not in os:
        host["os"] = "linux"
    if wsl:
        host |= {"os": "linux", "wsl": True}
    if said["libc"] == "musl" or re.fullmatch(r"glibc \d\.\d+", said["libc"] or ""):
        host["libc"] = said["libc"]
    if re.fullmatch(r"3\.\d+(\.\d+)?", said["python"] or ""):
        host["python"] = said["python"]
    host |= driver_of(said["driver"] or "")
    if gpus := [gpu_of(gpu) for gpu in said["gpus"]]:
        host["gpus"] = gpus
    elif said["driver"] == "none":
        host["gpus"] = []
    if any("Jetson" in gpu["name"] for gpu in said["gpus"]):
        host["jetson"] = True
    if image := case["env"]["packages"].get("image"):
        host["container"] = {"require_cuda": image}
    return host


def driver_of(text: str) -> dict[str, str]:
    """Driver and CUDA release; "inferred", several or a mere bound decide nothing."""
    if re.search(r"inferred|->|/|<", text):
        return {}
    found = {}
    if match := re.match(r"(\d{3}(?:\.\d+){0,2})", text):
        found["driver"] = match[1]
    if match := re.search(r"reports (\d\d)0(\d)0|(?:CUDA |\(|shows )(\d+\.\d+)", text):
        found["cuda_driver"] = match[3] or f"{match[1]}.{match[2]}"
    return found


def gpu_of(said: dict[str, Any]) -> dict[str, Any]:
    """A GPU; one of which only its being there is known keeps a name that no table knows."""
    known = re.fullmatch(r"\d+\.\d", said["cc"])
    gpu: dict[str, Any] = {"name": said["name"] if known else "NVIDIA GPU"}
    if known:
        gpu["compute_capability"] = said["cc"]
    if said["count"] > 1:
        gpu["count"] = said["count"]
    return gpu


def packages_of(case: dict[str, Any]) -> dict[str, str]:
    """Name -> version with its label; the index names the label where the version does not."""
    if case["id"] in PACKAGES:
        return PACKAGES[case["id"]]
    found = {}
    for name, text in case["env"]["packages"].items():
        if NO_PACKAGES.match(name) and not name.startswith("cuda-toolkit"):
            continue
        version = re.search(r"\d+\.\d+(?:\.(?!x)\w+)*(?:\+[\w.]+)?", text.split("->")[-1])
        label = re.search(r"cu\d{3}|\bCPU\b|CUDA (\d+)\.(\d)", text)
        index = re.fullmatch(r"(?:nightly/)?(cu\d{3})", case["env"]["index"] or "")
        tag = (f"cu{label[1]}{label[2]}" if label[1] else label[0].lower()) if label else None
        if version and not text.startswith("CUDA"):
            plain = version[0]
            tag = tag or (index[1] if index and name == "torch" else None)
            found[name] = plain if "+" in plain or tag is None else f"{plain}+{tag}"
        elif tag:
            found[name] = tag
        else:  # it is there, and that is all that is said
            found[name] = "?"
    return found


def facts_of(case: dict[str, Any]) -> dict[str, Any]:
    """The facts file of a case."""
    variables = {name: value for name, value in case["env"]["env_vars"].items() if not re.search(r"unset|0/1", value)}
    environment: dict[str, Any] = {"packages": packages_of(case)}
    environment |= {"variables": {name: value.removeprefix("contains ") for name, value in variables.items()}}
    environment["errors"] = PRINTED.get(case["id"], [])
    tools = dict(TOOLS.get(case["id"], {}))
    if nvcc := case["env"]["packages"].get("nvcc"):
        tools["nvcc"] = nvcc
    environment |= {"tools": tools, "files": FILES.get(case["id"], {})}
    return {
        "schema": 1,
        "host": host_of(case),
        "environment": {key: value for key, value in environment.items() if value},
    }


def expected_of(case: dict[str, Any]) -> list[str] | None:
    """The catalogue's names of the diagnosis; [] if none is to be made; None if the case has no such answer."""
    text = case["expected"]["doctor"]
    if text is None:
        return None
    named = [CODES[word] for word in re.findall(r"[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+", text) if word in CODES]
    if named:
        return named + ALSO.get(case["id"], [])
    if "negative control" in text or "BENIGN" in text:
        return []
    return IN_WORDS.get(case["id"])


def convert(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Every case that has an answer of the doctor."""
    for line in lines:
        case = json.loads(line)
        expected = expected_of(case)
        if expected is not None:
            yield {"id": case["id"], "expected": expected, "facts": facts_of(case)}


def main() -> None:
    """Writes one file a case."""
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for case in convert(iter(source.read_text(encoding="utf-8").splitlines())):
        text = json.dumps(case, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{case['id']}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
