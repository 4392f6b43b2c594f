from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pip._internal.configuration import Configuration

from cudalock.errors import UsageError
from cudalock.index.discovery import (
    default_from_pip,
    default_from_uv,
    main_index_url,
    pip_configuration_files,
    pip_settings,
)

ONE, TWO = "https://one.example/simple", "https://two.example/simple"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pip keeps its files elsewhere there")


@pytest.fixture
def user_config(scrubbed_environment: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip's configuration file of the user, in the home directory of tests; shared ones are switched off."""
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(scrubbed_environment / "shared"))
    path = scrubbed_environment / "config" / "pip" / "pip.conf"
    path.parent.mkdir(parents=True)
    return path


def test_order_of_precedence(user_config: Path) -> None:
    user_config.write_text("[global]\nindex-url = https://file.example/simple\n")
    sources = [
        ("CUDALOCK_INDEX_URL", "https://own.example/simple"),
        ("UV_DEFAULT_INDEX", "https://uv.example/simple"),
        ("PIP_INDEX_URL", "https://pip.example/simple"),
    ]
    environ = dict(sources) | {"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"], "XDG_CONFIG_DIRS": "/nowhere"}
    config = {"index-url": "https://project.example/simple"}
    assert main_index_url(ONE, environ, config).url == ONE + "/"
    found = []
    for variable in (None, "CUDALOCK_INDEX_URL", "config", "UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        environ.pop(variable or "", None)
        if variable == "config":
            config = {}
        index = main_index_url(None, environ, config)
        found.append((index.url, index.origin.split(" ")[0]))
    assert found == [
        ("https://own.example/simple/", "CUDALOCK_INDEX_URL"),
        ("https://project.example/simple/", "index-url"),
        ("https://uv.example/simple/", "UV_DEFAULT_INDEX"),
        ("https://pip.example/simple/", "PIP_INDEX_URL"),
        ("https://file.example/simple/", "pip's"),
    ]


def test_default_is_the_one_that_pip_and_uv_ship() -> None:
    from_pip, from_uv = default_from_pip(), default_from_uv()
    assert from_pip is not None
    assert from_uv is not None
    assert from_pip.rstrip("/") == from_uv.rstrip("/")
    index = main_index_url(None, {"PIP_CONFIG_FILE": os.devnull})
    assert (index.url, index.origin) == (from_pip.rstrip("/") + "/", "pip's default")


@pytest.mark.parametrize(
    "content",
    [
        f"[global]\nindex-url = {ONE}\n",
        f"[global]\nindex_url = {ONE}\n[install]\nindex-url = {TWO}\n",
        f"[install]\nindex-url = {TWO}\n[global]\nindex-url = {ONE}\n",
        f"[install]\n--index-url = {TWO}\n",
        f"[global]\nindex-url = {ONE}\nextra-index-url =\n    {TWO}\n    https://three.example/\n",
        f"[download]\nindex-url = {ONE}\n[global]\ncert = /x\nproxy = http://proxy.example:3128\n",
        "[global]\nconstraint = /a.txt\n  /b.txt\n",
        "[global]\nindex-url = https://%(user)s.example/\n",
        "",
    ],
)
def test_files_are_read_as_pip_reads_them(user_config: Path, content: str) -> None:
    user_config.write_text(content)
    pip = Configuration(isolated=False)
    pip.load()
    expected: dict[str, str] = {}
    for section in ("global", "install"):
        for key, value in {k: v for values in dict(pip.items()).values() for k, v in values.items()}.items():
            if key.startswith(f"{section}."):
                expected[key.removeprefix(f"{section}.")] = value
    settings = pip_settings(os.environ)
    assert list(settings.constraints) == expected.get("constraint", "").split()
    assert str(settings.ca_bundle or "") == expected.get("cert", "") or "SSL_CERT_FILE" in os.environ
    assert (settings.proxy or "") == expected.get("proxy", "")
    assert [value for option, value, _ in settings.ignored] == expected.get("extra-index-url", "").split()
    if "index-url" in expected:
        assert main_index_url(None, os.environ).url == expected["index-url"].rstrip("/") + "/"


@pytest.mark.parametrize("stated", [None, "there", "missing", os.devnull])
def test_files_are_those_that_pip_reads(user_config: Path, monkeypatch: pytest.MonkeyPatch, stated: str | None) -> None:
    if stated == "there":
        user_config.write_text("")
    if stated is not None:
        value = stated if stated == os.devnull else str(user_config.with_name(f"{stated}.conf"))
        monkeypatch.setenv("PIP_CONFIG_FILE", value)
    if stated == "there":
        user_config.with_name("there.conf").write_text("")
    files = [file for _, names in Configuration(isolated=False).iter_config_files() for file in names]
    if stated == os.devnull:
        assert pip_configuration_files(os.environ) == []
    else:
        assert [str(path) for path in pip_configuration_files(os.environ)] == files


def test_the_user_wins_over_the_machine(user_config: Path, scrubbed_environment: Path) -> None:
    shared = scrubbed_environment / "shared" / "pip" / "pip.conf"
    shared.parent.mkdir(parents=True)
    shared.write_text(f"[global]\nindex-url = {ONE}\nconstraint = /c.txt\n")
    user_config.write_text(f"[global]\nindex-url = {TWO}\n")
    assert main_index_url(None, os.environ).url == TWO + "/"
    settings = pip_settings(os.environ)
    assert settings.constraints == ("/c.txt",)
    assert str(shared) in settings.constraints_origin


def test_environment_wins_over_files(user_config: Path) -> None:
    user_config.write_text("[global]\nconstraint = /file.txt\nextra-index-url = https://a:b@file.example/\n")
    settings = pip_settings({**os.environ, "PIP_CONSTRAINT": "/one.txt /two.txt", "PIP_FIND_LINKS": "/wheels"})
    assert settings.constraints == ("/one.txt", "/two.txt")
    assert settings.constraints_origin == "PIP_CONSTRAINT"
    assert [(option, value) for option, value, _ in settings.ignored] == [
        ("extra-index-url", "https://file.example/"), ("find-links", "/wheels"),
    ]  # fmt: skip


@pytest.mark.parametrize("variable", ["PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_certificate_bundles(variable: str) -> None:
    environ = {"PIP_CONFIG_FILE": os.devnull, variable: "/bundle.pem"}
    assert pip_settings(environ).ca_bundle == Path("/bundle.pem")


@pytest.mark.parametrize("content", ["no section\n", "[global\n", "[global]\nx = \udcff\n"])
def test_file_that_cannot_be_read_is_named(user_config: Path, content: str) -> None:
    user_config.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError) as caught:
        main_index_url(None, os.environ)
    assert caught.value.code == "pip-configuration-invalid"
    assert str(user_config) in caught.value.message


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("packages.example/simple", "index-url-invalid"),
        ("file:///srv/wheels", "index-url-invalid"),
        ("ssh://me@packages.example", "index-url-invalid"),
        ("https://", "index-url-invalid"),
        ("https://[::1", "index-url-invalid"),
        ("https://packages.example:port/", "index-url-invalid"),
        ("https://packages.example/\x1b[31m", "index-url-invalid"),
        ("http://packages.example/simple", "index-url-insecure"),
        ("http://me:secret@packages.example/simple", "index-url-insecure"),
    ],
)
def test_url_that_cannot_be_an_index(url: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        main_index_url(url, {})
    assert caught.value.code == code
    assert "--index-url" in caught.value.message
    assert "secret" not in str(caught.value.to_json())


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/simple", "http://localhost/x", "http://[::1]:3141/root"])
def test_this_machine_may_be_asked_without_encryption(url: str) -> None:
    assert main_index_url(url, {}).url == url + "/"


def test_insecure_host_may_be_allowed() -> None:
    assert main_index_url("http://old.example/x", {}, allow_insecure_hosts=frozenset({"old.example"})).url
    with pytest.raises(UsageError):
        main_index_url("http://other.example/x", {}, allow_insecure_hosts=frozenset({"old.example"}))


def test_credentials_are_kept_apart() -> None:
    index = main_index_url("https://me:s%40cret@packages.example/simple/", {})
    assert index.url == "https://packages.example/simple/"
    assert index.credentials is not None
    assert (index.credentials.username, index.credentials.password) == ("me", "s@cret")
    assert "cret" not in repr(index)


def test_uv_names_its_index() -> None:
    assert main_index_url(None, {"UV_DEFAULT_INDEX": f"corporate={ONE}"}).url == ONE + "/"
    assert main_index_url(None, {"UV_DEFAULT_INDEX": "https://h.example/a=b/"}).url == "https://h.example/a=b/"


def test_project_setting_of_the_wrong_type() -> None:
    with pytest.raises(UsageError):
        main_index_url(None, {}, {"index-url": ["https://one.example"]})
