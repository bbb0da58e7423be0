"""A real browser without a window, for tests that open a page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def started() -> Iterator:
    """A running browser."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine (Debian: apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=QUIET)
        yield browser
        browser.close()


@contextmanager
def opened(browser, path: Path, width: int = 1600, scheme: str = "light") -> Iterator[tuple]:
    """A page as a browser without a network shows it, and what the browser complained of.

    What a page asks for from outside itself is a complaint too.
    """
    viewport = {"width": width, "height": 900}
    with browser.new_context(viewport=viewport, color_scheme=scheme, offline=True) as context:
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        address = path.resolve().as_uri()
        page.on(
            "request",
            lambda request: (
                request.url == address
                or request.url.startswith("data:")
                or complaints.append(request.url)
            ),
        )
        page.goto(address)
        yield page, complaints
