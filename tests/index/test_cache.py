from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

from cudalock.errors import TransportError
from cudalock.index.cache import CachedAnswer, DiskCache, freshness_seconds
from cudalock.index.pruning import prune
from support.clients import client_of, main_page, only_file, pytorch_page
from support.fake_index import FakeIndex


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 0),
        ({"cache-control": "max-age=600, public"}, 600),
        ({"cache-control": 'max-age="600"', "age": "100"}, 500),
        ({"cache-control": "max-age=60", "age": "100"}, 0),
        ({"cache-control": "max-age=99999999999999999999"}, 3600),
        ({"cache-control": "max-age=-5"}, 0),
        ({"cache-control": "no-cache, max-age=600"}, 0),
        ({"cache-control": "no-store"}, None),
        ({"expires": "Thu, 01 Jan 2026 00:10:00 GMT", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 600),
        ({"expires": "never", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 0),
    ],
)
def test_freshness(headers: dict[str, str], expected: float | None) -> None:
    assert freshness_seconds(headers) == expected


def test_answer_from_the_future_is_not_fresh() -> None:
    answer = CachedAnswer(url="u", stored_at=1000.0, fresh_until=1600.0)
    assert (answer.is_fresh(900.0), answer.is_fresh(1000.0), answer.is_fresh(1600.0)) == (False, True, False)


def test_fresh_page_costs_no_request(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.cache_control = "max-age=600"
    fake_index.add_wheel("demo", "1.0", requires=["torch"])
    for _ in range(2):
        with client_of(fake_index, cache=tmp_path) as client:
            assert [str(line) for line in client.metadata(only_file(client, main_page("demo"))).requires] == ["torch"]
    assert len(fake_index.requests) == 2


def test_refresh_asks_all_the_same(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.cache_control = "max-age=600"
    fake_index.add_wheel("demo", "1.0")
    for _ in range(2):
        with client_of(fake_index, cache=tmp_path, refresh=True) as client:
            assert client.page(main_page("demo")).found
    assert [request.status for request in fake_index.requests] == [200, 304]


def test_stale_page_is_revalidated_and_changes_are_seen(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.add_wheel("demo", "1.0")
    counts = []
    for change in (False, False, True):
        if change:
            fake_index.add_wheel("demo", "2.0")
        with client_of(fake_index, cache=tmp_path) as client:
            counts.append(len(client.page(main_page("demo")).files))
    assert counts == [1, 1, 2]
    assert [request.status for request in fake_index.requests] == [200, 304, 200]


def test_page_that_must_not_be_stored_is_not(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.cache_control = "no-store"
    fake_index.add_wheel("demo", "1.0")
    with client_of(fake_index, cache=tmp_path) as client:
        assert client.page(main_page("demo")).found
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_metadata_read_from_a_wheel_is_kept(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.add_wheel("demo", "1.0", sidecar="absent")
    for _ in range(2):
        with client_of(fake_index, cache=tmp_path) as client:
            client.metadata(only_file(client, main_page("demo")))
    assert len(fake_index.paths(containing=".whl")) == 1


def test_replaced_file_is_read_anew(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.hashes = False
    seen = []
    for requirement in ("torch", "numpy"):
        fake_index.files.clear()
        fake_index.add_wheel("demo", "1.0", sidecar="absent", requires=[requirement], upload_time=None)
        with client_of(fake_index, cache=tmp_path) as client:
            seen.append(str(client.metadata(only_file(client, main_page("demo"))).requires[0]))
    assert seen == ["torch", "numpy"]


def test_offline_answers_from_the_cache_alone(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.add_wheel("demo", "1.0", requires=["torch"])
    fake_index.add_wheel("ranged", "1.0", sidecar="absent")
    with client_of(fake_index, cache=tmp_path) as client:
        for name in ("demo", "ranged"):
            client.metadata(only_file(client, main_page(name)))
        client.page(pytorch_page("demo", "cu128"))
    before = len(fake_index.requests)
    with client_of(fake_index, cache=tmp_path, offline=True) as client:
        client.prefetch(pages=[main_page("other")])
        for name in ("demo", "ranged"):
            assert client.metadata(only_file(client, main_page(name))).name == name
        assert not client.page(pytorch_page("demo", "cu128")).found
        with pytest.raises(TransportError) as caught:
            client.page(main_page("other"))
        assert caught.value.code == "index-offline-miss"
        with pytest.raises(TransportError) as caught:
            client.open(only_file(client, main_page("demo")))
        assert caught.value.code == "index-offline-miss"
    assert len(fake_index.requests) == before


def test_parts_of_a_file_are_kept(fake_index: FakeIndex, tmp_path: Path) -> None:
    files = {"demo/a.bin": bytes(range(256)) * 9_000, "demo/b.bin": bytes(range(256)) * 9_000}
    fake_index.add_wheel("demo", "1.0", files=files, stored=True)
    for offline in (False, False, True):
        with client_of(fake_index, cache=tmp_path, offline=offline) as client:
            file = only_file(client, main_page("demo"))
            with client.open(file) as remote, zipfile.ZipFile(remote) as archive:
                assert archive.read("demo/b.bin") == files["demo/b.bin"]
                if offline:
                    with pytest.raises(TransportError) as caught:
                        archive.read("demo/a.bin")
                    assert caught.value.code == "index-offline-miss"
    assert len(fake_index.paths(containing=".whl")) == 2


def test_parts_of_a_file_without_a_hash_are_not_kept(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.hashes = False
    fake_index.add_wheel("demo", "1.0")
    for _ in range(2):
        with (
            client_of(fake_index, cache=tmp_path) as client,
            client.open(only_file(client, main_page("demo"))) as remote,
        ):
            assert remote.read(2) == b"PK"
    assert len(fake_index.paths(containing=".whl")) == 2


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage", "directory"])
def test_damaged_cache_counts_as_absent(fake_index: FakeIndex, tmp_path: Path, damage: str) -> None:
    fake_index.cache_control = "max-age=600"
    fake_index.add_wheel("demo", "1.0", requires=["torch"])
    with client_of(fake_index, cache=tmp_path) as client:
        client.metadata(only_file(client, main_page("demo")))
    files = entries(tmp_path)
    assert len(files) == 2
    for path in files:
        content = path.read_bytes()
        if damage == "directory":
            path.unlink()
            path.mkdir()
            continue
        middle = content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]
        path.write_bytes({"truncate": content[:-3], "flip": middle, "empty": b"", "garbage": os.urandom(500)}[damage])
    with client_of(fake_index, cache=tmp_path) as client:
        assert [str(line) for line in client.metadata(only_file(client, main_page("demo"))).requires] == ["torch"]
    assert len(fake_index.requests) == 4


def test_cache_that_cannot_be_written_is_not_fatal(fake_index: FakeIndex, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    fake_index.add_wheel("demo", "1.0")
    with client_of(fake_index, cache=tmp_path / "cache") as client:
        assert client.metadata(only_file(client, main_page("demo"))).name == "demo"
    cache = DiskCache(tmp_path / "cache")
    cache.put("metadata", "key", b"value")
    assert cache.write_failure
    assert cache.get("metadata", "key") is None


def test_processes_share_one_cache(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from cudalock.index.cache import DiskCache
        cache = DiskCache(Path(sys.argv[1]))
        mark = sys.argv[2].encode()
        for number in range(150):
            cache.put("metadata", f"key {number % 5}", mark * 20_000)
            content = cache.get("metadata", f"key {number % 5}")
            assert content is not None and len(content) == 20_000 and len(set(content)) == 1
        assert cache.write_failure is None
        """
    )
    processes = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), mark]) for mark in "abc"]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert list(tmp_path.rglob("*.part")) == []


def test_warm_run_does_not_load_http(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.cache_control = "max-age=600"
    fake_index.add_wheel("demo", "1.0")
    with fake_index.serve():
        with client_of(fake_index, cache=tmp_path) as client:
            client.metadata(only_file(client, main_page("demo")))
        program = textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from cudalock.index import IndexClient, IndexSettings
            from cudalock.index.model import PageRef
            with IndexClient(IndexSettings(main_url=sys.argv[1], cache_dir=Path(sys.argv[2]))) as client:
                client.metadata(client.page(PageRef("main", "demo")).files[0])
            assert not {"httpx", "pip", "ssl", "sqlite3"} & set(sys.modules)
            """
        )
        subprocess.run([sys.executable, "-c", program, fake_index.main_url, str(tmp_path)], check=True)
    assert len(fake_index.requests) == 2


DAY = 86_400


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and len(path.name) == 62)


def age(path: Path, days: float) -> None:
    when = time.time() - days * DAY
    os.utime(path, (when, when))


def filled(folder: Path, *keys: str) -> DiskCache:
    cache = DiskCache(folder)
    for key in keys:
        cache.put("metadata", key, key.encode() * 1000)
    return cache


def test_what_was_not_used_for_long_goes_at_the_first_write_of_a_day(tmp_path: Path) -> None:
    for key in ("old", "used", "young"):
        before = set(entries(tmp_path))
        filled(tmp_path, key)
        (new,) = set(entries(tmp_path)) - before
        age(new, {"old": 100, "used": 80, "young": 2}[key])
    assert DiskCache(tmp_path).get("metadata", "used") is not None  # reading it is using it
    (abandoned,) = [entry.parent / ".abc.part" for entry in entries(tmp_path)[:1]]
    abandoned.write_bytes(b"half")
    age(abandoned, 3)
    filled(tmp_path, "today")  # the folder was looked after a moment ago
    assert DiskCache(tmp_path).get("metadata", "old") is not None and abandoned.exists()
    (old,) = [path for path in entries(tmp_path) if b'"key": "old"' in path.read_bytes()]
    age(old, 100)
    left = tmp_path / "index-0" / "pages" / "ab" / ("c" * 62)  # of a cudalock that kept its entries otherwise
    left.parent.mkdir(parents=True)
    left.write_bytes(b"?")
    age(left, 100)
    age(next(path for path in tmp_path.iterdir() if path.name != "index-0"), 1.1)
    filled(tmp_path, "tomorrow")
    cache = DiskCache(tmp_path)
    found = {key: cache.get("metadata", key) is not None for key in ("old", "used", "young", "today", "tomorrow")}
    assert found == {"old": False, "used": True, "young": True, "today": True, "tomorrow": True}
    assert not abandoned.exists() and not left.exists()


def test_the_oldest_go_when_it_is_too_much(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    for number in range(10):
        before = set(entries(tmp_path))
        cache.put("metadata", f"k{number}", b"x" * 10_000)
        (new,) = set(entries(tmp_path)) - before
        age(new, 20 - number)
    (folder,) = tmp_path.iterdir()
    (folder / "notes.txt").write_text("not of the cache" * 10_000)
    assert prune(folder, most_bytes=200_000) == 0
    assert prune(folder, most_bytes=80_000) == 5
    assert [number for number in range(10) if cache.get("metadata", f"k{number}")] == [5, 6, 7, 8, 9]
    assert (folder / "notes.txt").exists()


def test_pruning_while_others_read_write_and_prune(tmp_path: Path) -> None:
    """Whoever reads gets the whole entry or none; nobody fails."""
    program = textwrap.dedent(
        """
        import random, sys
        from pathlib import Path
        from cudalock.index.cache import DiskCache
        from cudalock.index.pruning import prune
        folder, chance = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
        cache = DiskCache(folder)
        for turn in range(300):
            key = f"key{chance.randrange(40)}"
            cache.put("metadata", key, key.encode() * 500)
            found = cache.get("metadata", f"key{chance.randrange(40)}")
            assert found is None or len(set(found.split(b"key"))) == 2, found
            if turn % 20 == 0:
                prune(next(folder.iterdir()), most_bytes=20_000)
        assert cache.write_failure is None, cache.write_failure
        """
    )
    jobs = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(number)], stderr=subprocess.PIPE)
        for number in range(3)
    ]
    for job in jobs:
        _, said = job.communicate(timeout=120)
        assert job.returncode == 0, said.decode()
