"""The ladder on recorded machines: every rung alone, and what fails, hangs or crashes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cudalock.errors import UsageError
from cudalock.host import Host, ProbeCommands, detect
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion
from support.hosts import H200_NVML, H200_TREE, JETSON_TREE, WSL_TREE, answering, smi, write_tree

SMI_H200 = {
    "name": "NVIDIA H200",
    "uuid": "GPU-0a1b2c3d-1111-2222-3333-444455556666",
    "pci.bus_id": "00000000:00:06.0",
    "driver_version": "580.159.04",
    "memory.total": "143771 MiB",
    "mig.mode.current": "Disabled",
    "compute_cap": "9.0",
}


def capabilities(host: Host) -> list[str]:
    return [str(gpu.compute_capability) for gpu in host.gpus]


def outcome(host: Host, name: str) -> Any:
    return next(probe for probe in host.probes if probe.name == name)


def test_nvml_answers_everything(tmp_path: Path) -> None:
    host = detect(root=write_tree(tmp_path, H200_TREE), environ={}, commands=ProbeCommands(nvml=answering(H200_NVML)))
    (gpu,) = host.gpus
    assert host.driver == DriverVersion("580.159.04")
    assert host.cuda_driver == CudaVersion(13, 0)
    assert host.kernel_module == "open"
    assert (gpu.name, gpu.compute_capability, gpu.memory_bytes) == (
        "NVIDIA H200",
        ComputeCapability(9, 0),
        150754820096,
    )
    assert (gpu.pci_bus_id, gpu.mig_enabled) == ("0000:00:06.0", False)
    assert host.origin["driver"] == host.origin["cuda_driver"] == gpu.origin["compute_capability"] == "nvml"
    assert host.origin["kernel_module"] == "procfs"
    assert (host.gpus_known, host.driver_library, host.compat_library) == (True, None, None)
    assert host.os_release == "Ubuntu 22.04.5 LTS"


def test_files_alone_give_driver_and_capability_by_pci_id(tmp_path: Path) -> None:
    host = detect(root=write_tree(tmp_path, H200_TREE), environ={})
    (gpu,) = host.gpus
    assert host.driver == DriverVersion("580.159.04")
    assert host.origin["driver"] == "sysfs"
    assert gpu.compute_capability == ComputeCapability(9, 0)
    assert gpu.origin["compute_capability"] == "products"
    assert (gpu.uuid, gpu.pci_device_id) == ("GPU-0a1b2c3d-1111-2222-3333-444455556666", "2335")


def test_the_driver_is_read_from_proc_where_sys_is_missing(tmp_path: Path) -> None:
    tree = {path: text for path, text in H200_TREE.items() if not path.startswith("sys/module")}
    host = detect(root=write_tree(tmp_path, tree), environ={})
    assert (str(host.driver), host.origin["driver"]) == ("580.159.04", "procfs")


def test_a_sandbox_without_proc_and_pci_is_answered_by_nvml(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"dev/nvidiactl": ""})
    host = detect(root=root, environ={}, commands=ProbeCommands(nvml=answering(H200_NVML)))
    assert (str(host.driver), capabilities(host), host.kernel_module) == ("580.159.04", ["9.0"], None)


def test_a_machine_without_nvidia_is_a_clear_answer_and_starts_nothing(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"sys/bus/pci/devices/0000:00:01.0/vendor": "0x8086\n"})
    host = detect(root=root, environ={})
    assert (host.gpus, host.gpus_known, host.driver) == ((), True, None)
    assert "not asked" in outcome(host, "nvml").error


def test_a_gpu_without_a_driver_is_listed_from_the_bus(tmp_path: Path) -> None:
    tree = {path: text for path, text in H200_TREE.items() if path.startswith("sys/bus")}
    host = detect(root=write_tree(tmp_path, tree), environ={})
    assert (capabilities(host), host.driver, host.gpus_known) == (["9.0"], None, True)


def test_device_nodes_without_any_answer_leave_the_gpus_unknown(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"dev/nvidia0": "", "sys/bus/pci/devices/0000:00:01.0/vendor": "0x8086\n"})
    failing = ({"error": {"code": 999, "text": "Unknown Error"}},)
    host = detect(root=root, environ={}, commands=ProbeCommands(nvml=answering(failing)))
    assert (host.gpus, host.gpus_known) == ((), False)
    assert (outcome(host, "nvml").error, outcome(host, "nvml").error_code) == ("Unknown Error", 999)


def test_a_probe_that_hangs_costs_its_time_limit_and_keeps_what_it_said(tmp_path: Path) -> None:
    root = write_tree(tmp_path, H200_TREE)
    hanging = answering(({"driver": "580.159.04"},), "time.sleep(60)")
    started = time.monotonic()
    host = detect(
        root=root,
        environ={},
        commands=ProbeCommands(nvml=hanging, nvidia_smi=smi([SMI_H200]), time_limit_s=0.4),
    )
    assert time.monotonic() - started < 5
    assert outcome(host, "nvml").error == "no answer within 0.4 s"
    assert (host.origin["driver"], capabilities(host)) == ("nvml", ["9.0"])
    assert "nvidia-smi" not in {probe.name for probe in host.probes}, "it would hang like NVML"


def test_a_probe_that_crashes_is_survived(tmp_path: Path) -> None:
    host = detect(
        root=write_tree(tmp_path, H200_TREE),
        environ={},
        commands=ProbeCommands(nvml=answering((), "os.abort()"), nvidia_smi=smi([SMI_H200])),
    )
    assert outcome(host, "nvml").error == "crashed (signal 6)"
    (gpu,) = host.gpus
    assert gpu.origin["compute_capability"] == "nvidia-smi"
    assert gpu.origin["pci_device_id"] == "sysfs", "filled up from the next rung"


def test_a_probe_that_cannot_be_started_is_survived(tmp_path: Path) -> None:
    commands = ProbeCommands(nvml=(str(tmp_path / "missing"),), nvidia_smi=(str(tmp_path / "missing"),))
    host = detect(root=write_tree(tmp_path, H200_TREE), environ={}, commands=commands)
    assert "missing" in outcome(host, "nvml").error
    assert "missing" in outcome(host, "nvidia-smi").error
    assert capabilities(host) == ["9.0"]


def test_the_noise_of_a_library_is_no_answer(tmp_path: Path) -> None:
    noisy = answering(H200_NVML, "os.write(1, b'cut {\\n[1]\\n')")
    host = detect(root=write_tree(tmp_path, H200_TREE), environ={}, commands=ProbeCommands(nvml=noisy))
    assert capabilities(host) == ["9.0"]


def test_nvidia_smi_is_asked_again_without_the_field_it_does_not_know(tmp_path: Path) -> None:
    old = smi([SMI_H200 | {"name": "Tesla V100-SXM2-16GB", "driver_version": "470.256.02"}], unknown=["compute_cap"])
    host = detect(root=write_tree(tmp_path, {"dev/nvidia0": ""}), environ={}, commands=ProbeCommands(nvidia_smi=old))
    (gpu,) = host.gpus
    assert (str(host.driver), host.origin["driver"]) == ("470.256.02", "nvidia-smi")
    assert (gpu.compute_capability, gpu.origin["compute_capability"]) == (ComputeCapability(7, 0), "products")


def test_nvidia_smi_prints_its_errors_on_stdout(tmp_path: Path) -> None:
    words = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."
    host = detect(
        root=write_tree(tmp_path, {"dev/nvidia0": ""}),
        environ={},
        commands=ProbeCommands(nvidia_smi=smi([], fails=(9, words))),
    )
    assert (host.gpus, host.driver) == ((), None)
    assert (outcome(host, "nvidia-smi").error, outcome(host, "nvidia-smi").error_code) == (words, 9)


def test_an_upgraded_library_beside_an_old_module_is_seen(tmp_path: Path) -> None:
    failing = (
        {"library": "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.133.20"},
        {"error": {"code": 18, "text": "Driver/library version mismatch"}},
    )
    host = detect(root=write_tree(tmp_path, H200_TREE), environ={}, commands=ProbeCommands(nvml=answering(failing)))
    assert (str(host.driver), str(host.driver_library)) == ("580.159.04", "570.133.20")
    assert outcome(host, "nvml").error_code == 18


def test_mig_instances_are_listed(tmp_path: Path) -> None:
    listing = f"GPU 0: NVIDIA H200 (UUID: {SMI_H200['uuid']})\n  MIG 1g.18gb     Device  0: (UUID: MIG-e07a497d)"
    command = smi([SMI_H200 | {"mig.mode.current": "Enabled"}], listing=listing)
    host = detect(
        root=write_tree(tmp_path, {"dev/nvidia0": ""}), environ={}, commands=ProbeCommands(nvidia_smi=command)
    )
    assert (host.gpus[0].mig_enabled, host.gpus[0].mig_devices) == (True, ("MIG-e07a497d",))


def test_a_compat_library_is_recognised_by_its_folder(tmp_path: Path) -> None:
    lines = (
        *H200_NVML[:-2],
        {"cuda_driver": 13020},
        {"cuda_library": "/usr/local/cuda-13.2/compat/libcuda.so.595.45.04"},
    )
    host = detect(root=write_tree(tmp_path, H200_TREE), environ={}, commands=ProbeCommands(nvml=answering(lines)))
    assert host.compat_library == "/usr/local/cuda-13.2/compat/libcuda.so.595.45.04"
    assert host.cuda_driver == CudaVersion(13, 2)


def test_libcuda_answers_where_nvml_is_missing(tmp_path: Path) -> None:
    missing = ({"error": {"code": 12, "text": "NVML Shared Library Not Found"}},)
    cuda = (
        {"cuda_library": "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1"},
        {"cuda_driver": 12060},
        {"gpu": {"index": 0, "name": "Orin", "compute_capability": [8, 7], "memory_bytes": 32000000000}},
        {"listed": True},
    )
    host = detect(
        root=write_tree(tmp_path, JETSON_TREE),
        environ={},
        commands=ProbeCommands(nvml=answering(missing), libcuda=answering(cuda)),
    )
    assert (host.jetson, host.l4t, str(host.driver), str(host.cuda_driver)) == (True, "36.4.0", "540.4.0", "12.6")
    assert (capabilities(host), host.origin["cuda_driver"]) == (["8.7"], "libcuda")


def test_a_jetson_is_known_by_its_board_alone(tmp_path: Path) -> None:
    host = detect(root=write_tree(tmp_path, JETSON_TREE), environ={})
    assert host.gpus[0].name == "NVIDIA Jetson AGX Orin"
    assert capabilities(host) == ["8.7"]


def test_wsl_is_recognised_and_asks_nvml(tmp_path: Path) -> None:
    lines = (
        {"library": "/usr/lib/wsl/lib/libnvidia-ml.so.1"},
        {"driver": "551.61"},
        {"gpu": {"index": 0, "name": "NVIDIA GeForce RTX 4090", "compute_capability": [8, 9]}},
        {"listed": True},
        {"cuda_driver": 12040},
    )
    host = detect(root=write_tree(tmp_path, WSL_TREE), environ={}, commands=ProbeCommands(nvml=answering(lines)))
    assert (host.wsl, str(host.driver), str(host.cuda_driver), capabilities(host)) == (True, "551.61", "12.4", ["8.9"])


def test_unequal_gpus_are_put_in_cudas_order_when_a_number_hides_some(tmp_path: Path) -> None:
    def gpu(index: int, uuid: str, major: int, minor: int) -> dict[str, Any]:
        return {"gpu": {"index": index, "uuid": uuid, "compute_capability": [major, minor]}}

    nvml = (
        {"driver": "580.95.05"},
        gpu(0, "GPU-a", 8, 6),
        gpu(1, "GPU-b", 12, 0),
        {"listed": True},
        {"cuda_driver": 13000},
    )
    see = "print(os.environ.get('CUDA_VISIBLE_DEVICES'), file=__import__('sys').stderr)"
    cuda = ({"cuda_driver": 13000}, gpu(0, "GPU-b", 12, 0), gpu(1, "GPU-a", 8, 6), {"listed": True})
    host = detect(
        root=write_tree(tmp_path, {"dev/nvidia0": ""}),
        environ={"CUDA_VISIBLE_DEVICES": "0"},
        commands=ProbeCommands(nvml=answering(nvml), libcuda=answering(cuda, see)),
    )
    assert [(gpu.uuid, gpu.cuda_index) for gpu in host.gpus] == [("GPU-a", 1), ("GPU-b", 0)]
    assert host.visible_devices == "0"


def test_libcuda_is_not_shown_the_variable_that_hides_gpus(tmp_path: Path) -> None:
    script = "import os, json; print(json.dumps({'driver': None, 'cuda_library': os.environ.get('CUDA_VISIBLE_DEVICES', 'unset')}))"
    import sys

    host = detect(
        root=write_tree(tmp_path, {"dev/nvidia0": ""}),
        environ={"CUDA_VISIBLE_DEVICES": "1"},
        commands=ProbeCommands(libcuda=(sys.executable, "-I", "-S", "-c", script)),
    )
    assert host.cuda_library == "unset"


def test_the_words_of_a_stub_are_kept(tmp_path: Path) -> None:
    lines = (
        *H200_NVML[:4],
        {"cuda_library": "/usr/local/cuda/lib64/stubs/libcuda.so"},
        {"cuda_library_error": {"code": 34, "text": "CUDA driver is a stub library"}},
    )
    host = detect(root=write_tree(tmp_path, H200_TREE), environ={}, commands=ProbeCommands(nvml=answering(lines)))
    assert host.cuda_library_error == "CUDA driver is a stub library"
    assert (host.cuda_driver, capabilities(host)) == (None, ["9.0"])


def test_rungs_can_be_left_out(tmp_path: Path) -> None:
    commands = ProbeCommands(nvml=answering(H200_NVML), nvidia_smi=smi([SMI_H200]))
    root = write_tree(tmp_path, H200_TREE)
    host = detect(root=root, environ={"CUDALOCK_PROBES": "nvidia-smi"}, commands=commands)
    assert {probe.name for probe in host.probes} == {"nvidia-smi"}
    assert (host.origin["driver"], host.kernel_module) == ("nvidia-smi", None)
    with pytest.raises(UsageError) as caught:
        detect(root=root, environ={"CUDALOCK_PROBES": "nvlm"}, commands=commands)
    assert caught.value.code == "probes-unknown"


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"proc/1/cgroup": "0::/kubepods/burstable/pod1\n"}, {}, "kubernetes"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/images/a.sif"}, "apptainer"),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, str], environ: dict[str, str], kind: str) -> None:
    host = detect(root=write_tree(tmp_path, files), environ=environ | {"NVIDIA_REQUIRE_CUDA": "cuda>=12.8"})
    assert host.container is not None
    assert (host.container.kind, host.container.require_cuda) == (kind, "cuda>=12.8")


def test_no_container_leaves_no_trace_of_one(tmp_path: Path) -> None:
    assert detect(root=tmp_path, environ={}).container is None


def test_interpreters_of_the_search_path_are_listed(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path, {"opt/bin/python3.9": "", "opt/bin/python3.14t": "", "usr/bin/python3.9": "", "usr/bin/python3": ""}
    )
    host = detect(root=root, environ={"PATH": "/opt/bin:/usr/bin"})
    assert host.pythons == (("3.9", "/opt/bin/python3.9"), ("3.14t", "/opt/bin/python3.14t"))


def test_this_machine_can_be_detected() -> None:
    import platform
    import sys

    host = detect()
    assert host.python is not None
    assert host.python.rstrip("t") == platform.python_version()
    assert host.os == {"win32": "windows"}.get(sys.platform, sys.platform)
