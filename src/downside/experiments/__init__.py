"""The paper's experiments: settings, run and judgement, each apart from the others."""
