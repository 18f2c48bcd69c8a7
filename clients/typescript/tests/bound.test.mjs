// Sessions that belong to a key of the device, tested through the TypeScript client. Tests/scenarios/clients/typescript-client.sh
// compiles the client and passes two addresses: the broker's, and a proxy's that records each request's evidence
// (evidence_proxy.py).
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { after, beforeEach, test } from 'node:test'

const { Coatcheck, KeyLost, MemoryStorage, Problem, WebCryptoKey } = await import(process.env.CLIENT)
const { BROKER, NETWORK } = process.env
const patient = { timeout: 60_000 }

beforeEach(() => fetch(`${NETWORK}/_calls`, { method: 'DELETE' }))
after(() => setImmediate(() => process.exit()))

/** The requests since the test began, or since the last `forget()`. */
const calls = async () => await (await fetch(`${NETWORK}/_calls`)).json()
const forget = () => fetch(`${NETWORK}/_calls`, { method: 'DELETE' })
const meddle = (kind, path, times = 1) => fetch(`${NETWORK}/_meddle/${kind}/${times}${path}`, { method: 'POST' })
const paths = (found, path) => found.filter(one => one.path === path)

function browser(user) {
    return {
        async open(page) {
            let next = `${page}&sandbox_user=${user}`
            while (/^http:\/\/127\.0\.0\.1/.test(next)) next = (await fetch(next, { redirect: 'manual' })).headers.get('location')
            return next
        },
    }
}

/** The key store of a device. A test can lose the keys and restore them. */
class Keys {
    pair = null
    made = 0
    lost = false
    busy = false
    async read() {
        if (this.busy) throw new Error('busy')
        return this.lost ? null : this.pair
    }
    async write(pair) { [this.pair, this.lost, this.made] = [pair, false, this.made + 1] }
}

function device(user, more = {}) {
    const keys = more.keys ?? new Keys()
    const storage = more.storage ?? new MemoryStorage()
    const phone = new Coatcheck({
        broker: NETWORK, client: 'bound-bearer', transport: 'bearer', storage, browser: browser(user), key: new WebCryptoKey(keys), ...more })
    return { phone, keys, storage }
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

const refused = (code, reason) => error => error instanceof Problem && error.code === code && (!reason || error.reason === reason)

test('SHA-256 of texts of 0 to 199 bytes → the same digests as Node\'s', async () => {
    const source = await readFile(process.env.CLIENT, 'utf8')
    const { sha256 } = await import(`data:text/javascript,${encodeURIComponent(`${source}\nexport { sha256 }`)}`)
    for (let length = 0; length < 200; length += 1) {
        const text = Buffer.alloc(length, 'a')
        assert.equal(Buffer.from(sha256(text)).toString('hex'), createHash('sha256').update(text).digest('hex'), `${length}`)
    }
})

test('a sign-in with a key → a session that belongs to the key, and calls that show a pass', patient, async () => {
    const { phone, keys, storage } = device('bea')
    const { session } = await phone.signIn('oidc')
    assert.equal(session.binding.evidence, 'pass')
    const { x, y } = await crypto.subtle.exportKey('jwk', keys.pair.publicKey)
    assert.equal(session.binding.jkt, createHash('sha256').update(`{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`).digest('base64url'))
    await assert.rejects(crypto.subtle.exportKey('jwk', keys.pair.privateKey))
    let seen = await calls()
    assert.deepEqual(seen.map(one => [one.path, one.code]), [['/v1/logins', 'use_dpop_nonce'], ['/v1/logins', null], ['/v1/sessions', null]])
    assert.ok(seen.every(one => one.proof) && new Set(seen.map(one => one.jti)).size === 3)
    await forget()
    assert.deepEqual(await phone.standing(), { kind: 'signedIn', session: await phone.session() })
    assert.equal((await phone.relay('api', 'private/echo')).status, 200)
    assert.ok((await phone.sessions()).some(one => one.binding.jkt === session.binding.jkt))
    seen = await calls()
    assert.ok(seen.length === 4 && seen.every(one => one.pass && !one.proof && one.status === 200), JSON.stringify(seen))
    assert.equal(await phone.pass(), (await storage.read()).pass.value)
    await forget()
    await phone.accessToken()
    await phone.signOut({ atProvider: true })
    assert.deepEqual((await calls()).map(one => [one.method, one.proof, one.pass]), [['POST', true, false], ['DELETE', false, true]])
    assert.equal(await storage.read(), null)
})

test('copied credentials without the key or with another key → refused', patient, async () => {
    const { phone, storage } = device('cal')
    const { session } = await phone.signIn('oidc')
    const thief = async (more, known = true) => {
        const stolen = new MemoryStorage()
        const { pass, lastSession, ...copy } = await storage.read()
        await stolen.write(known ? { ...copy, lastSession } : copy)
        return device('eve', { storage: stolen, ...more }).phone
    }
    await forget()
    for (const work of ['session', 'accessToken', 'refresh']) await assert.rejects((await thief({ key: undefined }))[work](), refused('proof_required'))
    await assert.rejects((await thief({ key: undefined })).relay('api', 'private/echo'), refused('proof_required'))
    assert.equal((await calls()).length, 4)
    await forget()
    const keys = new Keys()
    await new WebCryptoKey(keys).make()
    await assert.rejects((await thief({ keys }, false)).session(), KeyLost)
    assert.deepEqual((await calls()).map(one => one.code), ['proof_required', 'proof_invalid'])
    await assert.rejects((await thief({ keys })).accessToken(), KeyLost)
    assert.equal((await calls()).length, 2)
    assert.equal((await phone.session()).handle, session.handle)
})

test('the broker refuses a request and sends a nonce, or refuses a pass → one repeat; it refuses again → thrown', patient, async () => {
    const { phone } = device('dan')
    await meddle('use_dpop_nonce', '/v1/logins', 9)
    await assert.rejects(phone.start('oidc'), refused('use_dpop_nonce'))
    assert.equal((await calls()).length, 2)
    await forget()
    await phone.signIn('oidc')
    await meddle('use_dpop_nonce', '/v1/session/token', 9)
    await meddle('proof_required', '/v1/session', 9)
    await assert.rejects(phone.accessToken(), refused('use_dpop_nonce'))
    await assert.rejects(phone.session(), refused('proof_required'))
    const seen = await calls()
    assert.deepEqual([paths(seen, '/v1/session/token').length, paths(seen, '/v1/session').length], [2, 2])
})

test('fifty calls at the same time with a slow storage, while the pass is due or refused → one request renews the pass', patient, async () => {
    const inner = new MemoryStorage()
    const pause = () => new Promise(resolve => setTimeout(resolve, 8))
    // A read may return an old value.
    const storage = { read: async () => { const kept = await inner.read(); await pause(); return kept }, write: async kept => { await pause(); await inner.write(kept) } }
    const { phone } = device('flo', { storage })
    await phone.signIn('oidc')
    const fifty = async (apart = 0) => {
        const statuses = await Promise.all(Array.from({ length: 50 }, async (_, number) => {
            await new Promise(resolve => setTimeout(resolve, number * apart))
            return (await phone.relay('api', 'echo')).status
        }))
        assert.deepEqual([...new Set(statuses)], [200])
        return await calls()
    }
    await forget()
    await fetch(`${NETWORK}/_end/${await phone.pass()}`, { method: 'POST' })
    // Wait for the next second, because a pass made in the same second would be identical.
    await new Promise(resolve => setTimeout(resolve, 1_100))
    let seen = await fifty()
    const refusals = seen.filter(one => one.code === 'proof_required').length
    assert.deepEqual([paths(seen, '/v1/session/pass').length, refusals > 0, seen.length], [1, true, 51 + refusals])
    await forget()
    seen = await ahead(50, fifty)
    assert.deepEqual([paths(seen, '/v1/session/pass').length, seen.length], [1, 51])
    // The calls start one after the other, so that some of them start just after the renewal.
    await forget()
    seen = await ahead(100, () => fifty(2))
    assert.deepEqual([paths(seen, '/v1/session/pass').length, seen.length], [1, 51])
})

test('the renewal of a due pass fails → the pass is used as long as the broker accepts it', patient, async () => {
    const { phone } = device('gus')
    const { session } = await phone.signIn('oidc')
    await meddle('cut', '/v1/session/pass')
    await ahead(50, async () => {
        assert.equal((await phone.session()).handle, session.handle)
        assert.equal((await phone.session()).handle, session.handle)
    })
    assert.deepEqual(paths(await calls(), '/v1/session/pass').map(one => one.status), [undefined, 200])
    // A clock that is set back leads to a new pass, without a refusal.
    await forget()
    await ahead(-86_400, () => phone.session())
    assert.deepEqual((await calls()).map(one => one.status), [200, 200])
})

test('the network sends a request twice → the client repeats it once with a new proof, except a sign-in', patient, async () => {
    const { phone } = device('hal')
    const callback = await browser('hal').open(await phone.start('oidc'))
    await forget()
    await meddle('twice', '/v1/sessions')
    await assert.rejects(phone.finish(callback), refused('proof_invalid', 'replayed'))
    assert.equal((await calls()).length, 1)
    const { session } = await phone.finish(callback)
    await forget()
    await meddle('twice', '/v1/session/token')
    await phone.accessToken()
    const seen = await calls()
    assert.deepEqual(seen.map(one => one.status), [401, 200])
    assert.notEqual(seen[0].jti, seen[1].jti)
    await meddle('twice', '/v1/session/token', 9)
    await assert.rejects(phone.accessToken(), refused('proof_invalid', 'replayed'))
    assert.equal((await calls()).length, 4)
    assert.equal((await phone.session()).handle, session.handle)
})

test('the key is lost → signed out with the reason key_lost, without a call, and other devices stay signed in', patient, async () => {
    const { phone, keys, storage } = device('ida')
    const { session } = await phone.signIn('oidc')
    const [{ pass, ...copy }, first] = [await storage.read(), keys.pair]
    await forget()
    // A busy key is not lost.
    keys.busy = true
    assert.equal((await ahead(50, () => phone.standing())).session.handle, session.handle)
    await assert.rejects(phone.accessToken(), /busy/)
    const none = new MemoryStorage()
    await none.write(copy)
    assert.equal((await device('ida', { keys, storage: none }).phone.standing()).last.handle, session.handle)
    assert.ok((await none.read()).session)
    keys.busy = false
    await forget()
    keys.lost = true
    assert.deepEqual(await ahead(50, () => phone.standing()), { kind: 'signedOut', reason: 'key_lost' })
    assert.deepEqual(await phone.standing(), { kind: 'signedOut', reason: null })
    assert.equal((await storage.read())?.session, undefined)
    assert.deepEqual(await calls(), [])
    const again = (await phone.signIn('oidc')).session
    assert.ok(keys.made === 2 && again.binding.jkt !== session.binding.jkt)
    assert.equal((await phone.relay('api', 'private/echo')).status, 200)
    // If the broker reports another key, the client makes one call only.
    await forget()
    await meddle('key', '/v1/relay/api/echo', 9)
    await assert.rejects(phone.relay('api', 'echo'), KeyLost)
    assert.equal((await calls()).length, 1)
    await assert.rejects(phone.session(), refused('session_required'))
    const witness = new MemoryStorage()
    await witness.write(copy)
    const old = new Keys()
    await old.write(first)
    assert.equal((await device('ida', { keys: old, storage: witness }).phone.session()).handle, session.handle)
})

test('the key is lost during a sign-in → one new key for all callers', patient, async () => {
    const { phone, keys } = device('jon')
    const callback = await browser('jon').open(await phone.start('oidc'))
    keys.lost = true
    await assert.rejects(phone.finish(callback), refused('login_not_yours'))
    assert.equal(keys.made, 2)
    keys.lost = true
    await Promise.all(Array.from({ length: 10 }, () => phone.start('oidc')))
    assert.equal(keys.made, 3)
})

test('a device\'s clock is wrong by a day or by decades → sign-in and calls succeed', patient, async () => {
    for (const seconds of [-86_400, 86_400, -86_400 * 365 * 20]) {
        await forget()
        await ahead(seconds, async () => {
            const { phone } = device('kay')
            const { session } = await phone.signIn('oidc')
            assert.equal((await phone.relay('api', 'private/echo')).status, 200)
            assert.equal((await phone.refresh()).handle, session.handle)
            await phone.accessToken()
        })
        const seen = await calls()
        const expected = Date.now() / 1000 + seconds
        assert.equal(seen.filter(one => one.iat !== null && Math.abs(one.iat - expected) < 60).length, 4)
        assert.ok(seen.length === 6 && !paths(seen, '/v1/session/pass').length, JSON.stringify(seen))
    }
})

test('an event stream of a bound session → opened with a proof; the key is lost → the stream ends', patient, async () => {
    const { phone, keys } = device('lea')
    await phone.signIn('oidc')
    await forget()
    const seen = []
    for await (const event of phone.events()) {
        seen.push(event.kind)
        if (event.kind === 'session') await phone.refresh()
        if (event.kind === 'tokensRefreshed') break
    }
    assert.deepEqual(seen, ['session', 'tokensRefreshed'])
    const [opened] = paths(await calls(), '/v1/session/events')
    assert.deepEqual([opened.proof, opened.pass], [true, false])
    keys.lost = true
    const ends = []
    for await (const event of phone.events()) ends.push(event)
    assert.deepEqual(ends, [{ kind: 'ended', reason: 'key_lost' }])
})

test('a session that needs a proof for each request → each request has a proof, also with unusual paths', patient, async () => {
    const { phone, storage } = device('max', { client: 'proving' })
    const { session } = await phone.signIn('oauth2')
    assert.equal(session.binding.evidence, 'proof')
    await forget()
    assert.equal((await phone.session()).handle, session.handle)
    await assert.rejects(phone.relay('api', 'é ö/{x}"'), refused('upstream_not_allowed'))
    const { lastSession, ...kept } = await storage.read()
    await storage.write(kept)
    assert.equal((await phone.session()).handle, session.handle)
    assert.equal((await phone.refresh()).handle, session.handle)
    const seen = await calls()
    assert.deepEqual(seen.map(one => one.status), [200, 403, 401, 403, 200, 200], JSON.stringify(seen))
    assert.deepEqual(paths(seen, '/v1/session/pass').map(one => one.status), [403])
})

test('a client without `binding` → works with and without a key; a client with cookies and a key → TypeError', patient, async () => {
    for (const key of [undefined, new WebCryptoKey(new Keys())]) {
        await forget()
        const { phone, storage } = device('ole', { client: 'android', key })
        const { session } = await phone.signIn('oidc')
        assert.deepEqual([session.binding, (await storage.read()).pass, await phone.pass()], [null, undefined, null])
        await phone.session()
        await phone.signOut()
        const seen = await calls()
        assert.deepEqual(seen.map(one => one.path), ['/v1/logins', '/v1/sessions', '/v1/session', '/v1/session'])
        assert.deepEqual(seen.map(one => one.proof), [!!key, !!key, false, false])
    }
    await forget()
    await assert.rejects(device('ole', { key: undefined, broker: NETWORK }).phone.signIn('oidc'), refused('proof_required'))
    assert.equal((await calls()).length, 1)
    assert.throws(() => new Coatcheck({ broker: BROKER, transport: 'cookie', storage: new MemoryStorage(), key: new WebCryptoKey(new Keys()) }), TypeError)
})
