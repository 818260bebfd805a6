"""What the head of an answer says."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Tuple

from ._routing import ROUTING_HEADER, Routing, parse_routing


_REQUEST_ID_HEADER = "x-request-id"
_CONTENT_TYPE_HEADER = "content-type"
_KEPT = (ROUTING_HEADER, _REQUEST_ID_HEADER, _CONTENT_TYPE_HEADER)


class Credential(NamedTuple):
    """The key that a call is made with."""

    key: Optional[str]
    argument: str
    """What it is called where it is given."""

    def taken_out_of(self, text: str) -> str:
        """The text without the key: some servers repeat it in what they say."""
        # shorter ones are no secrets, but words such as "none" that stand in for one
        return text.replace(self.key, "[key]") if self.key is not None and len(self.key) >= 8 else text


class Head:
    """Status and headers of an answer; the routing header is read when somebody asks."""

    __slots__ = ("_is_parsed", "_routing", "credential", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], credential: Credential) -> None:
        self.status = status
        self.headers = headers
        """Looked up by lower-case name."""
        self.credential = credential
        """What the call was made with."""
        self._routing: Optional[Routing] = None
        self._is_parsed = False

    def __reduce__(self) -> Tuple[Any, ...]:
        # answers are pickled into caches and other processes: without the key, and without cookies
        kept = {name: self.headers[name] for name in _KEPT if name in self.headers}
        return Head, (self.status, kept, self.credential._replace(key=None))

    @property
    def routing(self) -> Optional[Routing]:
        if not self._is_parsed:
            self._routing = parse_routing(self.headers.get(ROUTING_HEADER))
            self._is_parsed = True
        return self._routing

    @property
    def request_id(self) -> Optional[str]:
        return self.headers.get(_REQUEST_ID_HEADER)

    @property
    def content_type(self) -> Optional[str]:
        return self.headers.get(_CONTENT_TYPE_HEADER)
