"""The file: read with exact errors, written at once or not at all."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudalock.errors import UsageError
from cudalock.lock import dump_lock, read_lock, refuse_foreign, require_intact, write_lock
from cudalock.lock.file import parse_text
from cudalock.lock.model import Lock
from support.locks import a_lock, linux_target

GENUINE = dump_lock(a_lock(linux_target("9.0", "12.0")))
FOREIGN = 'lock-version = "1.0"\ncreated-by = "other"\npackages = []\n'


def lock() -> Lock:
    return parse_text(GENUINE, "pylock.toml")


def fault(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read_lock(path)
    return caught.value


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pylock.toml"
    path.write_text(text, encoding="utf-8")
    return path


# --- reading


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pylock.gpu.toml"
    assert write_lock(path, lock())
    again = read_lock(path)
    assert again == lock()
    assert again.ours
    assert again.digest_ok


def test_another_tools_lock_is_read_and_known_as_such(tmp_path: Path) -> None:
    foreign = read_lock(written(tmp_path, FOREIGN))
    assert not foreign.ours
    assert foreign.contract is None


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("<<<<<<< ours\n", "lock-not-toml", "conflict markers"),
        ("a = [", "lock-not-toml", ""),
        ("a = " + 5000 * "[", "lock-not-toml", ""),
        (FOREIGN.replace("1.0", "2.0"), "lock-version-unsupported", "'2.0'"),
        (FOREIGN.replace('"1.0"', "1.0"), "lock-invalid", "lock-version"),
        ('created-by = "x"\npackages = []\n', "lock-invalid", "lock-version"),
        (GENUINE.replace("schema = 1", "schema = 2"), "lock-too-new", "newer cudalock"),
        (GENUINE.replace("schema = 1", 'schema = "1"'), "lock-invalid", "tool.cudalock.schema: expected an integer"),
        (GENUINE.replace("schema = 1", "schema = 0"), "lock-invalid", "tool.cudalock.schema"),
        (GENUINE.replace("schema = 1\n", ""), "lock-invalid", "tool.cudalock.schema: is missing"),
        (FOREIGN + "[tool]\ncudalock = 3\n", "lock-invalid", "tool.cudalock: expected a table"),
        (FOREIGN + "tool = 3\n", "lock-invalid", "tool"),
        (
            GENUINE.replace('platform = "linux-x86_64"\n', ""),
            "lock-invalid",
            "tool.cudalock.target.platform: is missing",
        ),
        (GENUINE.replace('driver = "580.65.06"', 'driver = "new"'), "lock-invalid", "tool.cudalock.target.driver"),
        (
            GENUINE.replace('"9.0",\n    "12.0",\n]', '"9.0",\n    7,\n]'),
            "lock-invalid",
            "tool.cudalock.target.gpus[1]",
        ),
        (GENUINE.replace('compat = "native"', 'compat = "good"'), "lock-invalid", "tool.cudalock.contract.compat"),
        (GENUINE.replace('evidence = "wheel"', 'evidence = "hope"'), "lock-invalid", "tool.cudalock.contract.evidence"),
        (GENUINE.replace('gpu."12.0"]', "gpu.big]"), "lock-invalid", "tool.cudalock.contract.gpu.big"),
        (
            GENUINE.replace('cuda = "12.8"', "cuda = 12.8"),
            "lock-invalid",
            "tool.cudalock.triple.cuda: expected a string",
        ),
        (GENUINE.replace("glibc-2.28", "glibc"), "lock-invalid", "tool.cudalock.target.libc"),
        (GENUINE.replace('name = "sympy"\nversion', 'name = "Sympy"\nversion'), "lock-invalid", "packages[1].name"),
        (GENUINE.replace('    "torch>=2.8",', "    1,"), "lock-invalid", "tool.cudalock.requirements[0]"),
        (GENUINE.replace('[\n    "main",', "[\n    [1],"), "lock-invalid", "tool.cudalock.indexes[0]"),
    ],
)
def test_faults_name_the_key(tmp_path: Path, text: str, code: str, said: str) -> None:
    assert text != GENUINE
    path = written(tmp_path, text)
    error = fault(path)
    assert error.code == code
    assert str(path) in error.message
    assert said in error.message
    assert error.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = fault(tmp_path / "pylock.toml")
    assert missing.code == "lock-missing"
    assert "cudalock resolve" in (missing.hint or "")
    (tmp_path / "pylock.dir.toml").mkdir()
    assert fault(tmp_path / "pylock.dir.toml").code == "lock-unreadable"
    (tmp_path / "pylock.toml").write_bytes(b"\xff\xfe")
    assert fault(tmp_path / "pylock.toml").code == "lock-not-toml"


@pytest.mark.parametrize("name", ["lock.toml", "pylock.a.b.toml", "requirements.txt", "Pylock.toml"])
def test_names_that_uv_and_pip_would_not_recognise(tmp_path: Path, name: str) -> None:
    assert fault(tmp_path / name).code == "lock-name-invalid"
    with pytest.raises(UsageError) as caught:
        write_lock(tmp_path / name, lock())
    assert caught.value.code == "lock-name-invalid"
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('version = "1.14.0"', 'version = "1.14"'),
        ('requires-python = "==3.12.*"', 'requires-python = ">=3.12"'),
        ('driver-min = "525.60.13"', 'driver-min = "470.57.02"'),
        ('    "torch>=2.8",', '    "torch>=2.9",'),
        ("size = 1000", "size = 1001"),
        ('created-by = "cudalock"', 'created-by = "cudalock"\nunknown-key = 1'),
    ],
)
def test_an_edited_lock_is_recognised(tmp_path: Path, before: str, after: str) -> None:
    assert before in GENUINE
    path = written(tmp_path, GENUINE.replace(before, after, 1))
    edited = read_lock(path)
    assert not edited.digest_ok
    with pytest.raises(UsageError) as caught:
        require_intact(edited, path)
    assert caught.value.code == "lock-digest-mismatch"
    assert "--force" in (caught.value.hint or "")
    require_intact(edited, path, force=True)


def test_layout_and_comments_are_no_edits(tmp_path: Path) -> None:
    text = re.sub(r"\n\n", "\n\n\n# a remark\n", GENUINE).replace("\n", "\r\n")
    again = read_lock(written(tmp_path, text))
    assert again.digest_ok
    require_intact(again, tmp_path)
    require_intact(read_lock(written(tmp_path, FOREIGN)), tmp_path)


# --- writing


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pylock.toml"
    assert write_lock(path, lock())
    before = path.stat().st_mtime_ns, path.stat().st_ino
    assert not write_lock(path, lock())
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


@pytest.mark.parametrize("content", [FOREIGN, "not toml [", "", "<<<<<<< ours\n" + GENUINE])
def test_what_is_not_ours_is_not_overwritten(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, content)
    for attempt in (lambda: write_lock(path, lock()), lambda: refuse_foreign(path)):
        with pytest.raises(UsageError) as caught:
            attempt()
        assert caught.value.code == "lock-not-ours"
        assert "--force" in (caught.value.hint or "")
    assert path.read_text(encoding="utf-8") == content
    assert write_lock(path, lock(), force=True)
    assert read_lock(path) == lock()


def test_an_edited_or_newer_lock_of_ours_may_be_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, GENUINE.replace("schema = 1", "schema = 2"))
    assert write_lock(path, lock())
    assert read_lock(path) == lock()


def test_links_are_followed_and_permissions_kept(tmp_path: Path) -> None:
    real = tmp_path / "real" / "pylock.toml"
    real.parent.mkdir()
    real.write_text(GENUINE.replace("size = 1000", "size = 1"))
    real.chmod(0o640)
    link = tmp_path / "pylock.toml"
    link.symlink_to(real)
    assert write_lock(link, lock())
    assert link.is_symlink()
    assert read_lock(real) == lock()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [entry.name for entry in real.parent.iterdir()] == ["pylock.toml"]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_lock(tmp_path / "pylock.toml", lock())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "pylock.toml").stat().st_mode) == 0o640


def test_places_that_cannot_take_a_lock(tmp_path: Path) -> None:
    (tmp_path / "pylock.d.toml").mkdir()
    for path, code in [
        (tmp_path / "nowhere" / "pylock.toml", "lock-folder-missing"),
        (tmp_path / "pylock.d.toml", "lock-unwritable"),
        (Path("/proc/pylock.toml"), "lock-unwritable"),
    ]:
        with pytest.raises(UsageError) as caught:
            write_lock(path, lock())
        assert caught.value.code == code


KILLED = """
import itertools, pathlib, sys
sys.path.insert(0, sys.argv[2])
from cudalock.lock import write_lock
from cudalock.lock.file import parse_text
first, second = (parse_text(pathlib.Path(name).read_text(), name) for name in sys.argv[3:5])
print("ready", flush=True)
for lock in itertools.cycle((first, second)):
    write_lock(pathlib.Path(sys.argv[1]), lock)
"""


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_a_whole_lock(tmp_path: Path) -> None:
    texts = [GENUINE, dump_lock(a_lock(linux_target("8.0"), texts=("torch>=2.9",)))]
    sources = [tmp_path / "first.txt", tmp_path / "second.txt"]
    for source, text in zip(sources, texts, strict=True):
        source.write_text(text, encoding="utf-8")
    path = tmp_path / "pylock.toml"
    for attempt in range(6):
        command = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parents[1]), *map(str, sources)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.03 + 0.017 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if path.exists():
            assert path.read_text(encoding="utf-8") in texts
    # a busy machine may have killed every writer before its first lock: what is left behind must not hinder the next
    write_lock(path, parse_text(GENUINE, "genuine"))
    assert path.read_text(encoding="utf-8") == GENUINE


# --- robustness

KEYS = st.sampled_from(
    ["lock-version", "created-by", "packages", "tool", "cudalock", "schema", "contract", "gpu", "target", "triple", "name",
     "wheels", "hashes", "url", "requirements", "digest", "architectures", "ptx", "environments", "platform", "7.0"]
)  # fmt: skip
LEAVES = st.one_of(
    st.text(max_size=8), st.integers(-5, 5), st.booleans(), st.sampled_from(["1.0", "9.0", "native", "a"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def read_or_refuse(text: str) -> str:
    try:
        found = parse_text(text, "pylock.toml")
    except UsageError as error:
        return error.code
    return "ours" if found.ours else "foreign"


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_document_is_read_or_refused(document: dict[str, object]) -> None:
    base = {"lock-version": "1.0", "created-by": "x", "packages": []}
    assert read_or_refuse(tomli_w.dumps(document))
    assert read_or_refuse(tomli_w.dumps(base | document))
    outcome = read_or_refuse(tomli_w.dumps(base | {"tool": {"cudalock": {"schema": 1} | document}}))
    assert outcome in {"ours", "lock-invalid", "lock-too-new"}


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_lock_with_damage_anywhere_is_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GENUINE) - 1))
    length = data.draw(st.integers(0, 40))
    inserted = data.draw(st.text(alphabet='abc"=[]{}.\n#0129-', max_size=5))
    damaged = GENUINE[:start] + inserted + GENUINE[start + length :]
    outcome = read_or_refuse(damaged)
    assert outcome in {"ours", "foreign"} or outcome.startswith("lock-")
