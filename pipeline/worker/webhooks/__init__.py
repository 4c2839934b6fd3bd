"""The roles of webhooks: turns and notices become deliveries, which are sent over HTTP."""
