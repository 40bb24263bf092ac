"""Studies: many trials, on one machine or many, of which none is lost and none is made twice.

DIR/
  study.json          the trials, by id: specification and the values that the id carries
  lock                held by the driver; its text says who
  cache/              compiled programs, by machine
  trials/ID/          a folder per trial; the id is its path
    manifest.json     written last: state, reason, seconds, SHA-256 of the files, and of itself
    results.parquet   a row per learner, claim or value
    records.parquet   the training, record by record
    policy.npz        the parameters of every learner's policy
    run/              checkpoints, for going on
    log.txt           attempts, and what was printed
    traceback.txt     of an error
"""
