"""Bad tables give typed errors that name file, section and row; an own folder of tables is honoured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cudalock import facts
from cudalock.facts.loader import data_directories, read_table
from cudalock.versions import CudaVersion, DriverVersion

SHIPPED = data_directories()[-1]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own folder of tables, empty: what is not in it comes from the shipped ones."""
    monkeypatch.setenv("CUDALOCK_DATA_DIR", str(tmp_path))
    facts.forget_tables()
    yield tmp_path
    monkeypatch.undo()
    facts.forget_tables()


def _spoil(own: Path, name: str, old: str, new: str) -> None:
    text = (SHIPPED / f"{name}.toml").read_text(encoding="utf-8")
    assert old in text
    (own / f"{name}.toml").write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[row", "is not valid TOML"),
        ('[[row]]\nsource = "A"\n', "row row 1: source 'A' is not listed"),
        ('row = [1]\n[sources]\nA = "a"\n', "row row 1: must be a table"),
        ('[[row]]\nname = "x"\n[sources]\nA = "a"\n', "row row 1: source None is not listed"),
        ("[sources]\nA = 1\n", "must map keys to texts"),
        ("sources = 3\n", "must map keys to texts"),
    ],
)
def test_malformed_tables(text: str, says: str) -> None:
    with pytest.raises(facts.FactsError) as raised:
        read_table(text, "some.toml")
    assert says in raised.value.message
    assert "some.toml" in raised.value.message
    assert raised.value.code == "facts-table-invalid"
    assert raised.value.exit_status == 2


ROW = '[[row]]\nsource = "A"\nname = "x"\ncount = 3\nlist = ["a"]\nflag = true\nempty = ""\n[sources]\nA = "a"\n'


def test_rows_are_read_with_a_check_of_their_types() -> None:
    row = read_table(ROW, "some.toml").rows("row")[0]
    assert (row.text("name"), row.number("count"), row.texts("list"), row.flag("flag")) == ("x", 3, ("a",), True)
    assert row.text_or_none("empty") is None
    assert row.number_or_none("absent") is None
    assert row.source == "a"
    for read in (
        lambda: row.text("count"), lambda: row.text("empty"), lambda: row.number("flag"), lambda: row.texts("name"),
        lambda: row.flag("name"), lambda: row.numbers("list"), lambda: list(row.lists("list")),
        lambda: row.parsed("name", CudaVersion.parse), lambda: row.source_of("B"),
    ):  # fmt: skip
        with pytest.raises(facts.FactsError, match=r"some\.toml, row row 1: "):
            read()


def test_missing_sections_and_duplicates() -> None:
    content = read_table(ROW.replace("[sources]", '[[row]]\nsource = "A"\nname = "x"\n[sources]'), "some.toml")
    with pytest.raises(facts.FactsError, match=r"row row 2: x stands in row row 1 already"):
        content.by_key("row", lambda row: row.text("name"))
    with pytest.raises(facts.FactsError, match=r"rows \[\[other\]\] are missing"):
        content.rows("other")
    with pytest.raises(facts.FactsError, match=r"section \[other\] is missing"):
        content.section("other")


BAD: list[tuple[str, str, str, Callable[[], object], str]] = [
    ("drivers", 'linux = "580.65.06", windows = "580"', 'linux = "new"', lambda: facts.driver_floor(13, "linux"), "floor row 1"),
    ("drivers", "branch = 580,", "branch = 590,", lambda: facts.branches("linux"), "590 stands in branch row"),
    ("drivers", 'cuda = "13.1"', 'cuda = "9.0"', lambda: facts.branches("linux"), "out of order"),
    ("architectures", 'module = "open"', 'module = "magic"', facts.driver_ranges, "unknown kernel module"),
    ("architectures", '"7.2"', '"7.0"', facts.driver_ranges, "7.0 stands in two rows"),
    ("ptx", 'isa = "9.0"', 'isa = "nine"', lambda: facts.ptx_isa(CudaVersion(13, 0)), "isa row"),
    ("triton", ", blackwell_from = 90", "", facts.triton_rows, "go together"),
    ("triton", '"3.9.0"', '"3.8.0"', facts.triton_rows, "3.8.0 stands in two rows"),
    ("torch", '["main", "linux-x86_64", "13.2"', '["main", "linux-mips", "13.2"', facts.torch_rows, "unknown platform"),
    ("torch", '"37 50 60 70 75 80 86", "wheel"', '"37 50 sixty", "wheel"', facts.torch_rows, "release row 1: not an arch"),
    ("torch", '"wheel", "BINARY"', '"guess", "BINARY"', facts.torch_rows, "unknown evidence"),
    ("torch", '"wheel", "BINARY"', '"wheel", "NOWHERE"', facts.torch_rows, "NOWHERE"),
    ("torch", '["cu117", "linux-x86_64"', '["cu116", "linux-x86_64"', facts.torch_rows, "twice"),
    ("torch", '["cu117", "linux-x86_64"', '["cu118", "linux-x86_64"', facts.torch_rows, "does not fit CUDA"),
    ("torch", 'version = "1.13.0"', 'version = "one"', facts.torch_rows, "release row 1"),
    ("torch", '"inferred", "BUILDER-2.1", "sm37"', '"inferred", "BUILDER-2.1", "lost"', facts.torch_rows, "'lost'"),
    ("labels", 'first = "2.6.0"', 'first = "?"', facts.labels, "label row"),
    ("products", 'kind = "geforce"', 'kind = "toy"', facts.product_names, "unknown kind"),
    ("products", "GeForce RTX 4090\n", "GeForce RTX 4080\n", facts.product_names, "already"),
    ("companions", '"==2.0.0"', '"two"', facts.companions, "companion row 1"),
    ("companions", 'mismatch = "error"', 'mismatch = "maybe"', facts.companions, "unknown mismatch"),
    ("nccl", '"==2.17.1"', '"2.17.1"', facts.nccl_known_bad, "nccl row 1"),
    ("nccl", 'strength = "issue"', 'strength = "rumour"', facts.nccl_known_bad, "unknown strength"),
    ("findings", 'severity = "error"', 'severity = "fatal"', facts.finding_codes, "unknown severity"),
    ("forward_compat", 'cuda = "13.4"', 'cuda = "13.3"', facts.forward_compat, "stands in matrix row"),
    ("routes", 'name = "torchvision"', 'name = "torch"', facts.torch_family, "route row 2"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "read", "says"), BAD)
def test_bad_rows_are_named(own: Path, name: str, old: str, new: str, read: Callable[[], object], says: str) -> None:
    _spoil(own, name, old, new)
    with pytest.raises(facts.FactsError) as raised:
        read()
    assert says in raised.value.message
    assert f"{name}.toml" in raised.value.message
    assert f"{name}.toml" in (raised.value.hint or "")


def test_own_table_wins_file_by_file(own: Path) -> None:
    before = facts.tables_digest()
    _spoil(own, "drivers", 'linux = "525.60.13"', 'linux = "530.30.02"')
    facts.forget_tables()
    assert facts.driver_floor(12, "linux") == DriverVersion("530.30.02")
    assert facts.find_product("H100").capabilities
    assert facts.tables_digest() != before


def test_missing_table_is_a_typed_error(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cudalock.facts import loader

    with pytest.raises(facts.FactsError, match=r"nothing\.toml is missing"):
        loader.table("nothing")


def test_table_that_is_no_text_is_a_typed_error(own: Path) -> None:
    (own / "nccl.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(facts.FactsError, match=r"nccl\.toml cannot be read"):
        facts.nccl_known_bad()
