"""The GPU compile test, one rung a process: ``python probe.py RUNG [JSON]``, run by the Python of the environment.

This file stands alone: it imports the standard library and what the environment holds (torch, triton), nothing of
cudalock, and keeps to the syntax of Python 3.9. It judges nothing: it prints one line, ``cudalock-rung:`` and a JSON
object with ``outcome`` (passed, failed, skipped), ``detail`` and ``data``, and for a failure the whole ``error``.

The JSON argument may hold ``arch`` (compute capability as a number, 90), ``timeout`` (seconds, for a stack trace
just before the end), ``without_triton`` (numbers of capabilities whose GPUs are left out of Triton's rungs) and ``cpu``
(a build without CUDA is what is wanted).
"""

# ruff: noqa: ARG001, B905, N818, PLW0603 - one signature for all rungs; zip(strict=) is not in Python 3.9

from __future__ import annotations

import ctypes
import faulthandler
import importlib.metadata
import inspect
import json
import math
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK = "cudalock-rung:"
tl: Any = None  # triton.language: the kernels below find it among the globals of this module when they are compiled


class Skip(Exception):
    """The rung does not apply; the text says why."""


class Failure(Exception):
    """The rung failed; ``data`` travels to the report."""

    def __init__(self, text: str, **data: Any) -> None:
        super().__init__(text)
        self.data = data


# -- the kernels: silu(x) * y and its gradients


def silu_kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, y * x / (1.0 + tl.exp(-x)), mask=mask)


def silu_gradient_kernel(x_ptr, y_ptr, upstream_ptr, dx_ptr, dy_ptr, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    upstream = tl.load(upstream_ptr + offsets, mask=mask, other=0.0)
    sigmoid = 1.0 / (1.0 + tl.exp(-x))
    tl.store(dx_ptr + offsets, upstream * y * sigmoid * (1.0 + x * (1.0 - sigmoid)), mask=mask)
    tl.store(dy_ptr + offsets, upstream * x * sigmoid, mask=mask)


def load_triton() -> Any:
    global tl
    import triton
    import triton.language

    tl = triton.language
    return triton


# -- helpers


def devices(without: Any = ()) -> list[tuple[Any, int]]:
    """Every visible GPU with its capability as a number, less those whose capability is in ``without``."""
    import torch

    found = []
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        if major * 10 + minor not in without:
            found.append((torch.device("cuda", index), major * 10 + minor))
    if not found:
        raise Skip("no visible GPU that Triton serves" if without else "no visible GPU")
    return found


def compare(what: str, got: Any, want: Any, allowed: float, floor: float = 1e-3) -> float:
    """The largest difference relative to the largest expected value; raises Failure above ``allowed``."""
    got, want = got.detach().double().cpu(), want.detach().double().cpu()
    scale = max(float(want.abs().max()), floor)
    error = float((got - want).abs().max()) / scale
    if not math.isfinite(error) or error > allowed:
        raise Failure(
            f"{what}: the result is off by {error:.3g} of its magnitude ({allowed:.3g} is allowed)",
            kind="numbers", what=what, error=error if math.isfinite(error) else str(error), allowed=allowed,
        )  # fmt: skip
    return error


def half_type(capability: int) -> Any:
    import torch

    return torch.bfloat16 if capability >= 80 else torch.float16


# -- rungs


def without_torch() -> Failure:
    data: dict[str, Any] = {"torch": None, "python": sys.version.split()[0]}
    try:
        data["triton"] = load_triton().__version__
        there = f"triton {data['triton']} is there and imports; its kernels run through torch, so none was run"
    except ModuleNotFoundError:
        there = "neither is triton, so no kernel was run"
    except BaseException as error:
        there = f"triton does not import: {error}"
    return Failure(f"torch is not installed; {there}", **data)


def rung_import(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise without_torch() from error

    data: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
    if getattr(torch.version, "hip", None):
        data["hip"] = torch.version.hip
    try:
        data["triton"] = load_triton().__version__
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
        data["triton"] = None
    data["torch_requires"] = [r for r in importlib.metadata.requires("torch") or () if "triton" in r.partition(";")[0]]
    if data["cuda"] is None and not spec["cpu"]:
        raise Failure(f"torch {torch.__version__} was built without CUDA", kind="cpu-build", **data)
    return f"torch {data['torch']} (CUDA {data['cuda']}), triton {data['triton'] or 'absent'}", data


def driver_facts() -> dict[str, Any]:
    """What libcuda and NVML say when they are asked without torch: their error numbers name most faults exactly."""
    facts: dict[str, Any] = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES")}
    windows = sys.platform == "win32"
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if windows else "libcuda.so.1")
    except OSError as error:
        facts["libcuda"] = str(error)
    else:
        number = ctypes.c_int(-1)
        facts["cuInit"] = cuda.cuInit(0)
        if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
            facts["cuda_driver"] = f"{number.value // 1000}.{number.value % 1000 // 10}"
        if facts["cuInit"] == 0 and cuda.cuDeviceGetCount(ctypes.byref(number)) == 0:
            facts["cuda_devices"] = number.value
    try:
        nvml = ctypes.CDLL("nvml.dll" if windows else "libnvidia-ml.so.1")
    except OSError as error:
        facts["libnvidia-ml"] = str(error)
    else:
        text = ctypes.create_string_buffer(96)
        facts["nvmlInit"] = nvml.nvmlInit_v2()
        if facts["nvmlInit"] == 0 and nvml.nvmlSystemGetDriverVersion(text, 96) == 0:
            facts["driver"] = text.value.decode("ascii", "replace")
    return facts


def rung_gpu(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    data = driver_facts()
    import torch

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            torch.cuda.init()
        except Exception as error:
            raise Failure(str(error), kind="no-cuda", **data) from error
        data["gpus"] = [
            {
                "index": index,
                "name": torch.cuda.get_device_name(index),
                "compute_capability": "{}.{}".format(*torch.cuda.get_device_capability(index)),
                "memory_bytes": torch.cuda.get_device_properties(index).total_memory,
            }
            for index in range(torch.cuda.device_count())
        ]
        data["warnings"] = [str(entry.message).strip() for entry in said]
    if not data["gpus"]:
        raise Failure("no GPU is visible to this process", kind="no-cuda", **data)
    shown = ", ".join(f"{gpu['name']} ({gpu['compute_capability']})" for gpu in data["gpus"])
    return f"driver {data.get('driver', 'unknown')}, CUDA {data.get('cuda_driver', 'unknown')}: {shown}", data


def rung_machine_code(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    import torch

    present = list(torch.cuda.get_arch_list())
    capabilities = sorted({number for _, number in devices()})
    return " ".join(present), {"architectures": present, "capabilities": capabilities, "cuda": torch.version.cuda}


def rung_torch_operations(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(7)
    left, right = torch.randn(192, 160), torch.randn(160, 224)
    batch_left, batch_right = torch.randn(5, 64, 96), torch.randn(5, 96, 32)
    image, weight = torch.randn(2, 8, 33, 31), torch.randn(16, 8, 3, 3)
    worst: dict[str, float] = {}
    for device, capability in devices():

        def on(tensor: Any, device: Any = device) -> Any:
            return tensor.to(device)

        half = half_type(capability)
        cases = [
            ("matmul float32", on(left) @ on(right), left @ right, 1e-4),
            ("matmul 16 bit", on(left).to(half) @ on(right).to(half), left @ right, 3e-2),
            ("bmm float32", torch.bmm(on(batch_left), on(batch_right)), torch.bmm(batch_left, batch_right), 1e-4),
            ("conv2d float32", torch.conv2d(on(image), on(weight)), torch.conv2d(image, weight), 1e-3),
        ]  # fmt: skip
        for name, got, want, allowed in cases:
            worst[name] = max(worst.get(name, 0.0), compare(f"{name} on {device}", got, want, allowed))
    return "matmul, bmm and conv2d equal the CPU's results", {"relative_errors": worst}


def kernels() -> tuple[Any, Any]:
    triton = load_triton()
    return triton.jit(silu_kernel), triton.jit(silu_gradient_kernel)


def rung_triton_kernel(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    import torch

    forward, _ = kernels()
    torch.manual_seed(7)
    worst, ran = 0.0, []
    for device, _capability in devices(spec["without_triton"]):
        with torch.cuda.device(device):
            x, y = torch.randn(10_007, device=device), torch.randn(10_007, device=device)
            out = torch.full_like(x, float("nan"))
            forward[(-(-x.numel() // 256),)](x, y, out, x.numel(), BLOCK=256)
            torch.cuda.synchronize(device)
        want = y.double().cpu() * torch.nn.functional.silu(x.double().cpu())
        worst = max(worst, compare(f"Triton kernel on {device}", out, want, 1e-5))
        ran.append(str(device))
    return f"compiled, ran and compared on {', '.join(ran)}", {"relative_error": worst, "ran_on": ran}


def rung_triton_gradients(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    import torch

    forward, backward = kernels()

    class SiluTimes(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, x: Any, y: Any) -> Any:
            context.save_for_backward(x, y)
            out = torch.empty_like(x)
            forward[(-(-x.numel() // 256),)](x, y, out, x.numel(), BLOCK=256)
            return out

        @staticmethod
        def backward(context: Any, upstream: Any) -> Any:
            x, y = context.saved_tensors
            upstream = upstream.contiguous()
            dx, dy = torch.empty_like(x), torch.empty_like(y)
            backward[(-(-x.numel() // 256),)](x, y, upstream, dx, dy, x.numel(), BLOCK=256)
            return dx, dy

    torch.manual_seed(7)
    worst = 0.0
    for device, _capability in devices(spec["without_triton"]):
        with torch.cuda.device(device):
            x, y = (torch.randn(4099, device=device, requires_grad=True) for _ in range(2))
            upstream = torch.randn(4099, device=device)
            ours = torch.autograd.grad(SiluTimes.apply(x, y), (x, y), upstream)
            want = torch.autograd.grad(torch.nn.functional.silu(x) * y, (x, y), upstream)
        for name, got, expected in zip(("dx", "dy"), ours, want):
            worst = max(worst, compare(f"{name} through the Triton kernel on {device}", got, expected, 1e-5))
    return "gradients through a Triton kernel equal PyTorch's own", {"relative_error": worst}


def rung_torch_compile(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    import torch

    def model(x: Any, w: Any, b: Any) -> Any:
        hidden = torch.nn.functional.gelu(x @ w) + b
        return torch.tanh(torch.nn.functional.layer_norm(hidden, hidden.shape[-1:])).sum(dim=-1)

    compiled = torch.compile(model, fullgraph=True)
    torch.manual_seed(7)
    worst = 0.0
    for device, _capability in devices(spec["without_triton"]):
        with torch.cuda.device(device):
            shapes = ((48, 64), (64, 96), (96,))
            arguments = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
            got, want = compiled(*arguments), model(*arguments)
            upstream = torch.randn_like(want)
            pairs = [("forward", got, want)]
            gradients = (torch.autograd.grad(out, arguments, upstream) for out in (got, want))
            pairs += [(f"gradient {n}", a, b) for n, (a, b) in enumerate(zip(*gradients))]
            for name, ours, eager in pairs:
                worst = max(worst, compare(f"torch.compile {name} on {device}", ours, eager, 1e-3, floor=1e-2))
    return "forward and backward equal eager mode", {"relative_error": worst}


def rung_nvrtc(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    import torch

    jiterator = getattr(torch.cuda, "jiterator", None)
    if jiterator is None:
        raise Skip("this torch has no way to compile a kernel at run time")
    kernel = jiterator._create_jit_fn("template <typename T> T cudalock_probe(T x, T y) { return x * y + x - y; }")
    for device, _capability in devices():
        with torch.cuda.device(device):
            x, y = torch.randn(1000, device=device), torch.randn(1000, device=device)
            compare(f"run-time compiled kernel on {device}", kernel(x, y), x * y + x - y, 1e-6)
    return "a kernel was compiled at run time and ran", {}


ATTENTION = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "CUDNN_ATTENTION")
UNSUPPORTED = re.compile(
    r"No (available kernel|viable backend|(valid )?execution plans)|not supported|cuDNN Frontend|mha_graph",
    re.IGNORECASE,
)


def attention_case(device: Any, dtype: Any, backend: Any, head: int, length: int) -> float:
    """The largest relative error of one backend against attention written out in float64."""
    import torch
    from torch.nn.attention import sdpa_kernel

    torch.manual_seed(head + length)
    q, k, v, upstream = (torch.randn(2, 4, length, head, device=device, dtype=dtype) for _ in range(4))
    given = [tensor.requires_grad_() for tensor in (q, k, v)]
    with sdpa_kernel([backend]):
        out = torch.nn.functional.scaled_dot_product_attention(*given)
    got = (out, *torch.autograd.grad(out, given, upstream))
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    weights = torch.softmax(exact[0] @ exact[1].transpose(-1, -2) / math.sqrt(head), dim=-1)
    expected = weights @ exact[2]
    want = (expected, *torch.autograd.grad(expected, exact, upstream.double()))
    label = f"{backend.name} on {device}, head dimension {head}, length {length}"
    names = ("forward", "dq", "dk", "dv")
    return max(compare(f"{label}: {n}", a, b, 4e-2, floor=0.25) for n, a, b in zip(names, got, want))


def rung_attention(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    try:
        from torch.nn.attention import SDPBackend
    except ImportError:
        raise Skip("this torch cannot be told which attention backend to use (2.3 and newer can)") from None

    worst: dict[str, float] = {}
    skipped: dict[str, str] = {}
    for device, capability in devices():
        for name in ATTENTION:
            backend = getattr(SDPBackend, name, None)
            if backend is None:
                skipped[name.lower()] = "not in this torch"
                continue
            for head, length in [(head, length) for head in (64, 128) for length in (1, 17, 128)]:
                case = f"{name.lower()} {device} head {head} length {length}"
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    try:
                        error = attention_case(device, half_type(capability), backend, head, length)
                    except RuntimeError as fault:
                        if not UNSUPPORTED.search(str(fault)) or name == "MATH":
                            raise Failure(f"{case}: {fault}", kind="attention") from fault
                        reasons = [str(entry.message).strip().splitlines()[0] for entry in said]
                        skipped[case] = "; ".join(reasons) or str(fault).strip().splitlines()[0]
                        continue
                worst[name.lower()] = max(worst.get(name.lower(), 0.0), error)
    absent = [name.lower() for name in ATTENTION if name.lower() not in worst]
    detail = "equal the reference: " + ", ".join(worst)
    if absent:
        detail += "; not available here: " + ", ".join(absent)
    return detail, {"relative_errors": worst, "skipped": skipped}


def rung_cross_compile(spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    triton = load_triton()
    number = int(spec["arch"])
    function = triton.jit(silu_kernel)
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "count": "i32"}
    try:
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError:
        raise Skip(
            f"triton {triton.__version__} cannot compile for a GPU that is not there (3.0 and newer can)"
        ) from None

    if "constexprs" in inspect.signature(ASTSource.__init__).parameters:  # 3.3 and newer
        source = ASTSource(function, {**types, "BLOCK": "constexpr"}, constexprs={"BLOCK": 256})
    else:
        source = ASTSource(function, types, constants={"BLOCK": 256})
    kernel = triton.compile(source, target=GPUTarget("cuda", number, 32))
    code = kernel.asm["cubin"]
    if code[:4] != b"\x7fELF" or int.from_bytes(code[18:20], "little") != 190:  # EM_CUDA
        raise Failure("the assembler's output is not CUDA machine code", kind="machine-code")
    ptx = kernel.asm["ptx"]
    ptx = ptx if isinstance(ptx, str) else ptx.decode()
    isa = re.search(r"^\.version\s+(\S+)", ptx, re.MULTILINE)
    target = re.search(r"^\.target\s+(\w+)", ptx, re.MULTILINE)
    data = {
        "triton": triton.__version__, "bytes": len(code),
        "target": target[1] if target else None, "ptx_isa": isa[1] if isa else None,
    }  # fmt: skip
    return f"{len(code)} bytes of machine code for {data['target']} (PTX ISA {data['ptx_isa']})", data


RUNGS: dict[str, Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "import": rung_import,
    "gpu": rung_gpu,
    "machine-code": rung_machine_code,
    "torch-operations": rung_torch_operations,
    "triton-kernel": rung_triton_kernel,
    "triton-gradients": rung_triton_gradients,
    "torch-compile": rung_torch_compile,
    "nvrtc": rung_nvrtc,
    "attention": rung_attention,
    "cross-compile": rung_cross_compile,
}


def climb(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    try:
        detail, data = RUNGS[name](spec)
    except Skip as reason:
        return {"outcome": "skipped", "detail": str(reason), "data": {}}
    except BaseException as error:
        text = str(error) or type(error).__name__
        trace = traceback.format_exc()
        data = getattr(error, "data", {})
        return {"outcome": "failed", "detail": text, "data": data, "error": trace, "type": type(error).__name__}
    return {"outcome": "passed", "detail": detail, "data": data}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in RUNGS:
        print("usage: probe.py RUNG [JSON]; rungs: " + " ".join(RUNGS), file=sys.stderr)
        return 2
    if not sys.flags.isolated and Path(sys.path[0]).absolute() == Path(__file__).absolute().parent:
        del sys.path[0]  # what lies beside this file must not be taken for a module of the environment
    spec = {"without_triton": (), "cpu": False, **json.loads(arguments[1] if len(arguments) > 1 else "{}")}
    if spec.get("timeout"):
        faulthandler.dump_traceback_later(max(float(spec["timeout"]) - 1.0, 0.5))
        if hasattr(signal, "alarm"):
            signal.alarm(int(spec["timeout"]) + 10)  # the end, even if whoever started this has died
    result = climb(arguments[0], spec)
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.flush()
    print("\n" + MARK + json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
