// Signing in: the token goes to the server once, in a header, and is kept nowhere on the page.

import { signIn } from "./api.js";
import { h, put } from "./dom.js";

export function showSignIn(root, why, signedIn) {
  const token = h("input", {
    type: "password",
    id: "token",
    name: "token",
    autocomplete: "current-password",
    required: true,
    spellcheck: "false",
    autocapitalize: "off",
    "aria-describedby": "where",
  });
  const name = h("input", { type: "text", name: "username", autocomplete: "username", value: "kranzq", hidden: true });
  const told = h("p", { role: "alert", class: "fault" }, why);
  const button = h("button", { type: "submit", class: "main" }, "Sign in");
  const send = async (event) => {
    event.preventDefault();
    button.disabled = true;
    put(told);
    try {
      await signIn(token.value.trim());
      token.value = "";
      await signedIn();
    } catch (fault) {
      const refused = "This token opens nothing here. Was it mistyped, rotated or revoked?";
      put(told, fault.status === 401 ? refused : `${fault.message} ${fault.hint}`);
      token.focus();
      token.select();
    } finally {
      button.disabled = false;
    }
  };
  put(
    root,
    h(
      "form",
      { class: "signin panel", onsubmit: send, method: "post" },
      h("h1", null, "Sign in"),
      told,
      name,
      h("label", { for: "token" }, "Token"),
      token,
      h(
        "p",
        { id: "where", class: "quiet" },
        "On the server's machine, the operator's key: ",
        h("code", null, "kranzq agent key"),
        ". For somebody who looks only: ",
        h("code", null, "kranzq agent add NAME --scope read"),
        ".",
      ),
      button,
    ),
  );
  token.focus();
}
