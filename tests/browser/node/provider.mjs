// A certified provider of OpenID Connect (oidc-provider) for one client: node provider.mjs PORT GATEWAY SECRET
// Each start has another key, as one that rotates them.

import { generateKeyPairSync, randomUUID } from "node:crypto";

import { Provider } from "oidc-provider";

const [port, gateway, secret] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: "turnmill",
    client_secret: secret,
    redirect_uris: [`${gateway}/sign-in/provider/callback`],
    post_logout_redirect_uris: [`${gateway}/`],
    backchannel_logout_uri: `${gateway}/sign-out/provider`,
    backchannel_logout_session_required: true,
  }],
  claims: { openid: ["sub"], email: ["email"], profile: ["groups"] },
  jwks: { keys: [{ ...generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "RS256" }] },
  cookies: { keys: ["of this test"] },
  features: { backchannelLogout: { enabled: true } },
  pkce: { required: () => true },
  // Without its guard against addresses of this machine: the gateway that it tells of a log-out is on one.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@acme.example`, groups: [id] }) }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
