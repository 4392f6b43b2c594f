"""Every table validates, and the values that the rules rest on stand in it as the sources give them."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from cudalock import facts
from cudalock.facts.loader import data_directories, table
from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion

CC = ComputeCapability.parse
CUDA = CudaVersion.parse
DRIVER = DriverVersion.parse
OSES: tuple[facts.Os, facts.Os] = ("linux", "windows")
CUDA_VERSIONS = st.builds(CudaVersion, st.integers(7, 14), st.integers(0, 9))
DRIVERS = st.builds(
    lambda first, second, third: DriverVersion(f"{first}.{second}.{third:02}"),
    st.integers(300, 700),
    st.integers(0, 300),
    st.integers(0, 30),
)


@pytest.mark.parametrize("name", facts.table_names())
def test_table_is_read_and_each_row_has_a_source(name: str) -> None:
    content = table(name)
    assert content.sources
    used = {row["source"] for rows in content.content.values() if isinstance(rows, list) for row in rows}
    assert used <= set(content.sources)


def test_every_reader_accepts_the_tables() -> None:
    for os in OSES:
        assert facts.branches(os)
    readers = (
        facts.driver_ranges, facts.serving_rule, facts.triton_rows, facts.triton_limits, facts.torch_rows, facts.labels,
        facts.product_names, facts.companions, facts.torch_family, facts.forward_compat, facts.nccl_known_bad,
        facts.finding_codes,
    )  # fmt: skip
    assert all(reader() for reader in readers)


def test_no_table_is_left_unread() -> None:
    read = {
        "architectures", "companions", "drivers", "findings", "forward_compat", "labels", "nccl", "nvidia_packages",
        "products", "ptx", "routes", "torch", "triton",
    }  # fmt: skip
    folder = data_directories()[-1]
    assert {path.stem for path in folder.glob("*.toml")} >= read


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(facts, name) is not None for name in facts.__all__)
    with pytest.raises(AttributeError, match="no_such_fact"):
        facts.no_such_fact  # noqa: B018
    assert callable(facts.companions)


@pytest.mark.parametrize(
    ("major", "os", "floor"),
    [
        (11, "linux", "450.80.02"), (12, "linux", "525.60.13"), (13, "linux", "580.65.06"),
        (11, "windows", "452.39"), (12, "windows", "528.33"), (13, "windows", "580"),
        (10, "linux", None), (9, "windows", None), (14, "linux", None),
    ],
)  # fmt: skip
def test_driver_floor(major: int, os: facts.Os, floor: str | None) -> None:
    assert facts.driver_floor(major, os) == (DRIVER(floor) if floor else None)


@pytest.mark.parametrize(
    ("driver", "os", "cuda"),
    [
        ("580.159.04", "linux", "13.0"),  # measured on an H200
        ("570.86.16", "linux", "12.8"), ("610.43", "linux", "13.3"), ("535.161.08", "linux", "12.2"),
        ("450.80.02", "linux", "11.0"), ("470.256.02", "linux", "11.4"), ("525.60.13", "linux", "12.0"),
        ("600.10", "linux", "13.2"), ("700.1", "linux", "13.5"), ("340.108", "linux", None),
        ("528.33", "windows", "12.0"), ("551.61", "windows", "12.4"), ("566.36", "windows", "12.7"),
        ("573.24", "windows", "12.8"), ("576.02", "windows", "12.9"), ("581.15", "windows", "13.0"),
        ("616.56", "windows", "13.4"),
    ],
)  # fmt: skip
def test_cuda_of_driver(driver: str, os: facts.Os, cuda: str | None) -> None:
    assert facts.cuda_of_driver(DRIVER(driver), os) == (CUDA(cuda) if cuda else None)


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [("11.8", "520.61.05"), ("12.6", "560.28.03"), ("12.7", "565.57.01"), ("13.0", "580.65.06"), ("13.3", "610.43.02")],
)
def test_driver_native(cuda: str, driver: str) -> None:
    assert facts.driver_native(CUDA(cuda), "linux") == DRIVER(driver)


def test_no_driver_is_native_for_an_unknown_newer_cuda() -> None:
    assert facts.driver_native(CUDA("19.0"), "linux") is None


@given(CUDA_VERSIONS, CUDA_VERSIONS, st.sampled_from(OSES))
def test_driver_native_is_monotone(one: CudaVersion, other: CudaVersion, os: facts.Os) -> None:
    low, high = sorted((one, other))
    lower, higher = facts.driver_native(low, os), facts.driver_native(high, os)
    assert higher is None or (lower is not None and lower <= higher)


@given(CUDA_VERSIONS, st.sampled_from(OSES))
def test_native_driver_offers_that_cuda(cuda: CudaVersion, os: facts.Os) -> None:
    driver = facts.driver_native(cuda, os)
    offered = facts.cuda_of_driver(driver, os) if driver else None
    assert driver is None or (offered is not None and offered >= cuda)


@given(DRIVERS, DRIVERS, st.sampled_from(OSES))
def test_newer_driver_never_offers_less(one: DriverVersion, other: DriverVersion, os: facts.Os) -> None:
    low, high = sorted((one, other))
    lower, higher = facts.cuda_of_driver(low, os), facts.cuda_of_driver(high, os)
    assert lower is None or (higher is not None and lower <= higher)


def test_toolkit_driver() -> None:
    assert facts.toolkit_driver("12.8.1", "linux") == DRIVER("570.124.06")
    assert facts.toolkit_driver("12.8.1", "windows") == DRIVER("572.61")
    assert facts.toolkit_driver("13.0.0", "windows") is None
    assert facts.toolkit_driver("99.0", "linux") is None


@pytest.mark.parametrize(
    ("cc", "name", "last_branch", "last_cuda"),
    [
        ("3.7", "Kepler", 470, "11.8"), ("5.2", "Maxwell", 580, "12.9"), ("6.1", "Pascal", 580, "12.9"),
        ("7.0", "Volta", 580, "12.9"), ("7.5", "Turing", None, None), ("9.0", "Hopper", None, None),
    ],
)  # fmt: skip
def test_driver_range(cc: str, name: str, last_branch: int | None, last_cuda: str | None) -> None:
    found = facts.driver_range(CC(cc))
    assert found is not None
    assert (found.name, found.last_branch) == (name, last_branch)
    assert found.last_cuda == (CUDA(last_cuda) if last_cuda else None)


def test_blackwell_on_its_first_driver() -> None:
    found = facts.driver_range(CC("12.0"))
    assert found is not None
    assert found.first is not None
    assert found.first <= DRIVER("570.86.16")
    assert found.module == "open"
    assert facts.driver_range(CC("99.0")) is None


@pytest.mark.parametrize(
    ("ccs", "branch"),
    [(["7.0"], 580), (["7.0", "10.0"], 580), (["3.7"], 470), (["12.0"], 620), (["3.7", "9.0"], None), ([], 620)],
)
def test_newest_driver_for(ccs: list[str], branch: int | None) -> None:
    driver = facts.newest_driver_for([CC(cc) for cc in ccs], "linux")
    assert (driver.branch if driver else None) == branch


@pytest.mark.parametrize(
    ("code", "device", "cuda", "serves"),
    [
        ("8.6", "8.9", "12.8", True), ("8.9", "8.6", "12.8", False), ("8.0", "9.0", "12.8", False),
        ("8.0", "8.7", "13.0", False), ("8.6", "8.7", "13.0", False), ("8.0", "8.7", "13.2", True),
        ("8.7", "8.9", "13.2", False), ("8.7", "8.7", "12.6", True),
        ("10.1", "11.0", "12.9", True), ("11.0", "10.1", "13.0", True), ("10.0", "10.1", "12.9", False),
        ("10.0", "10.3", "12.9", True), ("7.0", "7.2", "12.6", False), ("5.0", "5.2", "12.6", True),
        ("5.0", "5.3", "12.6", False), ("12.0", "12.1", "13.0", True),
    ],
)  # fmt: skip
def test_serving_rule(code: str, device: str, cuda: str, serves: bool) -> None:
    assert facts.serving_rule().serves(CC(code), CC(device), CUDA(cuda)) is serves


def test_ptx_and_assemblers() -> None:
    assert facts.ptx_isa(CUDA("13.0")) == (9, 0)
    assert facts.ptx_isa(CUDA("12.6")) == (8, 5)
    assert facts.ptx_isa(CUDA("19.0")) is None
    assert {"sm_90", "sm_90a", "sm_120"} <= facts.ptxas_targets(CUDA("12.8"))
    assert "sm_121" not in facts.ptxas_targets(CUDA("12.8"))
    assert "sm_70" not in facts.ptxas_targets(CUDA("13.0"))
    assert "sm_107f" in facts.ptxas_targets(CUDA("13.4"))
    assert facts.ptxas_targets(CUDA("19.0")) == frozenset()
    assert facts.family_members("100f") == {CC("10.0"), CC("10.3"), CC("10.7")} == facts.family_members("sm_100f")
    assert facts.family_members("90f") == frozenset()


def test_ptx_isa_never_falls() -> None:
    known = [isa for branch in facts.branches("linux") if (isa := facts.ptx_isa(branch.cuda)) is not None]
    assert known == sorted(known)


@pytest.mark.parametrize(
    ("version", "ptxas", "blackwell", "blackwell_from"),
    [
        ("3.2.0", "12.4", None, None), ("3.3.1", "12.4", "12.8", 100), ("3.6.0", "12.8", "12.9", 100),
        ("3.8.0", "12.9", "13.3", 100), ("3.9.0", "12.9", "13.4", 90),
    ],
)  # fmt: skip
def test_triton_row(version: str, ptxas: str, blackwell: str | None, blackwell_from: int | None) -> None:
    row = facts.triton_row(Version(version))
    assert row is not None
    assert row.ptxas == CUDA(ptxas)
    assert row.ptxas_blackwell == (CUDA(blackwell) if blackwell else None)
    assert row.blackwell_from == blackwell_from


def test_unknown_triton_has_no_row() -> None:
    assert facts.triton_row(Version("99.0")) is None
    assert facts.triton_row(Version("3.6.0+git1")) == facts.triton_row(Version("3.6.0"))


def _codes(version: str, cuda: str, machine: str = "x86_64", os: str = "linux") -> str:
    row = facts.torch_row(Version(version), cuda=CUDA(cuda), os=os, machine=machine)
    assert row is not None
    return " ".join(str(architecture) for architecture in row.architectures)


def test_torch_architectures() -> None:
    assert _codes("2.11.0", "13.0") == "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
    assert _codes("2.15.0", "13.2", "aarch64") == "sm_80 sm_90 sm_100 sm_110 sm_120"
    assert _codes("2.10.0", "12.8").startswith("sm_70 ")
    assert _codes("2.11.0", "12.8").startswith("sm_75 ")
    assert _codes("2.10.0", "13.0").endswith("sm_120 compute_120")
    assert "sm_50" in _codes("2.14.1", "12.6")
    assert "sm_61" in _codes("2.5.1", "12.4", os="windows")


def test_own_builds_of_the_main_index_are_measured() -> None:
    own = [row for row in facts.torch_rows() if row.on_main]
    assert {row.evidence for row in own} == {"wheel"}
    assert all(row.cuda is None for row in own if row.os == "windows")
    assert all(row.cuda is None for row in own if row.machine == "aarch64" and row.version < Version("2.11"))


def test_labels_end_and_begin_as_recorded() -> None:
    found = {label.label: label for label in facts.labels()}
    assert found["cu126"].last_torch == Version("2.14.1")
    assert found["cu118"].last_torch == Version("2.7.1")
    assert found["cu130"].last_torch is None
    assert found["cu128"].cuda == CUDA("12.8")


def test_labels_agree_with_the_builds() -> None:
    for label in facts.labels():
        builds = [row for row in facts.torch_rows() if row.label == label.label]
        assert min(row.version for row in builds) == label.first_torch
        if label.last_torch is not None:
            assert max(row.version for row in builds) == label.last_torch


def test_builds_that_were_not_verified_say_so() -> None:
    latest = [row for row in facts.torch_rows() if row.version == Version("2.15.0") and row.label not in {None, "cpu"}]
    assert {row.label for row in latest} == {"cu130", "cu132", "cu134"}
    assert {row.evidence for row in latest} == {"inferred"}
    assert all(row.note for row in latest)


def test_the_conflict_about_kepler_is_in_the_data() -> None:
    kepler = Architecture.parse("sm_37")
    after = [row for row in facts.torch_rows() if kepler in row.architectures and row.version >= Version("2.1")]
    assert {row.label for row in after} == {"cu118"}
    assert {row.evidence for row in after} == {"inferred"}
    assert all("conflict" in (row.note or "") for row in after)
    assert any("sm_37" in row.text("what") for row in table("torch").rows("conflict"))


def test_requirements_on_triton() -> None:
    def triton(version: str, cuda: str, machine: str, *, on_main: bool) -> str | None:
        row = facts.torch_row(Version(version), cuda=CUDA(cuda), os="linux", machine=machine, on_main=on_main)
        assert row is not None
        return row.triton

    assert triton("2.11.0", "12.8", "x86_64", on_main=False) == "==3.6.0"
    assert triton("2.7.1", "12.8", "aarch64", on_main=False) == "==3.3.1"
    assert triton("2.6.0", "12.6", "aarch64", on_main=False) is None
    assert triton("1.13.1", "11.7", "x86_64", on_main=True) is None
    assert all(row.triton is None for row in facts.torch_rows() if row.os == "windows" or row.cuda is None)
    row = facts.torch_row(Version("2.5.1"), cuda=CUDA("12.4"), os="linux", machine="x86_64")
    assert row is not None
    assert row.triton_python == "<3.13"


def test_each_required_triton_is_known() -> None:
    from packaging.specifiers import SpecifierSet

    known = [row.version for row in facts.triton_rows()]
    for required in {row.triton for row in facts.torch_rows() if row.triton}:
        assert any(SpecifierSet(required).contains(version) for version in known), required


def test_unknown_build_has_no_row() -> None:
    assert facts.torch_row(Version("99.0"), cuda=CUDA("13.0"), os="linux", machine="x86_64") is None
    assert facts.torch_row(Version("2.9.1"), cuda=CUDA("12.8"), os="linux", machine="riscv64") is None
    windows = facts.torch_row(Version("2.9.1"), cuda=CUDA("12.8"), os="windows", machine="AMD64")
    assert windows is not None
    assert not windows.on_main


def test_companions() -> None:
    found = facts.companions()
    vision, audio, ao = found["torchvision"], found["torchaudio"], found["torchao"]
    assert vision.fits_torch(Version("0.24.1+cu130"), Version("2.9.1+cu130")) is True
    assert vision.fits_torch(Version("0.24.1"), Version("2.9.0")) is False
    assert vision.fits_torch(Version("0.29.2"), Version("2.15.0")) is True
    assert audio.fits_torch(Version("2.11.0"), Version("2.6.0")) is False
    assert audio.fits_torch(Version("2.11.0"), Version("2.14.0")) is True
    assert audio.needs_same_minor(Version("2.11.0+cu130"))
    assert not audio.needs_same_minor(Version("2.11.1"))
    assert found["torchcodec"].fits_torch(Version("0.11.0"), Version("2.10.0")) is False
    assert ao.fits_torch(Version("0.16.0"), Version("2.10.0")) is True
    assert ao.mismatch == "warning"
    assert found["triton-windows"].fits_torch(Version("3.5.0.post21"), Version("2.8.0")) is False
    assert found["flash-attn"].torch_for(Version("2.8.3")) is None
    assert found["flash-attn"].minimum_capability == CC("8.0")
    assert found["bitsandbytes"].cuda_ceiling(Version("0.46.0")) == CUDA("12.8")
    assert found["bitsandbytes"].cuda_ceiling(Version("0.50.0")) is None


def test_names_and_cuda_majors() -> None:
    assert {"torch", "torchvision", "triton"} <= facts.torch_family()
    assert not {"numpy", "nvidia-cublas-cu12", "pillow"} & facts.torch_family()
    assert facts.prefers_main("triton")
    assert not facts.prefers_main("torch")
    assert facts.cuda_major_of_package("nvidia-cublas-cu12", Version("12.8.4.1")) == 12
    assert facts.cuda_major_of_package("nvidia-cufft", Version("12.0.0.61")) == 13
    assert facts.cuda_major_of_package("cuda-toolkit", Version("12.9.1")) == 12
    assert facts.cuda_major_of_package("nvidia-ml-py", Version("13.615.71")) is None
    assert facts.is_placeholder("nvidia-cudnn")
    assert not facts.is_placeholder("nvidia-cudnn-cu12")
    assert facts.library_folder(12, "cublas") == "nvidia/cublas/lib"
    assert facts.library_folder(13, "cublas") == "nvidia/cu13/lib"
    assert facts.library_folder(99, "cublas") is None


def test_forward_compatibility() -> None:
    known = facts.forward_compat()
    assert known.state(CUDA("13.0"), 570) == "compatible"
    assert known.state(CUDA("13.0"), 580) == "not-needed"
    assert known.state(CUDA("12.9"), 580) == "pointless"
    assert known.state(CUDA("12.9"), 560) == "compatible"
    assert known.state(CUDA("13.0"), 560) == "unlisted"
    assert known.package(CUDA("13.0")) == "cuda-compat-13-0"
    assert known.package(CUDA("13.2"), jetson=True) == "cuda-compat-orin-13-2"
    assert known.folder(CUDA("12.8")) == "/usr/local/cuda-12.8/compat"
    assert 804 in known.errors
    assert facts.forward_compat_branches(CUDA("13.0")) == {535, 570}
    assert facts.forward_compat_branches(CUDA("19.0")) == frozenset()


def test_nccl_trouble() -> None:
    assert len(facts.nccl_trouble(Version("2.20.5"))) == 1
    assert facts.nccl_trouble(Version("2.19.3"))[0].workaround == "NCCL_CUMEM_ENABLE=0"
    assert facts.nccl_trouble(Version("2.27.5")) == ()


def test_findings_catalogue() -> None:
    found = facts.finding_codes()
    assert found["gpu-not-in-wheel"].severity == "error"
    assert found["minor-compat-in-use"].severity == "info"
    for row in found.values():
        assert not row.title.endswith(".")
        assert row.meaning.endswith(".")


def test_digest_is_stable_and_covers_every_table() -> None:
    digest = facts.tables_digest()
    facts.forget_tables()
    assert digest == facts.tables_digest()
    assert digest.startswith("sha256:")


def test_tables_hold_nothing_but_toml_and_no_control_characters() -> None:
    for path in data_directories()[-1].glob("*.toml"):
        text = path.read_text(encoding="utf-8")
        assert tomllib.loads(text)
        assert not any(ord(letter) < 32 and letter != "\n" for letter in text)
