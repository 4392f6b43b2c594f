"""Error texts and logs: the right finding first, whatever stands around the message, and no finding in other logs."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator

import pytest

from cudalock import facts
from cudalock.errors import UsageError
from cudalock.explain import explain, explain_text
from cudalock.facts.explanations import STAGES, Pattern, consequences, explanations
from support.logs import NOISE, UNRELATED, VARIANTS

ROWS = explanations()
SAMPLES = [pytest.param(row, text, id=f"{row.name}-{n}") for row in ROWS for n, text in enumerate(row.samples)]
NVML = "Failed to initialize NVML: Driver/library version mismatch"
NO_GPUS = "RuntimeError: No CUDA GPUs are available"
NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"


def log(text: str) -> io.BytesIO:
    return io.BytesIO(text.encode())


def codes(text: str) -> list[str]:
    return [finding.code for finding in explain_text(text).findings]


@pytest.mark.parametrize(("row", "text"), SAMPLES)
def test_a_sample_gives_its_finding_first(row: Pattern, text: str) -> None:
    explanation = explain_text(text)
    first = explanation.findings[0]
    assert first.code == row.code
    assert first.severity == (row.severity or facts.finding_codes()[row.code].severity)
    assert first.message and first.fix and first.evidence["line"]
    assert explanation.unknown == (row.open or first.severity == "info")
    assert explanation.first_stage in (STAGES if first.severity != "info" else (None,))


@pytest.mark.parametrize("name", VARIANTS)
def test_it_does_so_in_every_kind_of_log(name: str) -> None:
    wrong = {
        (row.name, text[:60]): found[:1]
        for row in ROWS
        for text in row.samples
        if (found := codes(VARIANTS[name](text)))[:1] != [row.code]
    }
    assert wrong == {}


@pytest.mark.parametrize("name", UNRELATED)
def test_a_log_of_something_else_is_unknown(name: str) -> None:
    explanation = explain_text(UNRELATED[name])
    assert (explanation.findings, explanation.unknown, explanation.first_stage) == ((), True, None)
    assert any("cudalock detect --json" in item for item in explanation.collect)


def test_the_table_holds_together() -> None:
    known = facts.finding_codes()
    assert {code for row in ROWS for code in (row.code, *row.beside)} <= known.keys()
    assert consequences().keys() | {code for brought in consequences().values() for code in brought} <= known.keys()
    for row in ROWS:
        assert len(row.possible) > 1 or not row.open, f"{row.name} leaves open what it does not name"


def test_a_fault_names_its_line_and_what_was_captured() -> None:
    text = VARIANTS["in the middle of a log"](
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_90."
    )
    (finding,) = explain([("run.log", log(text))]).findings
    assert finding.evidence["where"] == "run.log:201"
    assert finding.evidence["architecture"] == "sm_120"
    assert finding.message == "this torch build has no code for NVIDIA GeForce RTX 5090 (sm_120)"
    assert finding.evidence["supported"].split() == ["sm_50", "sm_60", "sm_90"]


def test_consequences_are_told_under_their_cause_whatever_the_order() -> None:
    cpu = "WARNING: CUDA is not available, falling back to CPU"
    for text in (f"{NVML}\n{NO_GPUS}\n{cpu}", f"{cpu}\n{NO_GPUS}\n{NVML}"):
        (finding,) = explain_text(text).findings
        assert finding.code == "driver-library-mismatch"
        assert [one["code"] for one in finding.evidence["consequences"]] == ["no-gpu-visible"]


def test_several_causes_are_kept_apart() -> None:
    explanation = explain_text(
        f"{NO_IMAGE}\n{NOISE}\nImportError: libcusparseLt.so.0: cannot open shared object file: No such file or directory"
    )
    assert [finding.code for finding in explanation.findings] == ["missing-nvidia-dependency", "gpu-not-in-wheel"]
    assert explanation.first_stage == "import"


def test_logs_of_a_cluster_are_read_together() -> None:
    kubelet = (
        'E0512 09:14:03.551928    1873 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to create sandbox:'
        ' rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \\"nvidia\\" is configured"'
    )
    plugin = (
        "I0512 09:10:20.114033       1 factory.go:115] Detected non-NVML platform: could not load NVML library:"
        " libnvidia-ml.so.1: cannot open shared object file: No such file or directory\n"
        "I0512 09:10:20.114133       1 main.go:349] No devices found. Waiting indefinitely."
    )
    explanation = explain([("app.log", log(NO_GPUS)), ("plugin.log", log(plugin)), ("kubelet.log", log(kubelet))])
    (finding,) = explanation.findings
    assert (finding.code, finding.evidence["where"]) == ("containerd-runtime-invalid", "kubelet.log:1")
    assert explanation.first_stage == "container"
    brought = [one["code"] for one in finding.evidence["consequences"]]
    assert sorted(brought) == ["no-gpu-visible", "nvml-unavailable"]


def test_a_fault_of_every_rank_is_one_fault() -> None:
    text = "\n".join(f"[rank{rank}]: {NO_IMAGE}" for rank in range(8))
    (finding,) = explain_text(text).findings
    assert finding.evidence["count"] == 8
    assert finding.evidence["streams"] == [f"[rank{rank}]" for rank in range(8)]


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: unexpected EOF, expected 96129 more bytes. The file might be corrupted.",
        "RuntimeError: CUDA error: unspecified launch failure",
        "torch.compile(model) was called an hour ago, and nvidia-smi says GPU-Util 0%",
    ],
)
def test_where_several_causes_stay_open_it_says_how_to_tell_them_apart(text: str) -> None:
    explanation = explain_text(text)
    (finding,) = explanation.findings
    assert explanation.unknown and not explanation.failed
    assert len(finding.evidence["possible"]) >= 3
    assert all(one["cause"] and one["tell"] for one in finding.evidence["possible"])
    assert explanation.collect


def test_an_open_symptom_falls_under_a_cause_that_is_certain() -> None:
    (finding,) = explain_text(f"ncclUnhandledCudaError: Call to CUDA function failed.\n{NVML}").findings
    assert finding.code == "driver-library-mismatch"


def test_a_faulty_nccl_is_named_only_where_something_failed() -> None:
    version = "node1:1234:1234 [0] NCCL INFO NCCL version 2.26.2+cuda12.2"
    assert codes(version) == []
    assert codes(f"{version}\nncclInternalError: Internal check failed.") == ["nccl-known-bad", "nccl-failed"]
    assert explain_text(f"{version}\nncclInternalError: Internal check failed.").unknown, "it may be something else"
    assert codes("NCCL version 2.27.5+cuda12.9\nncclInternalError: Internal check failed.") == ["nccl-failed"]


NO_DEVICE = "No supported gpu backend found!"


@pytest.mark.parametrize(
    "text",
    [
        "Ultralytics 8.3.40 Python-3.12.3 torch-2.5.1+cpu ",
        " + torch==2.9.1+cpu",
        "pytorch  2.5.1  cpu_mkl_py311_hc0c1c85_108  conda-forge",
        "Updated torch v2.8.0+cu126 -> v2.8.0+cpu",
    ],
)
def test_a_cpu_build_is_the_cause_only_where_a_gpu_was_missed(text: str) -> None:
    assert "torch-is-cpu-build" not in codes(text)
    (finding,) = explain_text(f"{text}\n{NO_DEVICE}").findings
    assert finding.code == "torch-is-cpu-build"
    assert [one["code"] for one in finding.evidence["consequences"]] == ["no-gpu-visible"]


@pytest.mark.parametrize(
    "text",
    [
        "Found existing installation: torch 2.5.1+cpu\n    Uninstalling torch-2.5.1+cpu:\n      Successfully uninstalled torch-2.5.1+cpu",
        " - torch==2.9.1+cpu\n + torch==2.9.1+cu128",
        "  - Updating torch (2.9.1+cpu -> 2.9.1+cu128)",
        "pytorch  2.5.1  py3.11_cuda12.4_cudnn9.1.0_0  pytorch",
    ],
)
def test_a_cpu_build_that_was_replaced_is_no_cause(text: str) -> None:
    assert codes(f"{text}\n{NO_DEVICE}") == ["no-gpu-visible"]


@pytest.mark.parametrize(
    ("label", "code"),
    [
        *((one.label, "no-wheel-for-python") for one in facts.labels()),
        ("cu125", "index-unreachable"),
        ("cu111", "no-wheel-for-python"),
        ("cpu", "no-wheel-for-python"),
        ("cu999", "index-unreachable"),
    ],
)
def test_only_a_label_that_is_not_known_is_told_as_missing(label: str, code: str) -> None:
    text = (
        f"Looking in indexes: https://download.pytorch.org/whl/{label}\n"
        "ERROR: Could not find a version that satisfies the requirement torch==2.5.1 (from versions: none)\n"
        "ERROR: No matching distribution found for torch==2.5.1"
    )
    assert codes(text) == [code]


@pytest.mark.parametrize("text", ["Updated torch v2.8.0+cu126 -> v2.9.0+cu126", " - torch==2.8.0\n + torch==2.9.0"])
def test_an_update_that_keeps_its_label_is_no_finding(text: str) -> None:
    assert codes(text) == []


@pytest.mark.parametrize(("capability", "found"), [("12.1", []), ("8.7", ["gpu-not-in-wheel"])])
def test_a_gpu_within_the_list_that_torch_prints_is_no_finding(capability: str, found: list[str]) -> None:
    text = (
        f"UserWarning: Found GPU0 NVIDIA GPU which is of compute capability (CC) {capability}.\n"
        "The following list shows the CCs this version of PyTorch was built for and the hardware CCs it supports:\n"
        "- 8.0 which supports hardware CC >=8.0,<9.0 except {8.7}\n"
        "- 9.0 which supports hardware CC >=9.0,<10.0\n- 12.0 which supports hardware CC >=12.0,<13.0\n"
        "  _warn_unsupported_code(d, device_cc, code_ccs)"
    )
    assert codes(text) == found


def test_a_number_is_not_lost_behind_lines_that_differ_in_it_only() -> None:
    healthy = "cuInit returned error 700\n" * 20_000
    assert codes(healthy + "cuInit returned error 804\n") == ["compat-on-geforce"]


def test_faults_that_have_nothing_to_do_with_each_other_are_not_folded() -> None:
    found = codes(f"{NO_IMAGE}\nRuntimeError: unexpected EOF, expected 7 more bytes. The file might be corrupted.")
    assert found == ["gpu-not-in-wheel", "file-truncated"]


def test_utf16_of_powershell() -> None:
    explanation = explain([("log.txt", io.BytesIO(f"{NOISE}\r\n{NO_IMAGE}\r\n".encode("utf-16")))])
    assert [one.evidence["where"] for one in explanation.findings] == ["log.txt:2"]


def test_a_message_over_the_border_of_two_blocks_is_found_and_counted_once() -> None:
    for shift in range(0, 160, 11):
        filling = "x" * 99 + "\n"
        text = filling * 2620 + "y" * shift + "\n" + NO_IMAGE.replace("image", "image\n") + "\n" + filling * 40
        (finding,) = explain([("log", log(text))]).findings
        assert finding.evidence["count"] == 1
        assert finding.evidence["line_number"] == 2622


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100_000,
        bytes(range(256)) * 500,
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"{" + b"[" * 60_000 + b"]" * 60_000 + b"}\n",
        (b"no kernel image " + b"\x1b[" * 10_000 + b"\n") * 5,
        (b"libcudart.so.12" + b" " * 60_000 + b"undefined symbol: " + b"_" * 60_000 + b"\n"),
        b"version GLIBC_2.32 (" + b"/a" * 40_000 + b"\n",
        b"\xff\xfe\xff",
    ],
)
def test_hostile_bytes_do_no_harm(data: bytes) -> None:
    assert explain([("x", io.BytesIO(data))]).collect is not None


def test_memory_does_not_grow_with_the_log() -> None:
    def lines() -> Iterator[str]:
        for number in range(60_000):
            yield f"[rank{number % 8}]: step {number} {number * 2654435761 % 2**32:x} {'word' * (number % 50)} done"
        yield NO_IMAGE

    explain_text(NO_IMAGE)  # the table is read outside of the measurement
    tracemalloc.start()
    (finding,) = explain([("big", lines())]).findings
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert finding.evidence["where"] == "big:60001"
    assert peak < 24 * 1024 * 1024


def test_a_source_that_cannot_be_read_is_an_error_of_its_own() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(UsageError) as caught:
        explain([("disk.log", Broken())])  # type: ignore[list-item]
    assert caught.value.code == "log-unreadable"
    assert "disk.log" in caught.value.message
