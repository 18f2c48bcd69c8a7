// The move from an old cookie through the TypeScript client, against a broker that each test scripts
// (Tests/scenarios/clients/typescript-client.sh).
import assert from 'node:assert/strict'
import { test } from 'node:test'

const { Coatcheck, MemoryStorage, Problem } = await import(process.env.CLIENT)
const patient = { timeout: 30_000 }
const session = {
    handle: 'ses_1', version: 1, provider: 'oidc', client: 'web', subject: 'user-ana', identity: {}, scope: [],
    created_at: '2026-01-01T00:00:00Z', last_used_at: '2026-01-01T00:00:00Z', idle_expires_at: '2027-01-01T00:00:00Z',
    expires_at: '2027-01-01T00:00:00Z', tokens: { expires_at: null, refreshable: true },
}
const made = () => new Response(JSON.stringify(session), { status: 201, headers: { 'Content-Type': 'application/json' } })
const refused = (status, code, more = {}, headers = {}) => () => new Response(
    JSON.stringify({ title: 't', status, code, detail: 'd', request_id: 'req_1', login: null, ...more }),
    { status, headers: { 'Content-Type': 'application/problem+json', ...headers } })
const lost = () => { throw new TypeError('fetch failed') }

/** A page whose broker gives these answers one after the other. The last answer is repeated. */
function page(answers, { storage = new MemoryStorage(), standing = refused(401, 'session_required') } = {}) {
    const [posts, pauses] = [[], []]
    const coatcheck = new Coatcheck({
        broker: 'https://auth.example.com', client: 'web', transport: 'cookie', storage, deadline: 500,
        fetch: async (url, init) => {
            assert.equal(init.credentials, 'include')
            if (init.method !== 'POST') return standing()
            posts.push({ url, body: init.body, stored: (await storage.read())?.moveIn })
            return (answers.length > 1 ? answers.shift() : answers[0])()
        },
    })
    coatcheck.moveInPause = async (millis, signal) => {
        if (signal.aborted) throw signal.reason
        pauses.push(millis)
    }
    return { coatcheck, posts, pauses, storage }
}

const same = posts => new Set(posts.map(one => one.body)).size === 1

test('the broker grants the move → the body has an empty `legacy` and a stored login token, and lacks `tokens`', patient, async () => {
    const { coatcheck, posts, storage } = page([made])
    assert.deepEqual(await coatcheck.moveIn('oidc', { device: 'A browser' }), { kind: 'moved', session })
    const { login_token: token, ...body } = JSON.parse(posts[0].body)
    assert.deepEqual(body, { provider: 'oidc', client: 'web', legacy: {}, device: 'A browser' })
    assert.equal(posts[0].url, 'https://auth.example.com/v1/sessions')
    assert.match(token, /^[\w-]{43}$/)
    assert.equal(posts[0].stored, token)
    assert.equal((await storage.read()).moveIn, undefined)
    assert.equal((await storage.read()).lastSession.handle, 'ses_1')
})

for (const [name, answer] of Object.entries({
    '503 with Retry-After': refused(503, 'provider_unavailable', {}, { 'Retry-After': '7' }), 502: refused(502, 'provider_error'),
    429: refused(429, 'rate_limited'), 500: refused(500, 'internal_error'), 'no answer': lost,
    'a page of a proxy': () => new Response('<html>', { status: 404 }),
})) {
    test(`${name} → the same post is repeated after a pause with a random part`, patient, async () => {
        const { coatcheck, posts, pauses } = page([answer, answer, made])
        assert.equal((await coatcheck.moveIn('oidc')).kind, 'moved')
        assert.equal(posts.length, 3)
        assert.ok(same(posts))
        const least = name.includes('Retry-After') ? 7_000 : 0
        assert.ok(pauses.every(pause => pause >= least && pause <= least + 60_000), pauses)
    })
}

test('an outage lasts longer than the pauses → later, and the next page repeats the same post', patient, async () => {
    const first = page([refused(503, 'provider_unavailable', {}, { 'Retry-After': '120' })])
    const outcome = await first.coatcheck.moveIn('oidc')
    assert.equal(outcome.kind, 'later')
    assert.equal(outcome.problem.code, 'provider_unavailable')
    const second = page([made], { storage: first.storage })
    assert.equal((await second.coatcheck.moveIn('oidc')).kind, 'moved')
    assert.ok(same([...first.posts, ...second.posts]))
})

test('the page is left during a pause → the next page repeats the same post', patient, async () => {
    const first = page([lost])
    const leaving = new AbortController()
    first.coatcheck.moveInPause = async () => { leaving.abort(); await new Promise(() => undefined) }
    await assert.rejects(first.coatcheck.moveIn('oidc', { signal: leaving.signal }))
    const second = page([made], { storage: first.storage })
    assert.equal((await second.coatcheck.moveIn('oidc')).kind, 'moved')
    assert.ok(same([...first.posts, ...second.posts]))
})

test('409 `login_required` → the user has to sign in', patient, async () => {
    const { coatcheck, posts, storage } = page([refused(409, 'login_required', { reason: 'unknown_session' })])
    const outcome = await coatcheck.moveIn('oidc')
    assert.equal(outcome.kind, 'signIn')
    assert.equal(outcome.problem.reason, 'unknown_session')
    assert.equal(posts.length, 1)
    assert.equal(await storage.read(), null)
})

test('409 `code_already_used` → the broker is asked for the session; if it is missing, the user has to sign in', patient, async () => {
    const good = () => new Response(JSON.stringify(session), { status: 200, headers: { 'Content-Type': 'application/json' } })
    const kind = async standing => (await page([refused(409, 'code_already_used')], { standing }).coatcheck.moveIn('oidc')).kind
    assert.equal(await kind(good), 'moved')
    assert.equal(await kind(refused(401, 'session_required')), 'signIn')
    assert.equal(await kind(lost), 'later')
})

test('409 `too_many_sessions` → later, and the same post is repeated', patient, async () => {
    const { coatcheck, posts } = page([refused(409, 'too_many_sessions'), made])
    assert.equal((await coatcheck.moveIn('oidc')).kind, 'later')
    assert.equal((await coatcheck.moveIn('oidc')).kind, 'moved')
    assert.ok(same(posts))
})

for (const [status, code] of [[400, 'invalid_request'], [403, 'client_not_allowed'], [404, 'provider_not_found']]) {
    test(`${status} → the page goes on with its old cookie`, patient, async () => {
        const { coatcheck, posts } = page([refused(status, code, { reason: 'not_open' })])
        const outcome = await coatcheck.moveIn('oidc')
        assert.equal(outcome.kind, 'notNow')
        assert.ok(outcome.problem instanceof Problem && outcome.problem.code === code)
        assert.equal(posts.length, 1)
    })
}

test('two calls at the same time → one post', patient, async () => {
    const { coatcheck, posts } = page([made])
    assert.deepEqual((await Promise.all([coatcheck.moveIn('oidc'), coatcheck.moveIn('oidc')])).map(one => one.kind), ['moved', 'moved'])
    assert.equal(posts.length, 1)
})

test('a bearer client → a TypeError', patient, async () => {
    const coatcheck = new Coatcheck({ broker: 'https://auth.example.com', transport: 'bearer', storage: new MemoryStorage() })
    await assert.rejects(coatcheck.moveIn('oidc'), TypeError)
})
