"""Assembly: turns raw events of runs into finished turns. Pure: no I/O, no clock, no Kafka."""
