// Step-ups, tested through the TypeScript client. Tests/scenarios/clients/typescript-client.sh compiles the client and passes two
// addresses: the broker's, and a proxy's that records the requests (evidence_proxy.py).
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'

const { Cancelled, Coatcheck, MemoryStorage, Problem, StepUpRequired, WebCryptoKey } = await import(process.env.CLIENT)
const { BROKER, NETWORK } = process.env
const patient = { timeout: 60_000 }
const forget = () => fetch(`${NETWORK}/_calls`, { method: 'DELETE' })
const calls = async () => await (await fetch(`${NETWORK}/_calls`)).json()
const meddle = (kind, path, times = 1) => fetch(`${NETWORK}/_meddle/${kind}/${times}${path}`, { method: 'POST' })
const pause = millis => new Promise(resolve => setTimeout(resolve, millis))
const refused = code => error => error instanceof Problem && error.code === code

beforeEach(forget)
after(() => setImmediate(() => process.exit()))

/** A browser that remembers its pages. Its user signed in some time ago, waits, or closes the page. */
class Browser {
    pages = []
    closings = 0
    constructor(user) { this.user = user }
    async open(page, signal) {
        this.pages.push(page)
        if (this.closes) throw new Cancelled()
        while (this.holds) {
            await pause(10)
            if (signal?.aborted) {
                this.closings += 1
                throw signal.reason
            }
        }
        let next = `${page}&sandbox_user=${this.user}${this.age ? `&sandbox_auth_age=${this.age}` : ''}`
        while (/^http:\/\/127\.0\.0\.1/.test(next)) next = (await fetch(next, { redirect: 'manual' })).headers.get('location')
        return next
    }
}

function keys() {
    let pair = null
    return { read: async () => pair, write: async made => { pair = made } }
}

/** A device whose user signed in an hour ago. It records the questions to its app. */
async function aged(user, says, more = {}) {
    const browser = new Browser(user)
    const storage = new MemoryStorage()
    const asked = []
    const onStepUp = says === undefined ? undefined : demand => { asked.push(demand); return says }
    const phone = new Coatcheck({ broker: NETWORK, client: 'android', transport: 'bearer', storage, browser, onStepUp, ...more })
    browser.age = 4_000
    const { session } = await phone.signIn('oidc')
    browser.age = 0
    await forget()
    return { phone, browser, storage, asked, session }
}

const echo = phone => phone.relay('guarded', 'private/echo')

test('two demands → the stronger one covers the weaker one; joined → the weakest demand that meets both, or null', async () => {
    const { readFile } = await import('node:fs/promises')
    const source = await readFile(process.env.CLIENT, 'utf8')
    const { covers, joined } = await import(`data:text/javascript,${encodeURIComponent(`${source}\nexport { covers, joined }`)}`)
    const demand = (acr, maxAge) => ({ ...(acr ? { acrValues: acr.split(' ') } : {}), ...(maxAge ? { maxAge } : {}) })
    for (const [one, other, expected] of [
        [demand('mfa'), demand('mfa phr'), true], [demand('mfa phr'), demand('mfa'), false], [demand('', 60), demand('', 300), true],
        [demand('', 300), demand('', 60), false], [demand('mfa', 60), demand('', 300), true], [demand('', 60), demand('mfa'), false],
    ]) assert.equal(covers(one, other), expected, JSON.stringify([one, other]))
    assert.deepEqual(joined(demand('mfa phr'), demand('phr hwk', 300)), demand('phr', 300))
    assert.deepEqual(joined(demand('', 60), demand('mfa', 300)), demand('mfa', 60))
    assert.equal(joined(demand('mfa'), demand('phr')), null)
})

test('a call needs a step-up that the app has not allowed → throws the demand, and no browser opens', patient, async () => {
    for (const says of [undefined, false]) {
        const { phone, browser, asked, session } = await aged('stan', says)
        await assert.rejects(echo(phone), error => error instanceof StepUpRequired && error.stepUp.maxAge === 300 && !error.parent)
        assert.deepEqual([browser.pages.length, asked.length], [1, says === undefined ? 0 : 1])
        assert.deepEqual((await calls()).map(one => one.path), ['/v1/relay/guarded/private/echo'])
        assert.equal((await phone.session()).handle, session.handle)
    }
})

for (const client of ['android', 'bound-bearer']) {
    test(`${client}: ten calls need a step-up at the same time → one step-up, and each call is repeated once`, patient, async () => {
        const key = client === 'android' ? undefined : new WebCryptoKey(keys())
        const { phone, browser, storage, asked, session } = await aged('sina', true, { client, key })
        const { session: secret } = await storage.read()
        const answers = await Promise.all(Array.from({ length: 10 }, () => echo(phone)))
        assert.deepEqual(answers.map(one => one.status), Array(10).fill(200))
        assert.deepEqual([asked, browser.pages.length], [[{ maxAge: 300 }], 2])
        assert.match(browser.pages[1], /max_age=300/)
        const seen = await calls()
        const relayed = seen.filter(one => one.path.startsWith('/v1/relay'))
        assert.deepEqual([401, 200].map(status => relayed.filter(one => one.status === status).length), [10, 10])
        assert.deepEqual(seen.filter(one => one.path === '/v1/sessions').map(one => one.status), [200])
        const now = await phone.session()
        assert.ok(now.handle === session.handle && now.authenticated_at > session.authenticated_at)
        const kept = await storage.read()
        assert.deepEqual([kept.session, kept.login, kept.lastSession], [secret, undefined, now])
    })
}

test('calls with different demands wait → one step-up for the strictest demand; a stronger demand later → a second step-up', patient, async () => {
    const one = await aged('sofi', true)
    one.phone.user.gathering = 2_000
    const all = await Promise.all(['GET', 'POST', 'PUT'].map(method => one.phone.relay('guarded', 'private/echo', { method })))
    assert.deepEqual(all.map(answer => answer.status), [200, 200, 200])
    assert.deepEqual([one.asked, one.browser.pages.length], [[{ acrValues: ['phr'], maxAge: 300 }], 2])
    const { phone, browser } = await aged('sofi', true)
    browser.holds = true
    const first = echo(phone)
    while (browser.pages.length < 2) await pause(10)
    // Two calls need more than the open page will give, and one call does not.
    const later = [...['POST', 'POST'].map(method => phone.relay('guarded', 'private/echo', { method })), echo(phone)]
    while ((await calls()).filter(call => call.status === 401).length < 4) await pause(20)
    while (phone.user.pages.waiting.length === 0) await pause(10)
    assert.equal(browser.pages.length, 2)
    browser.holds = false
    assert.deepEqual((await Promise.all([first, ...later])).map(answer => answer.status), [200, 200, 200, 200])
    assert.ok(browser.pages.length === 3 && /acr_values=mfa/.test(browser.pages[2]))
})

test('a call is refused again after its step-up → throws, without a second page', patient, async () => {
    const { phone, browser } = await aged('seb', true)
    await meddle('step_up_required', '/v1/relay/api/echo', 9)
    await assert.rejects(phone.relay('api', 'echo'), StepUpRequired)
    assert.deepEqual([browser.pages.length, (await calls()).filter(one => one.path === '/v1/relay/api/echo').length], [2, 2])
})

test('a refusal from before another call\'s step-up arrives late → the call is repeated without a page', patient, async () => {
    const { phone, browser } = await aged('lou', true)
    await meddle('held', '/v1/relay/api/echo')
    const late = phone.relay('api', 'echo')
    while ((await calls()).length === 0) await pause(10)
    await phone.stepUp({ maxAge: 60 })
    await fetch(`${NETWORK}/_release`, { method: 'POST' })
    assert.equal((await late).status, 200)
    assert.equal(browser.pages.length, 2)
})

test('the user closes the page → all waiting calls are cancelled; the last waiting call is cancelled → the page closes', patient, async () => {
    const { phone, browser, session } = await aged('sam', true)
    browser.closes = true
    await Promise.all([1, 2, 3, 4, 5].flatMap(() => [assert.rejects(echo(phone), Cancelled), assert.rejects(phone.stepUp({ maxAge: 300 }), Cancelled)]))
    assert.equal(browser.pages.length, 2)
    assert.equal((await phone.session()).handle, session.handle);
    [browser.closes, browser.holds] = [false, true]
    const aborts = [new AbortController(), new AbortController()]
    const waiting = aborts.map(abort => phone.stepUp({ acrValues: ['mfa'] }, abort.signal))
    while (browser.pages.length < 3) await pause(10)
    aborts[0].abort()
    await assert.rejects(waiting[0], { name: 'AbortError' })
    assert.equal(browser.closings, 0)
    aborts[1].abort()
    await assert.rejects(waiting[1], { name: 'AbortError' })
    while (browser.closings === 0) await pause(10)
    // The closed page does not delay the next step-up.
    browser.holds = false
    assert.equal((await phone.stepUp({ acrValues: ['mfa'] })).acr, 'mfa')
})

test('a step-up that is too weak, by another user or refused → its problem code, and the session is unchanged', patient, async () => {
    const { phone, browser, storage, session } = await aged('sue')
    browser.age = 4_000
    await assert.rejects(phone.stepUp({ acrValues: ['mfa'], maxAge: 300 }), error =>
        refused('step_up_failed')(error) && error.required.maxAge === 300 && error.required.acrValues[0] === 'mfa' && error.got.authenticated_at !== null)
    browser.age = 0
    for (const [user, code] of [['ben', 'subject_mismatch'], ['denied', 'access_denied']]) {
        browser.user = user
        await assert.rejects(phone.stepUp({ maxAge: 300 }), refused(code))
    }
    assert.equal((await phone.session()).authenticated_at, session.authenticated_at)
    const copy = new MemoryStorage()
    await copy.write(await storage.read())
    await new Coatcheck({ broker: BROKER, client: 'android', transport: 'bearer', storage: copy }).signOut()
    // The replicas are asked in turn, so two calls reach both.
    const headers = { Authorization: `Bearer ${(await storage.read()).session}` }
    const look = async () => (await fetch(`${NETWORK}/v1/session`, { headers })).status
    while ((await look()) !== 401 || (await look()) !== 401);
    await assert.rejects(phone.stepUp({ maxAge: 300 }), refused('session_ended'))
})

test('the answer to a step-up is lost → requested again; the app restarts during a step-up → the step-up continues', patient, async () => {
    const { phone, browser, storage, session } = await aged('sol')
    await meddle('lost', '/v1/sessions')
    assert.equal((await phone.stepUp({ acrValues: ['mfa'] })).acr, 'mfa')
    assert.deepEqual((await calls()).filter(one => one.path === '/v1/sessions').map(one => one.status), [undefined, 200])
    const callback = await browser.open(await phone.startStepUp({ acrValues: ['phr'] }))
    const restarted = new Coatcheck({ broker: BROKER, client: 'android', transport: 'bearer', storage })
    const risen = (await restarted.finish(callback)).session
    assert.deepEqual([risen.handle, risen.acr], [session.handle, 'phr'])
    assert.equal((await restarted.relay('guarded', 'private/echo', { method: 'PUT' })).status, 200)
})

test('a child\'s call needs a step-up → the parent has to do it; a first sign-in has a demand → it is checked', patient, async () => {
    const { phone } = await aged('sid')
    const storage = new MemoryStorage()
    await storage.write({ session: (await phone.child('widget', 'home')).session_token })
    const widget = new Coatcheck({ broker: NETWORK, client: 'android', transport: 'bearer', storage, onStepUp: () => assert.fail('asked') })
    await assert.rejects(echo(widget), error => error instanceof StepUpRequired && error.parent)
    const browser = new Browser('sid')
    const tablet = new Coatcheck({ broker: NETWORK, client: 'android', transport: 'bearer', storage: new MemoryStorage(), browser })
    browser.age = 4_000
    await assert.rejects(tablet.signIn('oidc', { stepUp: { maxAge: 600 } }), refused('step_up_failed'))
    browser.age = 0
    assert.equal((await tablet.signIn('oidc', { stepUp: { acrValues: ['mfa'] } })).session.acr, 'mfa')
})
