"""An HTTP/2 server over TLS that sees which streams are reset, and answers when it is told to."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Dict, List

import h2.config
import h2.connection
import h2.events


class Http2Server:
    """One thread per connection; answers are written by `answer`, from any thread."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        tls.set_alpn_protocols(["h2"])
        self._tls = tls
        self._lock = threading.Condition()
        self._sockets: List[socket.socket] = []
        self.requests: List["Request"] = []
        self.connection_count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Http2Server:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def request(self, number: int) -> "Request":
        """Waits for it; 0 is the first."""
        with self._lock:
            assert self._lock.wait_for(lambda: len(self.requests) > number, 10), f"request {number} did not come"
            return self.requests[number]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connection_count += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        streams: Dict[int, Request] = {}
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        try:
            connection = self._tls.wrap_socket(plain, server_side=True)
            self._sockets.append(connection)
            state.initiate_connection()
            connection.sendall(state.data_to_send())
            lock = threading.Lock()
            while True:
                data = connection.recv(65536)
                if not data:
                    return
                with lock:
                    for event in state.receive_data(data):
                        if isinstance(event, h2.events.RequestReceived):
                            streams[event.stream_id] = Request(connection, state, lock, event.stream_id)
                        elif isinstance(event, h2.events.DataReceived):
                            state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        elif isinstance(event, h2.events.StreamEnded):
                            with self._lock:
                                self.requests.append(streams[event.stream_id])
                                self._lock.notify_all()
                        elif isinstance(event, h2.events.StreamReset):
                            streams[event.stream_id].error_code = int(event.error_code)
                            streams[event.stream_id].reset.set()
                    connection.sendall(state.data_to_send())
        except OSError:
            pass  # the client left
        finally:
            plain.close()


class Request:
    def __init__(
        self, connection: socket.socket, state: h2.connection.H2Connection, lock: threading.Lock, stream_id: int
    ) -> None:
        self._connection = connection
        self._state = state
        self._lock = lock
        self._stream_id = stream_id
        self.reset = threading.Event()
        self.error_code = -1

    def answer(self, body: str, content_type: str = "application/json", *, is_whole: bool = True) -> None:
        with self._lock:
            self._state.send_headers(self._stream_id, [(":status", "200"), ("content-type", content_type)])
            self._state.send_data(self._stream_id, body.encode("utf-8"), end_stream=is_whole)
            self._connection.sendall(self._state.data_to_send())
