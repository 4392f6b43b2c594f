"""Recorded machines: file trees that stand for ``/``, and commands that answer as the real probes did.

The texts are real outputs (H200 with driver 580.159.04 measured; the others from public reports); the commands run the
real machinery of child processes, with Python one-liners in the place of NVML, libcuda and nvidia-smi.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

H200_PROC = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)\nGCC version:  gcc version 15.2.0 (GCC)\n"
H200_INFORMATION = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 40\nGPU UUID: \t GPU-0a1b2c3d-1111-2222-3333-444455556666\nVideo BIOS: \t 96.00.bc.00.01\nBus Type: \t PCIe\nBus Location: \t 0000:00:06.0\nDevice Minor: \t 0\nGPU Excluded:\t No\n"
H200_TREE: Mapping[str, str] = {
    "sys/module/nvidia/version": "580.159.04\n",
    "proc/driver/nvidia/version": H200_PROC,
    "proc/driver/nvidia/gpus/0000:00:06.0/information": H200_INFORMATION,
    "sys/bus/pci/devices/0000:00:06.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:00:06.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:00:06.0/device": "0x2335\n",
    "sys/bus/pci/devices/0000:00:01.0/vendor": "0x8086\n",
    "sys/bus/pci/devices/0000:00:01.0/class": "0x030000\n",
    "sys/bus/pci/devices/0000:00:01.0/device": "0x1237\n",
    "dev/nvidiactl": "",
    "dev/nvidia0": "",
    "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.5 LTS"\n',
}
H200_NVML: tuple[Mapping[str, Any], ...] = (
    {"library": "/usr/lib64/libnvidia-ml.so.580.159.04"},
    {"driver": "580.159.04"},
    {
        "gpu": {
            "index": 0,
            "name": "NVIDIA H200",
            "uuid": "GPU-0a1b2c3d-1111-2222-3333-444455556666",
            "pci_bus_id": "00000000:00:06.0",
            "pci_device_id": "2335",
            "compute_capability": [9, 0],
            "memory_bytes": 150754820096,
            "mig_enabled": False,
        }
    },
    {"listed": True},
    {"cuda_driver": 13000},
    {"cuda_library": "/usr/lib64/libcuda.so.580.159.04"},
)
WSL_TREE: Mapping[str, str] = {
    "proc/version": "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) #1 SMP Tue Nov 5 2024\n",
    "dev/dxg": "",
    "usr/lib/wsl/lib/libcuda.so.1": "",
}
JETSON_TREE: Mapping[str, str] = {
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic, EABI: aarch64, DATE: Fri Sep 13 04:36:44 UTC 2024\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (buildbrain@mobile-u64-6336-d8000)\n",
    "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
    "dev/nvmap": "",
}


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Writes files below ``root`` and returns it."""
    for relative, text in files.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def answering(lines: Sequence[Mapping[str, Any]], then: str = "") -> tuple[str, ...]:
    """A command that prints the lines as the probe script does, and then runs ``then``."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return (sys.executable, "-I", "-S", "-c", f"import os, time\nos.write(1, {text!r}.encode())\n{then}")


def smi(
    gpus: Sequence[Mapping[str, str]],
    *,
    unknown: Sequence[str] = (),
    fails: tuple[int, str] | None = None,
    listing: str = "",
) -> tuple[str, ...]:
    """A command that answers field queries as nvidia-smi does: all errors on stdout."""
    script = f"""
import sys
fails, unknown, gpus = {fails!r}, {list(unknown)!r}, {[dict(gpu) for gpu in gpus]!r}
if fails:
    print(fails[1]); sys.exit(fails[0])
if sys.argv[1] == "-L":
    print({listing!r}); sys.exit(0)
fields = sys.argv[1].removeprefix("--query-gpu=").split(",")
for field in fields:
    if field in unknown:
        print(f'Field "{{field}}" is not a valid field to query.\\n'); sys.exit(2)
for gpu in gpus:
    print(", ".join(gpu.get(field, "[N/A]") for field in fields))
"""
    return (sys.executable, "-I", "-S", "-c", script)
