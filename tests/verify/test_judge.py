"""Which finding an error is: texts as torch, triton, ptxas, gcc and the driver really print them."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from cudalock import facts
from cudalock.verify.judge import judge_machine_code, judge_rung, key_line
from cudalock.verify.model import Rung

PTXAS = """PTXAS error: Internal Triton PTX codegen error
`ptxas` stderr:
ptxas-blackwell fatal   : Value 'sm_110a' is not defined for option 'gpu-name'

Repro command: ptxas-blackwell -lineinfo -v --gpu-name=sm_110a /tmp/x.ptx -o /tmp/x.ptx.o
"""


def failed(
    name: str, detail: str = "it failed", outcome: Literal["failed", "timeout", "crashed"] = "failed", **data: Any
) -> Rung:
    return Rung(name=name, outcome=outcome, detail=detail, data=data)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (PTXAS, "assembler-does-not-know-gpu"),
        ("Internal Triton PTX codegen error: \nptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'", "assembler-does-not-know-gpu"),
        ("'sm_120' is not a recognized processor for this target (ignoring processor)\nLLVM ERROR: Cannot select", "triton-too-old-for-gpu"),
        ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", "ptx-newer-than-driver"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "gpu-not-in-wheel"),
        ("RuntimeError: Triton Error [CUDA]: device kernel image is invalid", "assembler-newer-than-driver"),
        ("RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.impl.", "host-compiler-missing"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'gcc'", "host-compiler-missing"),
        ("/tmp/x/main.c:5:10: fatal error: Python.h: No such file or directory\n    5 | #include <Python.h>", "python-headers-missing"),
        ("AssertionError: libcuda.so cannot found!", "libcuda-not-found"),
        ("Error 804: forward compatibility was attempted on non supported HW", "compat-on-geforce"),
        ("Error 803: system has unsupported display driver / cuda driver combination", "driver-library-mismatch"),
        ("Error 802: system not yet initialized", "fabric-manager-mismatch"),
        ("The NVIDIA driver on your system is too old (found version 11040).", "driver-too-old"),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "driver-not-found"),
        ("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory", "missing-nvidia-dependency"),
        ("ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found", "glibc-too-old"),
        ("libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12", "library-shadowed"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.", "gpu-out-of-memory"),
        ("something nobody has seen before", "gpu-test-failed"),
    ],
)  # fmt: skip
def test_a_text_names_its_finding(text: str, code: str) -> None:
    finding = judge_rung(failed("triton-kernel", key_line(text)), error=f"Traceback ...\n{text}")
    assert finding.code == code
    assert finding.severity == "error"
    assert finding.evidence["rung"] == "triton-kernel"


def test_the_assemblers_own_line_is_shown() -> None:
    line = "ptxas-blackwell fatal   : Value 'sm_110a' is not defined for option 'gpu-name'"
    assert key_line(PTXAS) == line
    finding = judge_rung(failed("cross-compile 11.0", key_line(PTXAS)), error=PTXAS)
    assert line in finding.message
    assert "sm_110a" in finding.message


def test_an_overridden_assembler_is_blamed_by_name() -> None:
    finding = judge_rung(
        failed("cross-compile 11.0", key_line(PTXAS)), error=PTXAS, assembler_override="TRITON_PTXAS_BLACKWELL_PATH"
    )
    assert "TRITON_PTXAS_BLACKWELL_PATH" in finding.message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"libcuda": "libcuda.so.1: cannot open shared object file", "libnvidia-ml": "not found"}, "driver-not-found"),
        ({"libcuda": "libcuda.so.1: cannot open shared object file", "nvmlInit": 0, "driver": "580.95.05"}, "libcuda-not-found"),
        ({"CUDA_VISIBLE_DEVICES": "", "cuInit": 100, "nvmlInit": 0}, "no-gpu-visible"),
        ({"CUDA_VISIBLE_DEVICES": "7", "cuInit": 100, "nvmlInit": 0}, "no-gpu-visible"),
        ({"CUDA_VISIBLE_DEVICES": "", "libcuda": "not found", "libnvidia-ml": "not found"}, "driver-not-found"),
        ({"cuInit": 100, "nvmlInit": 0}, "driver-not-found"),
        ({"cuInit": 803, "nvmlInit": 18}, "driver-library-mismatch"),
        ({"cuInit": 34}, "libcuda-stub-loaded"),
        ({"cuInit": 802, "nvmlInit": 0}, "fabric-manager-mismatch"),
        ({"cuInit": 804, "nvmlInit": 0}, "compat-on-geforce"),
        ({"cuInit": 100, "nvmlInit": 999}, "container-lost-gpu"),
    ],
)  # fmt: skip
def test_the_numbers_of_the_libraries_name_what_torch_does_not(data: dict[str, Any], code: str) -> None:
    rung = failed("gpu", "No CUDA GPUs are available", kind="no-cuda", **data)
    assert judge_rung(rung, error="RuntimeError: No CUDA GPUs are available").code == code


@pytest.mark.parametrize(
    ("rung", "code"),
    [
        (failed("nvrtc", "no end after 5 s", "timeout"), "gpu-test-hung"),
        (failed("nvrtc", "the process died (SIGSEGV)", "crashed"), "gpu-test-crashed"),
        (failed("nvrtc", "off by 0.3", kind="numbers"), "results-differ"),
    ],
)
def test_how_a_rung_ended_names_the_rest(rung: Rung, code: str) -> None:
    assert judge_rung(rung, error="").code == code


def test_a_known_fault_in_a_crash_is_named() -> None:
    rung = failed("triton-kernel", "the process died (SIGABRT)", "crashed")
    assert (
        judge_rung(rung, error="LLVM ERROR\n'sm_120' is not a recognized processor for this target").code
        == "triton-too-old-for-gpu"
    )


def test_the_catalogue_explains_what_it_knows() -> None:
    finding = judge_rung(failed("cross-compile 11.0", key_line(PTXAS)), error=PTXAS)
    row = facts.finding_codes()["assembler-does-not-know-gpu"]
    assert (finding.cause, finding.fix) == (row.meaning, row.fix)


def machine_code(
    architectures: str, *capabilities: int, cuda: str = "12.8", driver: str | None = "13.0"
) -> tuple[str, list[str]]:
    text, findings = judge_machine_code(
        {"architectures": architectures.split(), "capabilities": capabilities, "cuda": cuda, "cuda_driver": driver}
    )
    return text, [finding.code for finding in findings]


def test_machine_code_for_every_gpu() -> None:
    assert machine_code("sm_80 sm_86 sm_90", 89, 90) == ("sm_86 serves 8.9; sm_90 serves 9.0", [])


def test_a_gpu_without_machine_code() -> None:
    text, codes = machine_code("sm_80 sm_86 sm_90", 90, 120)
    assert codes == ["gpu-not-in-wheel"]
    assert "12.0" in text


def test_ptx_counts_only_as_far_as_the_driver_reads_it() -> None:
    assert machine_code("sm_80 compute_90", 100)[1] == ["gpu-only-by-ptx"]
    assert machine_code("sm_80 compute_90", 100, cuda="13.2", driver="13.0")[1] == ["ptx-newer-than-driver"]
