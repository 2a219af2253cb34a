"""An S3 server of the tests' own: moto's, on 127.0.0.1, ended by pid. It keeps its objects in its
memory and takes any credentials."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Self

from obstore.store import S3Store

from .own_process import OwnProcess, free_port

BUCKET = "screens"
SECRET = "wJalrXUtnFEMIsecret"


class S3Server(OwnProcess):
    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What the router finds credentials and endpoint in."""
        return {
            "AWS_ACCESS_KEY_ID": "AKIATEST",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
        }

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while not self._answers("PUT", f"/{BUCKET}"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("moto's server does not start")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def bucket(self) -> S3Store:
        """To look, and to write past the router."""
        return S3Store(
            BUCKET,
            endpoint=self.url,
            region="us-east-1",
            access_key_id="AKIATEST",
            secret_access_key=SECRET,
            client_options={"allow_http": True},
        )

    def has(self, path: str) -> bool:
        try:
            self.bucket.head(path)
        except FileNotFoundError:
            return False
        return True

    def _answers(self, method: str, path: str) -> bool:
        request = urllib.request.Request(f"{self.url}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return 200 <= answer.status < 300
        except urllib.error.URLError:
            return False
