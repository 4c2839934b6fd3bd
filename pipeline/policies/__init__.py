"""What an operator decides, as values: budgets, retention, webhooks, and the shares of tenants."""
