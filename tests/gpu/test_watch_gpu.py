"""The watcher on a GPU: autocast and CUDA graphs. CUDALOCK_TEST_PYTHON names a Python with torch and triton.

Without it the Python that runs the tests is taken.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cudalock.watch import WatchReport, watch_command

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

# Read before the fixtures clean the environment.
PYTHON = os.environ.get("CUDALOCK_TEST_PYTHON") or sys.executable

KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def scale_kernel(x, out, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(out + i, value * WIDTH, mask=i < n)

def scale(x, width):
    out = torch.empty_like(x, dtype=torch.float32)
    n = x.numel()
    scale_kernel[(triton.cdiv(n, 256),)](x, out, n, WIDTH=width, BLOCK=256)
    return out
"""

# Each step captures a new CUDA graph of a layer and a kernel, with autocast on in every other step and a size that is
# compiled into the kernel: the way in which a training loop with variable sizes compiles for ever.
AUTOCAST_AND_GRAPHS = """
layer = torch.nn.Linear(64, 64, device="cuda")
for step in range(30):
    width = 1 + step // 2
    x = torch.randn(32, 64, device="cuda")
    def work():
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=step % 2 == 1):
            return scale(layer(x), width)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = work()
    graph.replay()
    torch.cuda.synchronize()
    with torch.no_grad():
        torch.testing.assert_close(out, work(), rtol=0.05, atol=0.5)  # a capture may choose another cuBLAS algorithm
"""


def watched(folder: Path, code: str, *, threshold: int = 20) -> WatchReport:
    program = folder / "program.py"
    program.write_text(KERNEL + textwrap.dedent(code))
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "i"),
    }
    status, report = watch_command([PYTHON, str(program)], environ=environment, threshold=threshold)
    assert status == 0
    assert report.unsupported == ()
    return report


def test_the_storm_of_autocast_and_cuda_graphs_is_seen(tmp_path: Path) -> None:
    report = watched(tmp_path, AUTOCAST_AND_GRAPHS)
    (kernel,) = [kernel for kernel in report.kernels if kernel.name == "scale_kernel"]
    assert kernel.compiled == 30
    assert {(it.autocast, it.variant.arguments["x"]["type"]) for it in kernel.compilations} == {
        (None, "*fp32"),
        ("bfloat16", "*bf16"),
    }
    (finding,) = report.findings
    assert (finding.code, finding.evidence["kernel"]) == ("recompile-storm", "scale_kernel")
    causes = {(cause["kind"], cause["argument"]) for cause in finding.evidence["causes"]}
    assert {("constexpr", "WIDTH"), ("dtype", "x")} <= causes
    assert finding.evidence["autocast"] == ["bfloat16", "off"]
    assert "autocast was bfloat16 and off" in str(finding.cause)


def test_a_compilation_is_marked_for_the_profiler(tmp_path: Path) -> None:
    report = watched(tmp_path, "scale(torch.randn(64, device='cuda'), 3); torch.cuda.synchronize()")
    (kernel,) = [kernel for kernel in report.kernels if kernel.name == "scale_kernel"]
    (compilation,) = kernel.compilations
    assert compilation.nvtx
    assert compilation.device == 0
    assert not compilation.capturing


def test_a_compilation_while_a_graph_is_captured_is_seen(tmp_path: Path) -> None:
    """Whether the capture survives is up to the driver; that the kernel was compiled in it is known either way."""
    report = watched(
        tmp_path,
        """
        x = torch.randn(64, device="cuda")
        scale(x, 1)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="relaxed"):
                scale(x, 2)
        except RuntimeError as error:
            print("the capture failed:", error)
        """,
    )
    (kernel,) = [kernel for kernel in report.kernels if kernel.name == "scale_kernel"]
    assert [it.capturing for it in kernel.compilations] == [False, True]


def test_one_steady_kernel_is_no_storm(tmp_path: Path) -> None:
    report = watched(
        tmp_path,
        """
        for step in range(200):
            scale(torch.randn(4096, device="cuda"), 2)
        torch.cuda.synchronize()
        """,
    )
    assert (report.compiled, report.findings) == (1, ())


def test_torch_compile_says_why_it_compiled_again(tmp_path: Path) -> None:
    report = watched(
        tmp_path,
        """
        @torch.compile
        def step(x):
            return torch.nn.functional.silu(x @ x) * 2
        x = torch.randn(64, 64, device="cuda")
        for on in (False, True, False, True):
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=on):
                step(x)
        torch.cuda.synchronize()
        """,
    )
    (function,) = [function for function in report.functions if function.name == "step"]
    assert function.compiled == 2
    assert any("autocast" in reason.lower() or "global_state" in reason.lower() for reason in function.reasons), (
        function
    )
    assert any(kernel.name.startswith("triton_") for kernel in report.kernels)


def test_the_command_reports_the_storm(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(KERNEL + AUTOCAST_AND_GRAPHS)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    command = [sys.executable, "-m", "cudalock", "watch", "--json", "--threshold", "10", "--", PYTHON]
    done = subprocess.run(
        [*command, str(tmp_path / "program.py")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["compiled"] == 30
    assert [finding["code"] for finding in document["findings"]] == ["recompile-storm"]
