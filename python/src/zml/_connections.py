"""How many connections a client has, and for how long."""

import httpx

# As many calls at once as the operating system lets one process have sockets by default, in round numbers.
_MAX_CONNECTIONS = 1000
# The gateway closes an idle connection after 75 s. One that is used at that very moment would break, so ours go first.
_KEEP_ALIVE_S = 60.0
_MAX_IDLE_CONNECTIONS = 100

LIMITS = httpx.Limits(
    max_connections=_MAX_CONNECTIONS,
    max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
    keepalive_expiry=_KEEP_ALIVE_S,
)
