"""Whether to try again, and when. Pure."""

from __future__ import annotations

from typing import Mapping, Optional

RETRIED_STATUSES = frozenset((408, 409, 429, 500, 502, 503, 504, 529))

_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 8.0
# Callers that failed together come back apart: each wait is shorter by up to this share.
_JITTER = 0.25


def should_retry_of(headers: Mapping[str, str]) -> Optional[bool]:
    """What ``x-should-retry`` says; ``None`` when it says nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def is_retried(status: int, headers: Mapping[str, str]) -> bool:
    """Whether an answer with this status (≥ 400) may be asked for again."""
    said = should_retry_of(headers)
    return status in RETRIED_STATUSES if said is None else said


def retry_after_s(headers: Mapping[str, str], now_s: float) -> Optional[float]:
    """Seconds that the server asks to wait: ``retry-after-ms``, else ``Retry-After`` as seconds or as an HTTP date.

    ``None`` when it says nothing that can be read. ``now_s``: wall time.
    """
    wait_ms = _number(headers.get("retry-after-ms"))
    if wait_ms is not None:
        return wait_ms / 1000
    value = headers.get("retry-after")
    wait_s = _number(value)
    if wait_s is not None or value is None:
        return wait_s
    # imported here: rarely needed, and a tenth of the import time of the package
    from datetime import timezone
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:  # "-0000": UTC whose local zone is not told
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, date.timestamp() - now_s)


def backoff_s(retries: int, chance: float) -> float:
    """The wait before another try when the server names none. ``retries``: how many there were; ``chance``: 0 to 1."""
    # the exponent is bounded as 2.0 ** 1024 overflows
    return min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(retries, 16)) * (1 - _JITTER * chance)


def _number(value: Optional[str]) -> Optional[float]:
    if value is None:
        return None
    text = value.strip()
    # float() would also take "inf", "nan", "1_0" and "1e9"
    if not text.replace(".", "", 1).isdigit() or not text.isascii():
        return None
    return float(text)
