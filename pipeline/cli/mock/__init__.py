"""`turnmill mock`: serves a stored run as a provider: its calls, how requests match them, the server, the fixture."""
