// Who is signed in, and as what. Only asked for where the gateway has marked that somebody is.

import { json, token } from "./api.js";

const MARK = /(^|; )(__Host-)?turnmill-signed-in=1/;

let scopes = null; // of who is signed in

export const person = {
  /** Why a control that needs this scope would be refused; null where it would not, or a token decides. */
  refused: (scope) => (scopes === null || token.get() || scopes.includes(scope) ? null : `Your role does not have the scope ${scope}`),
  signedIn: () => MARK.test(document.cookie),
  async show(element) {
    if (!person.signedIn() || token.get()) return;
    try {
      const { name, role, tenant, ...mine } = await json("/v1/session");
      scopes = mine.scopes;
      element.textContent = `${name}, ${role}`;
      element.title = tenant === null ? "of all tenants" : `of the tenant ${tenant}`;
    } catch {
      // the session is over: the view asks to sign in
    }
  },
};
