"""Inputs made to hurt: bombs, names that lead elsewhere, numbers without end, texts that steer a terminal."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cudalock.builds import architectures_in
from cudalock.cli.output import clean
from cudalock.errors import AnswerIsNo
from cudalock.index.simple import parse_page
from faults.conftest import Cudalock, World
from faults.targets import TARGETS
from support.clients import main_page
from support.wheels import make_metadata, make_wheel

TARGET = ("--cpu", "--python", "3.12", "--platform", "linux-x86_64")
LONG = "9" * 100_000


def deep(opening: str, closing: str, depth: int = 100_000) -> bytes:
    return (opening * depth + closing * depth).encode()


def wheel_with(name: str, size: int, *, store_as: int | None = None) -> bytes:
    """A wheel whose member inflates to ``size`` zero bytes; ``store_as`` is what the directory claims instead."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo-1.0.dist-info/WHEEL", "x")
        with archive.open(name, "w", force_zip64=True) as member:
            for _ in range(size >> 20):
                member.write(bytes(1 << 20))
    data = buffer.getvalue()
    if store_as is not None:
        data = data.replace(size.to_bytes(4, "little"), store_as.to_bytes(4, "little"))
    return data


def many_members(count: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(count):
            archive.writestr(f"{number}", b"")
    return buffer.getvalue()


HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "metadata bomb": ("wheel", lambda: wheel_with("demo-1.0.dist-info/METADATA", 200 << 20)),
    "metadata bomb that lies": ("wheel", lambda: wheel_with("demo-1.0.dist-info/METADATA", 200 << 20, store_as=100)),
    "many members": ("wheel", lambda: many_members(20_000)),
    "sdist bomb": ("sdist", lambda: zlib.compress(bytes(300 << 20), wbits=31)),
    "deep JSON page": ("page_json", lambda: b'{"files": ' + deep("[", "]") + b"}"),
    "deep JSON objects": ("page_json", lambda: deep('{"files":', "}")),
    "deep JSON facts": ("facts", lambda: b'{"schema": 1, "host": ' + deep("[", "]") + b"}"),
    "deep JSON in a log": ("log", lambda: b'{"log": ' + deep("[", "]") + b"}\n"),
    "deep TOML lock": ("lock", lambda: b"x = " + deep("[", "]")),
    "deep TOML tables": ("lock", lambda: b"[" + b"a." * 10_000 + b"a]\n"),
    "deep TOML configuration": ("configuration", lambda: b"x = " + deep("{a=", "}")),
    "many TOML tables": ("lock", lambda: b"".join(b"[a%d]\n" % number for number in range(100_000))),
    "huge integer in a page": ("page_json", lambda: b'{"files": [{"filename": "demo-1.0.zip", "url": "/x", "size": ' + LONG.encode() + b"}]}"),
    "huge integer in facts": ("facts", lambda: b'{"schema": 1, "host": {"gpus": [{"count": ' + LONG.encode() + b"}]}}"),
    "huge schema": ("facts", lambda: b'{"schema": ' + LONG.encode() + b"}"),
    "huge integer in a lock": ("lock", lambda: b"lock-version = " + LONG.encode()),
    "huge version": ("metadata", lambda: f"Name: demo\nVersion: {LONG}\n\n".encode()),  # noqa: PLW0108
    "huge release": ("metadata", lambda: f"Name: demo\nVersion: {'1.' * 50_000}1\n\n".encode()),  # noqa: PLW0108
    "huge version in a requirement": ("metadata", lambda: f"Name: demo\nVersion: 1\nRequires-Dist: a>={LONG}\n\n".encode()),  # noqa: PLW0108
    "huge marker": ("metadata", lambda: b"Name: demo\nVersion: 1\nRequires-Dist: a; " + b"(" * 20_000 + b"os_name=='x'" + b")" * 20_000),
    "long marker": ("metadata", lambda: b"Name: demo\nVersion: 1\nRequires-Dist: a; " + b"os_name=='x' and " * 20_000 + b"os_name=='x'"),
    "huge version in requirements": ("requirements", lambda: f"torch>={LONG}\n".encode()),  # noqa: PLW0108
    "nested markers in requirements": ("requirements", lambda: b"a; " + b"(" * 20_000 + b"os_name=='x'" + b")" * 20_000),
    "huge driver": ("facts", lambda: json.dumps({"schema": 1, "host": {"driver": LONG}}).encode()),
    "huge capability": ("facts", lambda: json.dumps({"schema": 1, "host": {"gpus": [{"compute_capability": LONG + ".0"}]}}).encode()),
    "log of one line": ("log", lambda: b"ptxas " * 2_000_000),
    "log of brackets": ("log", lambda: b"CUDA error: " + b"(" * 3_000_000),
    "html of openings": ("page_html", lambda: b"<a href=" * 500_000),
    "html of entities": ("page_html", lambda: b'<a href="' + b"&amp" * 1_000_000 + b'">x</a>'),
    "binary of names": ("binary", lambda: b"\x7fELF" + b"sm_75 " * 200_000),
    "binary of releases": ("binary", lambda: b"\x7fELF" + b"Cuda compilation tools, release 12.8, V" * 200_000),
}  # fmt: skip

_CODE = """
import resource, sys, time
sys.path.insert(0, sys.argv[1])
from faults.targets import TARGETS
data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.process_time()
TARGETS[sys.argv[2]](data)
used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
print(f"{time.process_time() - began:.2f} {used}")
"""


@pytest.mark.parametrize("case", HOSTILE)
def test_time_and_memory_are_bounded(case: str) -> None:
    kind, make = HOSTILE[case]
    data = make()
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(Path(__file__).parents[1]), kind],
        input=data, capture_output=True, check=False, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < 12, seconds
    assert megabytes < 350, megabytes


def test_member_is_not_inflated_without_end() -> None:
    with pytest.raises(AnswerIsNo, match="inflates to more than any wheel's would"):
        architectures_in(io.BytesIO(wheel_with("torch/lib/libtorch_python.so", 140 << 20)))


def test_metadata_that_claims_to_be_small_is_not_fetched_whole() -> None:
    """The stored size decides how much is asked for; the target's reader refuses more than METADATA may have."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("demo-1.0.dist-info/METADATA", bytes(20 << 20))
    size = (20 << 20).to_bytes(4, "little")
    data = buffer.getvalue()
    directory = data.rindex(b"PK\x01\x02")
    data = data[:directory] + data[directory:].replace(size + size, size + (100).to_bytes(4, "little"))
    TARGETS["wheel"](data)


# -- names


@pytest.mark.parametrize(
    "filename",
    ["../demo-1.0-py3-none-any.whl", "/demo-1.0-py3-none-any.whl", "demo-1.0/../../x.whl", "demo-1.0\\x.whl", "..",
     "demo-1.0-py3-none-any.whl\x00", "demo-1.0\u202e-py3-none-any.whl", "demo\x1b[31m-1.0-py3-none-any.whl",
     "evil-1.0-py3-none-any.whl", "demo.evil-1.0-py3-none-any.whl", ".demo-1.0.tar.gz", "demo-1.0.tar.gz.exe"],
)  # fmt: skip
def test_names_on_pages(filename: str) -> None:
    entry = {"filename": filename, "url": "https://files.example/x", "hashes": {}}
    page = json.dumps({"meta": {"api-version": "1.0"}, "files": [entry]}).encode()
    assert (
        list(parse_page(page, "application/json", "https://index.example/simple/demo/", main_page("demo")).files) == []
    )


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "..", "demo-1.0.dist-info/../../evil"])
def test_members_that_lead_elsewhere_are_not_written(cudalock: Cudalock, world: World, name: str) -> None:
    """uv unpacks; that it keeps within the environment is looked at here, with what cudalock gives it."""
    buffer = io.BytesIO(make_wheel("delta", "1.0")[1])
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(name, b"evil")
    world.index.add("delta-1.0-py3-none-any.whl", buffer.getvalue())
    assert cudalock("resolve", "delta", "--cpu").status == 0
    cudalock("install", "--venv", ".venv")
    inside = world.folder / ".venv"
    around = [path for path in world.folder.parent.rglob("*evil*") if inside not in path.parents]
    assert around == []
    assert not Path("/etc/evil").exists()


def test_two_files_for_one_version(cudalock: Cudalock, world: World) -> None:
    """The same wheel twice, under one name and under names that are equal after normalisation: one file is locked."""
    content = make_wheel("delta-x", "1.0")[1]
    for filename in ("delta_x-1.0-py3-none-any.whl", "delta_x-1.0-py3-none-any.whl", "Delta.X-1.0-py3-none-any.whl"):
        world.index.add(filename, content, project="delta-x")
    outcome = cudalock("resolve", "Delta_X", "delta-x", "delta.x", *TARGET, "--json")
    assert outcome.status == 0, outcome.out
    assert [one["name"] for one in outcome.json["packages"]] == ["delta-x"]
    assert (world.folder / "pylock.toml").read_text().count("[[packages.wheels]]") == 1


@pytest.mark.parametrize("link", ["http://files.example/a b/{}", "http://files.example/\u00e9/{}", "http://[x/{}"])
@pytest.mark.parametrize("requirement", ["linked", "linked==1.0", "linked>=1"])
@pytest.mark.parametrize("sdist", [False, True])
def test_files_with_links_that_cannot_be_used_are_named(
    cudalock: Cudalock, world: World, link: str, requirement: str, sdist: bool
) -> None:
    from werkzeug.wrappers import Response

    wheel = "linked-1.0-py3-none-any.whl"
    files = [{"filename": wheel, "url": link.format(wheel), "hashes": {}}]
    if sdist:
        files.append({"filename": "linked-1.0.tar.gz", "url": "linked-1.0.tar.gz", "hashes": {}})
    page = json.dumps({"meta": {"api-version": "1.0"}, "name": "linked", "files": files})
    kind = "application/vnd.pypi.simple.v1+json"
    world.index.misbehave("/simple/linked/", lambda _: Response(page, content_type=kind))
    outcome = cudalock("resolve", requirement, *TARGET, "--json")
    assert outcome.status == 1, outcome.out
    error = outcome.json["error"]
    assert error["code"] == ("source-only" if sdist else "links-unusable")
    assert f"{wheel} was left out because the links to it" in error["message"]
    assert error["left_out"] == [wheel]


def test_values_of_an_index_that_no_lock_can_hold(cudalock: Cudalock, world: World) -> None:
    """uv refuses a lock with such a size or time; the file is locked without it."""
    from werkzeug.wrappers import Response

    name, content = make_wheel("valued", "1.0", metadata=make_metadata("valued", "1.0"))
    world.index.add(name, content)
    entry = {"filename": name, "url": f"/files/{name}", "hashes": {"sha256": "0" * 64}, "size": 2**63}
    files = [{**entry, "upload-time": "9999-12-31T23:59:59-12:00", "core-metadata": True}]
    page = json.dumps({"meta": {"api-version": "1.0"}, "name": "valued", "files": files})
    kind = "application/vnd.pypi.simple.v1+json"
    world.index.misbehave("/simple/valued/", lambda _: Response(page, content_type=kind))
    world.index.misbehave(f"/files/{name}.metadata", lambda _: Response(make_metadata("valued", "1.0")))
    outcome = cudalock("resolve", "valued", *TARGET, "--json")
    assert outcome.status == 0, outcome.out + outcome.err
    text = (world.folder / "pylock.toml").read_text()
    assert name in text
    assert "size" not in text and "upload-time" not in text


# -- terminals

STEERING = [
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[31mred",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\x9b31m",
    "\x08\x08\x08",
    "\x00",
    "\r",
]
_FORBIDDEN = set("\x1b\x9b\x07\x08\x00\r\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def harmless(text: str) -> bool:
    return not _FORBIDDEN & set(text)


@pytest.mark.parametrize("evil", STEERING)
def test_clean(evil: str) -> None:
    assert harmless(clean(f"before{evil}after"))


@pytest.mark.parametrize("evil", STEERING, ids=ascii)
def test_nothing_steers_the_terminal(cudalock: Cudalock, world: World, evil: str) -> None:
    """Hostile text in everything that is shown: names, reasons, requirements, files, answers, logs, facts."""
    argument = evil.replace("\x00", "\x01")
    name, content = make_wheel("delta", "1.0", metadata=make_metadata("delta", "1.0", requires=[f"nonesuch{evil}>=1"]))
    world.index.add(name, content)
    world.index.add(*make_wheel("yankee", "1.0"), yanked=f"broken{evil}")
    world.index.add(*make_wheel("python", "1.0", requires_python=f">=3{evil}"), requires_python=f">=3{evil}")
    world.index.misbehave("/simple/moved/", lambda _: _redirect(evil))
    (world.folder / "r.txt").write_text(f"torch{evil}>=2\n-r {evil}.txt\n--unknown{evil}\n")
    (world.folder / "log.txt").write_text(
        f"RuntimeError: CUDA error: no kernel image{evil} is available for execution\n"
    )
    (world.folder / "facts.json").write_text(json.dumps({
        "schema": 1, f"unknown{evil}": 1,
        "host": {"os": "linux", "machine": "x86_64", "driver": "570.124.06", "gpus": [{"name": f"NVIDIA {evil}", "compute_capability": "9.0"}]},
        "environment": {"packages": {"torch": f"2.7{evil}"}, "errors": [f"no kernel image{evil}"], "variables": {"LD_LIBRARY_PATH": evil}},
    }))  # fmt: skip
    (world.folder / "pylock.evil.toml").write_text(
        json.dumps(evil) + " = 1\nlock-version = " + json.dumps(f"1{evil}").replace("\\u", "\\u") + "\n"
    )
    commands: list[tuple[Any, ...]] = [
        ("resolve", "delta", *TARGET), ("resolve", "yankee", *TARGET), ("resolve", "python", *TARGET),
        ("resolve", "moved", *TARGET), ("resolve", f"x{argument}", *TARGET), ("resolve", "-r", "r.txt", *TARGET),
        ("resolve", "alpha", "--gpu", f"RTX{argument}"), ("resolve", "alpha", "--index-url", f"https://x{argument}/"),
        ("resolve", "alpha", "--facts", "facts.json"), ("check", "--facts", "facts.json", "--lock", "pylock.evil.toml"),
        ("check", "--lock", f"{argument}"), ("explain", "log.txt"), ("doctor", "--facts", "facts.json"),
        ("install", "--venv", f"v{argument}"), ("inspect", f"{argument}.whl"), (f"{argument}",), ("resolve", f"--{argument}"),
        ("detect", "--facts", "facts.json"), ("matrix", "--facts", "facts.json"),
    ]  # fmt: skip
    for command in commands:
        for loud in ("-vv", "--json"):
            outcome = cudalock(*command, *([loud] if len(command) > 1 else []), FORCE_COLOR="")
            assert outcome.status != 70, f"{command}: {outcome.out}{outcome.err}"
            assert harmless(outcome.out + outcome.err), f"{command}: {outcome.out + outcome.err!a}"


def _redirect(evil: str) -> Any:
    from werkzeug.wrappers import Response

    response = Response(status=302)
    response.headers["Location"] = "http://files.example/" + "".join(
        c for c in evil if c not in "\r\n\x00" and ord(c) < 256
    )
    return response


def test_output_of_the_installer_is_cleaned(cudalock: Cudalock, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that prints escapes, seen through uv."""
    program = world.folder.parent / "uv"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo "uv 99.0"; exit 0; }\nprintf "error: \\033]0;owned\\007 \\342\\200\\256x\\n" >&2; exit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr("cudalock.install.uv._beside_us", lambda: str(program))
    assert cudalock("resolve", "alpha", "--cpu").status == 0
    for loud in ("-vv", "--json"):
        outcome = cudalock("install", "--venv", ".venv", loud)
        assert outcome.status == 4
        assert harmless(outcome.out + outcome.err), ascii(outcome.out + outcome.err)
