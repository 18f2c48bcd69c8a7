"use strict";

// The page draws the state that the sandbox sends, and reports each pressed button. The phone itself runs in the sandbox.
const token = document.querySelector("meta[name=playground-token]").content;
const byID = (id) => document.getElementById(id);
const seen = { after: 0, version: -1, beginning: -1 };
let variables = "";
let shown = "";

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

async function send(action, body = {}) {
  const answer = await fetch(action, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Playground-Token": token },
    body: JSON.stringify(body),
  });
  if (answer.status === 403) location.reload();
  return answer.json();
}

const act = (action, body) => send(action, body).catch(() => {});

// ---- the phone's key, which this browser makes and cannot export. The phone in the sandbox sends the texts to sign

const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const requested = (request) => new Promise((done, fail) => { request.onsuccess = () => done(request.result); request.onerror = () => fail(request.error); });
const curve = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
let deviceKey;
let presenceKey;

// Returns the key that all pages of this browser share, even after a reload. If the browser stores nothing (private windows),
// each page has a key of its own.
async function findKey(name = "phone") {
  const made = await crypto.subtle.generateKey(curve, false, ["sign"]);
  try {
    const opening = indexedDB.open("coatcheck-playground", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("keys");
    const database = await requested(opening);
    const keys = (mode) => database.transaction("keys", mode).objectStore("keys");
    // If two pages load at the same time, the key that was added first stays, and `add` fails for the other.
    await requested(keys("readwrite").add(made, name)).catch(() => {});
    return await requested(keys("readonly").get(name)) ?? made;
  } catch {
    return made;
  }
}

async function showKey() {
  deviceKey ??= await findKey();
  const { x, y } = await crypto.subtle.exportKey("jwk", deviceKey.publicKey);
  await send("key", { x, y });
  presenceKey ??= await findKey("presence");
  const asking = await crypto.subtle.exportKey("jwk", presenceKey.publicKey);
  await send("key", { for: "presence", x: asking.x, y: asking.y });
}

async function sign(orders) {
  for (const { number, text } of orders) {
    const signature = await crypto.subtle.sign(curve, deviceKey.privateKey, new TextEncoder().encode(text));
    await send("signed", { number, signature: base64url(signature) });
  }
}

// The second key signs only when the user presses the button. Here the page ensures this, and on a phone the hardware does.
let questions = [];

async function confirm() {
  for (const { number, text } of questions.splice(0)) {
    const signature = await crypto.subtle.sign(curve, presenceKey.privateKey, new TextEncoder().encode(text));
    await act("signed", { for: "presence", number, signature: base64url(signature) });
  }
}

function showQuestion(screen, confirming) {
  questions = screen.question ? confirming : [];
  const sheet = byID("question");
  const opens = sheet.hidden && screen.question !== "";
  const closes = !sheet.hidden && screen.question === "";
  if (opens) asker = document.activeElement;
  sheet.hidden = screen.question === "";
  byID("asked").textContent = screen.question;
  // The question is modal, so all other parts of the page are inert until the user has answered it.
  for (const part of [byID("screen"), ...document.querySelectorAll("header, .talk, .trouble")]) part.inert = !sheet.hidden;
  if (opens) {
    bringPhone();
    byID("yes").focus({ preventScroll: true });
  }
  if (closes && asker?.isConnected && document.activeElement === document.body) asker.focus({ preventScroll: true });
}

// The element that had the focus before the question came.
let asker = null;

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || byID("question").hidden) return;
  event.preventDefault();
  act("no");
});

// Scrolls to the phone unless it is completely visible, because on a small screen the switches are far below it.
function bringPhone() {
  const place = document.querySelector(".phone").getBoundingClientRect();
  if (place.top < 0 || place.bottom > innerHeight) document.querySelector(".stage").scrollIntoView({ block: "start" });
}

// ---- the phone

function signInButtons(screen, providers) {
  const disabled = screen.busy !== "";
  return make("div", { className: "list choices" }, ...providers.map((provider) =>
    make("button", { type: "button", className: "choice", disabled, "data-provider": provider.name,
      onclick: () => act("sign-in", { provider: provider.name }) },
      provider.title, make("small", {}, provider.remark))),
  make("button", { type: "button", id: "old-app", className: "choice", disabled, onclick: () => act("old-app") },
    "An older version of the app", make("small", {}, "it has the provider's tokens, and moves in")));
}

function home(screen, providers) {
  return [
    make("h3", {}, "Corner Shop"),
    screen.message ? make("p", { className: "word", role: "status", id: "word" }, screen.message)
      : make("p", { className: "muted" }, "Sign in to see your orders."),
    signInButtons(screen, providers),
  ];
}

// The app before its update. Its own SDK has signed the user in, so the provider's tokens are on the phone.
function oldApp(screen) {
  return [
    make("h3", {}, "Corner Shop, version 1"),
    make("p", { className: "muted" }, `You are signed in with ${screen.provider_title}, by this app's own SDK. These tokens are on the phone:`),
    make("dl", { className: "facts", id: "old-tokens" }, ...Object.entries(screen.old_tokens || {}).flatMap(([name, token]) => [make("dt", {}, name), make("dd", {}, token)])),
    screen.message ? make("p", { className: "word", role: "status", id: "word" }, screen.message) : null,
    make("button", { type: "button", id: "update", className: "primary", disabled: screen.busy !== "", onclick: () => act("update") }, "Update the app"),
    make("button", { type: "button", className: "secondary push", disabled: screen.busy !== "", onclick: () => act("cancel") }, "Delete the app"),
  ];
}

function consent(screen) {
  return [
    make("p", { className: "address" }, screen.address),
    make("h3", {}, screen.provider_title),
    screen.step_up ? make("p", { className: "word", id: "step-up" }, screen.step_up) : null,
    make("p", { className: "muted" }, screen.step_up ? "This is the provider's page, in the phone's browser. You are still signed in; close it, and nothing is paid."
      : screen.has_payments ? "This is the provider's page, in the phone's browser. You signed in here an hour ago; “Corner Shop” asks who you are."
        : "This is the provider's page, in the phone's browser. “Corner Shop” asks who you are."),
    make("div", { className: "list" }, ...screen.people.map((person, index) =>
      make("button", { type: "button", className: index === 0 ? "primary" : "secondary", disabled: screen.busy !== "",
        "data-person": person.name, onclick: () => act("choose", { as: person.name }) }, person.title))),
    make("button", { type: "button", className: "secondary push", disabled: screen.busy !== "", onclick: () => act("cancel") }, "Close the browser"),
  ];
}

function registration(screen) {
  const fields = screen.registration.fields || [];
  const form = make("form", { id: "registration" }, ...fields.map((field) => {
    const check = field.type === "boolean";
    const input = make("input", { name: field.name, type: check ? "checkbox" : "text", required: field.required && !check,
      value: field.name === "first-name" ? "Nell" : "", autocomplete: "off" });
    return make("label", { className: check ? "field check" : "field" }, ...(check ? [input, field.name] : [field.name, input]));
  }), make("button", { type: "submit", className: "primary", disabled: screen.busy !== "" }, "Finish"));
  form.onsubmit = (event) => {
    event.preventDefault();
    const attributes = {};
    for (const field of fields) {
      const input = form.elements[field.name];
      if (field.type === "boolean") attributes[field.name] = input.checked;
      else if (input.value) attributes[field.name] = field.type === "number" ? Number(input.value) : input.value;
    }
    act("register", { attributes });
  };
  return [
    make("h3", {}, "Almost there"),
    make("p", { className: "muted" }, `${screen.registration.identifier} is new at ${screen.provider_title}: something is missing.`),
    form,
    make("button", { type: "button", className: "secondary push", onclick: () => act("cancel") }, "Not now"),
  ];
}

const time = (text) => text ? new Date(text).toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }) : "not told";

function session(screen) {
  const it = screen.session;
  const name = it.identity.name || it.identity.email || it.subject;
  const facts = {
    session: it.handle, subject: it.subject, scope: it.scope.join(" ") || "–", "signed in": `until ${time(it.expires_at)}`,
    tokens: `until ${time(it.tokens.expires_at)}, ${it.tokens.refreshable ? "refreshable" : "not refreshable"}`,
    ...(screen.has_payments ? { "last sign-in": `${time(it.authenticated_at)}${it.acr ? `, ${it.acr}` : ""}` } : {}),
    key: it.binding ? `${it.binding.jkt.slice(0, 8)}… of this phone` : "none",
    ...(it.presence ? { "asks you": `${it.presence.jkt.slice(0, 8)}…, another key` } : {}),
  };
  return [
    make("div", { className: "person" }, make("span", { className: "avatar", "aria-hidden": "true" }, name.slice(0, 1).toUpperCase()),
      make("div", {}, make("b", { id: "name" }, name), make("span", { className: "muted" }, `signed in with ${screen.provider_title}`))),
    make("dl", { className: "facts" }, ...Object.entries(facts).flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)])),
    make("div", { className: screen.has_shop ? "pair calls" : "calls" },
      make("button", { type: "button", id: "call", className: "primary", disabled: screen.busy !== "", onclick: () => act("call") }, "Call the API"),
      screen.has_shop ? make("button", { type: "button", id: "open-shop", className: "secondary", disabled: screen.busy !== "", onclick: () => act("shop") }, "Open the shop") : null),
    screen.has_payments ? make("div", { className: "pair" },
      make("button", { type: "button", id: "pay-20", className: "secondary", disabled: screen.busy !== "", onclick: () => act("pay", { amount: 20 }) }, "Pay 20 €"),
      make("button", { type: "button", id: "pay-500", className: "secondary", disabled: screen.busy !== "", onclick: () => act("pay", { amount: 500 }) }, "Pay 500 €")) : null,
    screen.paid ? make("p", { className: "said", id: "paid" }, make("b", {}, "Paid"), screen.paid) : null,
    screen.relay ? make("p", { className: "said", id: "relay" }, make("b", {}, "The API, through the relay"), screen.relay) : null,
    screen.shop ? make("div", { className: "web", id: "shop" }, make("p", { className: "address" }, screen.shop_address),
      make("p", {}, make("b", {}, "Corner Shop, in a web view"), screen.shop)) : null,
    screen.events.length ? make("p", { className: "said", id: "events" }, make("b", {}, "Events"), screen.events.join(", ")) : null,
    make("div", { className: "pair push" },
      make("button", { type: "button", id: "listen", className: "secondary", disabled: screen.busy !== "",
        "aria-pressed": String(screen.listening), onclick: () => act("listen", { on: !screen.listening }) },
        screen.listening ? "Stop listening" : "Listen"),
      make("button", { type: "button", id: "sign-out", className: "secondary", disabled: screen.busy !== "", onclick: () => act("sign-out") }, "Sign out")),
  ];
}

// Replaces the children of `target`, and keeps each node that is unchanged. A button that is replaced between press and release
// loses the click.
function morph(target, fresh) {
  const key = (node) => `${node.nodeName} ${node.id || ""} ${node.className || ""} ${node.dataset?.provider || node.dataset?.person || ""}`;
  const had = [...target.childNodes];
  let next = target.firstChild;
  for (const node of fresh) {
    const at = had.findIndex((old) => key(old) === key(node));
    const kept = at < 0 ? node : had.splice(at, 1)[0];
    if (kept !== next) target.insertBefore(kept, next);
    else next = next.nextSibling;
    if (kept === node) continue;
    if (node.nodeType === Node.TEXT_NODE) {
      if (kept.data !== node.data) kept.data = node.data;
      continue;
    }
    for (const { name } of [...kept.attributes]) if (!node.hasAttribute(name)) kept.removeAttribute(name);
    for (const { name, value } of node.attributes) if (kept.getAttribute(name) !== value) kept.setAttribute(name, value);
    Object.assign(kept, { onclick: node.onclick, onsubmit: node.onsubmit });
    morph(kept, [...node.childNodes]);
  }
  for (const old of had) old.remove();
}

function showPhone(screen, providers) {
  const now = JSON.stringify([screen, providers]);
  if (now === shown) return;
  shown = now;
  const target = byID("screen");
  const held = document.activeElement && target.contains(document.activeElement) ? document.activeElement : null;
  const same = held && held !== target && (held.id ? `#${held.id}` : held.dataset.provider ? `[data-provider="${held.dataset.provider}"]` : null);
  const draw = { home, consent, registration, session, "old-app": oldApp }[screen.view];
  // Leave the registration form alone while the user fills it in, even if other parts of the screen change.
  if (!(screen.view === "registration" && target.dataset.view === "registration" && !screen.busy && byID("registration"))) {
    morph(target, draw(screen, providers).filter((child) => child !== null));
  }
  // If a switch opens the provider's page, scroll to the phone.
  if (screen.view === "consent" && target.dataset.view === "session") bringPhone();
  target.dataset.view = screen.view;
  // If all buttons are disabled for the moment, focus the screen itself.
  if (held) (same && target.querySelector(`${same}:enabled`) || target.querySelector("button:enabled, input") || target).focus();
  byID("busy").hidden = screen.busy === "";
  byID("busy").textContent = screen.busy ? `${screen.busy} …` : "";
  byID("live").textContent = screen.view !== "session" ? "" : screen.listening ? "events on" : "events off";
  byID("live").classList.toggle("on", screen.listening);
}

// ---- the conversation

function copyButton(text) {
  const button = make("button", { type: "button", className: "small" }, "Copy");
  button.onclick = async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  return button;
}

function row(message) {
  const item = make("li", { className: `${message.kind} ${message.tone}`, "data-number": String(message.number) });
  if (message.kind === "note") {
    item.append(make("p", {}, message.title));
    return item;
  }
  const order = ["app", "broker", "provider"];
  const right = order.indexOf(message.from) < order.indexOf(message.to);
  const [left, far] = right ? [message.from, message.to] : [message.to, message.from];
  const summary = make("summary", { "aria-label": `${message.who || message.from} to ${message.to}: ${message.title}` },
    make("span", { className: `arrow ${left[0]}-${far[0]} ${right ? "right" : "left"}` },
      make("span", { className: "label" }, message.who ? make("span", { className: "who" }, message.who) : null, make("span", {}, message.title)),
      make("span", { className: "line" })));
  const more = make("div", { className: "more" }, make("pre", { tabIndex: 0 }, message.details));
  if (message.curl) more.append(make("div", { className: "curl" }, make("code", {}, message.curl), copyButton(message.curl)));
  item.append(make("details", {}, summary, more));
  return item;
}

// The page follows the conversation until the user scrolls away from its end. From then on, it counts the new messages.
let following = true;
let followedTo = 0;
let below = 0;

const isAtEnd = () => { const box = byID("scroller"); return box.scrollHeight - box.scrollTop - box.clientHeight < 40; };

// Compare the position, because the event of the user's scrolling comes a frame late. Opened rows make the conversation longer,
// so the page also follows if the position has not moved back.
const isFollowed = () => following && (byID("scroller").scrollTop >= followedTo || isAtEnd());

function follow() {
  following = true;
  below = 0;
  byID("below").hidden = true;
  byID("scroller").scrollTop = byID("scroller").scrollHeight;
  followedTo = byID("scroller").scrollTop;
}

function showMessages(messages) {
  if (!messages.length) return;
  const followed = isFollowed();
  const list = byID("messages");
  const rows = messages.map(row);
  list.append(...rows);
  while (list.children.length > 400) list.firstChild.remove();
  if (followed) return follow();
  below += rows.length;
  byID("below").textContent = `↓ ${below} new`;
  byID("below").hidden = false;
}

byID("scroller").addEventListener("scroll", () => {
  following = isFollowed() || isAtEnd();
  if (following) { below = 0; byID("below").hidden = true; }
});
byID("below").onclick = follow;

// Scroll so that an opened message is visible completely, or as much of it as fits.
byID("messages").addEventListener("toggle", (event) => {
  if (!event.target.open) return;
  const box = byID("scroller");
  const item = event.target.getBoundingClientRect();
  const room = box.getBoundingClientRect();
  const over = Math.min(item.bottom - room.bottom, item.top - room.top);
  if (over > 0) box.scrollTop += over;
}, true);

// ---- the switches

const groups = { network: "The network and the provider", thief: "A thief", user: "The user" };

// Whether the phone waits for its user, either for an answer to a question or at the provider's page.
const waits = (screen) => screen.question !== "" || screen.step_up !== "";

// The reason why a switch does not apply now; empty if it applies.
function unfit(each, screen) {
  const signedIn = screen.view === "session";
  if (each.needs_session && waits(screen)) return "The phone waits for you: answer it first.";
  if (each.needs_session && !signedIn) return "Sign in first.";
  if (each.needs_old_app && screen.view !== "old-app") return "The app is up to date: sign in with the older version first.";
  if (each.needs_refreshing && !screen.session.tokens.refreshable) return `${screen.provider_title} gives no refresh token: nothing to try.`;
  if (each.needs_payments && !screen.has_payments) return "Nothing is paid with this provider: sign in with OpenID Connect.";
  if (each.needs_key && !screen.session.binding) return "This session belongs to no key: sign in with OpenID Connect, bound.";
  if (each.needs_shop && !screen.has_shop) return "This client opens no page: sign in with OpenID Connect.";
  return "";
}

function throwSwitch(name) {
  if (byID("switches").querySelector(`[data-trouble="${name}"]`).classList.contains("waits")) return bringPhone();
  follow();
  act("trouble", { name });
}

function showSwitches(switches, screen) {
  const box = byID("switches");
  if (!box.children.length) {
    box.append(...Object.entries(groups).map(([group, title]) => make("div", { role: "group", "aria-labelledby": `group-${group}` },
      make("h3", { id: `group-${group}` }, title),
      make("div", { className: "switches" }, ...switches.filter((each) => each.group === group).map((each) =>
        make("button", { type: "button", className: "switch", "data-trouble": each.name, onclick: () => throwSwitch(each.name) },
          make("b", {}, each.title), make("small", {}, each.explanation)))))));
  }
  for (const each of switches) {
    const button = box.querySelector(`[data-trouble="${each.name}"]`);
    const revives = each.name === "kill-provider";
    const why = unfit(each, screen);
    const leads = why !== "" && waits(screen);
    button.classList.toggle("waits", leads);
    button.disabled = !leads && (why !== "" || (!revives && screen.busy !== ""));
    button.lastChild.textContent = why || each.explanation;
    button.dataset.fits = String(why === "");
    if (revives) {
      button.setAttribute("aria-pressed", String(screen.providers_down));
      button.firstChild.textContent = screen.providers_down ? "Revive the provider" : each.title;
    }
  }
  for (const list of box.querySelectorAll(".switches")) putFittingFirst(list, switches.map((each) => each.name));
}

// While a button is pressed, leave the order as it is, because a button that moves between press and release loses the click.
function putFittingFirst(list, names) {
  const place = (button) => names.indexOf(button.dataset.trouble) + (button.dataset.fits === "true" ? 0 : names.length);
  const sorted = [...list.children].sort((one, other) => place(one) - place(other));
  if (list.querySelector(":active") || sorted.every((button, index) => button === list.children[index])) return;
  const held = list.contains(document.activeElement) ? document.activeElement : null;
  list.append(...sorted);
  held?.focus({ preventScroll: true });
}

function showNoticed(screen) {
  const text = screen.noticed || (screen.busy ? "…" : "–");
  if (byID("noticed").textContent !== text) byID("noticed").textContent = text;
  byID("noticed").dataset.count = screen.notices;
  const why = screen.noticed ? screen.explanation : screen.busy ? "" : "Throw a switch.";
  if (byID("explanation").textContent !== why) byID("explanation").textContent = why;
}

// ---- the news from the sandbox

function show(news) {
  if (news.beginning !== seen.beginning) byID("messages").replaceChildren();
  Object.assign(seen, { after: news.last, version: news.version, beginning: news.beginning });
  variables = news.variables;
  showPhone(news.screen, news.providers);
  showQuestion(news.screen, news.confirm);
  showSwitches(news.switches, news.screen);
  showNoticed(news.screen);
  showMessages(news.messages);
}

async function watch() {
  for (;;) {
    try {
      await showKey();
      for (;;) {
        const news = await send("wait", seen);
        show(news);
        byID("lost").hidden = true;
        await sign(news.sign);
      }
    } catch {
      byID("lost").hidden = false;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

const fit = () => { document.querySelector(".lifelines").style.paddingRight = `${byID("scroller").offsetWidth - byID("scroller").clientWidth}px`; };
fit();
addEventListener("resize", fit);
byID("yes").onclick = confirm;
byID("no").onclick = () => act("no");
byID("clear").onclick = () => act("clear");
byID("variables").onclick = async () => {
  await navigator.clipboard.writeText(variables);
  byID("variables").textContent = "Copied";
  setTimeout(() => { byID("variables").textContent = "Copy the variables"; }, 1500);
};
const tick = () => { byID("clock").textContent = new Date().toLocaleTimeString([], { hour: "numeric", minute: "2-digit" }); };
tick();
setInterval(tick, 10000);
watch();
