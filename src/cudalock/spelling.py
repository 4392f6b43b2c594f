"""What a misspelt word may have been meant to be."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["near_words"]


def near_words(word: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The known words most like ``word``, best first, at most ``most``; ``cutoff`` (0..1) is how alike they must be."""
    from difflib import get_close_matches  # only misspellings need it

    return get_close_matches(word, list(known), most, cutoff)
