"""What can go wrong with a request, in our words, and what of it passes by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from cudalock.errors import TransportError
from cudalock.index.simple import shown_url

__all__ = ["Retry", "offline_miss", "retry_after", "translated", "unreachable"]


class Retry(Exception):  # noqa: N818 - a signal inside the index package
    """The request may be repeated; ``error`` is what to raise when it was repeated often enough."""

    def __init__(self, error: TransportError, wait_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait_s = wait_s


@contextmanager
def translated(url: str, *, begun: bool = False) -> Iterator[None]:
    """Turns httpx's exceptions into ours; ``begun``: the answer has started."""
    try:
        yield
    except (Retry, TransportError):
        raise
    except Exception as error:
        import httpx

        ours = _translate(url, error, httpx, begun=begun)
        if ours is None:
            raise
        raise ours from None


def _translate(url: str, error: Exception, httpx: Any, *, begun: bool) -> Exception | None:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    if isinstance(error, (httpx.DecodingError, ValueError)):
        return TransportError(
            "index-truncated", f"the answer of {shown_url(url)} is damaged: {reason}",
            hint="try again; a proxy on the way may be at fault", details={"url": shown_url(url)},
        )  # fmt: skip
    if isinstance(error, httpx.TimeoutException):
        return Retry(unreachable(url, "it did not answer in time" if not begun else "it stopped sending"))
    if isinstance(error, httpx.TransportError):
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return TransportError(
                "index-certificate-untrusted",
                f"the certificate of {urlsplit(url).hostname} is not trusted: {reason}",
                hint="name your organisation's certificate bundle in SSL_CERT_FILE",
                details={"url": shown_url(url)},
            )
        if isinstance(error, httpx.UnsupportedProtocol):
            return unreachable(url, reason)
        if begun:
            return Retry(
                TransportError(
                    "index-truncated",
                    f"the answer of {shown_url(url)} breaks off: {reason}",
                    hint="try again; a proxy on the way may be at fault",
                    details={"url": shown_url(url)},
                )
            )
        return Retry(unreachable(url, reason))
    if isinstance(error, (httpx.InvalidURL, httpx.StreamError, OSError, RuntimeError)):
        return unreachable(url, reason)
    return None


def unreachable(url: str, reason: str) -> TransportError:
    """The error for an index that does not answer; ``reason`` completes the sentence."""
    return TransportError(
        "index-unreachable",
        f"{shown_url(url)} cannot be reached: {reason}",
        hint="check the network and HTTPS_PROXY, name a mirror with --index-url or --pytorch-index-url, "
        "or use --offline with what is cached",
        details={"url": shown_url(url)},
    )


def offline_miss(url: str) -> TransportError:
    """The error for what ``--offline`` would have to fetch."""
    return TransportError(
        "index-offline-miss",
        f"{shown_url(url)} is not in the cache, and --offline asks no index",
        hint="run the same command once without --offline",
        details={"url": shown_url(url)},
    )


def retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which is a number or a date."""
    if value is None:
        return None
    value = value.strip()
    if value.isdigit():
        return float(value[:9])
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
