"""What the head of an answer says."""

from __future__ import annotations

from typing import Mapping, Optional

from ._routing import ROUTING_HEADER, Routing, parse_routing


class Head:
    """Status and headers of an answer; the routing header is read when somebody asks."""

    __slots__ = ("_is_parsed", "_routing", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        """Looked up by lower-case name."""
        self._routing: Optional[Routing] = None
        self._is_parsed = False

    @property
    def routing(self) -> Optional[Routing]:
        if not self._is_parsed:
            self._routing = parse_routing(self.headers.get(ROUTING_HEADER))
            self._is_parsed = True
        return self._routing

    @property
    def request_id(self) -> Optional[str]:
        return self.headers.get("x-request-id")

    @property
    def content_type(self) -> Optional[str]:
        return self.headers.get("content-type")
