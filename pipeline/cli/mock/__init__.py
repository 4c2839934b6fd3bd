"""`turnmill mock`: a stored run as a provider. Its calls, which of them a request means, the server, the fixture."""
