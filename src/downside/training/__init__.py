"""What loops over time: critics and agents on environments."""
