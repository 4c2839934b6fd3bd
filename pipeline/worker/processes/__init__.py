"""The processes of a worker: parent and children, health, metrics, memory."""
