"""How a brief looks on each platform: Markdown in, platform-sized parts out. Pure: no I/O, no clock."""

from delivery.render.parts import RenderedPart
from delivery.render.plain import render_local, to_html
from delivery.render.slack import render_slack
from delivery.render.telegram import render_telegram

__all__ = ["RenderedPart", "render_local", "render_slack", "render_telegram", "to_html"]
