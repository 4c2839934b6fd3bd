"""The HTTP gateway: runs in, threads and live streams out."""
