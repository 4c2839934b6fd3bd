"""What waits to be sent: notices, and deliveries of webhooks."""
