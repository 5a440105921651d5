"""Serves the page of `lacuna serve` from its folder, so that an edit shows after a reload and nothing has to be built.

    python3 tools/page_preview.py [--port 8081] [--server http://127.0.0.1:8080]

Needs a `lacuna serve` that runs; everything but the page's files is passed on to it. Replies have its Content-Security-Policy.
For development alone: it listens on this machine and has no limits.
"""
import argparse
import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

FOLDER = Path(__file__).resolve().parents[1] / "src/server/page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


class Preview(BaseHTTPRequestHandler):
    server_address = None  # of lacuna serve

    def do_GET(self):
        path = urlsplit(self.path).path
        file = FOLDER / ("index.html" if path == "/" else path[1:])
        if "/" in path[1:] or file.suffix not in TYPES or not file.is_file():
            self.pass_on()
            return
        self.send_response(200)
        self.send_header("Content-Type", f"{TYPES[file.suffix]}; charset=utf-8")
        self.send_header("Content-Security-Policy", self.policy())
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(file.read_bytes())

    def do_POST(self):
        self.pass_on()

    def policy(self):
        reply = self.ask("GET", "/")
        return reply.getheader("Content-Security-Policy")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.server_address, timeout=600)
        kept = {name: self.headers[name] for name in ("Authorization", "Content-Type") if self.headers[name]}
        connection.request(method, path, body, kept)
        return connection.getresponse()

    def pass_on(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)) or None
        reply = self.ask(self.command, self.path, body)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.getheader("Content-Type", "application/json"))
        self.end_headers()
        while part := reply.read1(65536):
            self.wfile.write(part)
            self.wfile.flush()

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    arguments = parser.parse_args()
    Preview.server_address = urlsplit(arguments.server).netloc
    print(f"http://127.0.0.1:{arguments.port}/", flush=True)
    ThreadingHTTPServer(("127.0.0.1", arguments.port), Preview).serve_forever()


if __name__ == "__main__":
    main()
