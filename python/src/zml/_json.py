"""What a value of parsed JSON is."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, cast


def as_object(value: object) -> Optional[Dict[str, Any]]:
    """The value if it is an object."""
    return cast("Dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> Optional[List[Any]]:
    """The value if it is a list."""
    # twice, as the two type checkers disagree on what isinstance leaves
    return cast("List[Any]", cast("object", value)) if isinstance(value, list) else None


def as_text(value: object) -> Optional[str]:
    """The value if it is a text."""
    return value if isinstance(value, str) else None
