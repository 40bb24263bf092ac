"""Which experiments there are; light enough for the command line's help."""

from typing import Literal

Scale = Literal["smoke", "default", "full"]

EXPERIMENTS = {
    "landscape": "Figs. 1 and 2: the tree and its landscape of mean and risk; claims 1 to 5",
    "bandit": "Fig. 3: three agents on the bandit, beside Monte-Carlo gradients; claim 7",
    "portfolio": "Fig. 4: mean against risk as the threshold grows; claims 10 and 12",
    "prediction": "Sample efficiency of risk estimates, measured; claims 2, 3, 4, 8, 9",
}
