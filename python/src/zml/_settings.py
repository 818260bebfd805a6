"""What a client is made with, checked once. Pure but for the environment."""

from __future__ import annotations

import math
import os
import re
from typing import Dict, Mapping, Optional, cast
from urllib.parse import SplitResult, urlsplit

from ._errors import ConfigurationError
from ._head import Credential
from ._version import __version__

DEFAULT_BASE_URL = "http://127.0.0.1:8080"
DEFAULT_ADMIN_URL = "http://127.0.0.1:8081"

USER_AGENT = f"zml-python/{__version__}"

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
_URL = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_KEY = re.compile(r"[!-~]+")


class Settings:
    """Complete and valid. Raises `ConfigurationError` when made of anything else; no text ever has a key in it."""

    __slots__ = (
        "admin_credential",
        "admin_headers",
        "admin_url",
        "base_url",
        "credential",
        "headers",
        "max_retries",
        "timeout_s",
    )

    def __init__(
        self,
        *,
        base_url: Optional[str],
        api_key: Optional[str],
        admin_url: Optional[str],
        admin_key: Optional[str],
        timeout: float,
        max_retries: int,
        default_headers: Optional[Mapping[str, str]],
    ) -> None:
        self.base_url = _url("base_url", base_url, "ZML_BASE_URL", DEFAULT_BASE_URL, "/v1")
        self.admin_url = _url("admin_url", admin_url, "ZML_ADMIN_URL", DEFAULT_ADMIN_URL, "/admin/v1")
        self.timeout_s = checked_timeout(timeout)
        self.max_retries = checked_retries(max_retries)
        common = {"user-agent": USER_AGENT, **checked_headers("default_headers", default_headers)}
        self.credential = _credential("api_key", api_key, "ZML_API_KEY")
        self.headers = _with_key(common, self.credential.key)
        self.admin_credential = _credential("admin_key", admin_key, "ZML_ADMIN_KEY")
        self.admin_headers = _with_key(common, self.admin_credential.key)

    @property
    def shown_url(self) -> str:
        """The base URL without a user and a password."""
        scheme, _, rest = self.base_url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"


def checked_http_client(value: object, kind: type) -> None:
    """Raises `ConfigurationError` for a client of another kind; the blocking one and the other are easily mixed up."""
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"http_client is a {type(value).__name__}: give an httpx.{kind.__name__}")


def checked_timeout(value: object) -> float:
    """Seconds of a deadline. Raises `ConfigurationError`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ConfigurationError(f"timeout is {value!r}: give the seconds that a call may take, more than 0")
    # what sockets can be told: some hundred years overflow
    return min(float(value), 10_000_000.0)


def checked_retries(value: object) -> int:
    """A count of retries. Raises `ConfigurationError`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigurationError(f"max_retries is {value!r}: give a whole number, 0 for none")
    return value


def checked_headers(argument: str, headers: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """Headers by lower-case name. Raises `ConfigurationError`, which names the header and never its value."""
    checked: Dict[str, str] = {}
    given = cast("object", headers)
    if given is not None and not isinstance(given, Mapping):
        raise ConfigurationError(f"{argument} is a {type(given).__name__}: give a mapping of names to values")
    for name, value in cast("Mapping[object, object]", headers or {}).items():
        if not isinstance(name, str) or _HEADER_NAME.fullmatch(name) is None:
            raise ConfigurationError(f"{argument} has {name!r}, which is no name of a header")
        checked[name.lower()] = checked_header_value(f"{argument}[{name!r}]", value)
    return checked


def checked_header_value(argument: str, value: object) -> str:
    """A text that may stand in a header. Raises `ConfigurationError`, without the value."""
    if not isinstance(value, str) or _HEADER_VALUE.fullmatch(value) is None:
        raise ConfigurationError(f"{argument} can't stand in a header: give a text of printable ASCII characters")
    return value.strip()


def _with_key(headers: Dict[str, str], key: Optional[str]) -> Dict[str, str]:
    return headers if key is None else {"authorization": f"Bearer {key}", **headers}


def _credential(argument: str, value: Optional[str], variable: str) -> Credential:
    named = f"{argument} (or {variable})"
    key = os.environ.get(variable, "") if value is None else value
    if key == "":
        return Credential(None, named)
    if _KEY.fullmatch(key) is None:
        raise ConfigurationError(f"{named} has blanks, line ends or characters beyond ASCII: give the key alone")
    return Credential(key, named)


def _url(argument: str, value: Optional[str], variable: str, default: str, suffix: str) -> str:
    """Scheme, host, port and path prefix, without a slash at the end."""
    if value is None:
        given, argument = os.environ.get(variable) or default, f"{argument} (or {variable})"
    else:
        given = value
    text = given.strip()
    parts = _split(text)
    if parts is None:
        shown = "a URL that is not shown, as it has a password" if "@" in text else repr(given)
        raise ConfigurationError(f"{argument} is {shown}: give an http:// or https:// URL such as {default}")
    path = parts.path.rstrip("/")
    if path.endswith(suffix):
        path = path[: -len(suffix)].rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _split(text: str) -> Optional[SplitResult]:
    """``None`` unless it is an http(s) URL with a host and nothing after its path."""
    if _URL.fullmatch(text) is None:
        return None
    try:
        parts = urlsplit(text)
        is_usable = bool(parts.hostname) and parts.port != 0 and not parts.query and not parts.fragment
    except ValueError:
        return None
    return parts if is_usable else None
