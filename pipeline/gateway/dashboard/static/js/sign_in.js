// Where the gateway asks who it is: a provider by which people sign in, or a token, which stays in this tab's session.

import { token, url } from "./api.js";
import { fill, h } from "./dom.js";

/** `providers`: name -> title. */
export function signIn(main, problem, done, providers = null) {
  const at = Object.entries(providers ?? {}).map(([provider, title]) =>
    h("p", h("a.button.primary", { href: url("/sign-in", { provider, to: location.hash }) }, `Sign in with ${title}`)));
  const input = h("input", {
    id: "token", type: "password", name: "token", required: true, autocomplete: "off", spellcheck: "false",
    "aria-describedby": "token-note", "aria-invalid": problem ? "true" : "false",
  });
  const form = h(
    "form.card.sign-in",
    { id: "sign-in" },
    h("h1", "Sign in"),
    at,
    h("p.muted", { id: "token-note" }, `${at.length ? "Or use a token." : "This gateway asks for a token."} It stays in this tab until you close it or sign out.`),
    problem && h("p.notice", { role: "alert" }, problem),
    h("label", { for: "token" }, "Token"),
    input,
    h("button.primary", { type: "submit" }, "Sign in"),
    h("p.muted.small", "Make one with ", h("code", "turnmill tokens make NAME --scope read"), "."),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(input.value.trim());
    form.remove();
    done();
  });
  fill(main, form);
  if (!at.length) input.focus();
}
