"""The routing header: an RFC 9651 dictionary such as ``node="mi300x-a", family="MI300X", queue_depth=3, attempt=1``."""

from __future__ import annotations

import re
from typing import Dict, NamedTuple, Optional, Tuple, Union

ROUTING_HEADER = "x-zml-routing"


class Routing(NamedTuple):
    """Where the gateway sent a request, and why. A member that is not known (yet) is ``None``."""

    node: Optional[str] = None
    """The chosen node."""
    policy: Optional[str] = None
    """The policy that was applied."""
    family: Optional[str] = None
    """The node's accelerator family."""
    decision: Optional[str] = None
    """The decision's id; ``client.decisions.explain`` takes it."""
    queue_depth: Optional[int] = None
    """Requests on the node at dispatch, without this one."""
    attempt: Optional[int] = None
    """1 for the first dispatch of the request; more: another node failed before."""
    reason: Optional[str] = None
    """Why this node, or why none: a word of the gateway's closed list."""
    hint: Optional[str] = None
    """``"used"`` or ``"unused"`` if the call wished for an accelerator."""


class _Token(str):
    """A Token, which is another type than a String."""

    __slots__ = ()


class _Other:
    """A value of a type that the routing header does not use; it is only skipped over."""


_Item = Union[str, int, _Other]
_OTHER = _Other()

# One pattern per production of RFC 9651; each is matched where the last one ended.
_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_NUMBER = re.compile(r"-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})(?![0-9.])")
_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*")
_BYTES_BOOLEAN_DATE_DISPLAY = re.compile(
    r':[A-Za-z0-9+/=]*:|\?[01]|@-?[0-9]{1,15}(?![0-9.])|%"(?:[ !#$&-~]|%[0-9a-f]{2})*"'
)
_BLANKS = re.compile(r"[ \t]*")
_SPACES = re.compile(r" *")
_ESCAPED = re.compile(r"\\(.)")


def parse_routing(value: Optional[str]) -> Optional[Routing]:
    """Reads the header's value.

    Members that are unknown, have parameters or another type don't disturb the others; a later member of the same
    name wins. ``None`` when there is no header, or when it is no dictionary at all: then an older gateway or another
    server answered.
    """
    if value is None:
        return None
    members = _parse_dictionary(value)
    if members is None:
        return None
    hint = _token(members, "hint")
    return Routing(
        node=_string(members, "node"),
        policy=_string(members, "policy"),
        family=_string(members, "family"),
        decision=_string(members, "decision"),
        queue_depth=_count(members, "queue_depth"),
        attempt=_count(members, "attempt"),
        reason=_token(members, "reason"),
        hint=hint if hint in ("used", "unused") else None,
    )


def _string(members: Dict[str, _Item], key: str) -> Optional[str]:
    item = members.get(key)
    return item if isinstance(item, str) and not isinstance(item, _Token) else None


def _token(members: Dict[str, _Item], key: str) -> Optional[str]:
    item = members.get(key)
    return str(item) if isinstance(item, _Token) else None


def _count(members: Dict[str, _Item], key: str) -> Optional[int]:
    item = members.get(key)
    return item if isinstance(item, int) and item >= 0 else None


def _parse_dictionary(source: str) -> Optional[Dict[str, _Item]]:
    members: Dict[str, _Item] = {}
    source = source.strip(" ")
    at = 0
    while at < len(source):
        key = _KEY.match(source, at)
        if key is None:
            return None
        at = key.end()
        item: _Item = _OTHER  # a key alone is the Boolean true
        if source.startswith("=", at):
            member = _parse_member(source, at + 1)
            if member is None:
                return None
            item, at = member
        end = _skip_parameters(source, at)
        if end is None:
            return None
        members[key.group()] = item
        at = _end_of(_BLANKS, source, end)
        if at == len(source):
            return members
        if source[at] != ",":
            return None
        at = _end_of(_BLANKS, source, at + 1)
        if at == len(source):
            return None  # a comma with nothing after it
    return members


def _parse_member(source: str, at: int) -> Optional[Tuple[_Item, int]]:
    if not source.startswith("(", at):
        return _parse_bare_item(source, at)
    end = _skip_inner_list(source, at + 1)
    return None if end is None else (_OTHER, end)


def _parse_bare_item(source: str, at: int) -> Optional[Tuple[_Item, int]]:
    match = _STRING.match(source, at)
    if match is not None:
        return _ESCAPED.sub(r"\1", match.group(1)), match.end()
    match = _NUMBER.match(source, at)
    if match is not None:
        text = match.group()
        return (_OTHER if "." in text else int(text)), match.end()
    match = _TOKEN.match(source, at)
    if match is not None:
        return _Token(match.group()), match.end()
    match = _BYTES_BOOLEAN_DATE_DISPLAY.match(source, at)
    return None if match is None else (_OTHER, match.end())


def _skip_inner_list(source: str, at: int) -> Optional[int]:
    at = _end_of(_SPACES, source, at)
    while not source.startswith(")", at):
        item = _parse_bare_item(source, at)
        end = None if item is None else _skip_parameters(source, item[1])
        if end is None:
            return None
        at = _end_of(_SPACES, source, end)
        # items are parted by spaces; without one only the end of the list may follow
        if at == end and not source.startswith(")", at):
            return None
    return at + 1


def _skip_parameters(source: str, at: int) -> Optional[int]:
    while source.startswith(";", at):
        key = _KEY.match(source, _end_of(_SPACES, source, at + 1))
        if key is None:
            return None
        at = key.end()
        if source.startswith("=", at):
            item = _parse_bare_item(source, at + 1)
            if item is None:
                return None
            at = item[1]
    return at


def _end_of(pattern: "re.Pattern[str]", source: str, at: int) -> int:
    match = pattern.match(source, at)
    return at if match is None else match.end()
