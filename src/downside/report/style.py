"""How every figure looks."""

from typing import Any

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "svg.hashsalt": "downside",  # the same bytes each time
    "svg.fonttype": "none",
}
