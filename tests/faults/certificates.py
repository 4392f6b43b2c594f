"""A certificate authority and a server's certificate, made with openssl for one test run."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Certificates", "make_certificates"]


@dataclass(frozen=True)
class Certificates:
    """Files in PEM form: the authority, and chain and key of a server on 127.0.0.1 and localhost."""

    authority: Path
    chain: Path
    key: Path


def make_certificates(folder: Path) -> Certificates | None:
    """None where there is no openssl."""
    openssl = shutil.which("openssl")
    if openssl is None:
        return None
    ca, ca_key, key, request, chain = (
        folder / name for name in ("ca.pem", "ca.key", "key.pem", "csr.pem", "chain.pem")
    )
    (folder / "san.txt").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")

    def run(*arguments: str | Path) -> None:
        subprocess.run([openssl, *map(str, arguments)], check=True, capture_output=True)

    run("req", "-x509", *curve, "-keyout", ca_key, "-out", ca, "-subj", "/CN=an authority for one test", "-days", "2",
        "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip
    run("req", *curve, "-keyout", key, "-out", request, "-subj", "/CN=127.0.0.1")
    run("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-out", chain, "-days", "2",
        "-extfile", folder / "san.txt")  # fmt: skip
    return Certificates(ca, chain, key)
