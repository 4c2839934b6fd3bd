"""Sign-in: providers of OpenID Connect, and the rules that give people roles. Pure. Access is denied by default."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from pipeline.policies.entries import value_of
from turnmill.errors import CallerError, expectation
from turnmill.limits import TENANT_CHARACTERS

T = TypeVar("T")
Role = Literal["viewer", "editor", "operator"]
SCOPES: Final[dict[Role, tuple[str, ...]]] = {
    "viewer": ("read",),
    "editor": ("feedback", "read"),
    "operator": ("admin", "control", "feedback", "read"),
}
ALL_TENANTS: Final = "*"
VERIFIED: Final = {"email": "email_verified", "phone_number": "phone_number_verified"}  # OpenID Connect Core, 5.1


def address(value: str) -> str:
    """Return an address without its last slash. Raises ValueError; `http://` is only allowed for this machine."""
    parts = urlsplit(value)
    local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or parts.username or parts.query or parts.fragment or not (local or parts.scheme == "https"):
        raise ValueError("https://host/path is expected; http:// only of this machine")
    return value.rstrip("/")


class Provider(BaseModel):
    """A provider of OpenID Connect; `name` is a part of our URLs, `title` is shown to people."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: Annotated[str, AfterValidator(lambda value: (address(value), value)[1])]  # compared with its slash
    client_id: Annotated[str, Field(min_length=1)]
    client_secret: Annotated[SecretStr, Field(min_length=1)]
    name: Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")] = "provider"
    title: Annotated[str, Field(min_length=1, max_length=100)] = "your organisation"


class Rule(BaseModel):
    """A role for people who have a claim with `value`, or with any value if none is given.

    The role's tenant is `tenant` ("*": all tenants), or the value of the claim `tenant_claim`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role
    claim: Annotated[str, Field(min_length=1)]
    value: str | None = None
    tenant: Annotated[str, Field(min_length=1, max_length=TENANT_CHARACTERS)] | None = None
    tenant_claim: Annotated[str, Field(min_length=1)] | None = None
    provider: str | None = None

    @property
    def text(self) -> str:
        """The rule as a sentence."""
        who = f"{self.claim} {'is there' if self.value is None else f'has {self.value!r}'}"
        whose = f"the tenant in {self.tenant_claim}" if self.tenant is None else f"tenant {self.tenant!r}"
        whose = "all tenants" if self.tenant == ALL_TENANTS else whose
        return f"{self.role} of {whose} where {who}" + (f", from {self.provider}" if self.provider else "")


@dataclass(frozen=True, slots=True)
class Grant:
    """A person's role; `tenant` None: of all tenants."""

    role: Role
    tenant: str | None


def providers(text: str, client_id: str | None, client_secret: SecretStr | None) -> tuple[Provider, ...]:
    """Return the providers of a JSON list, or of one issuer's address. Raises ValueError, which shows no secret."""
    if text.lstrip().startswith("["):
        providers = _parsed(TypeAdapter(tuple[Provider, ...]), value_of(text))
    else:
        secret = client_secret or SecretStr("")
        provider = {"issuer": text.strip(), "client_id": client_id or "", "client_secret": secret.get_secret_value()}
        providers = _parsed(TypeAdapter(tuple[Provider, ...]), [provider])
    if len({provider.name for provider in providers}) < len(providers) or not providers:
        raise ValueError("each provider needs a `name` of its own, and there must be one at least")
    return providers


def rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a JSON list. Raises ValueError, which says which rule is wrong, and why."""
    rules = _parsed(TypeAdapter(tuple[Rule, ...]), value_of(text))
    for number, rule in enumerate(rules, 1):
        if (rule.tenant is None) == (rule.tenant_claim is None):
            raise ValueError(f"rule {number}: either `tenant` ({ALL_TENANTS!r} for all) or `tenant_claim` is expected")
    return rules


def check(rules: Iterable[Rule], providers: Collection[Provider]) -> None:
    """Raise CallerError for a rule that people of several providers could satisfy, though it means those of one."""
    for rule in rules:
        if rule.provider is None and len(providers) > 1:
            names = ", ".join(provider.name for provider in providers)
            raise CallerError(f"TURNMILL_GATEWAY_OIDC_ROLES: {rule.text}: add `provider`, one of {names}")


def granted(claims: Mapping[str, Any], provider: str, among: Iterable[Rule]) -> Grant | None:
    """Return the grant of the first matching rule; None if no rule matches."""
    for rule in among:
        if rule.provider not in (None, provider) or not _has(_claim(claims, rule.claim), rule.value):
            continue
        tenant = rule.tenant if rule.tenant_claim is None else _claim(claims, rule.tenant_claim)
        if not isinstance(tenant, str) or not 0 < len(tenant) <= TENANT_CHARACTERS:
            continue  # a shortened name could be another tenant's
        if tenant != ALL_TENANTS or rule.tenant == ALL_TENANTS:
            return Grant(rule.role, None if tenant == ALL_TENANTS else tenant)
    return None


def name_of(claims: Mapping[str, Any]) -> str:
    """Return a name for people to read: the address if the provider has verified it; else with the id there."""
    address = _claim(claims, "email")
    if isinstance(address, str) and address:
        return address[:100]
    chosen, subject = str(claims.get("preferred_username") or claims.get("email") or "")[:60], str(claims["sub"])
    return f"{chosen} ({subject[:36]})" if chosen else subject[:100]


def _has(claim: Any, wanted: str | None) -> bool:
    if wanted is None:
        return bool(claim)
    return wanted in claim if isinstance(claim, list) else claim == wanted


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim; `realm_access.roles` is a member of the claim `realm_access`, unless a claim has that name.

    An address that the provider has not verified is nobody's: anyone may write it into their profile.
    """
    if name in VERIFIED and claims.get(VERIFIED[name]) not in (True, "true"):
        return None
    if name in claims:
        return claims[name]
    claim: Any = claims
    for part in name.split("."):
        claim = claim.get(part) if isinstance(claim, Mapping) else None
    return claim


def _parsed(adapter: TypeAdapter[T], value: Any) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {expectation(first)}") from None
