"""Which certificates are trusted."""

from __future__ import annotations

import ssl
from pathlib import Path

from cudalock.errors import TransportError

__all__ = ["no_certificates", "trusted_certificates"]


def trusted_certificates(bundle: Path | None) -> ssl.SSLContext:
    """The system's certificates and certifi's, or the bundle that the user names for pip, httpx or requests."""
    context = ssl.create_default_context()
    try:
        if bundle is not None:
            folder = bundle.is_dir()
            context.load_verify_locations(capath=str(bundle)) if folder else context.load_verify_locations(str(bundle))
        else:
            import certifi

            context.load_verify_locations(certifi.where())
    except (OSError, ssl.SSLError) as error:
        raise TransportError(
            "index-certificate-untrusted",
            f"the certificate bundle {bundle} cannot be read: {error}",
            hint="mend PIP_CERT, SSL_CERT_FILE, REQUESTS_CA_BUNDLE or pip's cert setting",
        ) from None
    return context


def no_certificates() -> ssl.SSLContext:
    """Trusts nobody: for a client that is only given unencrypted URLs, so that an encrypted one would be refused."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
