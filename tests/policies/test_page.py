import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_every_block_of_the_page_runs():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    assert names["scores"].shape == (512, names["policy"].n_params)
    assert names["mask"][names["action"]]
