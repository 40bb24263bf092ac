"""Chromium without a screen and without a network, driven over its DevTools protocol."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import websocket

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
PATIENCE = 60.0  # seconds until we call the browser stuck


class Tab:
    """A tab that remembers what its page asked of the network and said on the console."""

    def __init__(self, address: str):
        self.socket = websocket.create_connection(
            address, timeout=PATIENCE, suppress_origin=True, enable_multithread=False
        )
        self.numbers = itertools.count(1)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.send("Network.emulateNetworkConditions", **offline)

    def send(self, method: str, **params):
        """The result of a command; what happens meanwhile is noted."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message.get("method"), message.get("params"))

    def _note(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False):
        """Set the size of the window and the theme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[theme])

    def open(self, path: Path):
        """Open a file and wait for its scripts."""
        self.send("Page.navigate", url=path.as_uri())
        self.wait("document.readyState === 'complete'")

    def run(self, expression: str):
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str):
        """Until it is true."""
        until = time.monotonic() + PATIENCE
        while not self.run(expression):
            assert time.monotonic() < until, f"never true: {expression}"
            time.sleep(0.05)

    def screenshot(self, path: Path, *, whole: bool = False):
        """A picture of the window, or of the whole page."""
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def chromium():
    """A tab of a fresh Chromium that cannot reach any host."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        flags += ["--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]
        process = subprocess.Popen(
            [CHROMIUM, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            tab = Tab(_address(Path(profile) / "DevToolsActivePort", process))
            try:
                yield tab
            finally:
                tab.socket.close()
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _address(port_file: Path, process: subprocess.Popen) -> str:
    """The WebSocket of the first tab, through the browser's own."""
    until = time.monotonic() + PATIENCE
    while not (port_file.exists() and len(lines := port_file.read_text().splitlines()) == 2):
        assert process.poll() is None, "Chromium ended at once"
        assert time.monotonic() < until, "Chromium did not open its port"
        time.sleep(0.05)
    port, path = lines
    host = f"ws://127.0.0.1:{port}"
    browser = websocket.create_connection(host + path, timeout=PATIENCE, suppress_origin=True)
    try:
        browser.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
        found = json.loads(browser.recv())["result"]["targetInfos"]
    finally:
        browser.close()
    return f"{host}/devtools/page/{next(t['targetId'] for t in found if t['type'] == 'page')}"
