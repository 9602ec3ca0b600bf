"""What the tests of pages share; the fixture `opened` is in conftest."""

from collections.abc import Callable
from typing import Any

Open = Callable[..., Any]
ATTACK = "</script><img src=x onerror=\"document.title='broken'\"> good <b>bad</b> & <!-- film"


def wait(page: Any, selector: str, **what: Any) -> None:
    """Until the page has caught up with what was typed."""
    from playwright.sync_api import expect

    for name, value in what.items():
        getattr(expect(page.locator(selector)), name)(value)
