// The flows of the curl suite through the TypeScript client, also without a network and with a bad one.
// Tests/scenarios/clients/typescript-client.sh compiles the client and passes the addresses of broker, sandbox and the bad network.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:net'
import { after, before, test } from 'node:test'

const { Coatcheck, hashedNonce, LoginFailed, MemoryStorage, Problem, Unreachable } = await import(process.env.CLIENT)
const { BROKER, SANDBOX, NETWORK_PORT } = process.env
const patient = { timeout: 120_000 }

/** A browser whose user signs in through the sandbox's shortcut for scripts. The last redirect leads to the app. */
function browser(user) {
    return {
        async open(page) {
            let next = `${page}${page.includes('?') ? '&' : '?'}sandbox_user=${user}`
            while (/^http:\/\/127\.0\.0\.1/.test(next)) next = (await fetch(next, { redirect: 'manual' })).headers.get('location')
            return next
        },
    }
}

/** The fetch of a web browser. It stores cookies, which the page cannot read. */
function cookieFetch() {
    const jar = new Map()
    return async (url, init = {}) => {
        const headers = new Headers(init.headers)
        if (init.credentials === 'include' && jar.size) headers.set('Cookie', [...jar].map(([name, value]) => `${name}=${value}`).join('; '))
        const answer = await fetch(url, { ...init, headers })
        for (const field of answer.headers.getSetCookie()) {
            const [name, value] = field.split(';')[0].split('=')
            if (value === '' || /Max-Age=0/i.test(field)) jar.delete(name)
            else jar.set(name, value)
        }
        return answer
    }
}

function device(user, more = {}) {
    return new Coatcheck({ broker: BROKER, client: 'android', transport: 'bearer', storage: new MemoryStorage(), browser: browser(user), ...more })
}

function page(user, more = {}) { return device(user, { client: 'ios', transport: 'cookie', fetch: cookieFetch(), ...more }) }

const look = async headers => await (await fetch(`${BROKER}/v1/session`, { headers })).json()

/** Waits until both replicas report that a session has ended. They are asked in turn. Returns the reason. */
async function ending(headers) {
    for (;;) {
        const [one, other] = [await look(headers), await look(headers)]
        if (one.reason && one.reason === other.reason) return one.reason
    }
}

async function seconds(work) {
    const begin = performance.now()
    await work()
    return (performance.now() - begin) / 1000
}

const code = expected => error => error instanceof Problem && error.code === expected

// A server that accepts connections but never sends anything, like a network in a tunnel.
const silence = createServer(() => {})
let dark
before(() => new Promise(resolve => silence.listen(0, '127.0.0.1', () => {
    dark = `http://127.0.0.1:${silence.address().port}`
    resolve()
})))
after(() => {
    silence.close()
    setImmediate(() => process.exit())
})

for (const [kind, make] of [['bearer', device], ['cookie', page]]) {
    test(`${kind}: a widget and a web view → get child sessions of their own, which end with the app's session`, patient, async () => {
        const phone = make('wim')
        await assert.rejects(phone.child('widget', 'home'), code('session_required'))
        const { session } = await phone.signIn('oidc')
        await assert.rejects(phone.child('tv', 'home'), code('client_not_allowed'))
        await assert.rejects(phone.handOver({ origin: 'https://evil.example' }, async () => {}), code('invalid_request'))
        const widget = await phone.child('widget', 'home', { device: 'home screen' })
        assert.deepEqual([widget.kind, widget.parent, widget.subject], ['widget', session.handle, session.subject])
        assert.equal((await look({ Authorization: `Bearer ${widget.session_token}` })).handle, widget.handle)
        assert.ok((await phone.sessions()).some(one => one.kind === 'widget' && one.device === 'home screen' && !one.current))
        const jar = {}
        const url = await phone.handOver({ origin: BROKER, path: '/v1/session' }, async cookie => {
            await new Promise(resolve => setTimeout(resolve, 20))
            jar[cookie.name] = cookie.value
            assert.deepEqual([cookie.url, cookie.httpOnly, cookie.maxAge], [BROKER, true, 60])
        })
        const post = cookie => fetch(url, { method: 'POST', redirect: 'manual', headers: { 'Sec-Fetch-Site': 'same-origin', Cookie: cookie } })
        assert.equal((await post('')).status, 400)
        const spent = await post(Object.entries(jar).map(([name, value]) => `${name}=${value}`).join('; '))
        assert.equal(spent.status, 303)
        const web = spent.headers.getSetCookie().find(one => one.startsWith('coatcheck-web=')).split(';')[0]
        assert.equal((await look({ Cookie: web })).kind, 'web')
        await phone.signOut()
        for (const headers of [{ Authorization: `Bearer ${widget.session_token}` }, { Cookie: web }]) {
            assert.equal(await ending(headers), 'parent_ended')
        }
    })

    test(`${kind}: a user's refusal, a sign-in, relayed calls and a sign-out → each has its documented result`, patient, async () => {
        await assert.rejects(make('denied').signIn('oidc'), code('access_denied'))
        await assert.rejects(make('ana').signIn('nobody'), code('provider_not_found'))
        const phone = make('tess')
        assert.equal((await phone.standing()).kind, 'signedOut')
        const { session } = await phone.signIn('oidc', { device: "Tess's phone" })
        assert.equal(session.identity.email, 'tess@example.org')
        assert.deepEqual(await phone.standing(), { kind: 'signedIn', session: await phone.session() })
        assert.equal((await phone.relay('api', 'private/echo', { query: 'a=b' })).status, 200)
        assert.equal((await phone.relay('api', 'status/401')).status, 401)
        assert.equal((await (await phone.relay('api', 'echo', { method: 'POST', body: 'hello' })).json()).body, 'hello')
        await assert.rejects(phone.relay('narrow', 'echo'), code('upstream_not_allowed'))
        for (const path of ['../echo', 'a//b', 'a/./b', 'echo?x']) await assert.rejects(phone.relay('api', path), TypeError)
        await assert.rejects(phone.relay('api', 'echo?x'), /option `query`/)
        assert.equal((await phone.refresh()).handle, session.handle)
        assert.ok((await phone.sessions()).some(one => one.current && one.device === "Tess's phone"))
        await phone.signOut()
        assert.deepEqual(await phone.standing(), { kind: 'signedOut', reason: null })
        await assert.rejects(phone.session(), code('session_required'))
    })
}

test('a stranger\'s callback → refused; fifty forwards of one code after a restart → one session', patient, async () => {
    const storage = new MemoryStorage()
    const callback = await browser('ana').open(await device('ana', { storage }).start('oidc'))
    await assert.rejects(device('eve').finish(callback))
    const again = await browser('ana').open(await device('ana', { storage }).start('oidc'))
    const kept = await storage.read()
    const handles = await Promise.all(Array.from({ length: 50 }, async () => {
        const restarted = new MemoryStorage()
        await restarted.write(JSON.parse(JSON.stringify(kept)))
        return (await device('ana', { storage: restarted }).finish(again)).session.handle
    }))
    assert.equal(new Set(handles).size, 1)
})

test('flows B to D and a registration → each gives a session', patient, async () => {
    const login = {
        provider: 'oidc', client: 'ios', state: 'my-own-state', codeVerifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
        loginToken: randomBytes(32).toString('base64url'),
    }
    const callback = await browser('ana').open(
        `${SANDBOX}/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid&state=my-own-state`
        + '&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256')
    const first = await page('ana').forward(callback, login)
    assert.equal((await page('ana').forward(callback, login)).session.handle, first.session.handle)
    assert.equal((await page('ana', { client: 'hosted' }).signIn('oidc')).session.client, 'hosted')
    await assert.rejects(page('denied', { client: 'hosted' }).signIn('oidc'), error => error instanceof LoginFailed && error.code === 'access_denied')
    assert.equal((await page('ana', { client: 'strict' }).finish('com.example.strict:/cb?code=from-the-portal')).session.client, 'strict')
    const newcomer = page(`newts${process.pid}`)
    const { kind, registration } = await newcomer.signIn('zephr', { socialProvider: 'google' })
    assert.deepEqual([kind, registration.fields[0].name], ['registration', 'first-name'])
    assert.equal((await newcomer.register(registration, { 'first-name': 'Tess' })).provider, 'zephr')
    assert.ok((await newcomer.providers()).some(one => one.name === 'oidc'))
})

test('React Native, whose URLSearchParams throws → unusual callbacks give a session, and a refusal gives its error', patient, async () => {
    const own = globalThis.URLSearchParams
    const user = (name, change) => page(name, { client: 'hosted', browser: { open: async url => change(await browser(name).open(url)) } })
    try {
        for (const thrown of [class { constructor() { throw new Error('not implemented') } }, class { get() { throw new URIError('URI malformed') } }, undefined]) {
            globalThis.URLSearchParams = thrown
            for (const change of [url => url, url => `${url}&x=%E9`, url => `${url}&&x=%`, url => url.replace('?', '?a=%ff&').replace('login_id', 'login%5Fid')]) {
                assert.equal((await user('ana', change).signIn('oidc')).session.client, 'hosted')
            }
            await assert.rejects(user('denied', url => `${url}&error_description=%E9|&+=%`).signIn('oidc'), error => error instanceof LoginFailed && error.code === 'access_denied')
        }
    } finally {
        globalThis.URLSearchParams = own
    }
})

test('flow B with a library that hides its callback → code and verifier are enough, and the session has the requested scope', patient, async () => {
    const authorize = `${SANDBOX}/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid+email&state=kept`
        + '&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256'
    const login = (more = {}) => ({
        provider: 'oidc', client: 'ios', state: 'kept', codeVerifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk', scope: 'openid email',
        redirectURI: 'com.example.app:/cb', loginToken: randomBytes(32).toString('base64url'), ...more })
    const unscoped = () => fetch(`${SANDBOX}/_sandbox/faults/oidc`, { method: 'PUT', body: '{"fault":"no-scope","endpoint":"token","times":1}', headers: { 'Content-Type': 'application/json' } })
    const code_ = new URLSearchParams((await browser('ana').open(authorize)).split('?')[1]).get('code')
    // A callback URL that is built from the library's values lacks the issuer.
    await assert.rejects(page('ana').forward(`com.example.app:/cb?code=${code_}&state=kept`, login()), code('issuer_mismatch'))
    await assert.rejects(page('ana').forwardCode(code_, login({ codeVerifier: undefined })), code('invalid_request'))
    await assert.rejects(page('ana').forwardCode(code_, login({ redirectURI: 'com.example:/no' })), code('invalid_callback'))
    await unscoped()
    const kept = login()
    const { session } = await page('ana').forwardCode(code_, kept)
    assert.deepEqual([session.subject, session.scope], ['user-ana', ['openid', 'email']])
    assert.equal((await page('ana').forwardCode(code_, JSON.parse(JSON.stringify(kept)))).session.handle, session.handle)
    await assert.rejects(page('ana').forwardCode(code_, login()), code('code_already_used'))
    await unscoped()
    assert.deepEqual((await page('ana').forward(await browser('ana').open(authorize), login())).session.scope, ['openid', 'email'])
})

test('an SDK\'s ID token with its nonce → one session for its starter; with another nonce or starter → refused', patient, async () => {
    const secret = () => randomBytes(32).toString('base64url')
    const login = { provider: 'google', client: 'web', nonce: secret(), loginToken: secret() }
    const asked = { client_id: 'google-app', user: 'ana', nonce: hashedNonce(login.nonce) }
    const given = await fetch(`${SANDBOX}/_sandbox/native-id-token/google`, {
        method: 'POST', body: JSON.stringify(asked), headers: { 'Content-Type': 'application/json' } })
    const { id_token } = await given.json()
    await assert.rejects(page('ana').forwardIDToken(id_token, { ...login, nonce: secret() }), code('code_rejected'))
    const { session } = await page('ana').forwardIDToken(id_token, login)
    assert.deepEqual([session.subject, session.tokens.refreshable], ['user-ana', false])
    assert.equal((await page('ana').forwardIDToken(id_token, login)).session.handle, session.handle)
    await assert.rejects(page('ana').forwardIDToken(id_token, { ...login, loginToken: secret() }), code('code_already_used'))
})

test('an event stream → delivers session, refresh and end', patient, async () => {
    const [phone, tablet] = [device('evita'), device('evita')]
    const { session } = await phone.signIn('oidc')
    await tablet.signIn('oidc')
    const seen = []
    for await (const event of phone.events()) {
        seen.push(event.kind === 'ended' ? `ended ${event.reason}` : event.kind)
        if (event.kind === 'session') await phone.refresh()
        if (event.kind === 'tokensRefreshed') await tablet.endSession(session.handle)
    }
    assert.deepEqual(seen, ['session', 'tokensRefreshed', 'ended logged_out_elsewhere'])
    assert.deepEqual(await phone.standing(), { kind: 'signedOut', reason: null })
    await tablet.endOthers()
    assert.equal((await tablet.sessions()).length, 1)
    const abort = new AbortController()
    await assert.rejects(async () => { for await (const _ of tablet.events(abort.signal)) abort.abort() }, { name: 'AbortError' })
})

test('the network is missing → the start takes two seconds, calls end at the deadline, and a sign-out is sent later', patient, async () => {
    const gone = async broker => {
        const storage = new MemoryStorage()
        await storage.write({ session: 'A'.repeat(43) })
        return device('ana', { broker, storage })
    }
    for (const broker of [dark, 'http://127.0.0.1:1']) {
        const took = await seconds(async () => assert.equal((await (await gone(broker)).standing()).kind, 'unknown'))
        assert.ok(took < 6, `${took}`)
    }
    const short = device('ana', { broker: dark, deadline: 1_000 })
    assert.ok(await seconds(() => assert.rejects(short.session(), Unreachable)) < 6)
    const locked = { read: async () => { throw new Error('busy') }, write: async () => { throw new Error('busy') } }
    assert.equal((await device('ana', { storage: locked }).standing()).kind, 'unknown')

    const storage = new MemoryStorage()
    await device('otto', { storage }).signIn('oidc')
    const { session } = await storage.read()
    await device('otto', { storage, broker: dark, deadline: 500 }).signOut()
    const witness = new MemoryStorage()
    await witness.write({ session })
    const same = device('otto', { storage: witness })
    assert.equal((await same.session()).subject, 'user-otto')
    assert.equal((await device('otto', { storage }).standing()).kind, 'signedOut')
    while (await storage.read()) await new Promise(resolve => setTimeout(resolve, 20))
    await ending({ Authorization: `Bearer ${session}` })
    assert.deepEqual(await same.standing(), { kind: 'signedOut', reason: 'logged_out' })
})

test('a web page signs out without a network → signed out, and the next call ends its session', patient, async () => {
    const [fetchOfPage, storage] = [cookieFetch(), new MemoryStorage()]
    const online = page('cleo', { fetch: fetchOfPage, storage })
    const { session } = await online.signIn('oidc')
    const other = page('cleo')
    await other.signIn('oidc')
    await page('cleo', { fetch: fetchOfPage, storage, broker: dark, deadline: 500 }).signOut()
    assert.equal((await online.standing()).kind, 'signedOut')
    while ((await other.sessions()).some(one => one.handle === session.handle)) await new Promise(resolve => setTimeout(resolve, 20))
})

test('one of two callers is cancelled → returns at once; all sign-ins are cancelled → the browser closes', patient, async () => {
    const storage = new MemoryStorage()
    await storage.write({ session: 'A'.repeat(43) })
    const phone = device('ana', { broker: dark, storage, deadline: 3_000 })
    const one = new AbortController()
    const other = phone.session()
    const took = await seconds(async () => {
        setTimeout(() => one.abort(), 200)
        await assert.rejects(phone.session(one.signal), { name: 'AbortError' })
    })
    assert.ok(took < 2.5, `${took}`)
    await assert.rejects(other, Unreachable)
    let [opened, closed] = [0, 0]
    const waiting = {
        open: (_, signal) => new Promise((_, reject) => {
            opened += 1
            signal.addEventListener('abort', () => { closed += 1; reject(signal.reason) })
        }),
    }
    const watching = page('ana', { browser: waiting })
    const aborts = [1, 2, 3].map(() => new AbortController())
    const calls = ['oidc', 'oauth2', 'oidc'].map((name, at) => watching.signIn(name, { signal: aborts[at].signal }))
    while (opened < 2) await new Promise(resolve => setTimeout(resolve, 10))
    for (const abort of aborts) abort.abort()
    for (const call of calls) await assert.rejects(call, { name: 'AbortError' })
    assert.deepEqual([opened, closed], [2, 2])
})

test('a sign-in during other calls, with a slow storage → its new session is kept', patient, async () => {
    const inner = new MemoryStorage()
    const pause = () => new Promise(resolve => setTimeout(resolve, 8))
    const storage = { read: async () => { await pause(); return await inner.read() }, write: async kept => { await pause(); await inner.write(kept) } }
    const phone = device('mara', { storage })
    await phone.signIn('oidc')
    let going = true
    const beside = (async () => { while (going) await phone.session().catch(() => undefined) })()
    for (let number = 0; number < 20; number += 1) {
        const { session } = await phone.signIn('oidc')
        assert.equal((await phone.session()).handle, session.handle)
    }
    going = false
    await beside
})

test('a new sign-in finishes during an earlier call → the next call gets the new session', patient, async () => {
    for (const make of [device, page]) {
        const storage = new MemoryStorage()
        const plain = make === page ? cookieFetch() : fetch
        let held = null
        const answers = async (url, init) => {
            const answer = await plain(url, init)
            const one = /\/v1\/session$/.test(url) && held
            if (one) {
                held = null
                one.answered()
                await one.until
            }
            return answer
        }
        const phone = make('nora', { storage, fetch: answers })
        const { session: first } = await phone.signIn('oidc')
        let answered, release
        const isAnswered = new Promise(resolve => { answered = resolve })
        held = { answered, until: new Promise(resolve => { release = resolve }) }
        const early = phone.session().catch(() => undefined)
        await isAnswered
        const { session } = await phone.signIn('oidc')
        assert.notEqual(session.handle, first.handle)
        const asked = phone.session()
        setTimeout(release, 5_000)
        assert.equal((await asked).handle, session.handle)
        release()
        await early
        assert.equal((await storage.read()).lastSession.handle, session.handle)
    }
})

test('a thousand calls over a network that is cut, slow or silent → every sign-in is kept, and no call takes too long', { timeout: 300_000 }, async () => {
    const seen = { calls: 0, answered: 0, lost: 0, longest: 0, unexpected: [] }
    await Promise.all(Array.from({ length: 20 }, async (_, number) => {
        const storage = new MemoryStorage()
        const phone = device(`uma${number}`, { broker: `http://127.0.0.1:${NETWORK_PORT}`, storage, deadline: 10_000 })
        let mine = 0
        const measured = async work => {
            mine += 1
            const begin = performance.now()
            try {
                const value = await work()
                seen.answered += 1
                return value
            } catch (error) {
                if (!(error instanceof Unreachable) && !(error instanceof Problem && error.passes)) seen.unexpected.push(String(error))
            } finally {
                seen.longest = Math.max(seen.longest, performance.now() - begin)
            }
        }
        let [address, made] = []
        while (!address && mine < 50) address = await measured(() => phone.start('oidc'))
        const callback = await browser(`uma${number}`).open(address)
        while (!made && mine < 50) made = await measured(() => phone.finish(callback))
        if (!made) seen.lost += 1
        while (mine < 49) {
            const turn = mine % 4
            if (turn === 0) {
                const answer = await measured(() => phone.relay('api', 'echo'))
                if (answer && answer.status !== 200) seen.unexpected.push(`relay ${answer.status}`)
                await answer?.arrayBuffer().catch(() => undefined)
            } else if (turn === 1) {
                if ((await measured(() => phone.standing()))?.kind === 'signedOut') seen.lost += 1
            } else if (((await measured(() => phone.session())) ?? { subject: `user-uma${number}` }).subject !== `user-uma${number}`) seen.lost += 1
        }
        await measured(() => phone.signOut())
        if ((await storage.read())?.session) seen.unexpected.push('a session stays behind')
        seen.calls += mine
    }))
    assert.equal(seen.calls, 1000)
    assert.ok(seen.answered > 850, JSON.stringify(seen))
    assert.deepEqual([seen.lost, seen.unexpected], [0, []])
    assert.ok(seen.longest < 16_000, JSON.stringify(seen))
})
