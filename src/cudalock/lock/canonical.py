"""The digest of a lock: over what the document says, not over how it is laid out. Against accident, not attack."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["digest_of"]


def digest_of(document: Mapping[str, Any]) -> str:
    """``sha256:...`` of a whole ``pylock.toml`` as parsed, its own ``tool.cudalock.digest`` left out.

    Comments, spacing and the order of keys do not count; the order of lists and every value do.
    """
    content = dict(document)
    tool = content.get("tool")
    if isinstance(tool, Mapping) and isinstance(ours := tool.get("cudalock"), Mapping):
        content["tool"] = {**tool, "cudalock": {key: value for key, value in ours.items() if key != "digest"}}
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=_text)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _text(value: object) -> str:
    """What JSON does not know: dates and times, in one form whatever the document's."""
    isoformat = getattr(value, "isoformat", None)
    return f"{type(value).__name__}:{isoformat() if isoformat else value}"
