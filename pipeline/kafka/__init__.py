"""What is asked of Kafka beside the flow of records: topics, groups, dead letters, a topic read to its end."""
