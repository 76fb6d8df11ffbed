"""A page in a headless browser: what it logs, what it draws, and which of its labels cover each other."""

import html
import json
import re
import shutil
import subprocess

import pytest

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
    "--enable-logging=stderr",
    "--window-size=1200,2000",
    "--virtual-time-budget=8000",
    "--dump-dom",
)

_CONSOLE = re.compile(r':(?:CONSOLE|ERROR:CONSOLE|INFO:CONSOLE|WARNING:CONSOLE)[(:]\d+\)?\] "(.*)", source:')

# Texts of charts and drawings in pairs: two that share more than a letter's edge cover each other.
_PROBE = """
<script>
addEventListener('load', () => document.querySelectorAll('details').forEach(each => { each.open = true; }));
addEventListener('load', () => setTimeout(() => {
  const seen = element => { const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    const text = element.textContent.trim();
    return text && box.width && box.height && style.visibility != 'hidden' && style.opacity != '0'
      ? {text, left: box.left, top: box.top, right: box.right, bottom: box.bottom} : null };
  const boxes = [...document.querySelectorAll('svg text')].map(seen).filter(Boolean);
  const covered = [];
  boxes.forEach((one, at) => boxes.slice(at + 1).forEach(other => {
    const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    if (across > 2 && down > 3) covered.push([one.text, other.text]); }));
  const charts = [...document.querySelectorAll('.js-plotly-plot')];
  const drawn = charts.filter(chart => chart.querySelector('svg.main-svg'));
  const narrow = drawn.filter(chart => chart.querySelector('svg.main-svg').getBoundingClientRect().width
                                       < 0.95 * chart.parentElement.getBoundingClientRect().width).length;
  const toolbars = [...document.querySelectorAll('.modebar')].filter(seen).length;
  const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth + 1;
  const probe = document.createElement('pre');
  probe.id = 'probe';
  probe.textContent = JSON.stringify({covered, charts: charts.length, drawn: drawn.length, narrow, toolbars, wide,
                                      labels: boxes.length});
  document.body.append(probe);
}, 1500));
</script>
"""

_OF_THE_DRIVER = "[.WebGL-"
"""Begins what the software renderer of a browser without a GPU logs about its own speed."""


def browser():
    """The first browser on PATH; without one the test is skipped."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no chromium is installed")
    return path


def rendered(page, folder):
    """(what the page logged, what the probe saw) of the text of a page."""
    path = folder / "page.html"
    path.write_text(page.replace("</body>", _PROBE + "</body>"))
    command = [browser(), *_FLAGS, f"--user-data-dir={folder / 'profile'}", path.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    probe = re.search(r"<pre id=\"probe\">(.*?)</pre>", ended.stdout, re.DOTALL)
    assert probe, ended.stdout[-500:]
    logged = [line for line in _CONSOLE.findall(ended.stderr) if not line.startswith(_OF_THE_DRIVER)]
    return logged, json.loads(html.unescape(probe[1]))
