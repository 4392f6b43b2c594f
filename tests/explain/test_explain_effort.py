"""How much work a log costs, counted in expressions tried and lines read closely, not in seconds."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable

import pytest

from cudalock.explain import explain
from cudalock.explain.matching import Scan
from cudalock.explain.reading import LONGEST_TEXT, blocks_of, lines_of
from cudalock.explain.required import in_lower_case, needed_by, stands_in
from cudalock.explain.sieve import Sieve, squashed
from cudalock.facts.explanations import Pattern, explanations

ROWS = explanations()
NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
TRACEBACK = (
    f'Traceback (most recent call last):\n  File "/app/train.py", line 41, in main\n    x = model(x)\n{NO_IMAGE}\n'
)
NEAR_MISSES = (
    "ImportError: /usr/lib/libfoo.so: undefined symbol: foo_bar",
    "ModuleNotFoundError: No module named 'my_project.utils'",
    "libcudart.so is loaded from /usr/local",
    "see download.pytorch.org for more",
    "[Errno 2] No such file",
    "the command returned non-zero exit status",
)


def words(number: int) -> str:
    source = random.Random(number)
    return " ".join("".join(source.choices("ghijklmnopqrstuvwxyz", k=6)) for _ in range(4))


def scan(text: str) -> Scan:
    found = Scan(ROWS)
    for _ in found.read(0, "log", io.BytesIO(text.encode())):
        pass
    return found


@pytest.mark.parametrize("near_miss", NEAR_MISSES)
def test_lines_that_only_hold_a_literal_need_no_expression(near_miss: str) -> None:
    lines = [f"{words(number)} {near_miss} {words(-number)}" for number in range(3_000)]
    assert scan("\n".join(lines)).searches <= 40
    found = scan("\n".join([*lines, NO_IMAGE]))
    assert found.matches["no-kernel-image"].place.line == 3_001


def test_a_near_miss_in_one_endless_line_needs_few() -> None:
    text = " ".join(f"{words(number)} {NEAR_MISSES[number % len(NEAR_MISSES)]}" for number in range(9_000))
    found = scan(f"{text} {NO_IMAGE} {text}")
    assert found.searches < 900
    assert (found.matches["no-kernel-image"].place.line, found.matches["no-kernel-image"].count) == (1, 1)


def test_a_repeated_traceback_is_counted_and_its_first_place_told() -> None:
    (few,), (many,) = (explain([("log", io.BytesIO((TRACEBACK * n).encode()))]).findings for n in (100, 30_000))
    assert few.evidence["count"] == 100
    assert many.evidence["count"] >= 500
    assert few.evidence["where"] == many.evidence["where"] == "log:4"
    assert scan(TRACEBACK * 30_000).searches <= scan(TRACEBACK * 3_000).searches < 9_000


def fresh_after(learned: Iterable[str], then: Iterable[str]) -> int:
    sieve = Sieve({text for row in ROWS for text in row.literals})
    sieve.learn(sieve.fresh("\n".join(learned).encode()), 1, ())
    return len(sieve.fresh("\n".join(then).encode()).lines)


def test_lines_that_differ_in_numbers_only_are_read_once() -> None:
    source = random.Random(5)

    def line(number: int) -> str:
        return f"step {number} loss {source.random()} at 0x{source.getrandbits(48):x} {number * 3.7e-9}"

    assert fresh_after(map(line, range(2_000)), map(line, range(10_000, 90_000, 10))) < 240


@pytest.mark.parametrize(
    ("learned", "telling"),
    [
        ("OSError: [Errno 13] x: '/a/b'", "OSError: [Errno 116] x: '/a/b'"),
        ("cuInit returned error 700", "cuInit returned error 80"),
        ("cuInit returned error 800", "cuInit returned error 804"),
        ("GPU util: 45%", "GPU util: 0%"),
        ("GPU util: 45 %", "GPU util: 0 %"),
        ("download.pytorch.org answered 200", "download.pytorch.org answered 403"),
        ("GPU with CUDA capability 9.0", "GPU with CUDA capability 6.1"),
    ],
)
def test_numbers_that_tell_something_are_not_folded(learned: str, telling: str) -> None:
    assert fresh_after([learned], [learned]) == 0
    assert fresh_after([learned], [telling]) == 1


def test_what_the_sieve_remembers_is_bounded() -> None:
    sieve = Sieve({text for row in ROWS for text in row.literals})
    for start in range(0, 60_000, 2_000):
        text = "\n".join(f"{words(number)} {'x' * 900}" for number in range(start, start + 2_000))
        sieve.learn(sieve.fresh(text.encode()), 1, ())
        assert sum(map(len, sieve._known)) < 16 * 1024 * 1024


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_an_expression_demands_is_in_all_that_it_matches(row: Pattern) -> None:
    for expression in row.expressions:
        needed = needed_by(expression.pattern)
        assert needed, f"{expression.pattern} is tried on every line that holds a literal"
        for text in row.samples:
            lowered = in_lower_case(expression.pattern).search(text.lower())
            match = expression.search(text)
            assert (match is None) == (lowered is None)
            if match is not None:
                whole = squashed(match[0])
                assert stands_in(needed, whole, 0, len(whole))


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        (r"a\.b\s*c", (("a.bc",),)),
        (r"(?:abc|DEF) .{0,4}ghi?", (("abc", "def"), ("gh",))),
        (r"(?:abc|\d+)xyz", (("xyz",),)),
        (r"ab(?:cd)?(?P<x>ef){2,3}gh", (("ab",), ("ef",), ("gh",))),
        (r"ab(?!cd)(?=ef)gh", (("abgh",),)),
        (r"['\"]ab[^]c]+de", (("ab",), ("de",))),
        (r"ab(?i:cd)", ()),
        (r"\w+", ()),
    ],
)
def test_what_an_expression_demands(pattern: str, needed: tuple[tuple[str, ...], ...]) -> None:
    assert needed_by(pattern) == needed


def test_a_long_line_is_read_in_pieces_and_a_message_over_their_border_is_found() -> None:
    for before in range(LONGEST_TEXT - 100, LONGEST_TEXT + 20, 7):
        text = "x" * before + " " + NO_IMAGE + " " + "y" * 9_000
        (block,) = blocks_of("log", io.BytesIO(text.encode()))
        lines = list(lines_of(block))
        assert max(len(line.text) for line in lines) <= LONGEST_TEXT
        assert "".join(line.text for line in lines) == text
        (finding,) = explain([("log", io.BytesIO(text.encode()))]).findings
        assert (finding.code, finding.evidence["count"]) == ("gpu-not-in-wheel", 1)
