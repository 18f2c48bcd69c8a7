// A service that asks the broker which user a session token belongs to.
import http from "node:http";

async function whoIs(token, evidence) {
  const answer = await fetch(`${process.env.COATCHECK_URL}/v1/introspect`, {
    method: "POST", headers: { "X-Coatcheck-Backend": process.env.CREDENTIAL }, body: new URLSearchParams({ token, ...evidence }) });
  if (!answer.ok) throw new Error(`broker: ${answer.status}`); // answer 503, not 401
  const session = await answer.json(); // {active: true, sub, client_id, scope, exp, sid}, or {active: false, code?}
  return { ...session, nonce: answer.headers.get("dpop-nonce") };
}

// The evidence that the app sent for a bound session: a pass, or a proof with the request's method and URL.
function evidence({ method, url, headers: { "coatcheck-pass": pass, dpop } }) {
  return { ...(pass && { pass }), ...(dpop && { dpop, htm: method, htu: process.env.ORIGIN + url }) };
}

http.createServer(async (request, response) => {
  const token = request.headers.authorization?.replace(/^(Bearer|DPoP) /, "");
  const session = token ? await whoIs(token, evidence(request)).catch(() => null) : { active: false };
  if (session?.code) { // evidence is missing or refused; the session lives
    const error = session.code === "use_dpop_nonce" ? session.code : "invalid_dpop_proof";
    response.setHeader("Coatcheck-Code", session.code).setHeader("DPoP-Nonce", session.nonce)
      .setHeader("WWW-Authenticate", `DPoP error="${error}", algs="ES256"`);
  }
  if (!session) response.setHeader("Retry-After", 5);
  response.writeHead(!session ? 503 : session.active ? 200 : 401).end(session?.sub);
}).listen(process.env.PORT, "127.0.0.1");
