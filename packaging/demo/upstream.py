"""The sample upstream: a small HTTPS server that keeps deployments, checks a token and writes down every byte it gets.

A deployment named `slow` is made, and then the server says nothing: what a lost answer looks like from outside.
Run as a program it prints its port; each request becomes a line in the log file.
"""

import asyncio
import json
import ssl
import sys
from pathlib import Path

SILENCE_S = 30.0
HEAD_MAX = 65_536


class Shop:
    """What the server knows. `log` gets one JSON line for each piece that arrives."""

    def __init__(self, token: str, log: Path) -> None:
        self._token = token
        self._log = log
        self._items: list[dict[str, str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        status, answer = self._answer(method, path, headers.get("authorization", ""), body)
        self._write({"bytes": len(head) + len(body), "method": method, "path": path, "status": status})
        if answer.get("name") == "slow":
            await asyncio.sleep(SILENCE_S)
            return False
        content = json.dumps(answer).encode()
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n".encode()
            + content
        )
        await writer.drain()
        return True

    def _answer(self, method: str, path: str, authorization: str, body: bytes) -> tuple[int, dict[str, object]]:
        if authorization != f"Bearer {self._token}":
            return 401, {"error": "who are you?"}
        if path != "/v1/deployments":
            return 404, {"error": "no such thing"}
        if method == "GET":
            return 200, {"items": self._items, "more": False}
        made = {"id": f"d-{len(self._items) + 1}", "name": str(json.loads(body)["name"])}
        self._items.append(made)
        return 201, {**made}

    def _write(self, line: dict[str, object]) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


async def main(certificate: str, key: str, token_file: str, log: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    token = (await asyncio.to_thread(Path(token_file).read_text, encoding="utf-8")).strip()
    shop = Shop(token, Path(log))
    server = await asyncio.start_server(shop.serve, "127.0.0.1", 0, ssl=context, limit=HEAD_MAX)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
