"""The one reader of the tables in ``data/``.

A table is a TOML file with a ``[sources]`` section (key -> where the fact was read) and rows. Every row names one of
those keys as its ``source``. This module checks types, duplicates and sources, and says file, section and row where
something is wrong. What the rows mean is the business of the other modules of this package.

Tables are looked for in the folder that ``CUDALOCK_DATA_DIR`` names (file by file), then in the installed package,
then in ``data/`` of the source tree.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import tomli

from cudalock.errors import UsageError

__all__ = [
    "cached",
    "data_directories",
    "FactsError",
    "forget_tables",
    "read_table",
    "Row",
    "Table",
    "table",
    "table_names",
    "tables_digest",
]

_OVERRIDE = "CUDALOCK_DATA_DIR"
_PACKAGE = Path(__file__).resolve().parent.parent

P = ParamSpec("P")
T = TypeVar("T")

_caches: list[Callable[[], None]] = []


class FactsError(UsageError):
    """A table of facts is missing or malformed; the message names file, section and row."""

    def __init__(self, message: str, *, file: str) -> None:
        hint = f"restore {file}, or unset {_OVERRIDE} if it points to tables of your own"
        super().__init__("facts-table-invalid", message, hint=hint, details={"file": file})


def cached(function: Callable[P, T]) -> Callable[P, T]:
    """Like :func:`functools.cache`, but :func:`forget_tables` empties it as well."""
    remembered = functools.cache(function)
    _caches.append(remembered.cache_clear)
    return functools.update_wrapper(remembered, function)  # type: ignore[return-value]


def forget_tables() -> None:
    """Reads every table anew on next use: for tests and for a changed ``CUDALOCK_DATA_DIR``."""
    for clear in _caches:
        clear()


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, read key by key with a check of its type.

    Attributes:
        file: name of the table's file, for messages.
        place: section and number of the row, e.g. ``toolkit row 3``.
        values: what stands in it.
        sources: the table's sources, to resolve ``source``.
    """

    file: str
    place: str
    values: Mapping[str, Any]
    sources: Mapping[str, str]

    def fail(self, problem: str) -> NoReturn:
        """Raises :class:`FactsError` about this row."""
        raise FactsError(f"{self.file}, {self.place}: {problem}", file=self.file)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str) -> str:
        """The text under ``key``; an error if it is absent, empty or not text."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value:
            self.fail(f"{key!r} must be text, got {value!r}")
        return value

    def text_or_none(self, key: str) -> str | None:
        """The text under ``key``, None if it is absent or empty."""
        return self.text(key) if self.values.get(key, "") != "" else None

    def number(self, key: str) -> int:
        """The whole number under ``key``."""
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"{key!r} must be a whole number, got {value!r}")
        return value

    def number_or_none(self, key: str) -> int | None:
        """The whole number under ``key``, None if it is absent."""
        return self.number(key) if key in self.values else None

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false under ``key``."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.fail(f"{key!r} must be true or false, got {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts under ``key``; absent means empty."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(f"{key!r} must be a list of texts")
        return tuple(value)

    def numbers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers under ``key``; absent means empty."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
            self.fail(f"{key!r} must be a list of whole numbers")
        return tuple(value)

    def lists(self, key: str) -> Iterator[tuple[str, ...]]:
        """A list of lists of texts under ``key``; absent means empty."""
        value = self.values.get(key, [])
        if not isinstance(value, list):
            self.fail(f"{key!r} must be a list")
        for item in value:
            if not isinstance(item, list) or not all(isinstance(part, str) for part in item):
                self.fail(f"{key!r} must hold lists of texts, got {item!r}")
            yield tuple(item)

    def parsed(self, key: str, parse: Callable[[str], T]) -> T:
        """The text under ``key`` through ``parse``, whose ValueError becomes a :class:`FactsError`."""
        return self.parse(self.text(key), parse)

    def parsed_or_none(self, key: str, parse: Callable[[str], T]) -> T | None:
        """As :meth:`parsed`, None where the key is absent or empty."""
        value = self.text_or_none(key)
        return None if value is None else self.parse(value, parse)

    def parsed_list(self, key: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """Every text of the list under ``key`` through ``parse``."""
        return tuple(self.parse(text, parse) for text in self.texts(key))

    def parse(self, text: str, parse: Callable[[str], T]) -> T:
        """``parse(text)``; a ValueError becomes a :class:`FactsError` about this row."""
        try:
            return parse(text)
        except ValueError as error:
            self.fail(str(error))

    @property
    def source(self) -> str:
        """Where the fact was read, in words."""
        return self.sources[self.text("source")]

    def source_of(self, key: str) -> str:
        """The source with this key, an error if the table does not list it."""
        if key not in self.sources:
            self.fail(f"source {key!r} is not listed in [sources]")
        return self.sources[key]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as read: its file's name, its sources and its sections."""

    file: str
    sources: Mapping[str, str]
    content: Mapping[str, Any]

    def rows(self, section: str) -> tuple[Row, ...]:
        """The rows of ``[[section]]`` in the order of the file; an error if there are none."""
        value = self.content.get(section)
        if not isinstance(value, list) or not value:
            raise FactsError(f"{self.file}: rows [[{section}]] are missing", file=self.file)
        return tuple(
            Row(self.file, f"{section} row {number}", values, self.sources) for number, values in enumerate(value, 1)
        )

    def section(self, name: str) -> Row:
        """The single section ``[name]``."""
        value = self.content.get(name)
        if not isinstance(value, dict):
            raise FactsError(f"{self.file}: section [{name}] is missing", file=self.file)
        return Row(self.file, f"section {name}", value, self.sources)

    def by_key(self, section: str, key: Callable[[Row], T]) -> dict[T, Row]:
        """The rows of ``[[section]]`` by a key that must be unique."""
        found: dict[T, Row] = {}
        for row in self.rows(section):
            name = key(row)
            if name in found:
                row.fail(f"{name!s} stands in {found[name].place} already")
            found[name] = row
        return found


def data_directories() -> tuple[Path, ...]:
    """The folders in which tables are looked for, first match wins."""
    override = os.environ.get(_OVERRIDE)
    packaged = _PACKAGE / "_data"
    shipped = packaged if packaged.is_dir() else _PACKAGE.parent.parent / "data"
    return (Path(override), shipped) if override else (shipped,)


def table_names() -> tuple[str, ...]:
    """The names of all tables there are, without ``.toml``, sorted."""
    return tuple(sorted({path.stem for folder in data_directories() for path in folder.glob("*.toml")}))


def _path_of(name: str) -> Path:
    folders = data_directories()
    for folder in folders:
        path = folder / f"{name}.toml"
        if path.is_file():
            return path
    looked = " and ".join(str(folder) for folder in folders)
    raise FactsError(f"the table {name}.toml is missing in {looked}", file=f"{name}.toml")


def _rows_in(content: Mapping[str, Any]) -> Iterable[tuple[str, int, Any]]:
    for section, value in content.items():
        if isinstance(value, list):
            for number, row in enumerate(value, 1):
                yield section, number, row


def read_table(text: str, file: str) -> Table:
    """Parses and checks a table.

    Raises:
        FactsError: it is no TOML, a row is not a table, or a row's ``source`` is not listed in ``[sources]``.
    """
    try:
        content = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise FactsError(f"{file} is not valid TOML: {error}", file=file) from error
    sources = content.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(value, str) and value for value in sources.values()):
        raise FactsError(f"{file}: [sources] must map keys to texts", file=file)
    for section, number, row in _rows_in(content):
        place = f"{file}, {section} row {number}"
        if not isinstance(row, dict):
            raise FactsError(f"{place}: must be a table", file=file)
        source = row.get("source")
        if source not in sources:
            raise FactsError(f"{place}: source {source!r} is not listed in [sources]", file=file)
    return Table(file, sources, content)


@cached
def table(name: str) -> Table:
    """The table ``data/<name>.toml``, read once.

    Raises:
        FactsError: it is missing or malformed.
    """
    path = _path_of(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FactsError(f"{path} cannot be read: {error}", file=path.name) from error
    return read_table(text, path.name)


@cached
def tables_digest() -> str:
    """``sha256:`` and the digest over the names and bytes of all tables, in the order of their names."""
    digest = hashlib.sha256()
    for name in table_names():
        body = _path_of(name).read_bytes()
        digest.update(f"{name} {len(body)}\n".encode())
        digest.update(body)
    return f"sha256:{digest.hexdigest()}"
