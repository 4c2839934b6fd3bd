"""Everything that speaks to Kafka: transport, checkpoints, topics, the development broker."""
