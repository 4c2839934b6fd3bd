"""A broker that demands TLS and logins, with certificates, users and tokens of the test's own making."""

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from pipeline.devbroker import local
from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.support.certificates import Authority
from tests.support.waiting import PATIENCE

SECURITY = "org.apache.kafka.common.security"
PASSWORD = "pl4in-s3cret"
SCRAM_PASSWORD = "scr4m-s3cret"
REAUTHENTICATE_MS = 4000


@dataclass(frozen=True, slots=True)
class Guarded:
    """The broker; `plain` of its listeners demands nothing, `sasl` a login over TLS, `mutual` a certificate."""

    cluster: Cluster
    folder: Path
    sasl: str
    mutual: str
    clear_sasl: str
    authority: Authority
    signing_key: rsa.RSAPrivateKey

    @property
    def plain(self) -> str:
        return self.cluster.bootstrap

    def token(self, *, life: float = 600, name: str = "alice", key: rsa.RSAPrivateKey | None = None) -> str:
        """A signed token of `name` that expires in `life` seconds."""
        now = time.time()
        claims = {"sub": name, "iat": now, "exp": now + life, "scope": "kafka"}
        return jwt.encode(claims, key or self.signing_key, "RS256", headers={"kid": "test"})

    def scram_user(self, name: str, password: str | None) -> None:
        """Create a user, or (None) delete it."""
        change = (
            ["--add-config", f"SCRAM-SHA-512=[password={password}]"]
            if password
            else ["--delete-config", "SCRAM-SHA-512"]
        )
        launcher = self.cluster.launcher
        command = [str(launcher.java), "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", f"{launcher.libs}/*"]
        command += ["kafka.admin.ConfigCommand", "--bootstrap-server", self.plain, "--alter"]
        command += ["--entity-type", "users", "--entity-name", name, *change]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def guarded(folder: Path, cache: Path) -> Iterator[Guarded]:
    """Start it; it ends with the block."""
    plain, sasl, mutual, clear = (f"127.0.0.1:{port}" for port in free_ports(4))
    authority = Authority.make(folder)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    keys = folder / "jwks.json"
    keys.write_text(json.dumps({"keys": [_jwk(key)]}))
    with pytest.MonkeyPatch.context() as patch:
        # Kafka reads keys from addresses only that its command line allows.
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}")
        settings = Settings(home=folder, cache=cache, brokers=plain)
        extra = _properties(sasl, mutual, clear, authority.sign("broker"), authority.file, keys)
        with local.running(settings, extra=extra) as cluster:
            patch.undo()
            broker = Guarded(cluster, folder, sasl, mutual, clear, authority, key)
            broker.scram_user("sam", SCRAM_PASSWORD)
            yield broker


def _properties(sasl: str, mutual: str, clear: str, pem: Path, authority: Path, keys: Path) -> dict[str, str]:
    listeners = f"SASL_SSL://{sasl},MUTUAL://{mutual},SASL_PLAINTEXT://{clear}"
    properties = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,MUTUAL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        # A connection whose login is older is cut; aiokafka then logs in with a new one.
        "connections.max.reauth.ms": str(REAUTHENTICATE_MS),
        # Else a refused login is answered late, to slow down guessing.
        "connection.failed.authentication.delay.ms": "10",
    }
    for listener in ("sasl_ssl", "mutual"):
        properties |= {
            f"listener.name.{listener}.ssl.keystore.type": "PEM",
            f"listener.name.{listener}.ssl.keystore.location": str(pem),
            f"listener.name.{listener}.ssl.truststore.type": "PEM",
            f"listener.name.{listener}.ssl.truststore.location": str(authority),
        }
    for listener in ("sasl_ssl", "sasl_plaintext"):
        login = f"listener.name.{listener}"
        properties |= {
            f"{login}.plain.sasl.jaas.config": f'{SECURITY}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
            f"{login}.scram-sha-256.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
            f"{login}.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
            f"{login}.oauthbearer.sasl.jaas.config": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
            f"{login}.oauthbearer.sasl.server.callback.handler.class": (
                f"{SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
        }
    return properties


def _jwk(key: rsa.RSAPrivateKey) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": "test", "alg": "RS256", "use": "sig", "n": _b64(numbers.n), "e": _b64(numbers.e)}


def _b64(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8)).rstrip(b"=").decode()
