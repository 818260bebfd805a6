"""One call, from its first try to its answer: what is sent, how long there is, whether to try again. No I/O."""

from __future__ import annotations

import ssl
from typing import Dict, Mapping, Optional, Union

import httpx

from ._errors import APIConnectionError, APITimeoutError, ConfigurationError, TLSError, ZMLError
from ._failures import format_error, redirect_error, status_error, with_head
from ._head import Credential, Head
from ._retry import backoff_s, is_retried, retry_after_s
from ._runtime import Runtime

# What httpx raises for what servers, networks and proxies do; the rest is the program's.
HTTPX_FAULTS = (httpx.TransportError, httpx.DecodingError, httpx.InvalidURL)

# A connection that takes longer is not coming: a SYN is sent again after 1, 3 and 7 s.
CONNECT_TIMEOUT_S = 10.0


class Call:
    """Made for each call of the application; its deadline runs from then on."""

    __slots__ = (
        "_deadline_s",
        "_max_retries",
        "_retries",
        "_runtime",
        "content",
        "credential",
        "headers",
        "method",
        "timeout_s",
        "timeouts",
        "url",
    )

    def __init__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: Optional[bytes],
        *,
        credential: Credential,
        timeout_s: float,
        max_retries: int,
        runtime: Runtime,
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.content = content
        self.credential = credential
        self.timeout_s = timeout_s
        self._max_retries = max_retries
        self._retries = 0
        self._runtime = runtime
        self._deadline_s = runtime.monotonic() + timeout_s
        self.timeouts: Dict[str, float] = {}
        """httpx reads them from the running request, so that they can be shortened on the way."""

    def remaining_s(self) -> float:
        """Until the deadline; negative after it."""
        return self._deadline_s - self._runtime.monotonic()

    def request(self, http: Union[httpx.Client, httpx.AsyncClient]) -> httpx.Request:
        """The next request. Raises `APITimeoutError` after the deadline, `ConfigurationError` for a closed client."""
        remaining_s = self.remaining_s()
        if remaining_s <= 0:
            raise self.timeout_error()
        if http.is_closed:
            raise ConfigurationError("the client is closed: make another one, or close it after its last call")
        self.timeouts = {
            "connect": min(remaining_s, CONNECT_TIMEOUT_S),
            "read": remaining_s,
            "write": remaining_s,
            "pool": remaining_s,
        }
        return http.build_request(
            self.method,
            self.url,
            headers=self.headers,
            content=self.content,
            extensions={"timeout": self.timeouts},
        )

    def shorten_reads(self) -> None:
        """Lets the next read take what is left. Raises `httpx.ReadTimeout` when that is nothing."""
        remaining_s = self.remaining_s()
        if remaining_s <= 0:
            raise httpx.ReadTimeout("the deadline passed")
        self.timeouts["read"] = remaining_s

    def after_fault(self, fault: Exception) -> float:
        """Seconds to wait before the next try. Raises the error of the call when there is none."""
        error = self.fault_error(fault)
        if not _is_worth_another_try(fault, error):
            raise error from _cause(fault)
        wait_s = self._next_wait_s(None)
        if wait_s is None:
            raise error from _cause(fault)
        return wait_s

    def after_status(self, head: Head, body: bytes) -> float:
        """The same for an answer that is no success."""
        if head.status < 400:
            raise redirect_error(head)
        now_s = self._runtime.now()
        if is_retried(head.status, head.headers):
            wait_s = self._next_wait_s(retry_after_s(head.headers, now_s))
            if wait_s is not None:
                return wait_s
        raise status_error(head, body, now_s)

    def timeout_error(self, head: Optional[Head] = None) -> APITimeoutError:
        """That the deadline passed."""
        error = APITimeoutError(
            f"no whole answer from {self.origin} within {self.timeout_s:g} s ({self._retries + 1} tries): "
            "raise timeout, or ask for less or for a stream"
        )
        return with_head(error, head)

    def silence_error(self, head: Head) -> APITimeoutError:
        """That a stream was silent for too long."""
        error = APITimeoutError(
            f"the stream of {self.origin} was silent for {self.timeout_s:g} s: ask again, or raise timeout"
        )
        return with_head(error, head)

    def fault_error(self, fault: Exception, head: Optional[Head] = None) -> ZMLError:
        """The error that says what httpx or the deadline says. ``head``: of the answer that had begun."""
        if isinstance(fault, httpx.ConnectTimeout):
            limit_s = min(CONNECT_TIMEOUT_S, self.timeout_s)
            return APITimeoutError(
                f"no connection to {self.origin} within {limit_s:g} s: check base_url, and that the gateway runs there"
            )
        if isinstance(fault, (httpx.TimeoutException, TimeoutError)):
            return self.timeout_error(head)
        if isinstance(fault, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
            return ConfigurationError(f"{self.origin} can't be called: give an http:// or https:// URL as base_url")
        handshake = _tls_cause(fault)
        if handshake is not None:
            return TLSError(f"no TLS connection to {self.origin}: {_tls_advice(handshake)}")
        if isinstance(fault, httpx.ConnectError):
            return APIConnectionError(
                f"no connection to {self.origin} ({fault}): check base_url, and that the gateway runs there"
            )
        if isinstance(fault, httpx.ProxyError):
            return APIConnectionError(f"the proxy on the way to {self.origin} failed: check HTTP_PROXY and NO_PROXY")
        if head is not None and isinstance(fault, httpx.DecodingError):
            return format_error(head, None, "what its content-encoding says")
        if head is not None:
            error = APIConnectionError(
                f"the answer of {self.origin} broke off ({type(fault).__name__}): try again; "
                "if it happens often, look at the gateway's log and at proxies in between"
            )
            return with_head(error, head)
        return APIConnectionError(
            f"the connection to {self.origin} broke before an answer came ({type(fault).__name__}): try again; if it "
            "happens always, no HTTP server is there, or one that expects https://"
        )

    @property
    def origin(self) -> str:
        """Scheme, host and port, without what the URL may have before them."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"

    def _next_wait_s(self, asked_s: Optional[float]) -> Optional[float]:
        """``None``: no try is left, or the wait is longer than what is left of the deadline."""
        if self._retries >= self._max_retries:
            return None
        wait_s = backoff_s(self._retries, self._runtime.chance()) if asked_s is None else asked_s
        if wait_s >= self.remaining_s():
            return None
        self._retries += 1
        return wait_s


def _is_worth_another_try(fault: Exception, error: ZMLError) -> bool:
    if isinstance(error, TLSError):
        # the same certificate will come again; a connection that broke in the handshake may not break again
        return isinstance(_tls_cause(fault), ssl.SSLEOFError)
    if isinstance(error, ConfigurationError) or isinstance(fault, httpx.LocalProtocolError):
        return False
    return isinstance(fault, httpx.TransportError)


def _cause(fault: Exception) -> Optional[Exception]:
    # its text quotes the header that is wrong, which may be the key
    return None if isinstance(fault, httpx.LocalProtocolError) else fault


def _tls_cause(fault: Optional[BaseException]) -> Optional[ssl.SSLError]:
    for _ in range(8):
        if fault is None or isinstance(fault, ssl.SSLError):
            return fault
        fault = fault.__cause__ or fault.__context__
    return None


def _tls_advice(handshake: ssl.SSLError) -> str:
    if isinstance(handshake, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({handshake.verify_message}): check the host name in base_url; for a "
            "private authority set SSL_CERT_FILE, or give http_client=httpx.Client(verify=…)"
        )
    if handshake.reason == "WRONG_VERSION_NUMBER":
        return "what is there speaks no TLS: use http:// in base_url, or turn TLS on there"
    return f"the handshake failed ({handshake.reason or 'it was cut'}): check that base_url names a server with TLS"
