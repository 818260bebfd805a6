from __future__ import annotations

import os
import ssl
from pathlib import Path

import httpx
import pytest

_SSL = ssl.create_default_context()  # takes longer to make than most tests


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ZML_") and not name.startswith("ZML_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    """For a server at 127.0.0.1, with a certificate of an authority that only `client_tls` knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificates() / "server.pem")
    return context


@pytest.fixture
def client_tls() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(_certificates() / "authority.pem"))


def _certificates() -> Path:
    """Made by make_certificates.py, once for all interpreters."""
    return Path(os.environ["ZML_TEST_CERTIFICATES"])


def quick_client() -> httpx.Client:
    return httpx.Client(verify=_SSL)


def quick_async_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(verify=_SSL)
