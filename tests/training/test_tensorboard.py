import struct

from tensorboardX.proto.event_pb2 import Event

from downside.control import NRCPO
from downside.environments import Portfolio
from downside.signals import Centralised
from downside.training.tensorboard import TensorBoard


def events(path):
    """The scalars of an event file: length, checksum, content, checksum, again and again."""
    content, at = path.read_bytes(), 0
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        event = Event.FromString(content[at + 12 : at + 12 + length])
        yield from ((event.step, value.tag, value.simple_value) for value in event.summary.value)
        at += 16 + length


def test_every_update_is_written(tmp_path):
    agent = NRCPO(Portfolio(discount=0.99), target=Centralised(), threshold=0.3, n_seeds=2)
    writer = TensorBoard(tmp_path)
    agent.learn(4_000, progress_bar=False, callback=writer)
    writer.close()
    [file] = (tmp_path / "learner_1").iterdir()
    found = list(events(file))
    assert {(step, tag) for step, tag, _ in found} == {
        (step, tag) for step in (2_000, 4_000) for tag in ("mean_return", "risk_1", "multiplier_1")
    }
    last = {tag: value for step, tag, value in found if step == 4_000}
    assert abs(last["mean_return"] - agent.records.returns[-1, 1]) < 1e-6
