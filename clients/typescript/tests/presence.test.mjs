// The user's presence, tested through the TypeScript client. Tests/scenarios/clients/typescript-client.sh compiles the client and passes
// the address of a proxy that records the requests (evidence_proxy.py).
import assert from 'node:assert/strict'
import { after, test } from 'node:test'

const { Cancelled, Coatcheck, MemoryStorage, PresenceKeyLost, Problem, StepUpRequired, WebCryptoKey } = await import(process.env.CLIENT)
const { NETWORK } = process.env
const patient = { timeout: 60_000 }
const path = '/v1/relay/watched/echo'
const forget = () => fetch(`${NETWORK}/_calls`, { method: 'DELETE' })
const calls = async () => await (await fetch(`${NETWORK}/_calls`)).json()
const paid = async () => (await calls()).filter(one => one.path === path)
const meddle = (kind, times = 1, at = path) => fetch(`${NETWORK}/_meddle/${kind}/${times}${at}`, { method: 'POST' })
const pause = millis => new Promise(resolve => setTimeout(resolve, millis))
const refused = (code, reason) => error => error instanceof Problem && error.code === code && (!reason || error.reason === reason)

after(() => setImmediate(() => process.exit()))

function keys() {
    const kept = { pair: null, read: async () => kept.pair, write: async made => { kept.pair = made } }
    return kept
}

/** A key that asks its user before each signature. The user may be slow or refuse. */
class AskingKey extends WebCryptoKey {
    prompts = 0
    now = 0
    most = 0
    constructor(kept = keys()) {
        super(kept)
        this.kept = kept
    }
    async sign(bytes) {
        this.prompts += 1
        this.now += 1
        this.most = Math.max(this.most, this.now)
        try {
            while (this.holds) await pause(10)
            if (this.refuses) throw new Cancelled()
            return await super.sign(bytes)
        } finally {
            this.now -= 1
        }
    }
}

async function device(more = {}) {
    const asking = new AskingKey()
    const browser = {
        pages: 0, age: more.age ?? 0,
        async open(page) {
            browser.pages += 1
            let next = `${page}&sandbox_user=pia${browser.age ? `&sandbox_auth_age=${browser.age}` : ''}`
            while (/^http:\/\/127\.0\.0\.1/.test(next)) next = (await fetch(next, { redirect: 'manual' })).headers.get('location')
            return next
        },
    }
    const phone = new Coatcheck({
        broker: NETWORK, client: 'bound-bearer', transport: 'bearer', storage: more.storage ?? new MemoryStorage(), browser, key: new WebCryptoKey(keys()),
        presenceKey: more.keyless ? undefined : asking, onStepUp: more.steps ? () => true : undefined })
    await phone.signIn('oidc')
    browser.age = 0
    if (more.registers !== false) await phone.registerPresenceKey()
    await forget()
    const pay = async (presence = false, signal) => (await phone.relay('watched', 'echo', { method: 'POST', presence, signal })).status
    return { phone, asking, browser, pay }
}

/** Runs work while the device's clock is wrong by this number of seconds. */
async function ahead(seconds, work) {
    const { now } = Date
    Date.now = () => now.call(Date) + seconds * 1000
    try {
        return await work()
    } finally {
        Date.now = now
    }
}

test('a presence key is registered → one prompt; the last sign-in is too old → first a new sign-in', patient, async () => {
    const keyless = await device({ keyless: true, registers: false })
    await assert.rejects(keyless.phone.registerPresenceKey(), TypeError)
    await assert.rejects(keyless.pay(true), TypeError)
    await assert.rejects(keyless.pay(), refused('presence_required'))
    const { phone, asking, pay } = await device({ age: 4_000, registers: false })
    await assert.rejects(phone.registerPresenceKey(), error => error instanceof StepUpRequired && error.stepUp.maxAge === 600)
    await assert.rejects(pay(), refused('presence_required'))
    assert.equal(asking.prompts, 0)
    await phone.stepUp({ maxAge: 600 })
    const { presence } = await phone.registerPresenceKey()
    assert.equal(asking.prompts, 1)
    assert.deepEqual((await phone.registerPresenceKey()).presence, presence)
    assert.equal(await pay(), 200)
    // If the app allows step-ups, one call is enough for the registration.
    const steps = await device({ age: 4_000, registers: false, steps: true })
    assert.ok((await steps.phone.registerPresenceKey()).presence)
    assert.deepEqual([steps.asking.prompts, steps.browser.pages], [1, 2])
})

test('a session object with a lower version arrives → always ignored; with an equal version or without one → used', patient, async () => {
    const storage = new MemoryStorage()
    const { phone, asking, pay } = await device({ storage })
    const { presence, version } = await phone.session()
    assert.deepEqual([version, !!presence], [2, true])
    await meddle('older', 2, '/v1/session')
    assert.deepEqual((await phone.session()).presence, presence)
    assert.deepEqual(await phone.standing(), { kind: 'signedIn', session: (await storage.read()).lastSession })
    await meddle('older', 1, '/v1/session/refresh')
    const refreshed = await phone.refresh()
    assert.deepEqual([refreshed.version, refreshed.presence], [2, presence])
    await meddle('older', 1, '/v1/session/events')
    const abort = new AbortController()
    for await (const event of phone.events(abort.signal)) {
        assert.deepEqual(event.session.presence, presence)
        break
    }
    abort.abort()
    await meddle('older', 1, '/v1/session/presence-key')
    assert.deepEqual((await phone.registerPresenceKey()).presence, presence)
    assert.deepEqual((await storage.read()).lastSession.presence, presence)
    const before = asking.prompts
    assert.deepEqual([await pay(), asking.prompts], [200, before + 1])
    await meddle('unversioned', 1, '/v1/session')
    assert.equal((await phone.session()).acr, 'older')
    assert.deepEqual((await phone.session()).presence, presence)
})

test('a call that needs presence → one prompt, after an old nonce was renewed', patient, async () => {
    const { asking, pay } = await device()
    assert.deepEqual([await pay(), asking.prompts], [200, 2])
    assert.deepEqual((await paid()).map(one => [one.code, one.presence !== null]), [['presence_required', false], [null, true]])
    await forget()
    assert.deepEqual([await pay(true), asking.prompts, (await calls()).length], [200, 3, 1])
    // If the nonce is old, it is renewed before the user is asked.
    await forget()
    assert.deepEqual([await ahead(300, () => pay(true)), asking.prompts], [200, 4])
    const seen = (await calls()).filter(one => one.path !== '/v1/session/pass')
    assert.deepEqual(seen.map(one => [one.path, one.code]), [['/v1/session', 'use_dpop_nonce'], ['/v1/session', null], [path, null]])
    // If the other evidence is refused, the call is repeated with the same presence proof.
    await pay(true)
    await forget()
    await meddle('proof_required')
    const before = asking.prompts
    assert.deepEqual([await pay(true), asking.prompts], [200, before + 1])
    assert.deepEqual([(await paid()).length, new Set((await paid()).map(one => one.presence)).size], [2, 1])
})

test('the broker refuses a presence proof because of its nonce → one more prompt, and no third one', patient, async () => {
    const { asking, pay } = await device()
    await meddle('presence-nonce')
    assert.deepEqual([await pay(true), asking.prompts], [200, 3])
    await forget()
    await meddle('presence-nonce', 9)
    await assert.rejects(pay(true), refused('presence_invalid', 'nonce'))
    assert.deepEqual([asking.prompts, (await paid()).length], [5, 2])
    for (const reason of ['replayed', 'signature']) {
        await forget()
        await meddle(`presence-${reason}`, 9)
        await assert.rejects(pay(true), refused('presence_invalid', reason))
        assert.equal((await paid()).length, 1, 'the call may have taken effect, or a repeat cannot help')
    }
    await forget()
    await meddle('presence-key', 9)
    await assert.rejects(pay(), PresenceKeyLost)
    // If the sign-in is too old, the user signs in again before the prompt.
    const steps = await device({ steps: true })
    await meddle('step_up_required')
    assert.deepEqual([await steps.pay(), steps.browser.pages, steps.asking.prompts], [200, 2, 2])
})

test('ten calls at the same time → ten prompts, one after the other; the user refuses → all waiting calls are cancelled', patient, async () => {
    const { phone, asking, pay } = await device()
    const all = () => Array.from({ length: 10 }, () => pay())
    assert.deepEqual(await Promise.all(all()), Array(10).fill(200))
    assert.deepEqual([asking.prompts, asking.most], [11, 1])
    assert.equal(new Set((await paid()).map(one => one.presence).filter(one => one)).size, 10);
    [asking.holds, asking.refuses] = [true, true]
    const answers = all().map(one => assert.rejects(one, Cancelled))
    while (phone.user.prompts.waiting.length < 9) await pause(10)
    asking.holds = false
    await Promise.all(answers)
    assert.equal(asking.prompts, 12);
    // A cancelled call ends at once and does not delay the others.
    [asking.holds, asking.refuses] = [true, false]
    const abort = new AbortController()
    const first = pay()
    while (asking.now < 1) await pause(10)
    const second = assert.rejects(pay(false, abort.signal), { name: 'AbortError' })
    while (phone.user.prompts.waiting.length < 1) await pause(10)
    abort.abort()
    await second
    asking.holds = false
    assert.deepEqual([await first, await pay()], [200, 200])
})

test('the presence key is lost → calls that need it fail until a new sign-in, and the session continues', patient, async () => {
    const { phone, asking, pay } = await device()
    const { presence } = await phone.session()
    asking.kept.pair = null
    await assert.rejects(pay(), PresenceKeyLost)
    await assert.rejects(phone.registerPresenceKey(), PresenceKeyLost)
    assert.deepEqual([asking.prompts, (await phone.session()).presence], [1, presence])
    await phone.signIn('oidc')
    assert.notEqual((await phone.registerPresenceKey()).presence.jkt, presence.jkt)
    assert.equal(await pay(), 200)
})
