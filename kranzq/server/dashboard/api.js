// Asking the server. The browser sends the cookie by itself; scripts never see it.

import { learnClock } from "./words.js";

/** What the server refused, as it says it; `status` 0 when it was not reached. */
export class Fault extends Error {
  constructor(status, sentence, hint = "") {
    super(sentence);
    this.status = status;
    this.hint = hint;
  }
}

let onSignedOut = () => {};
let signIns = 0;

export const whenSignedOut = (act) => {
  onSignedOut = act;
};

/** The answer as it came, after 401 and faults were seen to. */
export async function get(path, options = {}) {
  const asOf = signIns;
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "same-origin", redirect: "error", ...options });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new Fault(0, "The server was not reached.", "Is kranzq serve running? This page goes on trying.");
  }
  learnClock(answer.headers.get("date"));
  if (answer.ok) return answer;
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // what stands between may answer with a page of its own
  }
  if (answer.status === 401 && options.signingIn !== true && asOf === signIns) onSignedOut();
  throw new Fault(answer.status, told.error ?? `The server answered ${answer.status}.`, told.verb ?? told.hint ?? "");
}

/** A value; a body is sent as JSON. */
export async function ask(method, path, body, more = {}) {
  const said =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  return (await get(path, { method, ...said, ...more })).json();
}

/** Exchange a token for a cookie. The token goes in a header, and is kept nowhere. */
export async function signIn(token) {
  if (!/^[!-~]+$/.test(token)) throw new Fault(401, "unauthorized");
  await ask("POST", "/v1/session", undefined, { headers: { authorization: `Bearer ${token}` }, signingIn: true });
  signIns += 1; // what was asked before is refused, and says nothing of this session
  if (!(await ask("GET", "/v1/session")).signed_in)
    throw new Fault(0, "The browser kept no cookie of this server.", "Allow cookies for this address, and sign in again.");
}

export const signOut = () => ask("DELETE", "/v1/session");
export const missionPath = (mission, tail = "") => `/v1/missions/${encodeURIComponent(mission)}${tail}`;
