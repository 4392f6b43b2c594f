"""Where files may come from: routing under redirects, altered locks, hosts, places, names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from werkzeug.wrappers import Response

from cudalock.errors import UsageError
from cudalock.install import InstallOptions, SourceRules, fetch, install
from cudalock.lock.file import read_lock
from faults.conftest import Cudalock, World
from faults.misbehaving import elsewhere

TARGET = ("--cpu", "--python", "3.12", "--platform", "linux-x86_64")
FETCH = ("fetch", "wheels", "--json", "--force")
INSTALL = ("install", "--venv", ".venv", "--json", "--force")


@pytest.fixture
def lock(cudalock: Cudalock, world: World) -> Path:
    assert cudalock("resolve", "beta", "--cpu").status == 0
    return world.folder / "pylock.toml"


def changed(lock: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, lock.read_text())
    assert count
    lock.write_text(text)


URL = r'url = "[^"]*beta[^"]*"'
ALTERED = {
    "file://": (URL, 'url = "file:///etc/passwd/beta-1.0-py3-none-any.whl"', "lock-local-file", "--allow-local-files"),
    "file://host": (URL, 'url = "file://host.example/beta-1.0-py3-none-any.whl"', "lock-local-file", "--allow-local"),
    "path outside": (URL, 'path = "../../beta-1.0-py3-none-any.whl"', "lock-local-file", "--allow-local-files"),
    "absolute path": (URL, 'path = "/etc/beta-1.0-py3-none-any.whl"', "lock-local-file", "--allow-local-files"),
    "both": (URL, 'path = "/etc/x.whl"\nurl = "http://127.0.0.1/x.whl"', "lock-local-file", "--allow-local-files"),
    "plain http": (URL, 'url = "http://files.example/beta-1.0-py3-none-any.whl"', "lock-url-insecure", "files.example"),
    "ftp": (URL, 'url = "ftp://files.example/beta-1.0-py3-none-any.whl"', "lock-url-unusable", "resolve"),
    "no host": (URL, 'url = "https:///beta-1.0-py3-none-any.whl"', "lock-url-unusable", "resolve"),
    "broken": (URL, 'url = "https://[x/beta-1.0-py3-none-any.whl"', "lock-url-unusable", "resolve"),
    "no sha256": (r'sha256 = "\w+"', 'md5 = "d41d8cd98f00b204e9800998ecf8427e"', "lock-hash-missing", "resolve"),
    "short sha256": (r'sha256 = "\w+"', 'sha256 = "ab"', "lock-hash-missing", "resolve"),
    "name ..": (r'name = "beta-1[^"]*"', 'name = ".."', "lock-invalid", "resolve"),
    "name with folder": (r'name = "beta-1[^"]*"', 'name = "a/../../b"', None, ""),
    "name with escape": (r'name = "beta-1[^"]*"', r'name = "\\u001b[31mbeta.whl"', "lock-invalid", "resolve"),
    "hidden name": (r'name = "beta-1[^"]*"', 'name = ".bashrc"', "lock-invalid", "resolve"),
}


@pytest.mark.parametrize("command", [FETCH, INSTALL], ids=["fetch", "install"])
@pytest.mark.parametrize("case", ALTERED)
def test_altered_lock(cudalock: Cudalock, world: World, lock: Path, command: tuple[str, ...], case: str) -> None:
    pattern, replacement, code, hint = ALTERED[case]
    changed(lock, pattern, replacement)
    world.proxy.asked.clear()
    before = world.listing()
    outcome = cudalock(*command)
    if code is None:  # folders in a name are dropped: nothing lands outside
        assert {path.name for path in world.folder.iterdir()} <= {"pylock.toml", "wheels", ".venv"}
        assert {path.name for path in world.folder.parent.iterdir()} == {"work"}
        return
    assert (outcome.status, outcome.code) == (2, code), outcome.out
    assert hint in outcome.json["error"]["hint"]
    assert world.proxy.asked == []
    assert world.listing() == before
    assert "\x1b" not in outcome.out


def foreign(world: World, *archives: tuple[str, str]) -> None:
    """Another tool's lock of archives (URL path, sha256)."""
    text = 'lock-version = "1.0"\ncreated-by = "hand"\n'
    for number, (path, sha256) in enumerate(archives):
        text += f'[[packages]]\nname = "p{number}"\n[packages.archive]\nurl = "{world.proxy.url}{path}"\n'
        text += f'[packages.archive.hashes]\nsha256 = "{sha256}"\n'
    (world.folder / "pylock.toml").write_text(text)


@pytest.mark.parametrize(
    "path", ["/x/..", "/x/.", "/", "/x/%2e%2e", "/x/..%2f..%2f.bashrc", "/x/a%00b.zip", "/x/%1b.zip"]
)
@pytest.mark.parametrize("command", [FETCH, INSTALL], ids=["fetch", "install"])
def test_names_that_are_no_names(cudalock: Cudalock, world: World, path: str, command: tuple[str, ...]) -> None:
    foreign(world, (path, "1" * 64))
    outcome = cudalock(*command)
    assert (outcome.status, outcome.code) == (2, "lock-file-name-unsafe"), outcome.out
    assert [one.name for one in world.folder.iterdir()] == ["pylock.toml"]


def test_two_files_under_one_name(cudalock: Cudalock, world: World) -> None:
    foreign(world, ("/a/x-1.0.zip", "1" * 64), ("/b/X-1.0.zip", "2" * 64))
    assert cudalock(*FETCH).code == "lock-files-collide"
    assert not (world.folder / "wheels").exists()


def test_lock_altered_by_accident_is_noticed(cudalock: Cudalock, world: World, lock: Path) -> None:
    changed(lock, r'sha256 = "\w+', f'sha256 = "{"1" * 64}')
    world.proxy.asked.clear()
    for command in (("fetch", "wheels"), ("install", "--venv", ".venv")):
        assert cudalock(*command, "--json").code == "lock-digest-mismatch"
    assert world.proxy.asked == []
    check = cudalock("check", "--json")
    assert "lock-digest-mismatch" in [finding["code"] for finding in check.json["findings"]]


@pytest.mark.parametrize("form", ["file", "path"])
def test_local_files_with_leave(cudalock: Cudalock, world: World, lock: Path, form: str) -> None:
    wheel = world.folder.parent / "beta-1.0-py3-none-any.whl"
    wheel.write_bytes(world.index.files[1].content)
    place = f'url = "{wheel.as_uri()}"' if form == "file" else 'path = "../beta-1.0-py3-none-any.whl"'
    changed(lock, URL, place)
    assert cudalock(*INSTALL).code == "lock-local-file"
    assert cudalock(*INSTALL, "--allow-local-files").status == 0
    assert cudalock(*FETCH).code == "lock-local-file"
    assert cudalock(*FETCH, "--allow-local-files").status == 0
    assert (world.folder / "wheels" / wheel.name).read_bytes() == wheel.read_bytes()
    assert [part for part in world.proxy.asked if part == "/files/beta-1.0-py3-none-any.whl"] == []


def test_path_within_the_folder_needs_no_leave_but_a_link_out_of_it_does(
    cudalock: Cudalock, world: World, lock: Path
) -> None:
    wheel = world.folder / "wheels" / "beta-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(world.index.files[1].content)
    changed(lock, URL, f'path = "wheels/{wheel.name}"')
    assert cudalock(*INSTALL).status == 0
    outside = world.folder.parent / "elsewhere.whl"
    wheel.rename(outside)
    wheel.symlink_to(outside)
    assert cudalock(*INSTALL, "--clear").code == "lock-local-file"


def test_insecure_host_with_leave(world: World, lock: Path, tmp_path: Path) -> None:
    changed(lock, URL, 'url = "http://files.example/beta-1.0-py3-none-any.whl"')
    rules = SourceRules(allow_insecure_hosts=frozenset({"files.example"}), allowed_hosts=frozenset({"other.example"}))
    with pytest.raises(UsageError) as caught:
        fetch(lock, tmp_path / "wheels", rules=rules, force=True)
    assert caught.value.code == "host-not-allowed"  # the other rule had nothing against it


@pytest.mark.parametrize("command", [FETCH, INSTALL], ids=["fetch", "install"])
def test_allowed_hosts_from_the_project(cudalock: Cudalock, world: World, lock: Path, command: tuple[str, ...]) -> None:
    (world.folder / "pyproject.toml").write_text('[tool.cudalock]\nallowed-hosts = ["files.example"]\n')
    world.proxy.asked.clear()
    outcome = cudalock(*command)
    assert (outcome.status, outcome.code) == (2, "host-not-allowed")
    assert world.proxy.asked == []
    (world.folder / "pyproject.toml").write_text('[tool.cudalock]\nallowed-hosts = ["127.0.0.1"]\n')
    assert cudalock(*command).status == 0


def test_allowed_hosts_hold_under_redirects(cudalock: Cudalock, world: World, lock: Path) -> None:
    world.proxy.order("/files/", elsewhere(world.index.host.replace("127.0.0.1", "localhost")), always=True)
    outcome = cudalock(*FETCH, "--allowed-hosts", "127.0.0.1")
    assert outcome.code == "host-not-allowed"
    assert not any(request.host.startswith("localhost") for request in world.index.requests)
    assert (
        cudalock(*FETCH, "--allowed-hosts", "127.0.0.1;localhost", CUDALOCK_ALLOWED_HOSTS="x").code
        == "host-not-allowed"
    )
    assert cudalock(*FETCH, "--allowed-hosts", "127.0.0.1", "--allowed-hosts", "localhost").status == 0


def test_hosts_are_listed(cudalock: Cudalock, world: World, lock: Path) -> None:
    assert "files come from 127.0.0.1" in cudalock("install", "--venv", ".venv", "-v").err
    assert cudalock("install", "--venv", ".other", "--json").json["hosts"] == ["127.0.0.1"]


def test_library_refuses_as_the_command_line_does(lock: Path, tmp_path: Path) -> None:
    changed(lock, URL, 'url = "file:///etc/passwd/beta-1.0-py3-none-any.whl"')
    with pytest.raises(UsageError) as caught:
        install(lock, tmp_path / "env", lock=read_lock(lock), options=InstallOptions(force=True))
    assert caught.value.code == "lock-local-file"


# -- routing


def test_page_that_redirects_to_another_project(cudalock: Cudalock, world: World) -> None:
    """An alias on the index: what lies there under another name is not taken for the project."""
    world.index.add_wheel("evil", "9.0")
    world.index.misbehave("/simple/beta/", lambda _: Response(status=302, headers={"Location": "/simple/evil/"}))
    outcome = cudalock("resolve", "alpha", *TARGET, "--json")
    assert outcome.status == 1
    assert not (world.folder / "pylock.toml").exists()


def test_page_that_redirects_to_the_pytorch_index(cudalock: Cudalock, world: World) -> None:
    """A foreign copy stays a foreign copy: the lock names the main index's own file, or none."""
    copy = world.index.add_wheel("beta", "9.0", label="cpu")
    outcome = cudalock("resolve", "alpha", *TARGET, "--json")
    assert outcome.status == 0
    assert {one["name"]: one["version"] for one in outcome.json["packages"]}["beta"] == "1.0"
    assert copy.path not in world.proxy.asked
    assert not [target for target in world.proxy.asked if target.startswith("/whl/") and "beta" in target]


def test_source_serves_only_the_projects_mapped_to_it(cudalock: Cudalock, world: World) -> None:
    world.index.add_wheel("beta", "9.0", label="inside")
    world.index.add_wheel("alpha", "9.0", label="inside")
    (world.folder / "pyproject.toml").write_text(
        f'[tool.cudalock.sources.inside]\nurl = "{world.proxy.url}/whl/inside/"\nprojects = ["beta"]\n'
    )
    outcome = cudalock("resolve", "alpha", *TARGET, "--json")
    assert outcome.status == 0, outcome.out
    versions = {one["name"]: one["version"] for one in outcome.json["packages"]}
    assert (versions["alpha"], versions["beta"]) == ("1.0", "9.0")
    assert world.proxy.count("/simple/beta/") == 0


def test_extra_indexes_of_pip_are_not_searched(cudalock: Cudalock, world: World) -> None:
    world.index.add_wheel("beta", "9.0", label="extra")
    outcome = cudalock("resolve", "alpha", *TARGET, PIP_EXTRA_INDEX_URL=f"{world.proxy.url}/whl/extra/")
    assert outcome.status == 0
    assert "does not search" in outcome.err
    assert world.proxy.count("/whl/extra/") == 0
