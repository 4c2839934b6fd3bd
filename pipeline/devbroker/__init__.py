"""The development broker: a real Apache Kafka on this machine; its jars, processes, ports and settings."""
