"""Assembly: raw events of runs -> finished turns. Pure: no I/O, no clock, no Kafka."""
