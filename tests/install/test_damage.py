"""Environments whose files were removed or edited after a real installer put them there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cudalock.check import check
from cudalock.errors import UsageError
from cudalock.install import InstallOptions, install, read_state
from cudalock.lock import read_lock
from cudalock.progress import Reporter
from support.fake_index import FakeIndex
from support.installing import write_lock_of
from support.wheels import make_wheel

SYNC = InstallOptions(sync=True)
installers = pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.slow)])


class Listener(Reporter):
    def __init__(self) -> None:
        self.steps: list[str] = []
        self.messages: list[tuple[str, str]] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def message(self, severity: str, text: str, *, code: str | None = None) -> None:
        self.messages.append((severity, text))


@pytest.fixture
def index(fake_index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    """With a cache of uv's own for the test: some of them spoil it."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    with fake_index.serve():
        yield fake_index


def wheel_of_demo() -> tuple[str, bytes]:
    files = {"demo/__init__.py": b"", "demo/core.py": b"x = 1\n", "demo/lib/libdemo.so": b"\x7fELF machine code"}
    files["demo-1.0.data/scripts/demo-run"] = b"#!python\nprint('demo')\n"
    return make_wheel("demo", "1.0", files=files)


@pytest.fixture
def lock(index: FakeIndex, tmp_path: Path) -> Path:
    return write_lock_of(index, tmp_path / "pylock.toml", index.add(*wheel_of_demo()), index.add_wheel("other", "2.0"))


def site(venv: Path) -> Path:
    (folder,) = (venv / "lib").glob("python*/site-packages")
    return folder


def rewrite(path: Path, content: bytes) -> None:
    """As an editor does that saves to a new file: no other link to the old content changes."""
    path.unlink()
    path.write_bytes(content)


def codes(lock: Path, venv: Path) -> list[str]:
    return [finding.code for finding in check(read_lock(lock), venv=venv).findings]


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a library is gone": lambda packages: (packages / "demo" / "lib" / "libdemo.so").unlink(),
    "a folder is gone": lambda packages: shutil.rmtree(packages / "demo"),
    "a module was edited": lambda packages: rewrite(packages / "demo" / "core.py", b"x = 2  # edited\n"),
    "a library was cut short": lambda packages: rewrite(packages / "demo" / "lib" / "libdemo.so", b""),
    "its RECORD is gone": lambda packages: (packages / "demo-1.0.dist-info" / "RECORD").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_only_the_damaged_is_reinstalled(lock: Path, tmp_path: Path, damage: str) -> None:
    venv = tmp_path / "env"
    install(lock, venv)
    packages = site(venv)
    untouched = (packages / "other-2.0.dist-info" / "INSTALLER").stat().st_ino
    assert codes(lock, venv) == []
    DAMAGE[damage](packages)
    assert codes(lock, venv) == ["lock-drift" if "RECORD" in damage else "files-damaged"]
    with pytest.raises(UsageError) as caught:
        install(lock, venv)
    assert caught.value.code == "venv-exists"
    heard = Listener()
    report = install(lock, venv, options=SYNC, reporter=heard)
    assert not report.up_to_date
    assert (report.reinstalled, report.added, report.changed) == ({"demo": "1.0"}, {}, {})
    assert "reinstalling demo" in heard.steps
    assert codes(lock, venv) == []
    assert (packages / "demo" / "core.py").read_bytes() == b"x = 1\n"
    assert (packages / "demo" / "lib" / "libdemo.so").read_bytes() == b"\x7fELF machine code"
    assert (packages / "other-2.0.dist-info" / "INSTALLER").stat().st_ino == untouched
    assert install(lock, venv, options=SYNC).up_to_date


@pytest.mark.slow
def test_pip_mends_too(lock: Path, tmp_path: Path) -> None:
    options = InstallOptions(installer="pip", sync=True)
    venv = tmp_path / "env"
    install(lock, venv, options=options)
    untouched = (site(venv) / "other-2.0.dist-info" / "INSTALLER").stat().st_ino
    (site(venv) / "demo" / "core.py").unlink()
    install(lock, venv, options=options)
    assert codes(lock, venv) == []
    assert (site(venv) / "other-2.0.dist-info" / "INSTALLER").stat().st_ino == untouched


def edit_in_place(venv: Path) -> None:
    """Through the link that uv made, so into its cache."""
    with (site(venv) / "demo" / "core.py").open("ab") as file:
        file.write(b"import pdb\n")


def test_an_edit_that_reached_the_installers_cache_does_not_come_back(lock: Path, tmp_path: Path) -> None:
    venv = tmp_path / "env"
    install(lock, venv)
    if (site(venv) / "demo" / "core.py").stat().st_nlink == 1:
        pytest.skip("uv copies here")
    edit_in_place(venv)
    heard = Listener()
    install(lock, venv, options=SYNC, reporter=heard)
    assert (site(venv) / "demo" / "core.py").read_bytes() == b"x = 1\n"
    assert any("uv cache clean demo" in text for severity, text in heard.messages if severity == "warning")
    # the cache is spoilt still, and a new environment is whole all the same
    install(lock, tmp_path / "second")
    assert (site(tmp_path / "second") / "demo" / "core.py").read_bytes() == b"x = 1\n"


def test_what_changes_by_right_is_no_damage(lock: Path, tmp_path: Path) -> None:
    venv = tmp_path / "env"
    install(lock, venv)
    packages = site(venv)
    (packages / "demo" / "__pycache__").mkdir(exist_ok=True)
    (packages / "demo" / "__pycache__" / "core.cpython-311.pyc").write_bytes(b"compiled")
    rewrite(venv / "bin" / "demo-run", b"#!/another/place/bin/python\nprint('demo')\n")
    for name in ("INSTALLER", "REQUESTED", "direct_url.json"):
        (packages / "demo-1.0.dist-info" / name).write_text("someone else")
    (packages / "mine.pth").write_text("")
    assert codes(lock, venv) == []
    assert install(lock, venv, options=SYNC).up_to_date


def test_a_file_of_two_distributions_may_be_either_ones(index: FakeIndex, tmp_path: Path) -> None:
    one = index.add(*make_wheel("one", "1.0", files={"shared/__init__.py": b"", "shared/a.py": b"one", "one.py": b"1"}))
    two = index.add(
        *make_wheel("two", "1.0", files={"shared/__init__.py": b"", "shared/a.py": b"second", "two.py": b"2"})
    )
    lock = write_lock_of(index, tmp_path / "pylock.toml", one, two)
    venv = tmp_path / "env"
    heard = Listener()
    install(lock, venv, reporter=heard)
    assert codes(lock, venv) == []
    assert not any(step.startswith("reinstalling") for step in heard.steps)
    (
        site(venv) / "shared" / "__init__.py"
    ).unlink()  # as the removal of a third owner does: a namespace package is left
    assert codes(lock, venv) == []
    (site(venv) / "shared" / "a.py").unlink()
    assert codes(lock, venv) == ["files-damaged"]


def test_removing_a_neighbour_that_shared_files_leaves_the_rest_whole(index: FakeIndex, tmp_path: Path) -> None:
    shared = {"shared/__init__.py": b"shared = True\n"}
    one = index.add(*make_wheel("one", "1.0", files=shared | {"one.py": b"1"}))
    two = index.add(*make_wheel("two", "1.0", files=shared | {"two.py": b"2"}))
    lock = write_lock_of(index, tmp_path / "pylock.toml", one, two)
    venv = tmp_path / "env"
    install(lock, venv)
    write_lock_of(index, lock, one)
    install(lock, venv, options=SYNC)
    assert codes(lock, venv) == []
    assert (site(venv) / "shared" / "__init__.py").read_bytes() == b"shared = True\n"


@installers
def test_a_wheel_whose_record_is_false_is_installed_and_no_damage(
    index: FakeIndex, tmp_path: Path, installer: str
) -> None:
    name, content = make_wheel("false", "1.0", files={"false.py": b"x = 1\n"})
    record = _record(content)
    spoilt = record.replace(b",6\n", b",66\n") + b"false_gone.py,sha256=AAAA,5\n"
    assert spoilt != record
    lock = write_lock_of(index, tmp_path / "pylock.toml", index.add(name, _with_record(content, spoilt)))
    venv = tmp_path / "env"
    options = InstallOptions(sync=True, installer="pip" if installer == "pip" else "uv")
    install(lock, venv, options=options)
    state = read_state(venv)
    assert state is not None and state.deviating["false.py"] == 6
    assert codes(lock, venv) == []
    assert install(lock, venv, options=options).up_to_date
    (site(venv) / "false.py").unlink()
    assert codes(lock, venv) == ["files-damaged"]


def _record(wheel: bytes) -> bytes:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        return archive.read("false-1.0.dist-info/RECORD")


def _with_record(wheel: bytes, record: bytes) -> bytes:
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(wheel)) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            after.writestr(name, record if name.endswith("RECORD") else before.read(name))
    return out.getvalue()


def test_a_record_that_cannot_be_read_harms_nothing(lock: Path, tmp_path: Path) -> None:
    venv = tmp_path / "env"
    install(lock, venv)
    record = site(venv) / "demo-1.0.dist-info" / "RECORD"
    record.unlink()
    lines = ['a"b"c,sha256=x,notanumber', "/etc/passwd,sha256=x,1", "no/fields", "\0,sha256=x,1", '"never closed,x,1']
    record.write_bytes("\n".join(lines).encode() + b"\xff")
    assert set(codes(lock, venv)) <= {"files-damaged"}
