"""Words behind which several causes stand: all are named, each with how to tell it, and none is told as certain."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cudalock.explain import explain_text
from support.logs import VARIANTS

NO_TABLE = "| N/A   33C    P0             71W /  700W |   41210MiB /  81559MiB |"
SMI = f"""$ nvidia-smi
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:4E:00.0 Off |                    0 |
{NO_TABLE}      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+"""
WORKER = (
    "root     {pid} 99.8  0.3 9861204 712344 ?  R  10:02  4:11 /opt/venv/bin/python"
    " /opt/venv/lib/python3.11/site-packages/torch/_inductor/compile_worker/__main__.py"
    " --pickler=torch._inductor.compile_worker.subproc_pool.SubprocPickler --kind=fork --workers=32 --parent=4242"
    " --read-fd=7 --write-fd=30"
)
WORKERS = "$ ps aux | grep compile_worker\n" + "\n".join(WORKER.format(pid=pid) for pid in range(4471, 4475))
RECOMPILING = """V0512 10:12:44.120000 4242 torch/_dynamo/guards.py:2813] [0/1] [__recompiles] Recompiling function forward in /app/model.py:88
V0512 10:12:44.120000 4242 torch/_dynamo/guards.py:2813] [0/1] [__recompiles]     triggered by the following guard failure(s):
V0512 10:12:44.120000 4242 torch/_dynamo/guards.py:2813] [0/1] [__recompiles]     - 0/0: tensor 'x' size mismatch at index 1. expected 511, actual 513"""
LIMIT = """W0512 10:12:44.120000 4242 torch/_dynamo/convert_frame.py:1016] [6/8] torch._dynamo hit config.recompile_limit (8)
W0512 10:12:44.120000 4242 torch/_dynamo/convert_frame.py:1016] [6/8]    function: 'forward' (/app/model.py:88)
W0512 10:12:44.120000 4242 torch/_dynamo/convert_frame.py:1016] [6/8]    last reason: 6/7: tensor 'x' size mismatch at index 1. expected 511, actual 513
W0512 10:12:44.120000 4242 torch/_dynamo/convert_frame.py:1016] [6/8] To log all recompilation reasons, use TORCH_LOGS="recompiles"."""
COMPILING = (
    "I0512 10:02:31.120000 4242 torch/_inductor/codecache.py:1211] [0/0] [__inductor] fx graph cache miss for key fx7q"
)

CUT_SHORT: Mapping[str, str] = {
    "torch.load, a file from before 1.6": """[rank2]: Traceback (most recent call last):
[rank2]:   File "/app/train.py", line 101, in main
[rank2]:     state = torch.load(args.resume, map_location="cpu", weights_only=True)
[rank2]:   File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 1549, in load
[rank2]:     return _legacy_load(
[rank2]:   File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 1817, in _legacy_load
[rank2]:     typed_storage._untyped_storage._set_from_file(
[rank2]: RuntimeError: unexpected EOF, expected 2147491 more bytes. The file might be corrupted.""",
    "torch.load, a zip file": """Traceback (most recent call last):
  File "/app/eval.py", line 31, in <module>
    ckpt = torch.load("/mnt/nfs/ckpt/last.pt", map_location="cuda:0")
  File "/opt/venv/lib/python3.10/site-packages/torch/serialization.py", line 1004, in load
    with _open_zipfile_reader(opened_file) as opened_zipfile:
  File "/opt/venv/lib/python3.10/site-packages/torch/serialization.py", line 456, in __init__
    super().__init__(torch._C.PyTorchFileReader(name_or_buffer))
RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory""",
    "torch.load, one record of a zip file": """  File "/opt/venv/lib/python3.8/site-packages/torch/serialization.py", line 831, in load_tensor
    storage = zip_file.get_storage_from_record(name, size, dtype).storage()
RuntimeError: [enforce fail at inline_container.cc:145] . PytorchStreamReader failed reading file data/57885792: invalid header or archive is corrupted""",
    "safetensors to 0.5": """  File "/opt/venv/lib/python3.10/site-packages/safetensors/torch.py", line 311, in load_file
    with safe_open(filename, framework="pt", device=device) as f:
safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer""",
    "safetensors from 0.6": """  File "/opt/venv/lib/python3.12/site-packages/transformers/modeling_utils.py", line 508, in load_state_dict
    with safe_open(checkpoint_file, framework="pt") as f:
safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered""",
    "a pointer of Git LFS": """  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 1246, in _legacy_load
    magic_number = pickle_module.load(f, **pickle_load_args)
_pickle.UnpicklingError: invalid load key, 'v'.""",
}
LAUNCH_FAILED: Mapping[str, str] = {
    "triton": """  File "/opt/venv/lib/python3.11/site-packages/triton/runtime/jit.py", line 607, in run
    kernel.run(grid_0, grid_1, grid_2, stream, kernel.function, kernel.packed_metadata, launch_metadata,
RuntimeError: Triton Error [CUDA]: unspecified launch failure""",
    "torch": """[rank5]:[E512 10:12:44.120000 ProcessGroupNCCL.cpp:1896] [PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1""",
    "cupy": "cupy_backends.cuda.api.driver.CUDADriverError: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    "numba": "numba.cuda.cudadrv.driver.CudaAPIError: [719] Call to cuMemcpyDtoH results in CUDA_ERROR_LAUNCH_FAILED",
    "tensorflow": (
        "2026-03-02 10:11:12.130: E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:1182] failed to enqueue"
        " async memcpy from device to host: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure; host dst: 0x7f2"
    ),
    "its number": "RuntimeError: CUDA driver error: 719",
}
IDLE: Mapping[str, str] = {
    "workers compile": f"{SMI}\n{WORKERS}",
    "it compiles again": f"{RECOMPILING}\n{SMI}",
    "the table comes first": f"{SMI}\n{RECOMPILING}",
    "vllm compiles": (
        "INFO 05-12 10:02:31 [backends.py:472] Dynamo bytecode transform time: 8.11 s\n"
        "$ nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv -l 5\n"
        "index, utilization.gpu [%], memory.used [MiB]\n0, 0 %, 41210 MiB\n0, 0 %, 41210 MiB"
    ),
    "dmon": (
        f"{COMPILING}\n$ nvidia-smi dmon -s u -c 2\n# gpu     sm    mem    enc    dec    jpg    ofa\n"
        "# Idx      %      %      %      %      %      %\n"
        "    0      0      0      0      0      0      0\n    0      0      0      0      0      0      0"
    ),
    "gpustat": f"{COMPILING}\n[0] NVIDIA H100 80GB HBM3 | 33'C,   0 % | 41210 / 81559 MB | root(41200M)",
}
CASES = [
    *(pytest.param("file-truncated", text, id=f"cut short: {name}") for name, text in CUT_SHORT.items()),
    *(pytest.param("kernel-launch-failed", text, id=f"launch failed: {name}") for name, text in LAUNCH_FAILED.items()),
    *(pytest.param("gpu-idle", text, id=f"idle: {name}") for name, text in IDLE.items()),
]


@pytest.mark.parametrize(("code", "text"), CASES)
def test_no_cause_is_told_as_certain_and_each_with_how_to_tell_it(code: str, text: str) -> None:
    explanation = explain_text(text)
    (finding,) = explanation.findings
    assert finding.code == code
    assert explanation.unknown and not explanation.failed
    possible = finding.evidence["possible"]
    assert len({one["cause"] for one in possible}) >= 4
    assert all(one["tell"] for one in possible)
    assert explanation.collect


@pytest.mark.parametrize("variant", ["timestamps", "kubectl", "coloured", "CRLF", "in the middle of a log"])
@pytest.mark.parametrize(("code", "text"), CASES)
def test_it_is_so_in_other_kinds_of_logs(variant: str, code: str, text: str) -> None:
    explanation = explain_text(VARIANTS[variant](text))
    assert [one.code for one in explanation.findings] == [code]
    assert explanation.unknown


def test_a_recompile_limit_is_told_and_does_not_settle_why_the_gpu_is_idle() -> None:
    """At the limit torch goes on without compiling: that alone leaves no GPU idle."""
    explanation = explain_text(f"{LIMIT}\n{SMI}")
    storm, idle = explanation.findings
    assert (storm.code, idle.code) == ("recompile-storm", "gpu-idle")
    assert explanation.unknown and explanation.collect
    assert len(idle.evidence["possible"]) >= 4


@pytest.mark.parametrize(
    "text",
    [
        SMI,
        f"{COMPILING}\n{SMI}".replace(" 0%", "97%"),
        f"{COMPILING}\n# gpu     sm    mem    enc    dec\n# Idx      %      %      %      %\n    0     94      0      0      0",
        'time="2026-05-12T09:14:05Z" level=error msg="copy stream" err="unexpected EOF"',
        "bash: line 3: unexpected EOF while looking for matching `\"'",
        "collected 719 items\ncode 719 lines, cuda.cpp:719",
    ],
)
def test_what_only_looks_like_it_is_not_it(text: str) -> None:
    assert explain_text(text).findings == ()
