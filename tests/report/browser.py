"""A page in a headless browser: what it logs, what it draws, and which of its labels cover each other."""

import json
import os
import select
import shutil
import subprocess
from contextlib import contextmanager, suppress
from itertools import count

import pytest

MAX_BYTES = 1_500_000
"""Of a page."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-unsafe-swiftshader",
    "--renderer-process-limit=1",
    "--window-size=1200,2000",
    "--remote-debugging-pipe",
)

# Texts of charts and drawings in pairs: two that share more than a letter's edge cover each other.
_PROBE = """
<script>
addEventListener('load', () => document.querySelectorAll('details').forEach(each => { each.open = true; }));
addEventListener('load', () => setTimeout(() => {
  const visible = element => { const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    return box.width && box.height && style.visibility != 'hidden' && style.opacity != '0' ? box : null };
  const seen = element => { const box = visible(element);
    const text = element.textContent.trim();
    return text && box ? {text, left: box.left, top: box.top, right: box.right, bottom: box.bottom} : null };
  const boxes = [...document.querySelectorAll('svg text')].map(seen).filter(Boolean);
  const covered = [];
  boxes.forEach((one, at) => boxes.slice(at + 1).forEach(other => {
    const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    if (across > 2 && down > 3) covered.push([one.text, other.text]); }));
  const charts = [...document.querySelectorAll('svg.chart')];
  const cut = charts.flatMap(chart => [...chart.querySelectorAll('text')].filter(seen).filter(text => {
    const [box, all] = [text.getBoundingClientRect(), chart.getBoundingClientRect()];
    return box.left < all.left - 2 || box.right > all.right + 2 || box.top < all.top - 2 || box.bottom > all.bottom + 2;
  }).map(text => text.textContent));
  const narrow = charts.filter(chart => chart.getBoundingClientRect().width
                                        < 0.95 * chart.parentElement.getBoundingClientRect().width).length;
  const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth + 1;
  const light = colour => { const parts = colour.match(/[\\d.]+/g).map(Number);
    return (0.3 * parts[0] + 0.6 * parts[1] + 0.1 * parts[2]) / 255 };
  const style = getComputedStyle(document.body);
  const plain = [...document.querySelectorAll('h1, h2, h3, p, td, th, figcaption, summary, svg.chart > g > text')];
  const faint = plain.filter(visible).filter(each => { const own = getComputedStyle(each);
    return Math.abs(light(each.closest('svg') ? own.fill : own.color) - light(style.backgroundColor)) < 0.35 });
  window.probe = {covered, cut, charts: charts.length, narrow, wide, labels: boxes.length, faint: faint.length,
                  dark: light(style.backgroundColor) < 0.5};
}, 1500));
</script>
"""

_VIRTUAL_MS = 8000
"""What a page has for its timers, which wait for no clock."""

_OF_THE_DRIVER = "[.WebGL-"
"""Begins what the software renderer of a browser without a GPU logs about its own speed."""

_TIMEOUT_S = 300.0
"""Only a hang lasts so long; after one, nothing waits for that browser any more."""


@contextmanager
def browser(folder):
    """A browser for any number of pages, with its profile in ``folder``; the first one on PATH, without one the test is
    skipped.
    """
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no chromium is installed")
    commands, to_browser = os.pipe()
    from_browser, messages = os.pipe()
    # It reads commands from descriptor 3 and writes messages to 4.
    shell = ("sh", "-c", f'exec "$@" 3</dev/fd/{commands} 4>/dev/fd/{messages}', "sh")
    command = (*shell, path, *_FLAGS, f"--user-data-dir={folder}", "about:blank")
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors, pass_fds=(commands, messages))
    os.close(commands)
    os.close(messages)
    running = Browser(to_browser, from_browser)
    try:
        yield running
        with suppress(AssertionError, OSError):  # it may end before it answers, or hang
            running.asked("Browser.close")
    finally:
        os.close(to_browser)
        os.close(from_browser)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Browser:
    """A browser by the Chrome DevTools Protocol: messages in JSON, each ended by a zero byte.

    Args:
        commands: the descriptor that the browser reads.
        messages: the descriptor that it writes.
    """

    def __init__(self, commands, messages):
        self._commands, self._messages = commands, messages
        self._numbers, self._buffer, self._events = count(1), b"", []
        self._patience_s = _TIMEOUT_S

    def rendered(self, page, folder, scheme="light", width=1200):
        """(what the page logged, what the probe saw) of the text of a page, on a screen of that colour and width."""
        path = folder / "page.html"
        path.write_text(page.replace("</body>", _PROBE + "</body>"))
        target = self.asked("Target.createTarget", url="about:blank")["targetId"]
        session = self.asked("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.asked(f"{domain}.enable", session)
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.asked("Emulation.setEmulatedMedia", session, features=media)
        size = {"width": width, "height": 2000, "deviceScaleFactor": 1, "mobile": False}
        self.asked("Emulation.setDeviceMetricsOverride", session, **size)
        self.asked("Page.navigate", session, url=path.as_uri())
        self._awaited("Page.loadEventFired", session)
        self.asked("Emulation.setVirtualTimePolicy", session, policy="advance", budget=_VIRTUAL_MS)
        self._awaited("Emulation.virtualTimeBudgetExpired", session)
        seen = self.asked("Runtime.evaluate", session, expression="window.probe", returnByValue=True)["result"]
        assert "value" in seen, seen
        own = [event for event in self._events if event.get("sessionId") == session]
        logged = [text for event in own if (text := _text(event)) is not None]
        self.asked("Target.closeTarget", targetId=target)
        self._events.clear()
        return [text for text in logged if not text.startswith(_OF_THE_DRIVER)], seen["value"]

    def asked(self, method, session=None, **parameters):
        """What the browser answers to a command."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        os.write(self._commands, json.dumps(command | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (message := self._message()).get("id") != number:
            self._events.append(message)
        assert "error" not in message, (method, message)
        return message["result"]

    def _awaited(self, method, session):
        """Returns when an event of that name has come."""
        while not any((event.get("method"), event.get("sessionId")) == (method, session) for event in self._events):
            self._events.append(self._message())

    def _message(self):
        while b"\0" not in self._buffer:
            if not select.select([self._messages], [], [], self._patience_s)[0]:
                self._patience_s = 0.0
                raise TimeoutError("the browser is silent")
            more = os.read(self._messages, 1 << 20)
            assert more, "the browser has ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


def _text(event):
    """What an event says that the page logged, by itself or by what went wrong; None of other events."""
    parameters = event.get("params", {})
    match event.get("method"):
        case "Runtime.consoleAPICalled":
            return " ".join(str(each.get("value", each.get("description", ""))) for each in parameters["args"])
        case "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            return details.get("exception", {}).get("description", details["text"])
        case "Log.entryAdded":
            return parameters["entry"]["text"]
    return None
