"""What a program may rely on, in environments made of metadata and real ELF files."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from cudalock.errors import AnswerIsNo
from cudalock.host.model import Gpu, Host
from cudalock.policy import Policy, TritonPinWarning, confirm, policy
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion
from support.kernel_caches import add_kernel, snapshot

EXTENSION = f"flash_attn_2_cuda{sysconfig.get_config_var('EXT_SUFFIX')}"
SYMBOL = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
GOOD_CC = {"CC": sys.executable}  # only looked for, never called


def host(*gpus: str, driver: str = "580.65.06", cuda: str = "13.0", **more: Any) -> Host:
    return Host(
        os="linux", machine="x86_64", libc=("glibc", (2, 35)), driver=DriverVersion(driver),
        cuda_driver=CudaVersion.parse(cuda), gpus_known=True,
        gpus=tuple(Gpu(index=i, compute_capability=ComputeCapability.parse(it)) for i, it in enumerate(gpus)), **more,
    )  # fmt: skip


class Environment:
    """A folder like site-packages, with a torch 2.10 for CUDA 12.8 unless told otherwise."""

    def __init__(self, folder: Path, *, torch: str | None = "2.10.0+cu128", cuda: str | None = "12.8") -> None:
        self.folder = folder
        folder.mkdir()
        if torch is not None:
            self.add("torch", torch, 'triton==3.6.0; platform_system == "Linux"', "sympy")
            self.write("torch/version.py", f"cuda: Optional[str] = {cuda!r}\n")

    def add(self, name: str, version: str, *requires: str, **files: str) -> Environment:
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        self.write(f"{info}/METADATA", "\n".join([*lines, *(f"Requires-Dist: {it}" for it in requires), ""]))
        for file, text in files.items():
            self.write(f"{info}/{file}.json", text)
        return self

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def build(self, name: str, code: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(self.folder / name)]
        subprocess.run(command, input=code.encode(), check=True)

    def policy(
        self, machine: Host, *, strict: Any = "raise", environ: dict[str, str] | None = None, **more: Any
    ) -> Policy:
        variables = {**GOOD_CC, **(environ or {})}
        return policy(strict=strict, host=machine, path=[str(self.folder)], environ=variables, **more)


@pytest.fixture
def healthy(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "site").add("triton", "3.6.0").add("transformers", "4.57.1")


def codes(found: Policy) -> list[str]:
    return [finding.code for finding in found.findings]


def test_a_healthy_environment_is_trusted(healthy: Environment) -> None:
    found = healthy.policy(host("9.0"))
    assert found.triton_trusted, found.triton_reason
    assert "calls ptxas 12.8 for 9.0" in found.triton_reason
    assert found.compile_trusted, found.compile_reason
    assert found.attention == "sdpa"
    assert "flash-attn is not installed" in found.attention_reason
    assert found.as_kwargs() == {"attn_implementation": "sdpa"}
    assert found.as_kwargs(dtype=True) == {"attn_implementation": "sdpa", "dtype": "bfloat16"}
    assert codes(found) == []
    json.dumps(found.to_json())


def test_triton_that_is_not_torchs(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "site").add("triton", "3.7.0")
    with pytest.raises(AnswerIsNo, match=r"requires triton==3\.6\.0, installed is triton 3\.7\.0") as caught:
        environment.policy(host("9.0"), strict="raise")
    assert (caught.value.code, caught.value.hint) == ("triton-off-pin", 'install "triton==3.6.0"')
    with pytest.warns(TritonPinWarning, match="installed is triton 3.7.0"):
        found = environment.policy(host("9.0"), strict="warn")
    assert (found.triton_trusted, found.compile_trusted) == (False, False)
    assert codes(found) == ["triton-off-pin"]
    assert environment.policy(host("9.0"), strict="ignore") == found


def test_a_local_part_is_still_the_pinned_version(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "site").add("triton", "3.6.0+git9844da95")
    assert environment.policy(host("9.0")).triton_trusted


def test_triton_that_is_missing_or_doubled(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "site")
    with pytest.raises(AnswerIsNo) as caught:
        environment.policy(host("9.0"))
    assert caught.value.code == "triton-missing"
    environment.add("triton", "3.6.0").add("pytorch-triton", "3.6.0")
    found = environment.policy(host("9.0"))
    assert (found.triton_trusted, codes(found)) == (False, ["triton-two-distributions"])


@pytest.mark.parametrize(
    ("machine", "code", "says"),
    [
        (host("9.0", driver="470.82.01", cuda="11.4"), "driver-too-old", "470.82.01"),
        (host("5.0"), "gpu-not-in-wheel", "5.0"),
        (host("12.0", "5.0"), "gpu-not-in-wheel", "5.0"),
    ],
)
def test_the_rules_decide(healthy: Environment, machine: Host, code: str, says: str) -> None:
    found = healthy.policy(machine)
    assert not found.triton_trusted
    assert not found.compile_trusted
    assert says in found.triton_reason
    assert code in codes(found)
    assert found.dtype == "float32"


def test_an_assembler_that_is_newer_than_the_driver(tmp_path: Path) -> None:
    """R3: triton 3.7 calls an assembler of CUDA 13.1 for Blackwell, which a driver of CUDA 12.8 does not load."""
    environment = Environment(tmp_path / "site", torch=None)
    environment.add("torch", "2.12.0+cu128", "triton==3.7.0").add("triton", "3.7.0")
    environment.write("torch/version.py", "cuda: Optional[str] = '12.8'\n")
    found = environment.policy(host("12.0", driver="570.124.06", cuda="12.8"))
    assert not found.triton_trusted
    assert "assembler-newer-than-driver" in codes(found)
    assert found.attention == "sdpa"
    assert environment.policy(host("9.0", driver="570.124.06", cuda="12.8")).triton_trusted


def test_no_gpu_and_cpu_builds(tmp_path: Path, healthy: Environment) -> None:
    found = healthy.policy(host())
    assert (found.triton_trusted, found.triton_reason) == (False, "there is no NVIDIA GPU")
    assert (found.compile_trusted, found.attention, found.dtype) == (True, "sdpa", "float32")
    cpu = Environment(tmp_path / "cpu", torch="2.10.0+cpu", cuda=None).add("triton", "3.6.0")
    found = cpu.policy(host("9.0"))
    assert (found.triton_trusted, codes(found)) == (False, ["torch-is-cpu-build"])
    nothing = Environment(tmp_path / "nothing", torch=None).policy(host("9.0"))
    assert (nothing.triton_reason, nothing.compile_trusted, nothing.attention) == (
        "torch is not installed", False, "eager",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "says", "found_codes"),
    [
        ({"CC": "/none/cc"}, "there is no C compiler", ["host-compiler-missing"]),
        ({"TRITON_PTXAS_PATH": "/opt/ptxas"}, "replaces the assembler", ["assembler-overridden"]),
        ({"TRITON_INTERPRET": "1"}, "run in Python", []),
    ],
)
def test_the_surroundings_of_triton(
    healthy: Environment, variables: dict[str, str], says: str, found_codes: list[str]
) -> None:
    found = healthy.policy(host("9.0"), environ=variables)
    assert not found.triton_trusted
    assert says in found.triton_reason
    assert says in found.compile_reason
    assert codes(found) == found_codes


def test_torch_compile_can_be_switched_off_alone(healthy: Environment) -> None:
    found = healthy.policy(host("9.0"), environ={"TORCH_COMPILE_DISABLE": "1"})
    assert (found.triton_trusted, found.compile_trusted) == (True, False)
    assert found.compile_reason == "TORCH_COMPILE_DISABLE is set"


def test_torch_compile_needs_a_torch_that_knows_this_python(tmp_path: Path) -> None:
    old = Environment(tmp_path / "site", torch="2.0.1+cu118", cuda="11.8").add("triton", "3.6.0")
    found = old.policy(host("8.0"))
    assert not found.compile_trusted
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]} from torch" in found.compile_reason


def test_older_transformers_get_what_they_know(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "site").add("triton", "3.6.0").add("transformers", "4.40.0")
    assert environment.policy(host("7.5")).as_kwargs(dtype=True) == {
        "attn_implementation": "sdpa",
        "torch_dtype": "float16",
    }
    ancient = Environment(tmp_path / "old").add("triton", "3.6.0").add("transformers", "4.30.0")
    found = ancient.policy(host("9.0"))
    assert found.attention == "eager"
    assert "4.36" in found.attention_reason


# --- flash-attn


def with_flash(environment: Environment, *, symbol: str = SYMBOL, version: str = "2.8.3", **files: str) -> Environment:
    environment.add("flash-attn", version, **files)
    environment.build("torch/lib/libc10.so", f"void {SYMBOL}(void) {{}}\n")
    environment.build(EXTENSION, f"void {symbol}(void);\nvoid run(void) {{ {symbol}(); }}\n")
    return environment


def test_flash_attention_that_fits(healthy: Environment) -> None:
    found = with_flash(healthy).policy(host("9.0", "8.0"))
    assert found.attention == "flash_attention_2", found.attention_reason
    assert found.as_kwargs() == {"attn_implementation": "flash_attention_2"}


@pytest.mark.parametrize(
    ("gpus", "says"), [(("7.5",), "a GPU of 7.5"), (("9.0", "7.0"), "a GPU of 7.0"), ((), "there is no NVIDIA GPU")]
)
def test_flash_attention_needs_every_gpu(healthy: Environment, gpus: tuple[str, ...], says: str) -> None:
    found = with_flash(healthy).policy(host(*gpus))
    assert found.attention == "sdpa"
    assert says in found.attention_reason


def test_flash_attention_built_for_another_torch_by_its_symbols(healthy: Environment) -> None:
    found = with_flash(healthy, symbol="_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_string").policy(
        host("9.0")
    )
    assert found.attention == "sdpa"
    assert "wants _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_string" in found.attention_reason
    assert codes(found) == ["extension-abi-mismatch"]


def test_flash_attention_built_for_another_torch_by_its_origin(healthy: Environment) -> None:
    url = "https://files.example/flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    found = with_flash(healthy, direct_url=json.dumps({"url": url})).policy(host("9.0"))
    assert found.attention == "sdpa"
    assert "was built for torch 2.8" in found.attention_reason


def test_flash_attention_without_its_module_or_too_old(tmp_path: Path, healthy: Environment) -> None:
    old = with_flash(Environment(tmp_path / "old").add("triton", "3.6.0"), version="1.0.9").policy(host("9.0"))
    assert "needs flash-attn 2.1.0" in old.attention_reason
    with_flash(healthy)
    (healthy.folder / EXTENSION).unlink()
    found = healthy.policy(host("9.0"))
    assert (found.attention, "no compiled module" in found.attention_reason) == ("sdpa", True)


# --- for programs


def test_stale_kernels_are_cleared_when_asked(tmp_path: Path, healthy: Environment) -> None:
    cache = tmp_path / "cache"
    keep = add_kernel(cache, "3.6.0", 90)
    add_kernel(cache, "3.3.1", 90)
    add_kernel(cache, "3.6.0", 80)
    variables = {"TRITON_CACHE_DIR": str(cache), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "none")}
    healthy.policy(host("9.0"), environ=variables)
    assert len(list(cache.iterdir())) == 3
    healthy.policy(host("9.0"), environ=variables, clear_stale=True)
    assert list(cache.iterdir()) == [keep]
    assert len(snapshot(cache)) == 8


def test_torch_and_transformers_are_not_imported(tmp_path: Path, healthy: Environment) -> None:
    for name in ("torch", "triton", "transformers", "flash_attn"):
        healthy.write(f"{name}/__init__.py", "raise RuntimeError('imported')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(healthy.folder)!r})\n"
        "from cudalock.policy import policy\n"
        "print(policy().as_kwargs())\n"
        "assert not {'torch', 'triton', 'transformers', 'rich', 'click', 'httpx'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "{'attn_implementation': 'sdpa'}\n"), done.stderr


def test_confirm_asks_torch(healthy: Environment) -> None:
    """In a process of its own: the stand-ins for torch must not stay."""
    with_flash(healthy)
    healthy.write("torch/__init__.py", "class cuda:\n    is_available = staticmethod(lambda: False)\n")
    healthy.write("flash_attn/__init__.py", "raise ImportError('undefined symbol')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(healthy.folder)!r})\n"
        "from dataclasses import replace\n"
        "from cudalock.policy import Policy, confirm\n"
        "asked = Policy(triton_trusted=True, triton_reason='', compile_trusted=True, compile_reason='',\n"
        "               attention='flash_attention_2', attention_reason='')\n"
        "told = confirm(asked)\n"
        "assert (told.triton_trusted, told.compile_trusted, told.attention) == (False, False, 'sdpa'), told\n"
        "import torch; torch.cuda.is_available = lambda: True\n"
        "told = confirm(asked)\n"
        "assert (told.triton_trusted, told.attention) == (True, 'sdpa'), told\n"
        "assert 'undefined symbol' in told.attention_reason\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_confirm_without_torch() -> None:
    asked = Policy(
        triton_trusted=True, triton_reason="", compile_trusted=True, compile_reason="",
        attention="flash_attention_2", attention_reason="",
    )  # fmt: skip
    told = confirm(asked)
    assert (told.triton_trusted, told.attention) == (False, "eager")
    assert told.triton_reason.startswith("torch does not import")
