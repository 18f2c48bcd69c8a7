// Made by scripts/embed-page from Sources/Sandbox/Playground/Page; not for editing.
// swift-format-ignore-file

/// The playground's page as served at `/playground/`.
enum PlaygroundPage {
    /// The page; `@TOKEN@` stands for the token of this start.
    static let html = ##"""
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="playground-token" content="@TOKEN@">
<title>Coatcheck playground</title>
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="style.css">
<script src="script.js" defer></script>
</head>
<body>
<header>
  <img src="icon.svg" alt="" width="34" height="34">
  <div>
    <h1>Coatcheck playground</h1>
    <p>Sign in on the phone, watch what is said, then make trouble. Nothing here leaves this machine.</p>
  </div>
</header>

<main>
  <section class="stage" aria-labelledby="phone-title">
    <h2 id="phone-title" class="unseen">The phone</h2>
    <div class="phone">
      <div class="bar" aria-hidden="true"><span id="clock">9:41</span><span class="island"></span><span id="live"></span></div>
      <p id="busy" class="busy" hidden></p>
      <div id="screen" class="screen" tabindex="-1"></div>
      <div id="question" class="question" role="dialog" aria-modal="true" aria-labelledby="asked" hidden>
        <h3 id="asked"></h3>
        <p>On a phone the system asks here (Face ID, a fingerprint), and its hardware signs. This page stands in for it: its button lets a second key of this browser sign.</p>
        <div class="pair"><button id="yes" class="primary" type="button">Confirm</button><button id="no" class="secondary" type="button">Cancel</button></div>
      </div>
      <div class="home-bar" aria-hidden="true"></div>
    </div>
  </section>

  <section class="talk" aria-labelledby="talk-title">
    <div class="head">
      <h2 id="talk-title">What is said</h2>
      <button id="variables" class="small" type="button">Copy the variables</button>
      <button id="clear" class="small" type="button">Clear</button>
    </div>
    <div class="lifelines" aria-hidden="true"><span>App</span><span>Broker</span><span>Provider</span></div>
    <div id="scroller" class="scroller" tabindex="0" role="region" aria-label="The conversation, oldest first">
      <ol id="messages"></ol>
      <p id="empty">Every request and answer comes here: open one for its text and its curl line. Secrets are shortened.</p>
    </div>
    <button id="below" class="below" type="button" hidden></button>
  </section>

  <section class="result" aria-labelledby="noticed-title">
    <h2 id="noticed-title">What the user noticed</h2>
    <p role="status" aria-live="polite" aria-atomic="true"><strong id="noticed">–</strong> <span id="explanation">Throw a switch.</span></p>
  </section>

  <section class="trouble" aria-labelledby="trouble-title">
    <h2 id="trouble-title">Make trouble</h2>
    <div id="switches" class="groups"></div>
  </section>
</main>

<noscript><p class="noscript">The playground is a page with a script.</p></noscript>
<p id="lost" class="lost" role="alert" hidden>The sandbox does not answer. Is <code>make run</code> still going?</p>
</body>
</html>

"""##
    /// Its style.
    static let css = ##"""
:root {
  color-scheme: light dark;
  --ground: #f3f5f8; --surface: #fff; --sunken: #f7f8fa; --ink: #1a1f27; --muted: #5a6473; --rule: #d9dfe7;
  --accent: #2456c4; --on-accent: #fff; --accent-soft: #e6edfb;
  --good: #15713f; --warning: #8a5a00; --bad: #b3261e; --bad-soft: #fdecea; --good-soft: #e4f4ea; --warning-soft: #fdf3da;
  --shell: #15181e; --shadow: 0 1px 2px rgb(16 24 40 / 6%), 0 8px 24px rgb(16 24 40 / 8%);
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0f1217; --surface: #181d25; --sunken: #12161d; --ink: #e7eaf0; --muted: #9ba6b6; --rule: #2c3440;
    --accent: #84aeff; --on-accent: #0b1530; --accent-soft: #1d2a45;
    --good: #5bcb8f; --warning: #e5b64c; --bad: #ff8a80; --bad-soft: #3a1d1c; --good-soft: #16301f; --warning-soft: #362a10;
    --shell: #2b323d; --shadow: 0 0 0 1px rgb(255 255 255 / 4%), 0 8px 24px rgb(0 0 0 / 40%);
  }
}
* { box-sizing: border-box; }
html { scrollbar-color: var(--muted) transparent; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 var(--sans); }
h1, h2, h3, p, ol, dl, dd { margin: 0; padding: 0; }
h1 { font-size: 1.25rem; letter-spacing: -.01em; }
h2 { font-size: .95rem; }
button, input { font: inherit; color: inherit; }
button { cursor: pointer; }
button:disabled { cursor: not-allowed; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

header { display: flex; gap: .8rem; align-items: center; max-width: 1440px; margin: 0 auto; padding: 1rem 1.5rem .9rem; }
header p { color: var(--muted); }
main {
  display: grid; grid-template-columns: 344px minmax(0, 1fr); gap: 1.1rem 1.4rem; max-width: 1440px; margin: 0 auto;
  padding: 0 1.5rem 2rem;
}

/* The phone */
.phone {
  position: relative; display: flex; flex-direction: column; height: 600px; border: 10px solid var(--shell); border-radius: 44px;
  background: var(--surface); box-shadow: var(--shadow); overflow: hidden;
}
.bar { display: grid; grid-template-columns: 1fr auto 1fr; align-items: center; padding: .5rem 1.3rem .2rem; font-size: .75rem; font-weight: 600; }
.bar #live { justify-self: end; color: var(--muted); }
.bar #live.on { color: var(--good); }
.island { width: 84px; height: 22px; border-radius: 11px; background: var(--shell); }
.home-bar { width: 110px; height: 4px; border-radius: 2px; margin: .4rem auto .5rem; background: var(--muted); opacity: .5; }
.busy { position: absolute; z-index: 1; inset: 38px 16px auto; padding: .3rem .8rem; border-radius: 999px; background: var(--accent); color: var(--on-accent); font-size: .8rem; text-align: center; box-shadow: var(--shadow); }
.screen { flex: 1; overflow-y: auto; padding: .9rem 1.1rem .3rem; display: flex; flex-direction: column; gap: .75rem; }
.screen:focus { outline: none; }
.screen h3 { font-size: 1.25rem; letter-spacing: -.01em; }
.screen .muted { color: var(--muted); font-size: .87rem; }
.word { padding: .55rem .75rem; border-radius: 10px; background: var(--warning-soft); color: var(--warning); font-size: .9rem; font-weight: 600; }
.list { display: flex; flex-direction: column; gap: .4rem; }
.choice {
  display: flex; flex-direction: column; align-items: flex-start; width: 100%; padding: .45rem .8rem; border: 1px solid var(--rule);
  border-radius: 12px; background: var(--surface); text-align: left; font-weight: 600;
}
.choice small { color: var(--muted); font-weight: 400; font-size: .8rem; }
.choice:hover:enabled { border-color: var(--accent); background: var(--accent-soft); }
.primary { padding: .6rem .9rem; border: 0; border-radius: 12px; background: var(--accent); color: var(--on-accent); font-weight: 600; }
.secondary { padding: .55rem .9rem; border: 1px solid var(--rule); border-radius: 12px; background: var(--surface); font-weight: 600; }
.primary:hover:enabled { filter: brightness(1.08); }
.secondary:hover:enabled { border-color: var(--accent); }
.screen button:disabled { opacity: .5; }
.address { padding: .4rem .7rem; border-radius: 9px; background: var(--sunken); border: 1px solid var(--rule); font: .72rem/1.3 var(--mono); overflow-wrap: anywhere; }
.person { display: flex; gap: .7rem; align-items: center; }
.avatar { flex: none; display: grid; place-items: center; width: 44px; height: 44px; border-radius: 50%; background: var(--accent-soft); color: var(--accent); font-weight: 700; font-size: 1.15rem; }
.person b { display: block; }
.facts { display: grid; grid-template-columns: auto 1fr; gap: .12rem .7rem; padding: .6rem .75rem; border: 1px solid var(--rule); border-radius: 12px; font-size: .8rem; }
.facts dt { color: var(--muted); }
.facts dd { overflow-wrap: anywhere; font-family: var(--mono); font-size: .73rem; line-height: 1.5; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; }
.pair button { padding-inline: .3rem; font-size: .9rem; }
.said { padding: .5rem .75rem; border-radius: 10px; background: var(--sunken); border: 1px solid var(--rule); font-size: .82rem; overflow-wrap: anywhere; }
.said b { display: block; font-size: .75rem; color: var(--muted); font-weight: 600; }
.calls { display: grid; }
.web { flex: none; border: 1px solid var(--rule); border-radius: 10px; overflow: hidden; font-size: .82rem; }
.web .address { border-width: 0 0 1px; border-radius: 0; }
.web p + p { padding: .5rem .75rem; overflow-wrap: anywhere; }
.web b { display: block; }
.field { display: flex; flex-direction: column; gap: .2rem; font-size: .9rem; }
.field input:not([type=checkbox]) { padding: .5rem .7rem; border: 1px solid var(--rule); border-radius: 10px; background: var(--surface); }
.field.check { flex-direction: row; align-items: center; gap: .5rem; }
form { display: flex; flex-direction: column; gap: .75rem; }
.push { margin-top: auto; }
.question { position: absolute; z-index: 2; inset: auto 0 0; display: flex; flex-direction: column; gap: .6rem; padding: 1rem 1.1rem 1.4rem; border-top: 1px solid var(--rule); border-radius: 22px 22px 0 0; background: var(--surface); box-shadow: 0 -8px 24px rgb(0 0 0 / 25%); }
.question h3 { font-size: 1.1rem; }
.question p { color: var(--muted); font-size: .82rem; }

/* The conversation */
.talk { position: relative; display: flex; flex-direction: column; height: 600px; min-width: 0; border: 1px solid var(--rule); border-radius: 16px; background: var(--surface); box-shadow: var(--shadow); overflow: hidden; }
.talk .head { display: flex; gap: .5rem; align-items: center; padding: .6rem .9rem; }
.talk .head h2 { margin-right: auto; }
.small { padding: .2rem .65rem; border: 1px solid var(--rule); border-radius: 8px; background: var(--surface); font-size: .8rem; }
.small:hover { border-color: var(--accent); }
.lifelines { display: grid; grid-template-columns: repeat(3, 1fr); border-bottom: 1px solid var(--rule); background: var(--sunken); text-align: center; font-weight: 600; font-size: .85rem; }
.lifelines span { padding: .35rem 0; }
.scroller { flex: 1; overflow-y: scroll; scrollbar-width: thin; }
.scroller:focus-visible { outline-offset: -3px; }
#messages {
  list-style: none; min-height: 100%; padding: .4rem 0 1rem;
  background-image: linear-gradient(var(--rule) 0 0), linear-gradient(var(--rule) 0 0), linear-gradient(var(--rule) 0 0);
  background-size: 2px 100%; background-repeat: no-repeat; background-position: 16.667% 0, 50% 0, 83.333% 0;
}
#messages:empty { display: none; }
#empty { padding: 2rem; color: var(--muted); text-align: center; }
#messages:not(:empty) + #empty { display: none; }
#messages li { animation: come .25s ease-out; }
@keyframes come { from { opacity: 0; transform: translateY(4px); } }
summary { list-style: none; cursor: pointer; position: relative; padding: .16rem 0 .2rem; }
summary::-webkit-details-marker { display: none; }
summary:hover { background: color-mix(in srgb, var(--accent) 7%, transparent); }
summary:hover .label > span:last-child { background: none; }
summary:focus-visible { outline-offset: -3px; }
.arrow { display: block; position: relative; color: var(--ink); }
.a-b { margin-left: 16.667%; width: 33.333%; }
.b-p { margin-left: 50%; width: 33.333%; }
.a-p { margin-left: 16.667%; width: 66.667%; }
.label { display: block; padding: 0 .7rem; font: .74rem/1.35 var(--mono); text-align: center; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.label > span:last-child { padding: 0 .25em; background: var(--surface); }
.who { display: inline-block; margin-right: .15em; padding: 0 .45em; border-radius: 6px; background: var(--accent-soft); color: var(--accent); font: 600 .7rem/1.5 var(--sans); }
.line { display: block; height: 0; border-top: 2px solid currentcolor; position: relative; }
.answer .line, .event .line { border-top-style: dashed; }
.line::after { content: ""; position: absolute; top: -6px; border: 5px solid transparent; }
.right .line::after { right: 0; border-left-color: currentcolor; border-right: 0; border-left-width: 9px; }
.left .line::after { left: 0; border-right-color: currentcolor; border-left: 0; border-right-width: 9px; }
.good .arrow { color: var(--good); }
.warning .arrow { color: var(--warning); }
.bad .arrow { color: var(--bad); }
.bad .who { background: var(--bad-soft); color: var(--bad); }
.note { padding: .5rem 1rem; }
.note p { padding: .35rem .8rem; border-radius: 9px; border: 1px solid var(--rule); background: var(--sunken); text-align: center; font-size: .84rem; font-weight: 600; }
.note.warning p { background: var(--warning-soft); color: var(--warning); }
.note.good p { background: var(--good-soft); color: var(--good); }
.more { margin: .2rem 1rem .7rem; border: 1px solid var(--rule); border-radius: 10px; background: var(--sunken); overflow: hidden; }
.more pre { margin: 0; padding: .6rem .8rem; max-height: 15rem; overflow: auto; font: .75rem/1.45 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; }
.curl { display: flex; gap: .6rem; align-items: flex-start; padding: .5rem .8rem; border-top: 1px solid var(--rule); background: var(--surface); }
.curl code { flex: 1; font: .75rem/1.45 var(--mono); overflow-wrap: anywhere; }

.below { position: absolute; inset: auto auto .8rem 50%; translate: -50%; padding: .3rem .9rem; border: 0; border-radius: 999px; background: var(--accent); color: var(--on-accent); font-size: .8rem; font-weight: 600; box-shadow: var(--shadow); }

/* Trouble and what came of it: three lines have room, so that the switches stay where they are */
.result { grid-column: 1 / -1; display: grid; grid-template-columns: 344px minmax(0, 1fr); gap: 1.4rem; align-items: center; min-height: 6.6rem; padding: .7rem 0; border-block: 1px solid var(--rule); }
.result h2 { font-size: 1.05rem; text-align: right; color: var(--muted); font-weight: 600; }
#noticed { font-size: 1.2rem; margin-right: .3rem; }
#explanation { color: var(--muted); }
.trouble { grid-column: 1 / -1; }
.groups { display: grid; gap: .9rem; margin-top: .5rem; }
.groups h3 { font-size: .85rem; color: var(--muted); font-weight: 600; }
.switches { display: grid; grid-template-columns: repeat(5, 1fr); gap: .7rem; margin-top: .3rem; }
.switch { display: flex; flex-direction: column; align-items: flex-start; gap: .1rem; padding: .6rem .8rem; border: 1px solid var(--rule); border-radius: 12px; background: var(--surface); text-align: left; box-shadow: var(--shadow); }
.switch b { color: var(--bad); }
.switch small { color: var(--muted); font-size: .8rem; line-height: 1.35; }
.switch:hover:enabled { border-color: var(--bad); }
.switch[aria-pressed=true] { border-color: var(--bad); background: var(--bad-soft); }
.switch:disabled { opacity: .55; box-shadow: none; }
.switch.waits { opacity: .75; border-style: dashed; }
.stage { scroll-margin-top: .5rem; }
.lost, .noscript { position: fixed; inset: auto 1rem 1rem; padding: .8rem 1rem; border-radius: 12px; background: var(--bad-soft); color: var(--bad); font-weight: 600; text-align: center; }
.lost[hidden], .busy[hidden], .below[hidden], .question[hidden] { display: none; }

@media (max-width: 900px) {
  main { grid-template-columns: minmax(0, 1fr); }
  .stage { max-width: 360px; width: 100%; margin: 0 auto; }
  /* Phone, conversation and switches are below each other: what a switch did stays in sight. */
  .result { position: sticky; bottom: 0; z-index: 2; grid-template-columns: 1fr; gap: .2rem; min-height: 7.4rem; align-content: start; background: var(--ground); order: 1; }
  .result h2 { text-align: left; }
  .switches { grid-template-columns: repeat(3, 1fr); }
}
@media (max-width: 560px) {
  .talk { height: 460px; }
  .switches { grid-template-columns: repeat(2, 1fr); }
  .label { white-space: normal; overflow-wrap: anywhere; padding: 0 .2rem; }
  .a-b, .b-p { width: 40%; }
  .a-b { margin-left: 10%; }
  .b-p { margin-left: 50%; }
  .a-p { margin-left: 10%; width: 80%; }
  #messages { background-position: 10% 0, 50% 0, 90% 0; }
  .lifelines { grid-template-columns: 1fr 3fr 1fr; }
}
@media (min-width: 1800px) and (min-height: 1000px) {
  header, main { max-width: 2200px; }
  .talk { height: clamp(600px, calc(100vh - 25rem), 1000px); }
  .switches { grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); }
}
@media (forced-colors: active) {
  /* Backgrounds and borders are the system's then: what is drawn with them is drawn in its colours. */
  #messages { forced-color-adjust: none; background-image: linear-gradient(CanvasText 0 0), linear-gradient(CanvasText 0 0), linear-gradient(CanvasText 0 0); color: CanvasText; }
  .line::after { forced-color-adjust: none; border-color: transparent; }
  .right .line::after { border-left-color: CanvasText; }
  .left .line::after { border-right-color: CanvasText; }
  .label > span:last-child, .note p, .more, .curl { background: Canvas; color: CanvasText; }
  .below, .busy, .primary { border: 1px solid ButtonText; }
}
@media (prefers-reduced-motion: reduce) {
  *, ::before, ::after { animation: none !important; transition: none !important; scroll-behavior: auto !important; }
}

"""##
    /// Its script.
    static let script = ##"""
"use strict";

// The page shows what the sandbox says and sends back what is pressed; the phone itself lives in the sandbox.
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

// ---- the phone's key: made in this browser, which cannot export it; the phone in the sandbox says what is to be signed

const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const requested = (request) => new Promise((done, fail) => { request.onsuccess = () => done(request.result); request.onerror = () => fail(request.error); });
const curve = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
let deviceKey;
let presenceKey;

// One key for all pages of this browser, also after a reload; where it keeps nothing (private windows), one for this page.
async function findKey(name = "phone") {
  const made = await crypto.subtle.generateKey(curve, false, ["sign"]);
  try {
    const opening = indexedDB.open("coatcheck-playground", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("keys");
    const database = await requested(opening);
    const keys = (mode) => database.transaction("keys", mode).objectStore("keys");
    // The first page's key stays, whichever of two that load at once it is.
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

// The second key signs when its button is pressed, and only then. On a phone the system's hardware sees to that; here the page does.
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
  // The question is modal: nothing else can be pressed until it is answered.
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

// Scrolls to the phone where it cannot be seen whole: on a small screen the switches are far below it.
function bringPhone() {
  const place = document.querySelector(".phone").getBoundingClientRect();
  if (place.top < 0 || place.bottom > innerHeight) document.querySelector(".stage").scrollIntoView({ block: "start" });
}

// ---- the phone

function providerButtons(screen, providers) {
  return make("div", { className: "list" }, ...providers.map((provider) =>
    make("button", { type: "button", className: "choice", disabled: screen.busy !== "", "data-provider": provider.name,
      onclick: () => act("sign-in", { provider: provider.name }) },
      provider.title, make("small", {}, provider.remark))));
}

function home(screen, providers) {
  return [
    make("h3", {}, "Corner Shop"),
    screen.message ? make("p", { className: "word", role: "status", id: "word" }, screen.message)
      : make("p", { className: "muted" }, "Sign in to see your orders."),
    providerButtons(screen, providers),
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

// What stays the same stays in its place: a button that is taken away between press and release loses the click.
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
  const draw = { home, consent, registration, session }[screen.view];
  // A form that somebody fills in is left alone while only what stands round it changes.
  if (!(screen.view === "registration" && target.dataset.view === "registration" && !screen.busy && byID("registration"))) {
    morph(target, draw(screen, providers).filter((child) => child !== null));
  }
  // A switch that has the provider's page come up leads to the phone.
  if (screen.view === "consent" && target.dataset.view === "session") bringPhone();
  target.dataset.view = screen.view;
  // Where nothing can be pressed for the moment, the focus waits on the screen itself.
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

// The conversation is followed until somebody scrolls away from its end; what comes meanwhile is counted.
let following = true;
let followedTo = 0;
let below = 0;

const isAtEnd = () => { const box = byID("scroller"); return box.scrollHeight - box.scrollTop - box.clientHeight < 40; };

// The event of somebody's scrolling comes a frame after it: where the conversation stands says it at once. Rows that were opened
// since make it longer, and are nobody's scrolling away.
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

// What is opened is seen whole, or as much of it as there is room for.
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

// The phone waits for its user: for a yes or no, or at the provider's page.
const waits = (screen) => screen.question !== "" || screen.step_up !== "";

// Why a switch does not fit the moment; empty where it does.
function unfit(each, screen) {
  const signedIn = screen.view === "session";
  if (each.needs_session && waits(screen)) return "The phone waits for you: answer it first.";
  if (each.needs_session && !signedIn) return "Sign in first.";
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

// A button that is pressed stays in its place until it is released: it would lose the click.
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

// ---- what is new

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

"""##
    /// Its icon.
    static let icon = ##"""
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#2f62d0" d="M7 2h18a3 3 0 0 1 3 3v7a4 4 0 0 0 0 8v7a3 3 0 0 1-3 3H7a3 3 0 0 1-3-3v-7a4 4 0 0 0 0-8V5a3 3 0 0 1 3-3z"/><path fill="none" stroke="#fff" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round" d="M13.6 10.4a2.4 2.4 0 1 1 3.4 2.2c-.7.3-1 .8-1 1.6v.8l8 5.2a1 1 0 0 1-.6 1.8H8.600a1 1 0 0 1-.6-1.800l8-5.200"/></svg>

"""##
}
