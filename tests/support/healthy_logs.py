"""Logs of jobs, builds and machines that are well, or that fail for reasons that no GPU has a part in."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["HEALTHY"]

_NCCL_OF_A_RANK = """node1:400{r}:400{r} [{r}] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
node1:400{r}:400{r} [{r}] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)
node1:400{r}:400{r} [{r}] NCCL INFO cudaDriverVersion 12080
NCCL version 2.26.2+cuda12.2
node1:400{r}:410{r} [{r}] NCCL INFO NVLS multicast support is available on dev {r}
node1:400{r}:410{r} [{r}] NCCL INFO Channel 00/0 : {r}[{r}] -> 0[0] via P2P/CUMEM
node1:400{r}:410{r} [{r}] NCCL INFO ncclCommInitRank comm 0x55 rank {r} nranks 8 cudaDev {r} - Init COMPLETE"""

HEALTHY: Mapping[str, str] = {
    "NCCL of a healthy job": "\n".join(
        [_NCCL_OF_A_RANK.format(r=rank) for rank in range(8)]
        + [f"[rank0]: step {i} loss {3 / (i + 1):.3f} lr 3e-4 tok/s 35{i}" for i in range(200)]
    ),
    "a web server": "\n".join(
        f'10.0.0.{i % 250} - - [12/May/2026:10:02:{i % 60:02} +0000] "GET /v1/models/{i} HTTP/1.1"'
        f' {(200, 304, 404, 100, 999, 35, 34)[i % 7]} {i * 37} "-" "Mozilla/5.0 error 34; error 35; status 100"'
        for i in range(300)
    ),
    "pip success": """Looking in indexes: https://download.pytorch.org/whl/cu128
Collecting torch==2.8.0
  Downloading https://download.pytorch.org/whl/cu128/torch-2.8.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl (889.2 MB)
     ---------------------------------------- 889.2/889.2 MB 1.1 MB/s eta 0:00:00
Collecting nvidia-cublas-cu12==12.8.4.1 (from torch==2.8.0)
Collecting nvidia-cudnn-cu12==9.10.2.21 (from torch==2.8.0)
Collecting triton==3.4.0 (from torch==2.8.0)
Requirement already satisfied: setuptools>=40.8.0 in /opt/venv/lib/python3.12/site-packages (from triton==3.4.0->torch==2.8.0) (80.9.0)
Installing collected packages: nvidia-cublas-cu12, nvidia-cudnn-cu12, triton, torch
  Attempting uninstall: numpy
    Found existing installation: numpy 1.26.4
    Uninstalling numpy-1.26.4:
      Successfully uninstalled numpy-1.26.4
Successfully installed nvidia-cublas-cu12-12.8.4.1 nvidia-cudnn-cu12-9.10.2.21 torch-2.8.0+cu128 triton-3.4.0
[notice] A new release of pip is available: 24.0 -> 25.2""",
    "uv success": """Using CPython 3.12.3
Creating virtual environment at: .venv
Resolved 27 packages in 1.21s
Prepared 27 packages in 1m 02s
Installed 27 packages in 391ms
 + nvidia-cublas-cu12==12.8.4.1
 + nvidia-nccl-cu12==2.27.3
 + torch==2.8.0
 + triton==3.4.0
$ python -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available(), torch.cuda.get_arch_list())'
2.8.0+cu128 12.8 True ['sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_90', 'sm_100', 'sm_120']
(12, 0)""",
    "apt": """Reading package lists...
Building dependency tree...
The following NEW packages will be installed:
  build-essential cuda-toolkit-12-8 g++ gcc libcudnn9-cuda-12 nvidia-driver-570-open
Get:1 https://apt.example/compute/cuda/repos/ubuntu2404/x86_64  libcudnn9-cuda-12 9.10.2.21-1 [650 MB]
Selecting previously unselected package nvidia-dkms-570-open.
Setting up nvidia-dkms-570-open (570.133.20-0ubuntu1) ...
update-initramfs: deferring update (trigger activated)
Building initial module for 6.8.0-60-generic
Done.
Processing triggers for libc-bin (2.39-0ubuntu8.4) ...
debconf: unable to initialize frontend: Dialog
debconf: falling back to frontend: Noninteractive
W: Target Packages (main/binary-amd64/Packages) is configured multiple times""",
    "kubelet normal": """I0512 09:14:03.551928    1873 kubelet.go:2421] "SyncLoop ADD" source="api" pods=["default/trainer-0"]
I0512 09:14:03.651928    1873 reconciler_common.go:245] "operationExecutor.VerifyControllerAttachedVolume started for volume \\"kube-api-access-x\\"" pod="default/trainer-0"
I0512 09:14:05.651928    1873 pod_startup_latency_tracker.go:104] "Observed pod startup duration" pod="default/trainer-0" podStartSLOduration=2.1
I0512 09:14:06.114033       1 main.go:317] "Retrieving plugins."
I0512 09:14:06.114133       1 server.go:195] "Starting GRPC server for 'nvidia.com/gpu'"
I0512 09:14:06.114233       1 server.go:146] "Registered device plugin for 'nvidia.com/gpu' with Kubelet"
time="2026-05-12T09:14:05Z" level=info msg="StartContainer for \\"3f2\\" returns successfully"
time="2026-05-12T09:14:05Z" level=info msg="loading plugin \\"io.containerd.runtime.v2.task\\"..." runtime=io.containerd.runc.v2""",
    "value error": """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/transformers/tokenization_utils_base.py", line 209, in convert_to_tensors
    raise ValueError("Unable to create tensor, you should probably activate truncation and/or padding")
ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True'
During handling of the above exception, another exception occurred:
Traceback (most recent call last):
  File "/app/eval.py", line 35, in <module>
    batch = tok(texts, return_tensors="pt")
AttributeError: 'NoneType' object has no attribute 'split'
TypeError: Config.__init__() got an unexpected keyword argument 'cluster'
TypeError: expected string or bytes-like object, got 'NoneType'""",
    "slurm": """sbatch: Submitted batch job 5519021
Lmod is automatically replacing "gcc/8.5.0" with "gcc/12.2.0".
JOB 5519021 on gpu-b14 started Thu May 25 16:40:03 CEST 2023
SLURM_JOB_GPUS=0,1,2,3
CUDA_VISIBLE_DEVICES=0,1,2,3
srun: job 5519021 queued and waiting for resources
srun: job 5519021 has been allocated resources
0: step 100 | loss 1.222 | gpu util 97% | mem 71.2 GiB
1: step 100 | loss 1.222 | gpu util 96% | mem 71.2 GiB
slurmstepd: error: *** JOB 5519021 ON gpu-b14 CANCELLED AT 2023-05-25T18:40:44 DUE TO TIME LIMIT ***
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.""",
    "nvidia-smi": """+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   31C    P0             62W /  400W |       4MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5c8c2d61)
GPU 1: NVIDIA L40S (UUID: GPU-5c8c2d62)
NVIDIA H100 NVL, 550.90.07""",
    "rust build": """   Compiling libc v0.2.155
   Compiling cudarc v0.11.0
   Compiling candle-core v0.6.0
warning: unused variable: `cc`
  --> src/main.rs:12:9
warning: `app` (bin "app") generated 1 warning
    Finished `release` profile [optimized] target(s) in 2m 13s
error: linking with `cc` failed: exit status: 1
  = note: /usr/bin/ld: cannot find -lssl: No such file or directory
          collect2: error: ld returned 1 exit status""",
    "pytest": """============================= test session starts ==============================
platform linux -- Python 3.12.3, pytest-8.3.3, pluggy-1.5.0
collected 209 items
tests/test_cuda.py ...s...s                                              [ 34%]
tests/test_compile.py ......                                             [100%]
=========================== short test summary info ============================
SKIPPED [1] tests/test_cuda.py:34: requires a GPU with at least 80 GB
FAILED tests/test_io.py::test_read - FileNotFoundError: [Errno 2] No such file or directory: '/tmp/data.json'
FAILED tests/test_io.py::test_perm - PermissionError: [Errno 13] Permission denied: '/root/secret'
====== 2 failed, 205 passed, 2 skipped in 35.01s ======""",
    "vllm serving": """INFO 05-12 10:02:11 [cuda.py:275] Using Flash Attention backend on V1 engine.
INFO 05-12 10:02:11 [backends.py:462] Using cache directory: /root/.cache/vllm/torch_compile_cache/1a2b3c/rank_0_0 for vLLM's torch.compile
INFO 05-12 10:02:31 [backends.py:472] Dynamo bytecode transform time: 8.11 s
INFO 05-12 10:02:51 [gpu_worker.py:227] Available KV cache memory: 61.13 GiB
INFO 05-12 10:03:01 [loggers.py:111] Engine 000: Avg prompt throughput: 35.0 tokens/s, Running: 34 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%
INFO: 10.0.0.1:34100 - "POST /v1/completions HTTP/1.1" 200 OK""",
    "docker build": """#14 [ 5/9] RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/local/cuda/lib64/stubs/libcuda.so.1
#14 DONE 0.3s
#15 [ 6/9] RUN cmake .. && make -j
#15 3.111 -- The CUDA compiler identification is NVIDIA 12.8.93
#15 3.211 -- Found CUDAToolkit: /usr/local/cuda/targets/x86_64-linux/include (found version "12.8.93")
#15 3.311 -- Looking for pthread.h - found
#15 9.111 [ 50%] Linking CXX shared library libfoo.so -L/usr/local/cuda/lib64/stubs -lcuda -lnvrtc
#15 9.911 [100%] Built target foo
#15 DONE 10.1s""",
    "the kernel and tools": """make: cc: Command returned warnings
node: /lib/x86_64-linux-gnu/libc.so.6: version check ok
mount: /data: operation not supported
cp: preserving times for '/data/x': Operation not supported
setfacl: /data/x: Operation not supported
device not ready, retrying SCSI command
[  123.456] usb 1-1: device not ready
kernel: nvme nvme0: Device not ready; aborting reset""",
    "conda list": """# packages in environment at /opt/conda/envs/train:
pytorch                   2.5.1           py3.11_cuda12.4_cudnn9.1.0_0    pytorch
pytorch-cuda              12.4                 hc786d27_7    pytorch
pytorch-mutex             1.0                        cuda    pytorch
torchtriton               3.1.0                     py311    pytorch
pytorch-lightning         2.4.0              pyhd8ed1ab_0    conda-forge""",
}
