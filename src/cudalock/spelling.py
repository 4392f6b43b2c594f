"""What a misspelt word may have been meant to be."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["is_slip_of", "near_words"]


def near_words(word: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The known words most like ``word``, best first, at most ``most``; ``cutoff`` (0..1) is how alike they must be."""
    from difflib import get_close_matches  # only misspellings need it

    return get_close_matches(word, list(known), most, cutoff)


def is_slip_of(word: str, known: str) -> bool:
    """Whether one letter was left out of ``known``, put in between, changed, or swapped with the next one.

    A word that only goes on where the other ends is none: many projects are named after another that they belong to.
    """
    if word == known or word.startswith(known) or abs(len(word) - len(known)) > 1:
        return False
    same = 0
    while same < min(len(word), len(known)) and word[same] == known[same]:
        same += 1
    rest, wanted = word[same:], known[same:]
    return (
        rest == wanted[1:] or rest[1:] == wanted or rest[1:] == wanted[1:] or rest[1:2] + rest[:1] + rest[2:] == wanted
    )
