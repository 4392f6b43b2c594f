"""``cudalock doctor`` as a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cudalock.cli.main import run
from support.doctoring import Patient

FACTS = {
    "schema": 1,
    "host": {"driver": "580.65.06", "gpus": [{"name": "Tesla V100-SXM2-16GB"}]},
    "environment": {"packages": {"torch": "2.11.0+cu130"}},
}


def test_facts_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(FACTS))
    assert run(["doctor", "--facts", str(path), "--json"]) == 1
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (answer["schema"], answer["healthy"]) == (1, False)
    first = answer["findings"][0]
    assert set(first) == {"code", "severity", "message", "evidence", "cause", "fix", "fix_verified_by_rules"}
    assert (first["code"], first["fix_verified_by_rules"]) == ("gpu-not-in-wheel", True)


def test_facts_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(FACTS))
    assert run(["doctor", "--facts", str(path)]) == 1
    shown = capsys.readouterr().out
    assert "[gpu-not-in-wheel]" in shown
    assert "fix: install torch 2.11.0+cu126" in shown


def test_an_environment(patient: Patient, capsys: pytest.CaptureFixture[str]) -> None:
    patient.uninstall("triton")
    assert run(["doctor", "--venv", str(patient.venv), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert {"triton-missing", "driver-not-found"} & {finding["code"] for finding in answer["findings"]}
    assert answer["examined"]["torch"] == "2.9.1+cu128"
    assert sum(answer["examined"]["seconds"].values()) < 10


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--venv", "a", "--python", "b"], "options-conflict"),
        (["--facts", "a", "--venv", "b"], "options-conflict"),
        (["--venv", "/nowhere"], "venv-missing"),
        (["--containerd", "/nowhere"], "containerd-config-missing"),
        (["--lock", "/nowhere"], "lock-name-invalid"),
        (["--image", "debian:13"], "image-unknown"),
    ],
)
def test_bad_input(arguments: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", *arguments, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_the_targets_python_is_no_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps({"schema": 1}))
    monkeypatch.setenv("CUDALOCK_PYTHON", "3.12")
    assert run(["doctor", "--facts", str(path), "--json"]) == 0
    monkeypatch.setenv("CUDALOCK_PYTHON", "/usr/bin/python3")
    assert run(["doctor", "--facts", str(path), "--json"]) == 2
    assert "options-conflict" in capsys.readouterr().out
