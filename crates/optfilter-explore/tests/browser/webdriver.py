"""A browser driven over plain WebDriver: the few calls that the tests of the page need, by the standard library alone."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Optional

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Control": "\ue009", "Shift": "\ue008", "Left": "\ue012", "Right": "\ue014", "Up": "\ue013", "Space": " "}


def missing() -> Optional[str]:
    """Why there is no browser; nothing if there is one."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not shutil.which("chromedriver"):
        return "chromedriver is not installed (Debian: chromium-driver)"
    return None if chromium else "chromium is not installed"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Driver:
    """chromedriver, for as long as the tests run."""

    def __init__(self) -> None:
        self.port = free_port()
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(["chromedriver", f"--port={self.port}"], stdout=quiet, stderr=quiet)
        for _ in range(200):
            try:
                if self.call("GET", "/status")["ready"]:
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("chromedriver does not answer")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        value = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{value['error']}: {value.get('message', '')[:300]}")
        return value

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


class Browser:
    """One window of a fresh browser."""

    def __init__(self, driver: Driver, width: int = 1280, height: int = 1100, downloads: Optional[Path] = None) -> None:
        self.driver = driver
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}"]
        options: dict[str, Any] = {"args": arguments}
        if downloads:
            options["prefs"] = {"download.default_directory": str(downloads)}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = driver.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base = f"/session/{made['sessionId']}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.driver.call(method, self.base + path, body)

    def open(self, address: str) -> None:
        self.call("POST", "/url", {"url": address})

    def run(self, script: str, *args: Any) -> Any:
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def later(self, script: str, *args: Any) -> Any:
        """Runs a script that calls its last argument when it is done."""
        return self.call("POST", "/execute/async", {"script": script, "args": list(args)})

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def wait(self, script: str, *args: Any, seconds: float = 60, what: str = "") -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(script, *args)
            if found:
                return found
            time.sleep(0.03)
        raise AssertionError(f"waited in vain for {what or script}; the page says: {self.text('#fault')}")

    def element(self, selector: str) -> str:
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector: str) -> None:
        self.call("POST", f"/element/{self.element(selector)}/click", {})

    def keys(self, *names: str) -> None:
        """Presses keys one after the other; Control+z holds the first."""
        actions = []
        for name in names:
            parts = [KEYS.get(part, part) for part in name.split("+")]
            actions += [{"type": "keyDown", "value": part} for part in parts]
            actions += [{"type": "keyUp", "value": part} for part in reversed(parts)]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click_at(self, selector: str, x: float, y: float) -> None:
        """Clicks a point of an element, in its own units."""
        box = self.run("const e=document.querySelector(arguments[0]);e.scrollIntoView({block:'center'});"
                       "const r=e.getBoundingClientRect();return [r.left,r.top]", selector)
        move = {"type": "pointerMove", "duration": 0, "x": round(box[0] + x), "y": round(box[1] + y)}
        press = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move, *press]}]})

    def emulate(self, command: str, **settings: Any) -> Any:
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": settings})

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, name: str) -> None:
        """Keeps a screenshot where EXPLORE_PICTURES says, to be looked at."""
        folder = os.environ.get("EXPLORE_PICTURES")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(folder, f"{name}.png").write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self) -> None:
        self.call("DELETE", "")


class Program:
    """`optfilter explore`, for as long as a test needs it."""

    def __init__(self, *args: str, cwd: Optional[Path] = None) -> None:
        self.process = subprocess.Popen([str(program()), "explore", "--no-open", *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, cwd=cwd)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(self.process.stderr.read())

    def close(self) -> int:
        self.process.send_signal(2)
        code = self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def program() -> Path:
    """The program under test."""
    given = os.environ.get("OPTFILTER")
    root = Path(__file__).resolve().parents[4]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    return Path(given) if given else target / "debug" / "optfilter"


def until(holds: Callable[[], Any], seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")
