"""The services, and their health: `worker`, `gateway`, `doctor`."""
