"""Asks NVML or libcuda in a process of its own; standalone: run by path, imports the standard library and pynvml only.

Usage: ``python probe.py nvml PATH_OF_PYNVML`` or ``python probe.py libcuda``. Every answer is printed at once as a JSON
object on a line of its own, so that a crash or a time limit loses only what had not been answered yet:

* ``{"library": path}`` - the library that the loader chose, symbolic links resolved
* ``{"driver": "580.159.04"}``, ``{"cuda_driver": 13000}``
* ``{"gpu": {"index": 0, "name": ..., "uuid": ..., "pci_bus_id": ..., "compute_capability": [9, 0], ...}}``
* ``{"error": {"code": 18, "text": ...}}`` - the library's own code and words
* ``{"listed": true}`` - the list of GPUs is complete
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from typing import Any

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_PCI_BUS, _PCI_DEVICE, _PCI_DOMAIN = 33, 34, 50


def say(**answer: Any) -> None:
    """Prints one answer; the file descriptor directly, so that a later crash cannot lose it."""
    os.write(1, (json.dumps(answer) + "\n").encode())


def loaded_path(fragment: str) -> str | None:
    """Path of a library that this process has mapped (Linux), symbolic links resolved by the kernel."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123 - imports cost start-up time
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if fragment in path.rpartition("/")[2]:
                    return "/" + path
    except OSError:
        pass
    return None


def text_of(value: Any) -> str:
    """NVML gives bytes or text, depending on the version of its binding."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def ask_nvml(pynvml_path: str) -> None:
    """Driver, CUDA version and every GPU as NVML knows them; needs no CUDA context and so no free GPU memory."""
    spec = importlib.util.spec_from_file_location("pynvml", pynvml_path)
    if spec is None or spec.loader is None:
        say(error={"code": None, "text": f"cannot load {pynvml_path}"})
        return
    nvml = importlib.util.module_from_spec(spec)
    sys.modules["pynvml"] = nvml  # it looks itself up there while it is executed
    spec.loader.exec_module(nvml)

    def failure(error: Exception) -> dict[str, Any]:
        """The library's own words rather than the binding's, which rephrases some."""
        code = getattr(error, "value", None)
        try:
            return {"code": code, "text": text_of(nvml.nvmlErrorString(code))}
        except (nvml.NVMLError, AttributeError, TypeError):
            return {"code": code, "text": str(error)}

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        say(library=loaded_path("libnvidia-ml.so"))
        say(error=failure(error))
        return
    say(library=loaded_path("libnvidia-ml.so"))

    def ask(function: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, function)(*arguments)
        except (nvml.NVMLError, AttributeError):  # not supported on this GPU or by this driver: simply unknown
            return None

    if driver := ask("nvmlSystemGetDriverVersion"):
        say(driver=text_of(driver))
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        say(error=failure(error))
        return
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            said = failure(error)
            say(gpu={"index": index, "error": said["text"], "error_code": said["code"]})
            continue
        say(gpu=nvml_gpu(index, handle, ask))
    say(listed=True)
    # Last, because it loads libcuda, the likelier of the two to hang or crash.
    if cuda := ask("nvmlSystemGetCudaDriverVersion_v2"):
        say(cuda_driver=cuda)
    say_cuda_library()


def nvml_gpu(index: int, handle: Any, ask: Callable[..., Any]) -> dict[str, Any]:
    """One GPU by its NVML handle; what is not supported is left out."""
    gpu: dict[str, Any] = {"index": index}
    for key, function in (("name", "nvmlDeviceGetName"), ("uuid", "nvmlDeviceGetUUID")):
        if value := ask(function, handle):
            gpu[key] = text_of(value)
    if pci := ask("nvmlDeviceGetPciInfo", handle):
        gpu["pci_bus_id"] = text_of(pci.busId)
        gpu["pci_device_id"] = f"{pci.pciDeviceId >> 16:04x}"
    if capability := ask("nvmlDeviceGetCudaComputeCapability", handle):
        gpu["compute_capability"] = list(capability)
    if memory := ask("nvmlDeviceGetMemoryInfo", handle):
        gpu["memory_bytes"] = int(memory.total)
    if mode := ask("nvmlDeviceGetMigMode", handle):
        gpu["mig_enabled"] = mode[0] == 1
        if mode[0] == 1:
            instances = [
                ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
                for number in range(ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
            ]
            uuids = [ask("nvmlDeviceGetUUID", instance) for instance in instances if instance is not None]
            gpu["mig_devices"] = [text_of(uuid) for uuid in uuids if uuid]
    return gpu


def cuda_library() -> Any:
    """Libcuda by its soname (never ``libcuda.so``, which may be a stub), as any CUDA program would load it."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def say_cuda_library() -> int | None:
    """Which libcuda the loader chooses and what CUDA version it offers; the driver API's number or None."""
    try:
        library = cuda_library()
    except OSError as error:
        say(cuda_library_error={"code": None, "text": str(error)})
        return None
    say(cuda_library=loaded_path("libcuda.so"))
    version = ctypes.c_int(0)
    status = library.cuDriverGetVersion(ctypes.byref(version))
    if status:
        say(cuda_library_error={"code": status, "text": cuda_error(library, status)})
        return None
    say(cuda_driver=version.value)
    return version.value


def cuda_error(library: Any, status: int) -> str:
    """Libcuda's own words for an error code."""
    words = ctypes.c_char_p()
    try:
        library.cuGetErrorString(status, ctypes.byref(words))
    except AttributeError:  # a stub may lack the function
        return f"CUDA error {status}"
    return text_of(words.value) if words.value else f"CUDA error {status}"


def ask_libcuda() -> None:
    """CUDA version and every GPU as libcuda knows them, in CUDA's own order."""
    if say_cuda_library() is None:
        return
    library = cuda_library()
    if status := library.cuInit(0):
        say(error={"code": status, "text": cuda_error(library, status)})
        return
    count = ctypes.c_int(0)
    if status := library.cuDeviceGetCount(ctypes.byref(count)):
        say(error={"code": status, "text": cuda_error(library, status)})
        return
    for index in range(count.value):
        say(gpu=libcuda_gpu(library, index))
    say(listed=True)


def libcuda_gpu(library: Any, index: int) -> dict[str, Any]:
    """One GPU by its CUDA ordinal."""
    gpu: dict[str, Any] = {"index": index}
    device = ctypes.c_int(0)
    if status := library.cuDeviceGet(ctypes.byref(device), index):
        return gpu | {"error": cuda_error(library, status), "error_code": status}

    def attribute(number: int) -> int | None:
        value = ctypes.c_int(0)
        return None if library.cuDeviceGetAttribute(ctypes.byref(value), number, device) else value.value

    major, minor = attribute(_CAPABILITY_MAJOR), attribute(_CAPABILITY_MINOR)
    if major is not None and minor is not None:
        gpu["compute_capability"] = [major, minor]
    domain, bus, slot = attribute(_PCI_DOMAIN), attribute(_PCI_BUS), attribute(_PCI_DEVICE)
    if domain is not None and bus is not None and slot is not None:
        gpu["pci_bus_id"] = f"{domain:08x}:{bus:02x}:{slot:02x}.0"
    name = ctypes.create_string_buffer(256)
    if not library.cuDeviceGetName(name, len(name), device):
        gpu["name"] = text_of(name.value)
    uuid = (ctypes.c_ubyte * 16)()
    if not library.cuDeviceGetUuid(ctypes.byref(uuid), device):
        digits = bytes(uuid).hex()
        gpu["uuid"] = f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    memory = ctypes.c_size_t(0)
    if not library.cuDeviceTotalMem_v2(ctypes.byref(memory), device):
        gpu["memory_bytes"] = memory.value
    return gpu


if __name__ == "__main__":
    if sys.argv[1] == "nvml":
        ask_nvml(sys.argv[2])
    else:
        ask_libcuda()
