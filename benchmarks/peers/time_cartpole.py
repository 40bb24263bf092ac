"""Stable-Baselines3's A2C on CartPole, one environment: its own time per step, when asked."""

import json
import sys

from stable_baselines3 import A2C
from timed import own_ns, timed_env

model = A2C("MlpPolicy", timed_env(), device="cpu")
model.learn(100)
print(json.dumps({}), flush=True)
for _ in sys.stdin:
    print(json.dumps({"ns": own_ns(model.learn, int(sys.argv[1]))}), flush=True)
