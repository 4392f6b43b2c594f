"""Every bad input gives a code, a message, a hint and the right exit status, as text and as JSON; never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Cudalock
from support.fake_index import FakeIndex

TARGET = ("--gpu", "H100", "--driver", "580.65.06", "--python", "3.12", "--platform", "linux-x86_64")

FAULTS = [
    (("resolve", "torch", "--gpu", "RTX 4909", "--driver", "580.65.06"), 2, "gpu-unknown", "RTX 4090"),
    (("resolve", "torch", "--gpu", "GT 730", "--driver", "470.256.02"), 2, "gpu-ambiguous", "3.5"),
    (("resolve", "torch", "--gpu", "H100", "--driver", "new"), 2, "driver-invalid", "580.65.06"),
    (("resolve", "torch", "--target", "nowhere"), 2, "target-name-unknown", ""),
    (("resolve", "torch", "--gpu", "H100", "--platform", "amiga"), 2, "platform-unknown", "linux-x86_64"),
    (("resolve", "torch", "--gpu", "H100", "--python", "three"), 2, "python-invalid", "3.12"),
    (("resolve", "torch>>1", *TARGET), 2, "requirement-invalid", ""),
    (("resolve", "-r", "absent.txt", *TARGET), 2, "requirements-file-missing", ""),
    (("resolve", *TARGET), 2, "nothing-asked", "resolve torch"),
    (("resolve", "nonesuch", *TARGET), 1, "package-not-found", ""),
    (("resolve", "trch", *TARGET), 1, "package-not-found", "did you mean torch"),
    (("resolve", "torchvison", *TARGET), 1, "package-not-found", "did you mean torchvision"),
    (("resolve", "alpha==9", *TARGET), 1, "requirements-conflict", ""),
    (("resolve", "alpha", "beta<1", *TARGET), 1, "requirements-conflict", ""),
    (("resolve", "alpha", *TARGET, "--cuda", "banana"), 2, "cuda-invalid", "12.8"),
    (("resolve", "alpha", *TARGET, "--compat", "magic"), 2, "usage", ""),
    (("resolve", "alpha", *TARGET, "--exclude-newer", "yesterday"), 2, "exclude-newer-invalid", ""),
    (("resolve", "alpha", *TARGET, "--no-pytorch-index", "--require-pytorch-index"), 2, "options-conflict", ""),
    (("resolve", "alpha", *TARGET, "--extra", "gpu"), 2, "project-missing", ""),
    (("resolve", "alpha", "--facts", "absent.json"), 2, "facts-not-found", "detect --json"),
    (("resolve", "alpha", *TARGET, "--index-url", "ftp://x"), 2, "index-url-invalid", ""),
    (("resolve", "alpha", *TARGET, "--index-url", "http://index.example/simple"), 2, "index-url-insecure", ""),
    (("resolve", "alpha", *TARGET, "--index-url", "http://127.0.0.1:9/simple"), 3, "index-unreachable", ""),
    (
        ("resolve", "torch", "--gpu", "H100", "--driver", "580.65.06", "--python", "3.9"),
        1,
        "no-wheel-for-python",
        "3.12",
    ),
    (("check",), 2, "lock-missing", "resolve"),
    (("check", "--lock", "my.lock"), 2, "lock-name-invalid", "pylock"),
    (("install", "--venv", "v"), 2, "lock-missing", ""),
    (("install",), 2, "usage", "--help"),
    (("verify", "--venv", "absent"), 2, "venv-missing", ""),
    (("verify", "--venv", "absent", "--arch", "ninety"), 2, "arch-invalid", "9.0"),
    (("verify", "--venv", "absent", "--arch", "H100"), 2, "venv-missing", ""),
    (("verify", "--venv", "absent", "--arch", "RTX 6000"), 2, "gpu-ambiguous", "--arch 7.5 or --arch 8.9"),
    (("verify", "--venv", "absent", "--arch", "RTX 4091"), 2, "arch-invalid", "RTX 4090"),
    (("fetch", "wheels"), 2, "lock-missing", ""),
    (("inspect", "absent.whl"), 2, "wheel-not-found", ""),
    (("inspect", "nonesuch"), 1, "package-not-found", ""),
    (("frobnicate",), 2, "unknown-command", "resolve"),
    (("reslove",), 2, "unknown-command", "resolve"),
]


@pytest.mark.parametrize(
    ("arguments", "status", "code", "said"), FAULTS, ids=[f"{number}-{fault[2]}" for number, fault in enumerate(FAULTS)]
)
def test_a_fault_has_a_name(
    cudalock: Cudalock, index: FakeIndex, folder: Path, arguments: tuple[str, ...], status: int, code: str, said: str
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    outcome = cudalock(*arguments, "--json")
    assert (outcome.status, outcome.code) == (status, code), outcome.json
    error = outcome.json["error"]
    assert said in f"{error['message']} {error['hint']}"
    assert error["hint"], "every error of this list has a next step"
    text = cudalock(*arguments)
    assert text.status == status
    assert text.out == ""
    assert f"[{code}]" in text.err
    assert sorted(path.name for path in folder.iterdir()) == before, "nothing is left behind"


LOCKS = {
    "lock-not-toml": "this is = not [toml",
    "lock-version-unsupported": 'lock-version = "7.0"\ncreated-by = "x"\npackages = []\n',
    "lock-too-new": 'lock-version = "1.0"\ncreated-by = "cudalock"\npackages = []\n[tool.cudalock]\nschema = 99\n',
    "lock-invalid": 'lock-version = "1.0"\ncreated-by = "x"\npackages = 3\n',
}


@pytest.mark.parametrize("code", LOCKS)
@pytest.mark.parametrize("command", [("check",), ("install", "--venv", "v"), ("fetch", "w"), ("resolve", "--check")])
def test_a_faulty_lock_is_named(cudalock: Cudalock, folder: Path, code: str, command: tuple[str, ...]) -> None:
    (folder / "pylock.toml").write_text(LOCKS[code])
    outcome = cudalock(*command, "--json")
    assert (outcome.status, outcome.code) == (2, code)


def test_a_foreign_lock_is_not_overwritten(cudalock: Cudalock, index: FakeIndex, folder: Path) -> None:
    foreign = 'lock-version = "1.0"\ncreated-by = "another tool"\npackages = []\n'
    (folder / "pylock.toml").write_text(foreign)
    outcome = cudalock("resolve", "alpha", *TARGET, "--json")
    assert outcome.status == 2
    assert "--force" in (outcome.json["error"]["hint"] or "")
    assert (folder / "pylock.toml").read_text() == foreign
    assert cudalock("resolve", "alpha", *TARGET, "--force").status == 0


def test_a_lock_edited_by_hand_is_not_installed(cudalock: Cudalock, index: FakeIndex, folder: Path) -> None:
    assert cudalock("resolve", "alpha", "--cpu", "--python", "3.12", "--platform", "linux-x86_64").status == 0
    lock = folder / "pylock.toml"
    lock.write_text(lock.read_text().replace('version = "1.1"', 'version = "1.0"', 1))
    outcome = cudalock("install", "--venv", "v", "--json")
    assert outcome.status == 2
    assert not (folder / "v").exists()


def test_requirement_faults_name_file_and_line(cudalock: Cudalock, index: FakeIndex, folder: Path) -> None:
    (folder / "requirements.txt").write_text("alpha\n\nbeta >> 3\n")
    outcome = cudalock("resolve", "-r", "requirements.txt", *TARGET, "--json")
    assert outcome.status == 2
    assert "requirements.txt:3" in outcome.json["error"]["message"]


def test_configuration_faults_name_the_key(cudalock: Cudalock, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.cudalock]\ndrivr = "535"\n')
    outcome = cudalock("check", "--json")
    assert (outcome.status, outcome.code) == (2, "config-invalid")
    assert "driver" in outcome.json["error"]["message"] + outcome.json["error"]["hint"]


def test_escape_sequences_do_not_reach_the_terminal(cudalock: Cudalock, index: FakeIndex) -> None:
    outcome = cudalock("resolve", "al\x1b[31mpha\u202e", *TARGET)
    assert outcome.status == 2
    assert "\x1b" not in outcome.err
    assert "\u202e" not in outcome.err
