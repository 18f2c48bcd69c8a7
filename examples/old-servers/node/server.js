// An old server: Node's http, with its sessions in Redis, in the form of express-session and connect-redis. It signs users in at
// a provider, and keeps their refresh tokens in its session records.
"use strict";
const { createHash, randomBytes, timingSafeEqual } = require("node:crypto");
const http = require("node:http");
const { setTimeout: wait } = require("node:timers/promises");
const signature = require("cookie-signature");
const { createClient } = require("redis");

const { ISSUER, ORIGIN, CLIENT_ID, CLIENT_SECRET, SECRET_KEY, REDIS_URL, PORT } = process.env;
const [IDLE, LIFETIME] = [Number(process.env.IDLE_SECONDS), Number(process.env.LIFETIME_SECONDS)];
const store = createClient({ url: REDIS_URL });
store.on("error", () => {}); // a call that fails throws
const now = () => Date.now() / 1000;
const random = () => randomBytes(32).toString("base64url");

const read = async (sid) => JSON.parse(await store.get("sess:" + sid));
const keepsEnd = { XX: true, KEEPTTL: true }; // keeps the record's end, and does not bring back a record that has ended

// Runs one after the other for a session. Waits for 3 s, and then throws. The lock ends after 30 s if this process dies.
async function locked(sid, work) {
  const [name, mine, end] = ["lock:" + sid, random(), now() + 3];
  while (!(await store.set(name, mine, { NX: true, PX: 30_000 }))) {
    if (now() > end) throw new Error("the session's lock is taken");
    await wait(20);
  }
  try {
    return await work();
  } finally {
    const release = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end";
    await store.eval(release, { keys: [name], arguments: [mine] });
  }
}

// Calls the provider. Throws if the provider refuses or is away.
async function provider(path, form, token) {
  const basic = Buffer.from(`${CLIENT_ID}:${CLIENT_SECRET}`).toString("base64");
  const answer = await fetch(ISSUER + path, { method: form ? "POST" : "GET", body: form && new URLSearchParams(form),
    headers: { Authorization: token ? `Bearer ${token}` : `Basic ${basic}` }, signal: AbortSignal.timeout(10_000) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.includes("invalid_grant") ? "invalid_grant" : `the provider answers ${answer.status}`);
  return text ? JSON.parse(text) : {};
}

const tokens = ({ access_token, expires_in, refresh_token }) =>
  ({ access_token, access_ends_at: now() + expires_in, ...(refresh_token && { refresh_token }) });

// The cookie `name` of a request, as its bytes are.
const cookie = (request, name) =>
  request.headers.cookie?.split("; ").find((each) => each.startsWith(name + "="))?.slice(name.length + 1) ?? "";

// The session's name in a cookie, read as express-session reads it: `s:NAME.SIGNATURE`, encoded. Null if the signature is wrong.
function sidOf(value) {
  try {
    const plain = decodeURIComponent(value);
    return (plain.startsWith("s:") && signature.unsign(plain.slice(2), SECRET_KEY)) || null;
  } catch {
    return null;
  }
}

async function login(request, response) {
  const [state, verifier] = [random(), random()];
  const challenge = createHash("sha256").update(verifier).digest("base64url");
  const query = new URLSearchParams({ client_id: CLIENT_ID, redirect_uri: ORIGIN + "/callback", response_type: "code", state,
    scope: "openid profile offline_access", code_challenge_method: "S256", code_challenge: challenge });
  response.setHeader("Set-Cookie", `login=${state}.${verifier}; Path=/callback; HttpOnly; SameSite=Lax; Max-Age=600`);
  response.writeHead(302, { Location: `${ISSUER}/authorize?${query}` }).end();
}

async function callback(request, response, query) {
  const [state, verifier] = cookie(request, "login").split(".");
  const code = query.get("code");
  if (!verifier || query.get("state") !== state || !code) return response.writeHead(400).end("this sign-in was not started here");
  const answer = await provider("/token",
    { grant_type: "authorization_code", code, redirect_uri: ORIGIN + "/callback", code_verifier: verifier });
  const { sub } = await provider("/userinfo", null, answer.access_token);
  const sid = random();
  const record = { cookie: { originalMaxAge: IDLE * 1000, httpOnly: true, path: "/" }, ...tokens(answer), sub,
    created_at: Math.floor(now()), scope: answer.scope ?? "", device: (request.headers["user-agent"] ?? "").slice(0, 64) };
  await store.set("sess:" + sid, JSON.stringify(record), { EX: IDLE });
  const value = encodeURIComponent("s:" + signature.sign(sid, SECRET_KEY));
  response.setHeader("Set-Cookie", [`connect.sid=${value}; Path=/; HttpOnly; SameSite=Lax`, "login=; Path=/callback; Max-Age=0"]);
  response.writeHead(302, { Location: "/" }).end();
}

const isDue = (record) => record?.access_ends_at < now() + 60 && record.refresh_token;

// The session's record, refreshed if its access token ends within a minute. Null if the session has ended.
const fresh = (sid) => locked(sid, async () => {
  const record = await read(sid); // again, because another request may have refreshed it
  if (!isDue(record)) return record;
  try {
    Object.assign(record, tokens(await provider("/token", { grant_type: "refresh_token", refresh_token: record.refresh_token })));
  } catch (error) {
    if (error.message !== "invalid_grant") throw error;
    await store.del("sess:" + sid);
    return null;
  }
  await store.set("sess:" + sid, JSON.stringify(record), keepsEnd);
  return record;
});

async function page(request, response) {
  const sid = sidOf(cookie(request, "connect.sid"));
  let record = sid && await read(sid);
  if (isDue(record)) record = await fresh(sid);
  // (d) A session that has moved goes on until its access token ends.
  if (!record || record.access_ends_at < now() || record.created_at + LIFETIME < now())
    return response.writeHead(401).end("sign in at /login");
  await store.expire("sess:" + sid, IDLE);
  response.writeHead(200).end("Hello, " + (await provider("/userinfo", null, record.access_token)).name);
}

async function logout(request, response) {
  const sid = sidOf(cookie(request, "connect.sid"));
  const record = sid && await locked(sid, async () => {
    const record = await read(sid);
    await store.del(["sess:" + sid, "claim:" + sid]); // (e)
    return record;
  });
  if (record?.refresh_token) await provider("/revoke", { token: record.refresh_token }); // (c) A session that has moved has none.
  response.writeHead(200, { "Set-Cookie": "connect.sid=; Path=/; Max-Age=0" }).end("signed out");
}

// ---- The claim part: copy it from here. -------------------------------------------------------------------------------------

const CREDENTIAL = process.env.CREDENTIAL;
const UNTIL = Date.parse(process.env.UNTIL + "T00:00:00Z") / 1000 + 86_400; // the end of that day in UTC
const digest = (text) => createHash("sha256").update(text).digest();

async function claim(request, response) {
  const answerWith = (status, body) => response.writeHead(status, { "Content-Type": "application/json" }).end(body);
  // The digests have one length, and timingSafeEqual needs that.
  if (!timingSafeEqual(digest(request.headers.authorization ?? ""), digest("Bearer " + CREDENTIAL)))
    return answerWith(401, '{"error":"the credential is wrong"}');
  let text = "";
  for await (const part of request.setEncoding("utf8")) if ((text += part).length > 65_536) break;
  let id, token;
  try {
    ({ id, token } = JSON.parse(text));
  } catch {} // the next line refuses it
  if (typeof id !== "string" || !/^[A-Za-z0-9_-]{43}$/.test(id) || typeof token !== "string")
    return answerWith(400, '{"error":"id or token is missing"}');
  const sid = sidOf(token);
  const answer = sid && await answerOf(id, sid);
  if (!answer) return answerWith(404, JSON.stringify({ id }));
  answerWith(200, answer);
}

// The one answer about this session. Null if the session is unknown, or has moved with another id.
async function answerOf(id, sid) {
  const kept = () => store.get("claim:" + sid);
  // (b) A refresh in progress ends first.
  const found = await kept() ?? await locked(sid, async () => await kept() ?? await move(id, sid));
  return found?.startsWith(id) ? found.slice(44) : null;
}

// Takes the refresh token out of the session's record, and keeps it in an answer of its own.
async function move(id, sid) {
  const { refresh_token, ...record } = await read(sid) ?? {};
  const ends = record.created_at + LIFETIME;
  if (!refresh_token || ends < now()) return null;
  const { sub: subject, scope, created_at, device } = record;
  const found = id + "\n" + JSON.stringify({ subject, refresh_token, scope, created_at, expires_at: ends, device });
  await store.multi() // both writes or none
    .set("claim:" + sid, found, { EXAT: Math.ceil(Math.max(ends, UNTIL)) }) // (a)
    // (c) Refreshes and revocations see only the rest of the record.
    .set("sess:" + sid, JSON.stringify(record), keepsEnd)
    .exec();
  return found;
}

// ---- The end of the claim part. ---------------------------------------------------------------------------------------------

const routes = {
  "GET /": page, "GET /login": login, "GET /callback": callback, "POST /logout": logout, "POST /coatcheck/claim": claim };

const server = http.createServer(async (request, response) => {
  try {
    const url = new URL(request.url, ORIGIN);
    const route = routes[`${request.method} ${url.pathname}`];
    if (!route) return response.writeHead(404).end("there is no such page");
    await route(request, response, url.searchParams);
  } catch {
    if (!response.headersSent) response.writeHead(503, { "Retry-After": 2 }).end("try again");
  }
});
store.connect().then(() => server.listen(PORT, "127.0.0.1"));
