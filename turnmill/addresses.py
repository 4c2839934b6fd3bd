"""Addresses host:port, and why nobody answers at one."""

import socket


def host_port(address: str) -> tuple[str, int]:
    """'host:port' or '[::1]:port' -> (host, port)."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def unreachable(address: str, timeout: float = 1.0) -> str | None:
    """Return why nobody can be reached at host:port; None if something listens there."""
    try:
        socket.create_connection(host_port(address), timeout).close()
    except socket.gaierror:
        return f"no address is known for {host_port(address)[0]}: is the name right?"
    except ConnectionRefusedError:
        return "nothing listens there"
    except TimeoutError:
        return f"no answer within {timeout:g} s: is the address right, and does a firewall let us through?"
    except OSError as error:
        return error.strerror or str(error)
    return None
