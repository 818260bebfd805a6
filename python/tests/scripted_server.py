"""An HTTP/1.1 server on a raw socket that answers what a test says, byte by byte, and sees what the client does."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
import time
from typing import Callable, Dict, List, Optional

PATIENCE_S = 10.0


class Exchange:
    """One request, and the way to answer it."""

    def __init__(self, connection: socket.socket, number: int, head: bytes, body: bytes) -> None:
        self.connection = connection
        self.connection_number = number
        lines = head.decode("latin-1").split("\r\n")
        self.request_line = lines[0]
        self.headers: Dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        self.body = body
        self.closed = threading.Event()
        """The client closed the connection before the answer was written whole."""
        self.is_over = False

    def send(self, data: "bytes | str") -> None:
        """Flushed alone."""
        try:
            self.connection.sendall(data.encode("utf-8") if isinstance(data, str) else data)
        except OSError:
            self.closed.set()

    def answer(self, status: int = 200, body: "bytes | str" = b"", **headers: str) -> None:
        """A whole answer. ``_`` in a header's name stands for ``-``."""
        content = body.encode("utf-8") if isinstance(body, str) else body
        headers.setdefault("content_type", "application/json")
        self.send(head_of(status, {**headers, "content_length": str(len(content))}) + content)

    def stream(self, *pieces: "bytes | str", **headers: str) -> None:
        """Head and pieces of a chunked stream, without its end."""
        headers.setdefault("content_type", "text/event-stream")
        self.send(head_of(200, {**headers, "transfer_encoding": "chunked"}))
        for piece in pieces:
            self.piece(piece)

    def piece(self, data: "bytes | str") -> None:
        content = data.encode("utf-8") if isinstance(data, str) else data
        if content:
            self.send(b"%x\r\n%s\r\n" % (len(content), content))

    def end(self) -> None:
        """The end of a chunked body."""
        self.send(b"0\r\n\r\n")

    def cut(self) -> None:
        """Closes in the middle."""
        self.is_over = True
        self.connection.close()

    def reset(self) -> None:
        """Closes with a RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.cut()

    def wait_for_close(self) -> bool:
        """Whether the client closes the connection in time."""
        if self.closed.is_set():
            return True
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if not select.select([self.connection], [], [], 0.1)[0]:
                    continue
                if self.connection.recv(1024) == b"":
                    self.closed.set()
                    return True
            except ssl.SSLWantReadError:
                continue
            except (OSError, ValueError):  # also when the thread that serves it saw it first
                self.closed.set()
                return True
        return False


def head_of(status: int, headers: Dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


Play = Callable[[Exchange], None]


class ScriptedServer:
    """Plays one function per request, in order; the last one again when there are more."""

    def __init__(self, *plays: Play, tls: Optional[ssl.SSLContext] = None) -> None:
        self._plays = plays
        self._tls = tls
        self._lock = threading.Lock()
        self._connections: List[socket.socket] = []
        self.exchanges: List[Exchange] = []
        self.faults: List[BaseException] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"{'http' if tls is None else 'https'}://{self.address}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown first: close alone does not wake who waits in accept
        for open_socket in (self._listener, *self._connections):
            try:
                open_socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            open_socket.close()
        if self.faults:
            raise self.faults[0]

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()
            number += 1

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._connections.append(connection)
            while self._serve_request(connection, number):
                pass
        except OSError:
            pass  # the client left
        except BaseException as fault:
            self.faults.append(fault)
        finally:
            connection.close()

    def _serve_request(self, connection: socket.socket, number: int) -> bool:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return False
            data += piece
            if not data[:1].isalpha():  # no HTTP, as when a client speaks TLS
                connection.sendall(head_of(400, {"content-length": "0", "connection": "close"}))
                return False
        head, _, body = data.partition(b"\r\n\r\n")
        exchange = Exchange(connection, number, head, body)
        length = int(exchange.headers.get("content-length", "0"))
        while len(exchange.body) < length:
            piece = connection.recv(65536)
            if not piece:
                return False
            exchange.body += piece
        with self._lock:
            play = self._plays[min(len(self.exchanges), len(self._plays) - 1)] if self._plays else Exchange.reset
            self.exchanges.append(exchange)
        play(exchange)
        return not exchange.is_over


def closed_port() -> int:
    """A port where nobody listens: the system gave it, and it was given back."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
