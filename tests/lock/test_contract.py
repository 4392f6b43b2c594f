"""The contract that a lock states, and the machines it is then valid for. The rules and the tables are the real ones."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from cudalock.builds.model import TritonRelease
from cudalock.compat.model import Mode, Policy
from cudalock.findings import Finding
from cudalock.host.model import Gpu, Host
from cudalock.lock import build_of, contract_findings, judge_fit, triton_of
from cudalock.lock.model import Contract, Lock
from cudalock.target.model import Platform, PythonVersion, TargetGpu
from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion
from support.locks import a_lock, linux_target

CC = ComputeCapability.parse


def contract_of(lock: Lock) -> Contract:
    assert lock.contract is not None
    return lock.contract


def host(*gpus: str | tuple[str, str], driver: str | None = "580.65.06", **more: Any) -> Host:
    """A Linux machine; a GPU is a capability, or a capability and a product name."""
    found = []
    for index, gpu in enumerate(gpus):
        capability, name = gpu if isinstance(gpu, tuple) else (gpu, None)
        found.append(Gpu(index=index, name=name, compute_capability=CC(capability)))
    values: dict[str, Any] = {
        "os": "linux",
        "machine": "x86_64",
        "libc": ("glibc", (2, 35)),
        "driver": DriverVersion(driver) if driver else None,
        "gpus": tuple(found),
        "gpus_known": driver is not None,
    }
    return Host(**(values | more))


def codes(findings: tuple[Finding, ...], severity: str = "error") -> list[str]:
    return [finding.code for finding in findings if finding.severity == severity]


# --- what is stated


def test_minor_version_compatibility_is_stated() -> None:
    contract = contract_of(a_lock(linux_target("9.0", driver="535.161.08")))
    assert contract.compat is Mode.MINOR
    assert contract.driver_min == DriverVersion("525.60.13")
    assert contract.driver_native is not None
    assert DriverVersion("535.161.08") < contract.driver_native


def test_the_targets_gpus_have_entries_and_others_only_where_they_differ() -> None:
    lock = a_lock(linux_target("8.0"), architectures="sm_80 sm_86 sm_90 sm_100")
    gpus = contract_of(lock).gpus
    assert set(gpus) == {CC("8.0"), CC("10.0")}  # 10.0 has no driver before branch 570
    assert gpus[CC("8.0")].triton == "ptxas 12.8"
    floor = gpus[CC("10.0")].driver_min
    assert floor is not None
    assert floor.branch == 570


def test_the_second_assembler_is_stated_for_the_architectures_that_it_serves() -> None:
    release = TritonRelease(
        version=Version("3.7"), ptxas=CudaVersion(12, 9), ptxas_blackwell=CudaVersion(13, 1), blackwell_from=100
    )
    lock = a_lock(linux_target("9.0"), triton="99.0", release=release)
    gpus = contract_of(lock).gpus
    assert gpus[CC("9.0")].triton == "ptxas 12.9"
    assert gpus[CC("12.0")].triton == "ptxas-blackwell 13.1"
    assert gpus[CC("12.0")].driver_min == DriverVersion("580.65.06")
    # a triton that our tables do not know is read back from what the contract says
    known = triton_of(lock)
    assert known is not None
    assert (known.ptxas, known.ptxas_blackwell, known.blackwell_from) == (CudaVersion(12, 9), CudaVersion(13, 1), 100)


def test_passengers_ptx_and_cpu_builds() -> None:
    passenger = a_lock(linux_target("6.1"), architectures="sm_60 sm_70 compute_90")
    assert contract_of(passenger).gpus[CC("6.1")].triton == "passenger"
    assert contract_of(passenger).ptx == (CC("9.0"),)
    build = build_of(passenger)
    assert build is not None
    assert Architecture.parse("compute_90") in build.architectures
    cpu = a_lock(linux_target(driver=None, cpu=True), torch="2.9.1+cpu", cuda=None, triton=None)
    assert cpu.contract is None
    assert build_of(cpu) is None


def test_forward_compatibility_names_its_package() -> None:
    gpu = TargetGpu(compute_capability=CC("9.0"), name="H100", forward_compatible=True)
    policy = Policy(modes=frozenset(Mode))
    target = linux_target(driver="535.161.08", gpus=(gpu,))
    lock = a_lock(
        target, torch="2.13.0+cu130", cuda="13.0", policy=policy, triton="3.7",
        release=TritonRelease(version=Version("3.7"), ptxas=CudaVersion(13, 0)),
    )  # fmt: skip
    contract = contract_of(lock)
    assert contract.compat is Mode.FORWARD
    assert contract.compat_package == "cuda-compat-13-0"
    assert codes(contract_findings(lock, target)) == []
    assert codes(contract_findings(lock, host(("9.0", "NVIDIA H100"), driver="535.161.08"))) == []
    geforce = contract_findings(lock, host(("8.9", "NVIDIA GeForce RTX 4090"), driver="535.161.08"))
    assert codes(geforce) == ["compat-on-geforce"]


# --- where it is valid


def test_the_machine_that_it_was_made_for_has_no_findings() -> None:
    lock = a_lock(linux_target("9.0"))
    assert contract_findings(lock, host("9.0")) == ()
    assert contract_findings(lock, linux_target("9.0")) == ()


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        (host("9.0", driver="470.57.02"), "driver-too-old"),
        (host("9.0", driver="525.60.12"), "driver-too-old"),
        (host("6.1"), "gpu-not-in-wheel"),
        (host("9.0", "6.1"), "gpu-not-in-wheel"),  # every GPU counts
        (host("9.0", machine="aarch64"), "lock-not-for-this-machine"),
        (host("9.0", os="windows", libc=None), "lock-not-for-this-machine"),
        (host("9.0", os="darwin", machine="arm64", libc=None), "lock-not-for-this-machine"),
        (host("9.0", libc=("glibc", (2, 17))), "glibc-too-old"),
        (host("9.0", libc=("musl", (1, 2))), "musl-unsupported"),
        (linux_target("9.0", driver="470.57.02"), "driver-too-old"),
    ],
)
def test_machines_that_it_is_not_valid_for(machine: Host, code: str) -> None:
    (finding,) = [item for item in contract_findings(a_lock(linux_target("9.0")), machine) if item.severity == "error"]
    assert finding.code == code
    assert finding.evidence


def test_what_is_wrong_names_its_fix() -> None:
    (finding,) = contract_findings(a_lock(linux_target("9.0")), host("9.0", driver="470.57.02"))[:1]
    assert finding.fix is not None
    assert "525.60.13" in finding.fix
    assert "cudalock resolve --gpu 9.0 --driver 470.57.02 --platform linux-x86_64" in finding.fix, "not the lock's own"


def test_an_assembler_newer_than_the_driver_is_found_for_the_gpu_that_it_concerns() -> None:
    release = TritonRelease(
        version=Version("99.0"), ptxas=CudaVersion(12, 9), ptxas_blackwell=CudaVersion(13, 1), blackwell_from=100
    )
    lock = a_lock(linux_target("9.0", "12.0"), triton="99.0", release=release)
    findings = contract_findings(lock, host("9.0", "12.0", driver="570.211.01"))
    assert codes(findings) == ["assembler-newer-than-driver"]
    assert findings[0].evidence["gpu"] == "12.0"
    assert codes(contract_findings(lock, host("9.0", driver="570.211.01"))) == []


def test_compatibility_in_use_and_ptx_are_said_and_are_no_errors() -> None:
    lock = a_lock(linux_target("9.0", driver="535.161.08"))
    assert codes(contract_findings(lock, host("9.0", driver="535.161.08")), "info") == ["minor-compat-in-use"]
    ptx = a_lock(linux_target("9.0"), architectures="sm_90 compute_90")
    findings = contract_findings(ptx, host("12.0"))
    assert codes(findings) == []
    assert codes(findings, "warning") == ["gpu-only-by-ptx"]
    # its PTX is of CUDA 12.8, which the compiler of an older driver does not know
    old = a_lock(linux_target("8.0"), architectures="sm_80 compute_80")
    assert codes(contract_findings(old, host("8.9", "9.0", driver="550.54.15"))) == ["ptx-newer-than-driver"]


def test_a_lock_made_for_another_gpu_that_covers_this_one_gives_a_note() -> None:
    findings = contract_findings(a_lock(linux_target("12.0")), host("8.9"))
    assert codes(findings) == []
    (note,) = findings
    assert (note.code, note.severity) == ("lock-made-for-other-gpu", "info")


def test_what_the_lock_records_holds_where_it_knows_more_than_our_tables() -> None:
    lock = a_lock(linux_target("9.0"))
    text = {"driver_min": DriverVersion("600.1"), "triton": "ptxas 12.8"}
    from dataclasses import replace

    from cudalock.lock.model import GpuContract

    stricter = replace(lock, contract=replace(contract_of(lock), gpus={CC("9.0"): GpuContract(**text)}))  # type: ignore[arg-type]
    assert codes(contract_findings(stricter, host("9.0"))) == ["assembler-newer-than-driver"]
    general = replace(lock, contract=replace(contract_of(lock), driver_min=DriverVersion("600.1"), gpus={}))
    assert codes(contract_findings(general, host("9.0"))) == ["driver-too-old"]


# --- what is not known is not wrong


def test_no_driver_is_unknown_not_wrong() -> None:
    fit = judge_fit(a_lock(linux_target("9.0")), host(driver=None))
    assert fit.findings == ()
    assert fit.unknown == ("the driver and the GPUs of this machine",)


def test_gpus_without_a_driver_and_a_driver_without_gpus() -> None:
    lock = a_lock(linux_target("9.0"))
    fit = judge_fit(lock, host("9.0", driver=None))
    assert (fit.findings, fit.unknown) == ((), ("the driver of this machine",))
    assert codes(judge_fit(lock, host("6.1", driver=None)).findings) == ["gpu-not-in-wheel"]
    fit = judge_fit(lock, host(driver="580.65.06"))
    assert (fit.findings, fit.unknown) == ((), ("the GPUs of this machine",))
    assert codes(judge_fit(lock, host(driver="470.57.02")).findings) == ["driver-too-old"]


def test_a_gpu_of_unknown_capability_is_named_as_unknown() -> None:
    machine = host("9.0")
    from dataclasses import replace

    strange = replace(machine, gpus=(*machine.gpus, Gpu(index=1, name="NVIDIA Future 1")))
    fit = judge_fit(a_lock(linux_target("9.0")), strange)
    assert fit.findings == ()
    assert fit.unknown == ("the compute capability of GPU 1 (NVIDIA Future 1)",)


def test_a_lock_without_torch_or_for_the_cpu_asks_nothing_of_gpus() -> None:
    cpu = a_lock(linux_target(driver=None, cpu=True), torch="2.9.1+cpu", cuda=None, triton=None)
    assert judge_fit(cpu, host(driver=None)).unknown == ()
    assert codes(contract_findings(cpu, host(driver=None, machine="aarch64"))) == ["lock-not-for-this-machine"]


# --- Python


def test_python_is_judged_where_it_was_chosen() -> None:
    lock = a_lock(linux_target("9.0"))
    other = PythonVersion(3, 13)
    assert codes(contract_findings(lock, host("9.0"), python=other)) == ["lock-not-for-this-machine"]
    assert codes(contract_findings(lock, host("9.0"), python=PythonVersion(3, 12, free_threaded=True))) == [
        "lock-not-for-this-machine"
    ]
    assert contract_findings(lock, host("9.0"), python=PythonVersion(3, 12)) == ()
    found = linux_target("9.0", python=(3, 13))
    assert contract_findings(lock, found) == ()  # cudalock's own Python is not the environment's
    chosen = linux_target("9.0", python=(3, 13), origin={"python": "flag"})
    assert codes(contract_findings(lock, chosen)) == ["lock-not-for-this-machine"]


def test_the_platform_of_a_target_is_judged() -> None:
    lock = a_lock(linux_target("9.0"))
    arm = linux_target("9.0", platform=Platform("linux", "aarch64", ("glibc", (2, 28))))
    assert codes(contract_findings(lock, arm)) == ["lock-not-for-this-machine"]
